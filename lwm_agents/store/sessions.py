"""Sessions and the tools they know: made, found, deleted, within a transaction."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping
from typing import Any

from lwm_agents.digests import digest_of, parse, readable
from lwm_agents.errors import Misuse
from lwm_agents.redaction import redact, redact_json
from lwm_agents.store import rows
from lwm_agents.store.records import SessionRecord, Tombstone
from lwm_agents.store.search import indexed, indexed_action
from lwm_agents.store.statements import dicts, has, insert
from lwm_agents.store.transitions import blob_of
from lwm_agents.values import ToolSpec, Trajectory

SESSION_FIELDS = tuple(name for name in SessionRecord.model_fields if name != "id")


def create_session(connection: sqlite3.Connection, record: SessionRecord) -> SessionRecord:
    """Insert a session, redacted, and return it as logged. Raises Misuse for an impossible id."""
    if not record.id or isinstance(rows.storable(record.id), bytes):
        raise Misuse(f"{record.id!r} can't be a session's id: it must be text that UTF-8 can write")
    fields: dict[str, Any] = {
        name: redact(value) if isinstance(value := getattr(record, name), str) else value
        for name in SESSION_FIELDS
    }
    fields["meta"] = redact_json(record.meta)
    logged = SessionRecord(id=record.id, **fields)
    row = {"id": record.id, **fields, "created_at": float(record.created_at) + 0.0}
    row["meta"] = None if fields["meta"] is None else readable(fields["meta"])
    row = {name: rows.storable(v) if isinstance(v, str) else v for name, v in row.items()}
    row["hash"] = genesis(row)
    insert(connection, "sessions", row)
    return logged


def genesis(row: Mapping[str, Any]) -> str:
    """Return the hash a session's chain begins with: it covers all of the session's own row."""
    return rows.chain("", [row["id"], *(row[name] for name in SESSION_FIELDS)])


def find_session(connection: sqlite3.Connection, prefix: str) -> dict[str, Any]:
    """Return the row of the session with this id or this beginning. Raises Misuse."""
    found = dicts(connection, "SELECT * FROM sessions WHERE id = ?", prefix)
    if not found and prefix:
        # By range and not LIKE: the index serves it, and % and _ are only characters.
        query = "SELECT * FROM sessions WHERE id >= ? AND id < ? LIMIT 4"
        found = dicts(connection, query, prefix, prefix + "\U0010ffff")
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(row["id"] for row in found[:3]) + (", …" if len(found) > 3 else "")
        raise Misuse(f"more than one session begins with {prefix!r}: {names}")
    gone = dicts(connection, "SELECT deleted_at FROM tombstones WHERE session = ?", prefix)
    if gone:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(gone[-1]["deleted_at"]))
        raise Misuse(f"session {prefix} was deleted on {when}")
    raise Misuse(f"there is no session {prefix!r}; `lwm sessions` lists them")


def check_session(connection: sqlite3.Connection, session: str) -> None:
    """Raise Misuse where there is no session with this id."""
    if not has(connection, "sessions", session):
        raise Misuse(f"there is no session {session!r}; create it first")


def free_name(connection: sqlite3.Connection, trajectory: Trajectory) -> str | None:
    """Return the id for an imported trajectory; None: it is there already."""
    dataset = trajectory.dataset and redact(trajectory.dataset)
    wanted = (trajectory.session, f"{dataset or 'imported'}/{trajectory.session}")
    names = [name.encode("utf-8", "replace").decode() for name in wanted]
    for name in names:
        found = dicts(connection, "SELECT kind, dataset FROM sessions WHERE id = ?", name)
        if not found:
            return name
        if found[0] == {"kind": "imported", "dataset": rows.storable(dataset)}:
            return None
    raise Misuse(f"the ids {names[0]} and {names[1]} are both taken; rename the trajectory")


def record_of(trajectory: Trajectory, name: str) -> SessionRecord:
    """Return the record under which a recorded trajectory is logged."""
    return SessionRecord(
        id=name,
        kind="imported",
        task=trajectory.task,
        environment=trajectory.environment,
        dataset=trajectory.dataset,
        licence=trajectory.licence,
        domain=trajectory.domain,
    )


def pin(connection: sqlite3.Connection, tool: ToolSpec, session: str | None) -> None:
    """Insert a redacted tool spec unless it is there, and note that the session knows it."""
    fields = {name: getattr(tool, name) for name in ToolSpec.model_fields}
    fields["annotations"] = tool.annotations.model_dump()
    digest = digest_of(fields)
    if not connection.execute("SELECT 1 FROM tools WHERE digest = ?", (digest,)).fetchone():
        row = {
            "digest": digest,
            "hash": tool.hash,
            "name": tool.name,
            "spec": readable(fields),
            "first_seen_at": time.time(),
        }
        insert(connection, "tools", row)
    if session is not None:
        check_session(connection, session)
        connection.execute(
            "INSERT INTO session_tools SELECT ?, coalesce(max(position) + 1, 0), ? "
            "FROM session_tools WHERE session = ?",
            (session, digest, session),
        )


def tool_of(spec: str | bytes) -> ToolSpec:
    """Return the tool that a logged spec describes. Raises ValueError where it is none."""
    return ToolSpec(**parse(rows.text_of(spec)))


def delete_session(connection: sqlite3.Connection, head: Mapping[str, Any]) -> Tombstone:
    """Delete a session with all that hangs on it, and leave its tombstone."""
    session = head["id"]
    last, count = head["hash"], 0
    query = "SELECT * FROM transitions WHERE session = ? ORDER BY step"
    for row in dicts(connection, query, session):
        last, count = row["hash"], count + 1
        # The index holds no copy of the text, so it must be told what it was.
        connection.execute(
            "INSERT INTO search (search, rowid, action, observation) VALUES ('delete', ?, ?, ?)",
            (row["id"], *words_of(connection, row)),
        )
    connection.execute(
        "DELETE FROM tools WHERE digest IN (SELECT digest FROM session_tools WHERE session = ?) "
        "AND digest NOT IN (SELECT digest FROM session_tools WHERE session <> ?)",
        (session, session),
    )
    for table in ("transitions", "session_tools", "approvals", "started", "judgements", "rollouts"):
        connection.execute(f"DELETE FROM {table} WHERE session = ?", (session,))
    connection.execute("DELETE FROM sessions WHERE id = ?", (session,))
    stone = Tombstone(session=session, deleted_at=time.time(), transitions=count, last_hash=last)
    insert(connection, "tombstones", stone.model_dump())
    return stone


def words_of(connection: sqlite3.Connection, row: Mapping[str, Any]) -> tuple[str, str]:
    """Return what the index was given for a row; where it can't be read any more, nothing."""
    try:
        transition = rows.restore(row, lambda digest: blob_of(connection, digest))
    except ValueError:
        return "", ""
    action, seen = transition.action, transition.observation
    return indexed_action(action.tool, action.arguments), indexed(seen.text)


def delete_blobs(connection: sqlite3.Connection) -> None:
    """Delete the blobs that no transition refers to any more."""
    used = " UNION ".join(
        f"SELECT {name} FROM transitions WHERE {name} IS NOT NULL" for name in rows.BLOB_COLUMNS
    )
    connection.execute(f"DELETE FROM blobs WHERE sha256 NOT IN ({used})")
