"""The one method every world has."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from lwm_agents.values import Action, Observation, Trajectory


@runtime_checkable
class World(Protocol):
    """Anything that can answer an action: rehearsal, recall, language, scripted, real."""

    async def step(self, action: Action, trajectory: Trajectory) -> Observation | None:
        """Return what the action would give after the trajectory so far; None: cannot say."""
        ...
