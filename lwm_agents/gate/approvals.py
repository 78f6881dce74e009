"""Approvals: somebody's yes to one action, once.

What is approved is bound by a digest over the tool's hash, its name and arguments, the working
directory, the root or URL, the session and the expiry: approve $82,000 and only $82,000 can run.
That an approval is used once only is the log's to enforce, durably.
"""

from __future__ import annotations

import hmac
import time
import uuid
from collections.abc import Awaitable, Callable, Collection
from typing import Protocol, runtime_checkable

from pydantic import Field

from lwm_agents.digests import digest_of
from lwm_agents.gate.effects import worst
from lwm_agents.values import Action, Effect, Json, Observation, Value


class ApprovalRequest(Value):
    """What somebody is asked to approve.

    `effects` are everything the call can do (`effects_of`). `root_or_url` says where it acts.
    `expires_at` is in seconds since the epoch. `prediction` is what a world expects to happen, and
    `difference` what would change, as text; both inform and are not part of what is approved.
    """

    tool: str
    arguments: dict[str, Json] = Field(default_factory=dict)
    effects: frozenset[Effect]
    tool_hash: str | None = None
    cwd: str
    root_or_url: str
    session: str
    expires_at: float
    prediction: Observation | None = None
    difference: str | None = None

    @property
    def effect(self) -> Effect:
        """The worst the call can do."""
        return worst(self.effects)

    @property
    def action(self) -> Action:
        """The call itself."""
        return Action(tool=self.tool, arguments=self.arguments)

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON of everything an approval binds."""
        return digest_of(
            {
                "tool_hash": self.tool_hash,
                "tool": self.tool,
                "arguments": self.arguments,
                "cwd": self.cwd,
                "root_or_url": self.root_or_url,
                "session": self.session,
                "expires_at": self.expires_at,
            }
        )


class Approval(Value):
    """A yes to the request with this digest. Times are in seconds since the epoch."""

    id: str
    digest: str
    decided_by: str
    decided_at: float
    expires_at: float


def approve(request: ApprovalRequest, decided_by: str, now: float | None = None) -> Approval:
    """Return an approval of the request, valid until the request expires."""
    return Approval(
        id=uuid.uuid4().hex,
        digest=request.digest,
        decided_by=decided_by,
        decided_at=time.time() if now is None else now,
        expires_at=request.expires_at,
    )


def matches(approval: Approval, request: ApprovalRequest, now: float) -> bool:
    """Say whether the approval is of exactly this request and has not expired at `now`."""
    return (
        hmac.compare_digest(approval.digest.encode(), request.digest.encode())
        and approval.decided_at <= now < min(approval.expires_at, request.expires_at)
    )  # fmt: skip


@runtime_checkable
class Approver(Protocol):
    """Anything that can say yes."""

    async def decide(self, request: ApprovalRequest) -> Approval | None:
        """Return an approval, or None: no."""
        ...


class NoApprover:
    """Nobody can be asked, so the answer is no."""

    async def decide(self, request: ApprovalRequest) -> Approval | None:  # noqa: ARG002
        """Return None."""
        return None


class CallbackApprover:
    """Asks a function, plain or async; only True itself is a yes."""

    def __init__(
        self,
        function: Callable[[ApprovalRequest], bool | Awaitable[bool]],
        *,
        decided_by: str = "callback",
    ) -> None:
        self._function = function
        self._decided_by = decided_by

    async def decide(self, request: ApprovalRequest) -> Approval | None:
        """Return an approval if the function says True."""
        answer = self._function(request)
        if not isinstance(answer, bool):
            answer = await answer
        # "false" and other texts are true for Python; they are no yes.
        return approve(request, self._decided_by) if answer is True else None


class YesApprover:
    """Says yes beforehand (`--yes`), to the effects named and nothing else.

    Reads and writes by default. Not `destroy` and `external`, which nobody can take back; and not
    `unknown`, which may be either: a yes given before the call is known must not cover what no
    classifier could tell.
    """

    def __init__(self, allowed_effects: Collection[Effect] = frozenset({"read", "write"})) -> None:
        self.allowed_effects: frozenset[Effect] = frozenset(allowed_effects)

    async def decide(self, request: ApprovalRequest) -> Approval | None:
        """Return an approval if everything the call can do is allowed."""
        return approve(request, "--yes") if request.effects <= self.allowed_effects else None
