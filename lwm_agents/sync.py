"""The same session without `await`.

from lwm_agents.sync import Session

with Session.open(mode="dry-run", root=".", engine="model.gguf") as session:
    print(session.call("shell", command="make clean").text)
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from lwm_agents import session as asynchronous
from lwm_agents.changes.change import Changes
from lwm_agents.errors import Misuse
from lwm_agents.gate.approvals import Approval, ApprovalRequest, Approver
from lwm_agents.values import Action, Json, Mode, Observation, Trajectory

T = TypeVar("T")


class Session:
    """A twin of `lwm_agents.Session` that runs its own event loop in a thread."""

    def __init__(self, inner: asynchronous.Session) -> None:
        self._inner = inner
        self._loop: asyncio.AbstractEventLoop | None = None

    @classmethod
    def open(cls, mode: Mode | None = None, **options: Any) -> Self:
        """Take what `lwm_agents.Session.open` takes."""
        return cls(asynchronous.Session.open(mode, **options))

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        try:
            self._run(self._inner.__aenter__())
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._run(self._inner.__aexit__(kind, error, trace))
        finally:
            self._stop()

    @property
    def id(self) -> str:
        """The name of this session in the log."""
        return self._inner.id

    @property
    def mode(self) -> Mode:
        """What this session does with an action."""
        return self._inner.mode

    @property
    def trajectory(self) -> Trajectory:
        """What has happened so far."""
        return self._inner.trajectory

    def call(self, tool: str, /, **arguments: Json) -> Observation:
        """Call a tool by name; see `lwm_agents.Session.call`."""
        return self.step(Action(tool=tool, arguments=arguments))

    def step(self, action: Action) -> Observation:
        """Answer one action; see `lwm_agents.Session.step`."""
        return self._run(self._inner.step(action))

    def diff(self) -> Changes:
        """Return what this dry run would change; see `lwm_agents.Session.diff`."""
        return self._inner.diff()

    def commit_request(self, *, elsewhere: Sequence[str] = ()) -> ApprovalRequest:
        """Return what must be approved; see `lwm_agents.Session.commit_request`."""
        return self._inner.commit_request(elsewhere=elsewhere)

    def commit(self, approval: Approval | Approver | None = None) -> list[str]:
        """Make the changes real; see `lwm_agents.Session.commit`."""
        return self._run(self._inner.commit(approval))

    def undo(self) -> list[str]:
        """Give back what was before the commit."""
        return self._run(self._inner.undo())

    def discard(self) -> None:
        """Throw away what was rehearsed so far."""
        self._run(self._inner.discard())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            work.close()
            raise Misuse("the session is not open: use `with Session.open(…) as session`")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise

    def _stop(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join()
            loop.close()
