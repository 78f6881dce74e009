"""The log: sessions and their transitions, appended to one SQLite file."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from lwm_agents.digests import parse, readable
from lwm_agents.errors import Misuse, StoreCorrupt
from lwm_agents.redaction import redact, redact_action, redact_json, redact_tool
from lwm_agents.store import rows
from lwm_agents.store.connection import Connection
from lwm_agents.store.records import (
    ApprovalRecord,
    Approved,
    Hit,
    Imported,
    JudgementRecord,
    Kind,
    RolloutRecord,
    SessionRecord,
    SessionSummary,
    StartedRecord,
    Tombstone,
    Verification,
    new_id,
)
from lwm_agents.store.search import query_of, words_of
from lwm_agents.store.sessions import (
    SESSION_FIELDS,
    check_session,
    create_session,
    delete_blobs,
    delete_session,
    find_session,
    free_name,
    genesis,
    pin,
    record_of,
    tool_of,
)
from lwm_agents.store.statements import conditions, dicts, has, insert
from lwm_agents.store.transitions import (
    blob_of,
    check_approval,
    check_started,
    hit_of,
    problem_of,
    write,
)
from lwm_agents.values import Action, Effect, ToolSpec, Trajectory, Transition

if TYPE_CHECKING:
    from sqlite_utils import Database

_IMPORT_BATCH = 2_000
"""How many transitions an import writes in one transaction, so that others get their turn."""


def default_path() -> Path:
    """Return where the log lies unless told otherwise: LWM_STORE, or the user's data folder."""
    if named := os.environ.get("LWM_STORE"):
        return Path(named).expanduser()
    from platformdirs import user_data_path

    return user_data_path("lwm-agents", appauthor=False) / "lwm.db"


class Store:
    """The log in one file; ":memory:" keeps it in memory. docs/store.md has the schema.

    Secrets are redacted before anything is written (`lwm_agents.redaction`). A row whose append
    has returned survives the end of the process. Any thread and any number of processes may write;
    each waits for the others up to `patience` seconds.

    Every method may raise StoreError: StoreFull, StoreReadOnly, StoreCorrupt, StoreTooNew,
    StoreBusy. Nothing is half written then.
    """

    def __init__(self, path: str | Path | None = None, *, patience: float = 60.0) -> None:
        chosen = default_path() if path is None else path
        self.path: Path | None = None if str(chosen) == ":memory:" else Path(chosen)
        self._connection = Connection(self.path, patience=patience)
        self._renamed: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. May be called more than once."""
        self._connection.close()

    # Writing

    def create_session(self, record: SessionRecord) -> SessionRecord:
        """Begin a session and return its record as logged. Raises Misuse where the id is taken."""
        with self._connection.write() as connection:
            if has(connection, "sessions", record.id):
                raise Misuse(f"there is already a session {record.id}; give the new one another id")
            return create_session(connection, record)

    def append(self, transition: Transition, *, started_id: str | None = None) -> None:
        """Append one transition to its session; `started_id` is what `start` returned for it.

        Raises Misuse where the session is unknown, the step is not after the last one, or what was
        started is unknown or has its transition; TypeError where a value is no JSON.
        """
        prepared = rows.prepare(transition, started_id, self._renamed)
        with self._connection.write() as connection:
            if started_id is not None:
                check_started(connection, started_id, transition.session)
            write(connection, [prepared])

    def append_many(self, transitions: Iterable[Transition]) -> int:
        """Append transitions in one transaction, all or none, and return how many.

        Raises as `append` does.
        """
        # Prepared beforehand, so that the file is locked for the writing only.
        prepared = [rows.prepare(transition, None, self._renamed) for transition in transitions]
        with self._connection.write() as connection:
            write(connection, prepared)
        return len(prepared)

    def pin(self, tool: ToolSpec, session: str | None = None) -> str:
        """Log a tool's spec, as one that the session knows, and return the hash it is pinned by.

        That is the spec's own hash, unless secrets had to be redacted in it.
        """
        redacted = redact_tool(tool)
        if redacted is not tool:
            self._renamed[tool.hash] = redacted.hash
        with self._connection.write() as connection:
            pin(connection, redacted, session)
        return redacted.hash

    def approve(
        self,
        session: str,
        action: Action,
        approval: Approved,
        *,
        effect: Effect = "unknown",
        approved: bool = True,
    ) -> None:
        """Log an approval, or a refusal, of an action; it survives a loss of power.

        Raises Misuse where the session is unknown or the approval is there already.
        """
        redacted = redact_action(action)
        row = {
            "id": approval.id,
            "session": session,
            # A digest over a short secret gives the secret away to anyone who can guess.
            "digest": approval.digest if redacted is action else None,
            "action_digest": redacted.digest,
            "tool": redacted.tool,
            "effect": effect,
            "decision": "approved" if approved else "denied",
            "decided_by": redact(approval.decided_by),
            "created_at": approval.decided_at,
            "expires_at": approval.expires_at,
        }
        with self._connection.write(durable=True) as connection:
            check_session(connection, session)
            if has(connection, "approvals", approval.id):
                raise Misuse(
                    f"approval {approval.id} is logged already; each fits one action, once"
                )
            insert(connection, "approvals", row)

    def start(
        self, session: str, step: int, action: Action, *, approval_id: str | None = None
    ) -> str:
        """Log that an action is about to be executed and return the id of that row.

        It survives a loss of power. An approval is used up by it. Raises Misuse where the session
        or the approval is unknown, or the approval is a refusal, of another action or session,
        expired, or used.
        """
        redacted = redact_action(action)
        started_id = new_id()
        row = {
            "id": started_id,
            "session": session,
            "step": step,
            "tool": redacted.tool,
            "arguments": readable(redacted.arguments),
            "action_digest": redacted.digest,
            "approval_id": approval_id,
            "created_at": time.time(),
        }
        with self._connection.write(durable=True) as connection:
            check_session(connection, session)
            if approval_id is not None:
                check_approval(connection, approval_id, session, redacted.digest)
            insert(connection, "started", row)
        return started_id

    def judge(self, judgement: JudgementRecord) -> None:
        """Log what a judge said of a session or a step."""
        self._add("judgements", judgement)

    def add_rollout(self, rollout: RolloutRecord) -> None:
        """Log that a session was the rollout of a policy."""
        self._add("rollouts", rollout)

    def import_trajectories(self, trajectories: Iterable[Trajectory]) -> Imported:
        """Log recorded trajectories as sessions of the kind "imported".

        A trajectory keeps its name as the session's id, with its dataset in front where that id
        is taken by another dataset or a run. One that is there already is skipped.
        """
        done = Imported()
        batch: list[Trajectory] = []
        waiting = 0
        for trajectory in trajectories:
            batch.append(trajectory)
            waiting += len(trajectory.transitions)
            if waiting >= _IMPORT_BATCH:
                done = self._import(batch, done)
                batch, waiting = [], 0
        return self._import(batch, done)

    # Reading

    def count(self) -> int:
        """Return how many transitions are logged."""
        with self._connection.read() as connection:
            return int(connection.execute("SELECT count(*) FROM transitions").fetchone()[0])

    def sessions(
        self, *, limit: int | None = None, kind: Kind | None = None, dataset: str | None = None
    ) -> list[SessionSummary]:
        """Return sessions, newest first, with the number of their transitions."""
        where, values = conditions(kind=kind, dataset=dataset)
        query = (
            "SELECT s.*, (SELECT count(*) FROM transitions WHERE session = s.id) AS transitions, "
            "(SELECT started_at FROM transitions WHERE session = s.id ORDER BY step DESC LIMIT 1) "
            f"AS last_at FROM sessions s{where} ORDER BY s.created_at DESC, s.rowid DESC LIMIT ?"
        )
        with self._connection.read() as connection:
            found = dicts(connection, query, *values, -1 if limit is None else limit)
            return [self._summary(row) for row in found]

    def session(self, prefix: str) -> SessionRecord:
        """Return the session with this id, or the only one whose id begins so.

        Raises Misuse where there is none or more than one.
        """
        with self._connection.read() as connection:
            return self._summary(find_session(connection, prefix)).record

    def trajectory(self, session: str) -> Trajectory:
        """Return a session with its tools and all its transitions, as they were but for secrets.

        Raises Misuse as `session` does.
        """
        with self._connection.read() as connection:
            record = self._summary(find_session(connection, session)).record
            tools = connection.execute(
                "SELECT t.spec FROM session_tools s JOIN tools t USING (digest) "
                "WHERE s.session = ? ORDER BY s.position",
                (record.id,),
            )
            found = dicts(
                connection, "SELECT * FROM transitions WHERE session = ? ORDER BY step", record.id
            )
            with _Sound(self.path):
                return Trajectory(
                    session=record.id,
                    task=record.task,
                    tools=tuple(tool_of(row[0]) for row in tools),
                    transitions=tuple(
                        rows.restore(row, lambda digest: blob_of(connection, digest))
                        for row in found
                    ),
                    environment=record.environment,
                    dataset=record.dataset,
                    licence=record.licence,
                    domain=record.domain,
                )

    def compared(self, tool: str | None = None) -> list[Transition]:
        """Return the transitions that hold a prediction and its fidelity, oldest first.

        Of one tool where it is named.
        """
        where = "" if tool is None else " AND tool = ?"
        query = (
            f"SELECT * FROM transitions WHERE fidelity IS NOT NULL{where} ORDER BY started_at, id"
        )
        values = () if tool is None else (rows.storable(tool),)
        with self._connection.read() as connection, _Sound(self.path):
            found = (
                rows.restore(row, lambda digest: blob_of(connection, digest))
                for row in dicts(connection, query, *values)
            )
            return [one for one in found if one.prediction is not None]

    def search(self, text: str, limit: int = 20) -> list[Hit]:
        """Return transitions that hold every word of a text, in any order, newest first.

        Case, accents and signs do not matter: `src/main.py` is three words. Large observations are
        found by their first 32,768 characters.
        """
        words = words_of(text)
        if not words:
            return []
        with self._connection.read() as connection:
            # In order of rowid: ranking would have to read every match of a common word.
            found = dicts(
                connection,
                "SELECT session, step, tool, source, started_at, arguments, arguments_blob, text, "
                "text_blob FROM transitions WHERE id IN (SELECT rowid FROM search WHERE search "
                "MATCH ? ORDER BY rowid DESC LIMIT ?) ORDER BY id DESC",
                query_of(words),
                limit,
            )
            with _Sound(self.path):
                return [hit_of(connection, row, words) for row in found]

    def tool(self, tool_hash: str) -> ToolSpec | None:
        """Return the spec that is pinned by this hash, the first one seen; None: unknown."""
        with self._connection.read() as connection:
            row = connection.execute(
                "SELECT spec FROM tools WHERE hash = ? ORDER BY first_seen_at, rowid LIMIT 1",
                (tool_hash,),
            ).fetchone()
        with _Sound(self.path):
            return None if row is None else tool_of(row[0])

    def approvals(self, session: str | None = None) -> list[ApprovalRecord]:
        """Return approvals and refusals, of one session or of all, newest first."""
        return [ApprovalRecord(**row) for row in self._records("approvals", session)]

    def in_doubt(self, session: str | None = None) -> list[StartedRecord]:
        """Return what was started and has no transition: nobody knows whether it happened.

        Show it and ask; never run it twice. Appending a transition with its id settles it.
        """
        unanswered = " NOT EXISTS (SELECT 1 FROM transitions WHERE started_id = started.id)"
        found = self._records("started", session, unanswered)
        with _Sound(self.path):
            return [StartedRecord(**row | {"arguments": parse(row["arguments"])}) for row in found]

    def judgements(self, session: str | None = None) -> list[JudgementRecord]:
        """Return what judges said, of one session or of all, newest first."""
        return [JudgementRecord(**_parsed(row)) for row in self._records("judgements", session)]

    def rollouts(self, session: str | None = None) -> list[RolloutRecord]:
        """Return rollouts, of one session or of all, newest first."""
        return [RolloutRecord(**_parsed(row)) for row in self._records("rollouts", session)]

    def tombstones(self) -> list[Tombstone]:
        """Return what is left of deleted sessions, newest first."""
        with self._connection.read() as connection:
            found = dicts(
                connection, "SELECT * FROM tombstones ORDER BY deleted_at DESC, rowid DESC"
            )
            return [Tombstone(**row) for row in found]

    def export(
        self, *sessions: str, kind: Kind | None = None, dataset: str | None = None
    ) -> Iterator[Trajectory]:
        """Yield trajectories, oldest first: the sessions named, or all of a kind or dataset.

        `lwm_agents.interchange` writes them in the plain format. Each is read when it is its turn.
        """
        if sessions:
            chosen = [self.session(name).id for name in sessions]
        else:
            where, values = conditions(kind=kind, dataset=dataset)
            query = f"SELECT s.id FROM sessions s{where} ORDER BY s.created_at, s.rowid"
            with self._connection.read() as connection:
                chosen = [row["id"] for row in dicts(connection, query, *values)]
        for session in chosen:
            yield self.trajectory(session)

    def verify(self, session: str) -> Verification:
        """Check a session's chain of hashes and its blobs against what was written.

        Finds every change, removal or insertion but that of the last rows: compare the last hash
        with one kept elsewhere for that. Raises Misuse as `session` does.
        """
        with self._connection.read() as connection:
            head = find_session(connection, session)
            problem = None
            previous = str(head["hash"])
            if previous != genesis(head):
                problem = "the session's own row was changed"
            query = "SELECT * FROM transitions WHERE session = ? ORDER BY step"
            found = dicts(connection, query, head["id"])
            for row in found:
                if problem is None:
                    problem = problem_of(connection, row, previous)
                previous = row["hash"]
            return Verification(
                session=head["id"],
                transitions=len(found),
                problem=problem,
            )

    @property
    def database(self) -> Database:
        """The open database through sqlite-utils, for questions of your own. Read only, please."""
        from sqlite_utils import Database

        with self._connection.read() as connection:
            return Database(connection, recursive_triggers=False, execute_plugins=False)

    # Deleting

    def delete(self, *sessions: str) -> list[Tombstone]:
        """Remove whole sessions from the file, so that nothing of their text is left in it.

        A tombstone remains of each. The file is rewritten, which takes time and room for another
        copy. Raises Misuse as `session` does; StoreBusy where another process still reads the old
        text: the sessions are gone then, and deleting any session later clears the file.
        """
        stones: list[Tombstone] = []
        with self._connection.write(durable=True) as connection:
            connection.execute("PRAGMA secure_delete = ON")
            for session in sessions:
                stones.append(delete_session(connection, find_session(connection, session)))
            delete_blobs(connection)
            # The index keeps the words of deleted rows until its parts are merged.
            connection.execute("INSERT INTO search (search) VALUES ('optimize')")
        self._connection.rewrite()
        return stones

    def _add(self, table: str, record: JudgementRecord | RolloutRecord) -> None:
        row = record.model_dump()
        row["details"] = None if row["details"] is None else readable(redact_json(row["details"]))
        row = {
            key: redact(value) if isinstance(value, str) else value for key, value in row.items()
        }
        row |= {"id": record.id, "session": record.session}
        with self._connection.write() as connection:
            check_session(connection, record.session)
            if has(connection, table, record.id):
                raise Misuse(f"{record.id} is logged already")
            insert(connection, table, row)

    def _records(self, table: str, session: str | None, *conditions: str) -> list[dict[str, Any]]:
        wanted = [*conditions, *(["session = ?"] if session is not None else [])]
        where = f" WHERE {' AND '.join(wanted)}" if wanted else ""
        with self._connection.read() as connection:
            values = [] if session is None else [find_session(connection, session)["id"]]
            query = f"SELECT * FROM {table}{where} ORDER BY created_at DESC, rowid DESC"
            found = dicts(connection, query, *values)
        with _Sound(self.path):
            return [
                {k: rows.text_of(v) if isinstance(v, bytes) else v for k, v in row.items()}
                for row in found
            ]

    def _import(self, batch: list[Trajectory], done: Imported) -> Imported:
        ready = [(one, [rows.prepare(t) for t in one.transitions]) for one in batch]
        sessions, transitions, skipped = done.sessions, done.transitions, done.skipped
        with self._connection.write() as connection:
            for trajectory, prepared in ready:
                name = free_name(connection, trajectory)
                if name is None:
                    skipped += 1
                    continue
                create_session(connection, record_of(trajectory, name))
                for tool in trajectory.tools:
                    pin(connection, redact_tool(tool), name)
                for one in prepared:
                    one.session = one.values[0] = name
                write(connection, prepared)
                sessions += 1
                transitions += len(prepared)
        return Imported(sessions=sessions, transitions=transitions, skipped=skipped)

    def _summary(self, row: Mapping[str, Any]) -> SessionSummary:
        fields = {name: row[name] for name in SESSION_FIELDS}
        with _Sound(self.path):
            for name, value in fields.items():
                if isinstance(value, bytes):
                    fields[name] = rows.text_of(value)
            if fields["meta"] is not None:
                fields["meta"] = parse(fields["meta"])
            return SessionSummary(
                record=SessionRecord(id=row["id"], **fields),
                transitions=row.get("transitions", 0),
                last_at=row.get("last_at"),
            )


class _Sound:
    """Says of values that can't be read back that the file is corrupt."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, ValueError | TypeError | KeyError):
            raise StoreCorrupt(
                f"{self._path} holds a row that can't be read back ({type(error).__name__}); "
                "`Store.verify` says which"
            ) from error


def _parsed(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"details": None if row["details"] is None else parse(row["details"])}
