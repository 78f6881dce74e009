"""Makes a session's rehearsed changes real: asked for, approved once, journaled, logged."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from lwm_agents.changes.change import Changes
from lwm_agents.changes.tree import is_below
from lwm_agents.errors import LwmError, Misuse
from lwm_agents.gate.approvals import Approval, ApprovalRequest, Approver, NoApprover, matches
from lwm_agents.places.threads import in_thread
from lwm_agents.rehearsed import Rehearsed
from lwm_agents.store import Store
from lwm_agents.values import Action, Effect, Observation, Transition

COMMIT = "commit"
"""The tool name under which a commit is asked for and logged."""

ASK_SECONDS = 600.0
"""How long after it was asked for an approval of a commit may be used."""


class Commit:
    """One commit of what `session` rehearsed.

    What is approved is the digest of all changes that were shown; anything else is not committed.
    """

    def __init__(
        self,
        store: Store,
        session: str,
        rehearsed: Rehearsed,
        changes: Changes,
        *,
        elsewhere: Sequence[str] = (),
    ) -> None:
        self._store = store
        self._rehearsed = rehearsed
        self.changes = changes
        self.elsewhere = tuple(os.path.abspath(path) for path in elsewhere)
        self.chosen = _chosen(changes, self.elsewhere)
        unsaid = rehearsed.unsaid()
        self.logged: Transition | None = None
        self.request = ApprovalRequest(
            tool=COMMIT,
            arguments={"changes": changes.digest, "elsewhere": list(self.elsewhere)},
            effects=_effects(self.chosen) | ({"unknown"} if unsaid else set()),
            cwd=changes.root,
            root_or_url=changes.root,
            session=session,
            expires_at=time.time() + ASK_SECONDS,
            difference=said_of(unsaid) + changes.render(),
        )

    async def perform(self, approval: Approval | Approver | None) -> list[str]:
        """Make the changes real, once somebody has approved them; return the absolute paths.

        Raises Misuse without an approval of exactly these changes, Conflict where a path or its
        folder changed since the session began, and as `lwm_agents.changes.commit.commit` does.
        """
        if not isinstance(approval, Approval):
            approval = await (approval or NoApprover()).decide(self.request)
        if approval is None:
            raise Misuse("not committed: nobody approved it")
        if not matches(approval, self.request, time.time()):
            raise Misuse("not committed: the approval is of other changes, or has expired")
        session, request = self.request.session, self.request
        action = request.action
        step = len(self._store.trajectory(session).transitions) + 1
        self._store.approve(session, action, approval, effect=request.effect)
        started = self._store.start(session, step, action, approval_id=approval.id)
        began, clock = time.time(), time.perf_counter()
        try:
            paths = await in_thread(
                lambda: self._rehearsed.commit(self.changes, elsewhere=self.elsewhere)
            )
        except LwmError as failure:
            self._log(action, step, started, str(failure), began, clock, failed=True)
            raise
        self._log(action, step, started, f"committed: {self.chosen.summary}", began, clock)
        return paths

    def _log(
        self,
        action: Action,
        step: int,
        started: str,
        text: str,
        began: float,
        clock: float,
        *,
        failed: bool = False,
    ) -> None:
        transition = Transition(
            session=self.request.session,
            step=step,
            action=action,
            observation=Observation(text=text, source="executed", is_error=failed),
            effect=self.request.effect,
            started_at=began,
            latency_ms=(time.perf_counter() - clock) * 1000,
        )
        self._store.append(transition, started_id=started)
        self.logged = transition


def said_of(unsaid: Sequence[str]) -> str:
    """Return a warning of commands that could not be rehearsed to their end; empty without any."""
    if not unsaid:
        return ""
    reasons = "".join(f"  {reason}\n" for reason in dict.fromkeys(unsaid))
    count = "1 command" if len(unsaid) == 1 else f"{len(unsaid)} commands"
    return (
        f"{count} could not be rehearsed to the end, so this may be half of what they would do:\n"
        f"{reasons}\n"
    )


def _chosen(changes: Changes, elsewhere: Sequence[str]) -> Changes:
    """Return the changes that are committed. Raises Misuse where a named path has none."""
    for name in elsewhere:
        if not any(is_below(one.path, name.rstrip("/") or "/") for one in changes.elsewhere):
            raise Misuse(f"nothing changed at or below {name}, outside the root")
    chosen = tuple(
        one
        for one in changes.elsewhere
        if any(is_below(one.path, name.rstrip("/") or "/") for name in elsewhere)
    )
    return changes.model_copy(update={"elsewhere": chosen})


def _effects(changes: Changes) -> frozenset[Effect]:
    """A commit writes; where it deletes, or replaces what was there, it destroys too."""
    effects: set[Effect] = {"write"}
    if any(change.kind == "deleted" for change in (*changes.inside, *changes.elsewhere)):
        effects.add("destroy")
    return frozenset(effects)
