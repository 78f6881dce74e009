"""SQLite connections that do only what one tool call may: read, or one statement that writes."""

from __future__ import annotations

import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

from lwm_agents.errors import Misuse

Access = Literal["ro", "rw", "rwc"]
"""How a database is opened: read only; read and write; the same, and made where it is missing."""

Parameters = Sequence[object] | Mapping[str, object]

TIME_LIMIT = 30.0
"""Seconds a statement may take."""

ROW_LIMIT = 1_000
"""Rows that are kept."""

COUNT_LIMIT = 1_000_000
"""Rows that are counted before a statement is stopped."""

BYTE_LIMIT = 100 * 1024 * 1024
"""Bytes of values that are kept, and the largest single value."""

_STEPS = 10_000
_READING = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}
# Functions that reach beyond the database where a build of SQLite has them.
_FUNCTIONS = {
    *("load_extension", "fts3_tokenizer", "readfile", "writefile", "edit", "fsdir", "lsdir"),
    *("sqlar_compress", "zipfile", "sqlite_dbpage", "shell", "system", "eval"),
}
_MODULES = {"fts3", "fts4", "fts5", "fts5vocab", "fts4aux", "rtree", "rtree_i32", "geopoly"}
_PRAGMAS = {
    *("application_id", "user_version", "foreign_key_check", "integrity_check", "quick_check"),
    *("table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo"),
    *("foreign_key_list", "optimize", "data_version"),
}
_WRITING = {
    name: getattr(sqlite3, f"SQLITE_{name.replace(' ', '_')}")
    for name in (
        *("INSERT", "UPDATE", "DELETE", "CREATE TABLE", "CREATE INDEX", "CREATE VIEW"),
        *("CREATE TRIGGER", "DROP TABLE", "DROP INDEX", "DROP VIEW", "DROP TRIGGER"),
        *("ALTER TABLE", "REINDEX", "ANALYZE", "DROP VTABLE"),
    )
}
_NAMES = {
    getattr(sqlite3, f"SQLITE_{name.replace(' ', '_')}"): name
    for name in (
        *_WRITING,
        *("ATTACH", "DETACH", "PRAGMA", "TRANSACTION", "SAVEPOINT", "FUNCTION", "CREATE VTABLE"),
        *("CREATE TEMP TABLE", "CREATE TEMP INDEX", "CREATE TEMP VIEW", "CREATE TEMP TRIGGER"),
        *("DROP TEMP TABLE", "DROP TEMP INDEX", "DROP TEMP VIEW", "DROP TEMP TRIGGER"),
    )
}


class SqlError(Exception):
    """What the database answers when it can't do what was asked. Its text is the observation."""


@dataclass(frozen=True)
class Rows:
    """What a statement gave: at most ROW_LIMIT rows of `total`, which `endless` says is a minimum.

    `affected` and `last_row_id` are None for a statement that writes no rows.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    total: int
    endless: bool = False
    affected: int | None = None
    last_row_id: int | None = None


def database_path(url: str, root: str) -> str:
    """Return the absolute path of the SQLite file that a URL or path names.

    `sqlite:///shop.db` and `shop.db` are relative to the root, `sqlite:////srv/shop.db` is
    absolute. Raises Misuse for anything else.
    """
    scheme, colon, _ = url.partition("://")
    if not colon:
        path = url
    elif scheme in {"sqlite", "sqlite3"}:
        parts = urlsplit(url)
        if parts.netloc or not parts.path.strip("/") or parts.query:
            raise Misuse(
                f"not an SQLite URL: {url}; write sqlite:///relative.db or sqlite:////absolute.db"
            )
        path = unquote(parts.path[1:])
    elif scheme.partition("+")[0] in {"postgresql", "postgres", "mysql", "mariadb"}:
        raise Misuse(
            f"{scheme} databases come with the extra lwm-agents[databases], in a later version; "
            "this one knows SQLite: sqlite:///shop.db"
        )
    else:
        raise Misuse(f"no database of the kind {scheme}:// is known; write sqlite:///shop.db")
    if not path or path == ":memory:" or "\0" in path:
        raise Misuse(f"the database must be a file: {url!r}")
    return os.path.abspath(os.path.join(root, path))


def open_database(path: str, access: Access) -> sqlite3.Connection:
    """Open an SQLite file for one call, in any thread; no transaction begins by itself.

    Raises FileNotFoundError where it is missing and may not be made, and sqlite3.Error.
    """
    file = Path(path)
    if access != "rwc" and not file.is_file():
        raise FileNotFoundError(path)
    return sqlite3.connect(
        f"{file.as_uri()}?mode={access}", uri=True, isolation_level=None, check_same_thread=False
    )


def read_rows(
    connection: sqlite3.Connection,
    query: str,
    parameters: Parameters,
    stopped: threading.Event,
    *,
    pragmas: frozenset[str] = frozenset(),
    time_limit: float = TIME_LIMIT,
) -> Rows:
    """Return what a query gives, on a connection that is made unable to write and left so.

    Raises SqlError. `pragmas` names those that our own queries need.
    """
    connection.execute("PRAGMA query_only=1")
    # A virtual table declares itself when it is first looked at, which the authorizer would deny.
    virtual = "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage = 0"
    for (name,) in connection.execute(virtual).fetchall():
        with suppress(sqlite3.Error):  # of a module that this SQLite does not have
            connection.execute(f"PRAGMA table_info({quoted(name)})").fetchall()

    def allowed(action: int, first: str | None, second: str | None) -> bool:
        if action == sqlite3.SQLITE_PRAGMA:
            # Full-text tables ask for data_version to see whether their index is current.
            return first in pragmas or (first == "data_version" and second is None)
        return action in _READING

    with _Guard(connection, allowed, stopped, time_limit, "sql_query only reads") as guard:
        return guard.rows(query, parameters)


def write_rows(
    connection: sqlite3.Connection,
    statement: str,
    parameters: Parameters,
    stopped: threading.Event,
    *,
    time_limit: float = TIME_LIMIT,
) -> Rows:
    """Run one statement in a transaction of its own, and commit it.

    Raises SqlError, and then nothing has changed.
    """

    def allowed(action: int, first: str | None, _second: str | None) -> bool:
        if action == sqlite3.SQLITE_PRAGMA:
            return first in _PRAGMAS
        if action == sqlite3.SQLITE_CREATE_VTABLE:
            return _second in _MODULES
        return action in _READING or action in _WRITING.values()

    writes_rows = leading_verbs(statement)[:1] in (["INSERT"], ["REPLACE"], ["UPDATE"], ["DELETE"])
    inserts = leading_verbs(statement)[:1] in (["INSERT"], ["REPLACE"])
    try:
        connection.execute("BEGIN IMMEDIATE")
        before = connection.total_changes
        with _Guard(connection, allowed, stopped, time_limit, "sql_execute refuses this") as guard:
            rows = guard.rows(statement, parameters)
        affected = last = None
        if writes_rows:
            changed = connection.total_changes != before
            affected, last = connection.execute("SELECT changes(), last_insert_rowid()").fetchone()
            affected = affected if changed else 0
            last = last if inserts and affected else None
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise SqlError(str(error)) from error
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    return Rows(rows.columns, rows.rows, rows.total, rows.endless, affected, last)


def quoted(name: str) -> str:
    """Return a name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


class _Guard:
    """Limits of one statement on a connection, lifted at the end."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        allowed: Callable[[int, str | None, str | None], bool],
        stopped: threading.Event,
        time_limit: float,
        refusal: str,
    ) -> None:
        self._connection = connection
        self._allowed = allowed
        self._stopped = stopped
        self._time_limit = time_limit
        self._refusal = refusal
        self._denied: str | None = None
        self._deadline = 0.0

    def __enter__(self) -> _Guard:
        connection = self._connection
        connection.text_factory = lambda text: text.decode("utf-8", "replace")
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, BYTE_LIMIT)
        connection.execute("PRAGMA trusted_schema=0")
        self._deadline = time.monotonic() + self._time_limit
        connection.set_authorizer(self._authorize)
        connection.set_progress_handler(self._over, _STEPS)
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.set_progress_handler(None, 0)
        self._connection.set_authorizer(None)

    def rows(self, statement: str, parameters: Parameters) -> Rows:
        """Run the statement. Raises SqlError."""
        try:
            cursor = self._connection.execute(statement, parameters)
            columns = tuple(column[0] for column in cursor.description or ())
            if not columns and not leading_verbs(statement):
                raise SqlError("there is no statement")
            return self._collect(cursor, columns)
        except (sqlite3.Error, sqlite3.Warning, OverflowError, ValueError, MemoryError) as error:
            raise SqlError(self._said(error)) from error

    def _collect(self, cursor: sqlite3.Cursor, columns: tuple[str, ...]) -> Rows:
        kept: list[tuple[object, ...]] = []
        total = size = 0
        for row in cursor:
            total += 1
            size += sum(len(v) if isinstance(v, str | bytes) else 8 for v in row)
            if len(kept) < ROW_LIMIT and size <= BYTE_LIMIT:
                kept.append(row)
            if total >= COUNT_LIMIT:
                cursor.close()
                return Rows(columns, tuple(kept), total, endless=True)
        return Rows(columns, tuple(kept), total)

    def _authorize(
        self, action: int, first: str | None, second: str | None, _db: str | None, _by: str | None
    ) -> int:
        named = action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _FUNCTIONS
        if self._allowed(action, first, second) and not named:
            return sqlite3.SQLITE_OK
        if self._denied is None:
            name = _NAMES.get(action, f"action {action}")
            detail = {"FUNCTION": second, "PRAGMA": first}.get(name)
            self._denied = f"{name} {detail}" if detail else name
        return sqlite3.SQLITE_DENY

    def _over(self) -> int:
        return int(self._stopped.is_set() or time.monotonic() > self._deadline)

    def _said(self, error: Exception) -> str:
        if self._denied is not None:
            return f"{self._refusal}: {self._denied}"
        if str(error) == "interrupted":
            return f"stopped after {self._time_limit:g} s"
        return str(error) or type(error).__name__


# The parts of SQL that can hide a keyword or a semicolon, and what is looked for between them.
_TOKEN = re.compile(
    r"""--[^\n]*|/\*.*?(?:\*/|\Z)
    |'[^']*(?:''[^']*)*(?:'|\Z)|"[^"]*(?:""[^"]*)*(?:"|\Z)|`[^`]*(?:``[^`]*)*(?:`|\Z)|\[[^]]*(?:]|\Z)
    |(?P<word>[^\W\d][\w$]*)|(?P<mark>[();,])|[^\s]
    """,
    re.VERBOSE | re.DOTALL,
)
_MAIN = {"SELECT", "VALUES", "INSERT", "REPLACE", "UPDATE", "DELETE"}


def leading_verbs(statements: str) -> list[str]:
    """Return the verb of each statement in upper case: SELECT, INSERT, PRAGMA, …

    EXPLAIN is looked through, and the common tables of WITH are skipped. Pure; for messages and
    early refusals. What may be done is decided by the connection, never by this.
    """
    verbs: list[str] = []
    verb, depth, before = "", 0, ";"
    for token in _TOKEN.finditer(statements):
        word, mark = (token["word"] or "").upper(), token["mark"]
        if not word and not mark and token[0].startswith(("--", "/*")):
            continue
        if mark == ";" and depth <= 0:
            verbs += [verb] if verb else []
            verb = ""
        elif mark in {"(", ")"}:
            depth += 1 if mark == "(" else -1
        elif word and depth == 0:
            begins = verb in {"", "EXPLAIN"} and word not in {"QUERY", "PLAN"}
            # In WITH, a name follows WITH, RECURSIVE or a comma; anything else is the main verb.
            main = verb == "WITH" and word in _MAIN and before not in {"WITH", "RECURSIVE", ","}
            verb = word if begins or main else verb
        before = word or mark or "other"
    return verbs + ([verb] if verb else [])
