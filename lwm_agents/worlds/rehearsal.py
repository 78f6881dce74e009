"""Rehearsal: the tool's own code runs, in a copy of the world that is thrown away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from lwm_agents.places.commands import SupervisorError
from lwm_agents.places.copies import Copy
from lwm_agents.places.place import CannotSay
from lwm_agents.places.threads import in_thread
from lwm_agents.rehearsed import Rehearsed
from lwm_agents.tools.base import Tool
from lwm_agents.values import Action, Observation, Trajectory

PATIENCE = 30.0
"""Seconds that a call may be rehearsed while the real one waits."""


class RehearsalWorld:
    """Runs tools in a copy, which is made when the first call needs it.

    `tools` must be such as act through their place alone: a function in this process would act for
    real, wherever it is told to. What the copy can't know is for the next world to say. With
    `fresh` each call gets a copy of its own, whose working directory `cwd` names: between calls
    that are executed a copy goes stale. Then somebody waits for the real call, so that a rehearsal
    takes PATIENCE seconds at most.
    """

    def __init__(
        self,
        tools: Mapping[str, Tool],
        rehearsed: Rehearsed,
        *,
        fresh: bool = False,
        cwd: Callable[[], str] | None = None,
    ) -> None:
        self._tools = tools
        self._fresh = fresh
        self._cwd = cwd
        self._beginning = asyncio.Lock()
        self.rehearsed = rehearsed
        self.reason: str | None = None
        """Why the last call got no answer here."""

    @property
    def copy(self) -> Copy | None:
        """The copy, once there is one."""
        return self.rehearsed.copy

    async def step(
        self,
        action: Action,
        trajectory: Trajectory,  # noqa: ARG002 - the copy remembers by itself
    ) -> Observation | None:
        """Run the tool in the copy; None where that can't say what would really happen."""
        self.reason = None
        await self.forget()
        tool = self._tools.get(action.tool)
        if tool is None:
            return None
        try:
            return await self._run(tool, action)
        except (CannotSay, SupervisorError) as limit:
            self.reason = str(limit)
        except TimeoutError:
            self.reason = f"a rehearsal would take more than {PATIENCE:g} s"
        return None

    async def _run(self, tool: Tool, action: Action) -> Observation:
        copy = await self._begun()
        async with asyncio.timeout(PATIENCE if self._fresh else None):
            return await tool.run(action.arguments, copy)

    async def _begun(self) -> Copy:
        async with self._beginning:
            begins = self.copy is None
            copy = await in_thread(self.rehearsed.begin)
            if begins and self._cwd is not None:
                copy.cwd = self._cwd()
            return copy

    async def forget(self) -> None:
        """Throw the copy of the last call away, where each call gets its own."""
        if self._fresh and self.copy is not None:
            await in_thread(self.close)

    def close(self) -> None:
        """End what runs in the copy. What was changed stays, unless it is one call's."""
        self.rehearsed.close()
        if self._fresh:
            self.rehearsed.discard()
