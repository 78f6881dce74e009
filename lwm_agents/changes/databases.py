"""SQLite files: how their rows differ, and whether a process is using one.

Rows are compared on copies in a folder of their own: to open the real file would be an action
(SQLite makes files beside it and can roll a journal back).
"""

from __future__ import annotations

import errno
import os
import signal
import sqlite3
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager

from lwm_agents.changes.change import DatabaseChange, RowChange, TableChange
from lwm_agents.changes.content import copy
from lwm_agents.changes.tree import Tree
from lwm_agents.values import Json

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

MAGIC = b"SQLite format 3\0"
"""How a SQLite file begins (sqlite.org/fileformat2.html)."""

LARGEST = 256 * 1024 * 1024
"""The largest database whose rows are compared, in bytes."""

SECONDS = 10.0
"""How long the comparison of one database may take."""

ROWS = 20
"""Rows of one table that are shown."""

_VALUE = 2_000
"""Characters of one value that are kept."""

_PENDING, _SHARED_END = 0x40000000, 0x40000000 + 512
"""The bytes a process locks while it reads or writes a database (sqlite's os.h)."""

_SHM_LOCKS = (120, 9)
"""The bytes of the -shm file locked by whoever has the database open in WAL mode (os_unix.c)."""

Opener = Callable[[str], int | None]
"""Opens a path for reading; None: it is not there."""


class NotComparable(Exception):
    """Two databases can't be compared by rows; the text says why."""


def is_sqlite(fd: int) -> bool:
    """Say whether an open file begins as a SQLite database does."""
    return os.pread(fd, len(MAGIC), 0) == MAGIC if hasattr(os, "pread") else False


def database_change(path: str, old: Opener, new: Opener) -> DatabaseChange:
    """Return how the rows of a database differ between two worlds.

    Its journals are taken along. Raises NotComparable where it is too large, takes too long, or
    can't be read by SQLite.
    """
    with tempfile.TemporaryDirectory(prefix="lwm-rows-") as folder:
        one, other = os.path.join(folder, "old.db"), os.path.join(folder, "new.db")
        _copy_database(path, old, one)
        _copy_database(path, new, other)
        try:
            with closing(sqlite3.connect(other, isolation_level=None)) as connection:
                return _compare(connection, one)
        except (sqlite3.Error, UnicodeError, OverflowError) as error:
            raise NotComparable(f"its rows can't be compared: {error}") from None


def _copy_database(path: str, opener: Opener, target: str) -> None:
    for end in ("", "-wal", "-journal"):
        source = opener(path + end)
        if source is None:
            continue
        try:
            state = os.fstat(source)
            if state.st_size > LARGEST:
                raise NotComparable(f"larger than {LARGEST:,} bytes: its rows are not compared")
            with open(target + end, "wb", buffering=0) as file:
                copy(source, file.fileno(), state)
        finally:
            os.close(source)


def _compare(connection: sqlite3.Connection, old: str) -> DatabaseChange:
    ends = time.monotonic() + SECONDS
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.text_factory = lambda data: data.decode("utf-8", "backslashreplace")
    connection.set_progress_handler(lambda: time.monotonic() > ends, 10_000)
    connection.execute("ATTACH ? AS old", (old,))
    schemas = [dict(_schema(connection, name)) for name in ("old", "main")]
    before, after = schemas
    tables = {
        name
        for space in ("old", "main")
        for _, name, kind, *_ in connection.execute(f"PRAGMA {space}.table_list")
        if kind == "table" and name not in ("sqlite_schema", "sqlite_temp_schema")
    }
    changes = [_table(connection, name) for name in sorted(tables)]
    return DatabaseChange(
        tables=tuple(one for one in changes if one.added or one.removed or one.changed),
        schema_removed=tuple(sql for key, sql in before.items() if after.get(key) != sql),
        schema_added=tuple(sql for key, sql in after.items() if before.get(key) != sql),
    )


def _schema(connection: sqlite3.Connection, space: str) -> Iterator[tuple[tuple[str, str], str]]:
    for kind, name, sql in connection.execute(
        f"SELECT type, name, sql FROM {space}.sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid"
    ):
        yield (kind, name), sql


def _table(connection: sqlite3.Connection, name: str) -> TableChange:
    before = _columns(connection, "old", name)
    after = _columns(connection, "main", name)
    if before == after:
        return _matched(connection, name, *after)
    removed = _count(connection, f"old.{_name(name)}") if before[0] else 0
    added = _count(connection, f"main.{_name(name)}") if after[0] else 0
    if before[0] and after[0]:
        # Rows of two different tables have nothing to be matched by.
        return TableChange(name=name, removed=removed, added=added)
    space, (columns, key) = ("main", after) if after[0] else ("old", before)
    wanted = ", ".join((*key, *map(_name, columns)))
    found = connection.execute(f"SELECT {wanted} FROM {space}.{_name(name)} LIMIT {ROWS}")
    rows = tuple(_row(row, len(key), old=space == "old", new=space == "main") for row in found)
    return TableChange(name=name, removed=removed, added=added, columns=columns, rows=rows)


def _matched(
    connection: sqlite3.Connection, name: str, columns: tuple[str, ...], key: tuple[str, ...]
) -> TableChange:
    """Compare two tables of the same columns, row by row with the same key."""
    table = _name(name)
    joined = " AND ".join(f"o.{one} IS n.{one}" for one in key)
    differs = " OR ".join(f"o.{_name(one)} IS NOT n.{_name(one)}" for one in columns)
    # IS NOT calls 1 and 1.0 the same; a column's stored type can be all that changed.
    differs += "".join(f" OR typeof(o.{_name(one)}) <> typeof(n.{_name(one)})" for one in columns)
    queries = (
        (f"old.{table} o WHERE NOT EXISTS (SELECT 1 FROM main.{table} n WHERE {joined})", "o"),
        (f"main.{table} n WHERE NOT EXISTS (SELECT 1 FROM old.{table} o WHERE {joined})", "n"),
        (f"old.{table} o JOIN main.{table} n ON {joined} WHERE {differs}", "on"),
    )
    counts: list[int] = []
    rows: list[RowChange] = []
    for query, sides in queries:
        counts.append(_count(connection, query))
        if counts[-1] and len(rows) < ROWS:
            wanted = ", ".join(f"{sides[0]}.{one}" for one in key)
            wanted += "".join(f", {side}.{_name(one)}" for side in sides for one in columns)
            sql = f"SELECT {wanted} FROM {query} LIMIT {ROWS - len(rows)}"
            rows += [
                _row(row, len(key), old="o" in sides, new="n" in sides)
                for row in connection.execute(sql)
            ]
    removed, added, changed = counts
    return TableChange(
        name=name,
        added=added,
        removed=removed,
        changed=changed,
        columns=columns,
        rows=tuple(rows),
    )


def _count(connection: sqlite3.Connection, query: str) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {query}").fetchone()[0])


def _columns(
    connection: sqlite3.Connection, space: str, name: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return a table's columns, and what its rows are matched by, ready for a statement."""
    infos = connection.execute(f"PRAGMA {space}.table_xinfo({_name(name)})").fetchall()
    columns = tuple(str(info[1]) for info in infos if info[6] != 1)
    keys = sorted((int(info[5]), str(info[1])) for info in infos if info[5])
    if keys:
        return columns, tuple(_name(key) for _, key in keys)
    # A table without a primary key has a row id; a column of that name hides it.
    taken = {column.lower() for column in columns}
    free = next((one for one in ("rowid", "_rowid_", "oid") if one not in taken), None)
    return columns, (free,) if free else tuple(_name(column) for column in columns)


def _row(row: tuple[object, ...], keys: int, *, old: bool, new: bool) -> RowChange:
    values = tuple(_plain(value) for value in row)
    rest = values[keys:]
    width = len(rest) // (old + new)
    return RowChange(
        key=values[:keys],
        old=rest[:width] if old else None,
        new=rest[len(rest) - width :] if new else None,
    )


def _plain(value: object) -> Json:
    if isinstance(value, bytes):
        text = f"x'{value[: _VALUE // 2].hex()}'"
        return text if len(value) <= _VALUE // 2 else f"{text}… ({len(value):,} bytes)"
    if isinstance(value, str) and len(value) > _VALUE:
        return value[:_VALUE] + "…"
    if isinstance(value, float) and value - value != 0:
        return str(value)  # an infinity: JSON has none
    return value


def _name(name: str) -> str:
    """Return a name quoted for a statement."""
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def unused(real: Tree, paths: list[str]) -> Iterator[dict[str, str]]:
    """Hold real databases against other users while this lasts; yield those in use, and why.

    Locks the same bytes as SQLite does. Where the system grants leases (Linux, to a file's
    owner), a process that has the file open without a lock is found too.
    """
    busy: dict[str, str] = {}
    with ExitStack() as stack:
        for path in paths if fcntl is not None else ():
            for end in ("", "-shm"):
                state = real.lstat(path + end)
                if state is None or not stat.S_ISREG(state.st_mode):
                    continue
                at, name = real.at(path + end)
                try:
                    fd = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
                except OSError:
                    continue  # not ours to write to: whatever comes next says so
                stack.callback(os.close, fd)
                why = _in_use(fd, shm=bool(end))
                if why is not None:
                    busy[path + end] = why
        yield busy


def _in_use(fd: int, *, shm: bool) -> str | None:
    start, length = _SHM_LOCKS if shm else (_PENDING, _SHARED_END - _PENDING)
    # A database without a -shm is asked for a lease first: it fails where we hold a lock as well.
    if not shm and hasattr(fcntl, "F_SETLEASE"):
        try:
            # Who opens it meanwhile makes the system send a signal; this one is ignored.
            fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        except OSError as error:
            if error.errno == errno.EAGAIN:
                return "another process has this database open"
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, length, start)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return "another process is using this database"
    return None
