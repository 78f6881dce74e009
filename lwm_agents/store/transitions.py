"""Transitions written and checked, within a transaction, and what permits an execution."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping, Sequence
from typing import Any

from lwm_agents.errors import Misuse
from lwm_agents.store import rows
from lwm_agents.store.records import Hit
from lwm_agents.store.search import INDEXED, snippet_of
from lwm_agents.store.statements import dicts


def write(connection: sqlite3.Connection, prepared: list[rows.Prepared]) -> None:
    """Append prepared rows within a transaction, chained to what their sessions hold."""
    ends: dict[str, tuple[int, str]] = {}
    number = connection.execute("SELECT coalesce(max(id), 0) FROM transitions").fetchone()[0]
    written: list[list[Any]] = []
    words: list[tuple[int, str, str]] = []
    blobs: list[tuple[str, bytes]] = []
    for one in prepared:
        last, previous = ends.get(one.session) or end_of(connection, one.session)
        if one.step <= last:
            raise Misuse(
                f"session {one.session} already has step {last}: step {one.step} can't follow it"
            )
        number += 1
        own = rows.chain(previous, rows.covered(one.values))
        written.append([number, *one.values, previous, own])
        words.append((number, *one.words))
        blobs += one.blobs
        ends[one.session] = (one.step, own)
    connection.executemany(rows.INSERT, written)
    connection.executemany(rows.INSERT_SEARCH, words)
    if blobs:
        connection.executemany(rows.INSERT_BLOB, blobs)


def end_of(connection: sqlite3.Connection, session: str) -> tuple[int, str]:
    """Return the last step of a session and its hash."""
    name = (rows.storable(session),)
    row = connection.execute(
        "SELECT step, hash FROM transitions WHERE session = ? ORDER BY step DESC LIMIT 1", name
    ).fetchone()
    if row is None:
        row = connection.execute("SELECT 0, hash FROM sessions WHERE id = ?", name).fetchone()
    if row is None:
        raise Misuse(f"there is no session {session!r}; create it before appending to it")
    return int(row[0]), str(row[1])


def problem_of(connection: sqlite3.Connection, row: Mapping[str, Any], previous: str) -> str | None:
    """Say what is wrong with a row that should follow this hash; None: nothing."""
    if row["previous_hash"] != previous:
        return f"step {row['step']} does not follow the row before it"
    try:
        values = rows.covered([row[name] for name in rows.CHAINED])
        if row["hash"] != rows.chain(previous, values):
            return f"step {row['step']} was changed"
        for column in rows.BLOB_COLUMNS:
            if row[column] is not None:
                blob_of(connection, row[column])
    except ValueError:
        return f"step {row['step']} was changed"
    return None


def blob_of(connection: sqlite3.Connection, digest: str) -> bytes:
    """Return the bytes of a blob. Raises ValueError where they are missing or changed."""
    row = connection.execute("SELECT data FROM blobs WHERE sha256 = ?", (digest,)).fetchone()
    if row is None or not isinstance(row[0], bytes) or rows.digest_of_bytes(row[0]) != digest:
        raise ValueError(f"blob {digest} is missing or was changed")
    return row[0]


def hit_of(connection: sqlite3.Connection, row: Mapping[str, Any], words: Sequence[str]) -> Hit:
    """Return what a search shows of the row that it found."""

    def head(name: str) -> str:
        if row[f"{name}_blob"] is None:
            return rows.text_of(row[name] or "")
        found = connection.execute(
            "SELECT substr(data, 1, ?) FROM blobs WHERE sha256 = ?", (INDEXED, row[f"{name}_blob"])
        ).fetchone()
        return "" if found is None else bytes(found[0]).decode("utf-8", "replace")

    return Hit(
        session=row["session"],
        step=row["step"],
        tool=rows.text_of(row["tool"]),
        source=row["source"],
        started_at=row["started_at"],
        snippet=snippet_of(words, head("arguments"), head("text")),
    )


def check_started(connection: sqlite3.Connection, started_id: str, session: str) -> None:
    """Raise Misuse unless this was started in the session and has no transition yet."""
    row = connection.execute("SELECT session FROM started WHERE id = ?", (started_id,)).fetchone()
    if row is None or row[0] != session:
        raise Misuse(f"nothing was started under {started_id!r} in session {session}")
    answered = "SELECT 1 FROM transitions WHERE started_id = ?"
    if connection.execute(answered, (started_id,)).fetchone():
        raise Misuse(f"what was started under {started_id} has its transition already")


def check_approval(
    connection: sqlite3.Connection, approval_id: str, session: str, action_digest: str
) -> None:
    """Raise Misuse unless this approval permits the action, now and for the first time."""
    found = dicts(connection, "SELECT * FROM approvals WHERE id = ?", approval_id)
    if not found or found[0]["session"] != session:
        raise Misuse(f"there is no approval {approval_id} in session {session}; ask for one")
    approval = found[0]
    if approval["decision"] != "approved":
        raise Misuse(f"{approval_id} is a refusal, not an approval")
    if approval["action_digest"] != action_digest:
        raise Misuse(f"approval {approval_id} is of another action; ask for one of this")
    if not approval["created_at"] <= time.time() < approval["expires_at"]:
        raise Misuse(f"approval {approval_id} has expired; ask again")
    used = "SELECT 1 FROM started WHERE approval_id = ?"
    if connection.execute(used, (approval_id,)).fetchone():
        raise Misuse(f"approval {approval_id} was used already; each fits one action, once")
