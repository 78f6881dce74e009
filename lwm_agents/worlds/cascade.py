"""The cascade: the first world that can answer does."""

from __future__ import annotations

from lwm_agents.places.place import CannotSay
from lwm_agents.values import Action, Observation, Trajectory
from lwm_agents.worlds.base import World


class Cascade:
    """Asks one world after another, call by call; the most certain kind of world comes first.

    A world that returns None, answers `unanswered` or raises CannotSay passes on to the next. All
    are shown the same trajectory, whatever answered its steps, so that they tell one story. A model
    that fails raises EngineError as it would alone: that a later world has some answer does not
    make the failure good.
    """

    def __init__(self, *worlds: World | None) -> None:
        self.worlds = tuple(world for world in worlds if world is not None)

    async def step(self, action: Action, trajectory: Trajectory) -> Observation | None:
        """Return the first answer, or None where no world has one."""
        for world in self.worlds:
            try:
                seen = await world.step(action, trajectory)
            except CannotSay:
                continue
            if seen is not None and seen.source != "unanswered":
                return seen
        return None
