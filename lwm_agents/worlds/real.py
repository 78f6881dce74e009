"""The real world: tools that really run."""

from __future__ import annotations

from collections.abc import Mapping

from lwm_agents.places.place import RealPlace
from lwm_agents.tools.base import Tool
from lwm_agents.values import Action, Observation, Trajectory


class RealWorld:
    """Runs each tool in the real place.

    A `RealPlace` can't be built in dry-run, so neither can this.
    """

    def __init__(self, tools: Mapping[str, Tool], place: RealPlace) -> None:
        self.place = place
        self._tools = tools

    async def step(
        self,
        action: Action,
        trajectory: Trajectory,  # noqa: ARG002 - the real world remembers by itself
    ) -> Observation | None:
        """Run the tool and return what it answered, or None for a tool we can't run."""
        tool = self._tools.get(action.tool)
        if tool is None:
            return None
        return await tool.run(action.arguments, self.place)
