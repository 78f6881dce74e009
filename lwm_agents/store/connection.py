"""One SQLite file: opened safely, locked politely, one clear error for each way it can fail."""

from __future__ import annotations

import errno
import os
import random
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from lwm_agents.errors import (
    Misuse,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreTooNew,
)
from lwm_agents.store.schema import APPLICATION_ID, MIGRATIONS, migrate, version_of

_BUSY_MS = 1000
"""How long SQLite itself waits for a lock before we look at the clock and try again."""

_FULL = frozenset({
    sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE,
    sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_TRUNCATE,
})  # fmt: skip
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})


class Connection:
    """An open log. `path` is None for one in memory.

    Any thread may use it, one at a time. Waits up to `patience` seconds for other processes.
    """

    def __init__(self, path: Path | None, *, patience: float = 60.0) -> None:
        self.path = path
        self._patience = patience
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._open: sqlite3.Connection | None = None
        if path is not None:
            _create(path)
        self._open = self._connect()

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """Lend the connection within one read transaction: all is seen as of one moment."""
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def write(self, *, durable: bool = False) -> Iterator[sqlite3.Connection]:
        """Lend the connection within one write transaction, committed at the end.

        Rolled back where the block raises. What was committed survives the end of the process;
        with `durable`, also a loss of power.
        """
        with self._transaction("BEGIN IMMEDIATE", durable=durable) as connection:
            yield connection

    def rewrite(self) -> None:
        """Write the file anew without what was deleted, and empty the write-ahead log.

        Raises StoreBusy where another process reads what was there before for too long.
        """
        with self._lock, self._in_words():
            connection = self._connection()
            self._retry(connection, "VACUUM")
            deadline = time.monotonic() + self._patience
            while connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                if time.monotonic() > deadline:
                    raise StoreBusy(
                        f"deleted, but another process still reads the old text in {self.path}; "
                        "end it and delete again, any session, to clear the file"
                    )
                time.sleep(random.uniform(0.001, 0.05))

    def close(self) -> None:
        """Close the file. May be called more than once."""
        with self._lock:
            if self._open is not None and os.getpid() == self._process:
                self._open.close()
            self._open = None

    def _connection(self) -> sqlite3.Connection:
        if self._open is None:
            raise Misuse("this store is closed; open a new one")
        if os.getpid() != self._process:
            # SQLite's locks and memory are not inherited soundly.
            raise Misuse("a store can't be used after a fork; open one in each process")
        return self._open

    @contextmanager
    def _transaction(self, begin: str, *, durable: bool = False) -> Iterator[sqlite3.Connection]:
        with self._lock, self._in_words():
            connection = self._connection()
            if durable:
                connection.execute("PRAGMA synchronous = FULL")
            try:
                self._retry(connection, begin)
                yield connection
                connection.execute("COMMIT")
            finally:
                # A full disk may have rolled back already; one that can't be rolled back is lost
                # with the connection, and the file is sound either way.
                if connection.in_transaction:
                    with suppress(sqlite3.Error):
                        connection.execute("ROLLBACK")
                if durable:
                    connection.execute("PRAGMA synchronous = NORMAL")

    def _retry(self, connection: sqlite3.Connection, statement: str) -> None:
        """Run a statement, again while the file is locked, until patience ends."""
        deadline = time.monotonic() + self._patience
        while True:
            try:
                connection.execute(statement)
            except sqlite3.OperationalError as problem:
                if not _is(problem, _BUSY) or time.monotonic() > deadline:
                    raise
                time.sleep(random.uniform(0.001, 0.05))
            else:
                return

    def _connect(self) -> sqlite3.Connection:
        with self._in_words():
            # mode=rw: SQLite must not make a file that _create did not.
            uri = None if self.path is None else f"{self.path.absolute().as_uri()}?mode=rw"
            connection = sqlite3.connect(
                uri or ":memory:",
                uri=uri is not None,
                timeout=_BUSY_MS / 1000,
                isolation_level=None,
                check_same_thread=False,
            )
            try:
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
            return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        deadline = time.monotonic() + self._patience
        while True:
            try:
                self._check_and_migrate(connection)
            except sqlite3.OperationalError as problem:
                if not _is(problem, _BUSY) or time.monotonic() > deadline:
                    raise
                time.sleep(random.uniform(0.001, 0.05))
            else:
                return

    def _check_and_migrate(self, connection: sqlite3.Connection) -> None:
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        # Before anything is written: it may be somebody else's database.
        if tables and application != APPLICATION_ID:
            raise StoreCorrupt(
                f"{self.path} is a SQLite database but no log of lwm-agents; it was left as it is. "
                "Name another file with --store or LWM_STORE"
            )
        version = version_of(connection)
        if version > len(MIGRATIONS):
            raise StoreTooNew(
                f"{self.path} was written by a newer lwm-agents (schema {version}; this one knows "
                f"up to {len(MIGRATIONS)}). Upgrade with `pip install -U lwm-agents`, or "
                "name another file with --store or LWM_STORE"
            )
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as problem:
            # A file that can't be written can still be read; the first write says so.
            if not _is(problem, {sqlite3.SQLITE_READONLY}) or version == 0:
                raise
        for pragma in (
            "synchronous = NORMAL",
            # On macOS fsync does not reach the disk without it; elsewhere it means nothing.
            "fullfsync = ON",
            "cache_size = -32000",  # 32 MB
            # Four times the default: each checkpoint waits for the disk, twice.
            "wal_autocheckpoint = 4000",  # pages; 16 MB
            f"journal_size_limit = {64 << 20}",
        ):
            connection.execute(f"PRAGMA {pragma}")
        if version < len(MIGRATIONS):
            migrate(connection)

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as problem:
            _raise(problem, self.path)
        except UnicodeDecodeError as problem:
            raise _corrupt(self.path, str(problem)) from problem
        except OverflowError as problem:  # More than 2 GB never reach SQLite.
            raise _too_large(self.path) from problem


def _create(path: Path) -> None:
    """Create an empty file that only its owner can read, in a folder alike, unless it exists."""
    try:
        if path.is_dir():
            raise StoreError(f"{path} is a folder; name a file in it, such as {path / 'lwm.db'}")
        if not path.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # SQLite gives the -wal and -shm files the same mode.
            with suppress(FileExistsError):
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
                _sync(path.parent)
    except PermissionError as problem:
        raise _read_only(path, str(problem.strerror)) from problem
    except OSError as problem:
        if problem.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", None)):
            raise _full(path, str(problem.strerror)) from problem
        if problem.errno == errno.EROFS:
            raise _read_only(path, str(problem.strerror)) from problem
        raise StoreError(f"can't create the log {path}: {problem.strerror}") from problem


def _sync(folder: Path) -> None:
    """Make the folder's new entry survive a loss of power, where folders can be opened."""
    if os.name == "posix":
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def _is(problem: sqlite3.Error, codes: set[int] | frozenset[int]) -> bool:
    """Say whether an error is one of these, by its extended code or by its primary one."""
    code = getattr(problem, "sqlite_errorcode", 0)
    return code in codes or code & 0xFF in codes


def _raise(problem: sqlite3.Error, path: Path | None) -> NoReturn:
    said = str(problem)
    if _is(problem, _FULL):
        raise _full(path, said) from problem
    if _is(problem, {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}):
        raise _read_only(path, said) from problem
    if _is(problem, {sqlite3.SQLITE_CANTOPEN}):
        # The file is there, or _create would have said so: its -wal or -shm can't be made.
        raise _read_only(path, said) from problem
    if _is(problem, _BUSY):
        raise StoreBusy(
            f"another process keeps the log {path} locked; wait for it or end it, and try again"
        ) from problem
    if _is(problem, {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT}):
        raise _corrupt(path, said) from problem
    if _is(problem, {sqlite3.SQLITE_TOOBIG}) or isinstance(problem, sqlite3.DataError):
        raise _too_large(path) from problem
    if said.startswith(("no such table", "no such column", "Could not decode")):
        raise _corrupt(path, said) from problem
    raise StoreError(f"the log {path} could not be used: {said}") from problem


def _too_large(path: Path | None) -> StoreError:
    return StoreError(f"too large for the log {path}: one value may have 1 GB")


def _full(path: Path | None, said: str) -> StoreFull:
    return StoreFull(
        f"no room to write the log {path} ({said}): the disk or a quota is full. What was logged "
        "before is safe; make room, or name another file with --store or LWM_STORE"
    )


def _read_only(path: Path | None, said: str) -> StoreReadOnly:
    return StoreReadOnly(
        f"can't write the log {path} ({said}): make the file and its folder writable, "
        "or name another file with --store or LWM_STORE"
    )


def _corrupt(path: Path | None, said: str) -> StoreCorrupt:
    return StoreCorrupt(
        f"{path} is no sound log ({said}). It was left as it is: keep it, try `sqlite3 {path} "
        "'.recover'` to save what can be read, and name another file with --store or LWM_STORE"
    )
