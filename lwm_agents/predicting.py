"""The worlds that predict in a session, put together."""

from __future__ import annotations

from pathlib import Path

from lwm_agents.confidence import Calibrator
from lwm_agents.config import Config
from lwm_agents.engines.base import Engine
from lwm_agents.prompts.catalog import Prompts
from lwm_agents.retrieval import Recordings
from lwm_agents.store import Store
from lwm_agents.values import Action, Observation, Trajectory
from lwm_agents.worlds.base import World
from lwm_agents.worlds.cascade import Cascade
from lwm_agents.worlds.language import LanguageWorld
from lwm_agents.worlds.nearest import NearestWorld
from lwm_agents.worlds.recall import RecallWorld

_LOOKED_AT, _LEARNT_FROM = 200, 20
"""How many of the newest sessions are looked at, and at most learnt from."""


def predictor(
    model: Engine | None,
    config: Config,
    log: Store,
    root: Path,
    *,
    rehearsal: World | None,
    seed: int,
    prompts: str | Path | None,
) -> World:
    """Return the cascade of a session: rehearsal, recall, and the language world."""
    if model is None:
        return Cascade(rehearsal, RecallWorld())
    recordings = recordings_of(log, root)
    language = LanguageWorld(
        model,
        seed=seed,
        prompts=Prompts.own() if prompts is None else Prompts.from_folder(prompts),
        examples=recordings.examples,
        nearest=NearestWorld(recordings),
        max_tokens=config.max_tokens,
    )
    calibrator = (
        Calibrator.default(model.name)
        if config.calibration is None
        else Calibrator.load(config.calibration)
    )
    return Cascade(rehearsal, Calibrated(Cascade(RecallWorld(), language), calibrator))


class Calibrated:
    """A world whose confidences are calibrated."""

    def __init__(self, world: World, calibrator: Calibrator) -> None:
        self._world = world
        self._calibrator = calibrator

    async def step(self, action: Action, trajectory: Trajectory) -> Observation | None:
        """Return what the world says, with how likely it is to be right."""
        seen = await self._world.step(action, trajectory)
        if seen is None:
            return None
        spec = trajectory.tool(action.tool)
        return self._calibrator.applied(seen, action.tool, None if spec is None else spec.domain)


def recordings_of(log: Store, root: Path) -> Recordings:
    """Return what was really seen in sessions of the same root; nothing of other workspaces."""
    newest = [
        session.record.id
        for session in log.sessions(limit=_LOOKED_AT)
        if session.record.root == str(root) and session.record.mode not in {None, "dry-run"}
    ]
    trajectories = (log.trajectory(session) for session in newest[:_LEARNT_FROM])
    return Recordings(trajectories, place_of=lambda _: str(root))
