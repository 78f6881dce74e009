"""The log: every transition in one SQLite file that anyone can open with `sqlite3`."""

from lwm_agents.store.records import (
    ApprovalRecord,
    Hit,
    Imported,
    JudgementRecord,
    RolloutRecord,
    SessionRecord,
    SessionSummary,
    StartedRecord,
    Tombstone,
    Verification,
)
from lwm_agents.store.store import Store, default_path

__all__ = [
    "ApprovalRecord",
    "Hit",
    "Imported",
    "JudgementRecord",
    "RolloutRecord",
    "SessionRecord",
    "SessionSummary",
    "StartedRecord",
    "Store",
    "Tombstone",
    "Verification",
    "default_path",
]
