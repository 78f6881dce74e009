"""What the store takes and gives besides transitions, as frozen values.

Times are in seconds since the epoch.
"""

from __future__ import annotations

import secrets
import time
from typing import Literal, Protocol

from pydantic import Field

from lwm_agents.values import Effect, Json, Mode, Source, Value

Kind = Literal["run", "imported"]
"""run       a session of ours
imported  a recorded trajectory from a file
"""


def new_id() -> str:
    """Return a new identifier: sixteen random hexadecimal digits, told apart by the first few."""
    return secrets.token_hex(8)


class SessionRecord(Value):
    """One session without its transitions.

    `root` and `database` say where a run acts. `environment`, `dataset`, `licence` and `domain`
    describe a recording. `meta` is whatever its maker wants to keep; it can't be changed later.
    """

    id: str = Field(default_factory=new_id)
    kind: Kind = "run"
    mode: Mode | None = None
    task: str = ""
    root: str | None = None
    database: str | None = None
    engine: str | None = None
    environment: str | None = None
    dataset: str | None = None
    licence: str | None = None
    domain: str | None = None
    created_at: float = Field(default_factory=time.time)
    meta: Json = None


class SessionSummary(Value):
    """A session with the number of its transitions, and when the last of them began."""

    record: SessionRecord
    transitions: int
    last_at: float | None


class Hit(Value):
    """A transition that a search found. `snippet` is the text around the first word found."""

    session: str
    step: int
    tool: str
    source: Source
    started_at: float
    snippet: str


class Approved(Protocol):
    """What an approval must say to be logged (`lwm_agents.gate.approvals.Approval` does)."""

    @property
    def id(self) -> str:
        """A name no other approval has."""
        ...

    @property
    def digest(self) -> str:
        """SHA-256 of everything the approval binds."""
        ...

    @property
    def decided_by(self) -> str:
        """Who decided."""
        ...

    @property
    def decided_at(self) -> float:
        """When, in seconds since the epoch."""
        ...

    @property
    def expires_at(self) -> float:
        """Until when it may be used."""
        ...


class ApprovalRecord(Value):
    """A logged approval or refusal.

    `digest` binds everything that was approved; None where the action holds a secret, because the
    digest of a short secret can be guessed. `action_digest` is of the action as logged.
    """

    id: str
    session: str
    digest: str | None
    action_digest: str
    tool: str
    effect: Effect
    decision: Literal["approved", "denied"]
    decided_by: str
    created_at: float
    expires_at: float


class StartedRecord(Value):
    """An execution that was begun. With no transition that refers to it, it is in doubt."""

    id: str
    session: str
    step: int
    tool: str
    arguments: dict[str, Json]
    action_digest: str
    approval_id: str | None
    created_at: float


class JudgementRecord(Value):
    """What a judge said of a session, or of one step of it. `score` is 0..1."""

    id: str = Field(default_factory=new_id)
    session: str
    step: int | None = None
    judge: str
    score: float
    details: Json = None
    created_at: float = Field(default_factory=time.time)


class RolloutRecord(Value):
    """One trajectory of a policy in a world, logged as a session, with its total reward."""

    id: str = Field(default_factory=new_id)
    session: str
    policy: str
    world: str
    reward: float | None = None
    details: Json = None
    created_at: float = Field(default_factory=time.time)


class Tombstone(Value):
    """What is left of a deleted session. `last_hash` is the end of its chain."""

    session: str
    deleted_at: float
    transitions: int
    last_hash: str


class Verification(Value):
    """Whether a session is as it was written. `problem` names the first step that is not."""

    session: str
    transitions: int
    problem: str | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing was changed, removed from the middle, or put in."""
        return self.problem is None


class Imported(Value):
    """How many trajectories and transitions came in; `skipped` trajectories were there before."""

    sessions: int = 0
    transitions: int = 0
    skipped: int = 0
