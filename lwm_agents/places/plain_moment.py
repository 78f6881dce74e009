"""Copies an SQLite database as it is at one moment, while others may be writing it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import struct
import sys
import threading
import time
from contextlib import closing, suppress

from lwm_agents.places.place import CannotSay
from lwm_agents.places.plain_layer import Layer
from lwm_agents.places.plain_node import Node

COPY_TIME = 5.0
"""Seconds in which a database that others write must stay as it is for the time of a copy."""

SUFFIXES = ("", "-wal", "-journal", "-shm")
"""Of the names of a database's files, in the order in which they are copied: what is missing of a
file that is being written is in one copied after it."""

_HEADER = 100
"""Bytes at the start of a file that tell of a change: SQLite counts its transactions there."""

_RESERVED = 0x40000001
"""The byte that SQLite locks from the first write of a transaction (sqlite.org/lockingv3.html)."""


def database_files(layer: Layer, path: str) -> dict[str, Node]:
    """Return which of a database's files are there, by suffix."""
    found = {}
    for suffix in SUFFIXES:
        state = layer.lstat(path + suffix)
        if state is not None and stat.S_ISREG(state.st_mode):
            found[suffix] = layer.find(path + suffix)
    return found


def may(layer: Layer, node: Node, want: int) -> bool:
    """Return whether the caller may do this to a file or directory."""
    try:
        layer.check(node, want)
    except OSError:
        return False
    return True


def copy_at_once(layer: Layer, path: str, base: str, stopped: threading.Event) -> dict[str, Node]:
    """Copy a database's files to the content `base`; return those copied, by suffix.

    A transaction changes the header, the size or the time of one of the files, or makes or removes
    one. If none of that happened meanwhile the files go together; a transaction that was under way
    is in the journal or the log. What others are about to commit is undone in the copy, as those
    who read the real one don't see it. Raises CannotSay where no such copy can be had.
    """
    deadline = time.monotonic() + COPY_TIME
    main = layer.folder.file(base)
    while True:
        found = database_files(layer, path)
        with suppress(FileNotFoundError):
            for node in found.values():
                _check_readable(layer, node)
        before = {suffix: _signature(layer, node) for suffix, node in found.items()}
        for suffix in SUFFIXES:
            with suppress(FileNotFoundError):
                os.unlink(main + suffix)
        with suppress(FileNotFoundError):
            for suffix, node in found.items():
                _copy_file(layer, node, main + suffix)
            writing = _being_written(layer, found.get(""))
            found = database_files(layer, path)
            if before == {suffix: _signature(layer, node) for suffix, node in found.items()}:
                if writing is True:
                    _undo(main)
                    return {key: node for key, node in found.items() if key != "-journal"}
                if writing is False or not _has_journal(main):
                    return found
        if stopped.wait(0.01) or time.monotonic() > deadline:
            raise CannotSay(f"no consistent copy can be had of a database being written: {path}")


def _check_readable(layer: Layer, node: Node) -> None:
    try:
        layer.check(node, os.R_OK)
    except PermissionError as error:
        raise CannotSay(f"a file of the database can't be read: {node.real}") from error


def _signature(layer: Layer, node: Node) -> tuple[object, ...] | None:
    try:
        fd = layer.open(node)
    except FileNotFoundError:
        return None
    with os.fdopen(fd, "rb") as file:
        state = os.fstat(fd)
        header = file.read(_HEADER)
    return state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns, header


def _copy_file(layer: Layer, node: Node, target: str) -> None:
    with os.fdopen(layer.open(node), "rb") as source, open(target, "xb") as file:
        state = os.fstat(source.fileno())
        shutil.copyfileobj(source, file, 1024 * 1024)
    os.chmod(target, 0o600)
    os.utime(target, ns=(state.st_mtime_ns, state.st_mtime_ns))


def _has_journal(main: str) -> bool:
    """Return whether SQLite would undo a transaction: a journal that is done with begins with 0."""
    try:
        with open(f"{main}-journal", "rb") as journal:
            return journal.read(1) not in {b"", b"\0"}
    except FileNotFoundError:
        return False


def _being_written(layer: Layer, database: Node | None) -> bool | None:
    """Return whether someone is in a transaction that writes, None where the system can't tell.

    If so, a journal is theirs, else it was left by a process that died. To ask takes no lock.
    """
    if database is None or database.content is not None:
        return False  # nobody else knows the copy
    with os.fdopen(layer.open(database), "rb") as file:
        return _locked(file.fileno(), _RESERVED)


def _locked(fd: int, byte: int) -> bool | None:
    """Return whether another process holds a lock on a byte of a file, None where unknown."""
    if sys.platform == "linux":
        import fcntl

        # struct flock: type, whence, start, length, process
        asked = struct.pack("hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
        kind = struct.unpack("hhqqi0q", fcntl.fcntl(fd, fcntl.F_GETLK, asked))[0]
        return bool(kind != fcntl.F_UNLCK)
    if sys.platform == "darwin":
        import fcntl

        # struct flock: start, length, process, type, whence
        asked = struct.pack("qqihh", byte, 1, 0, fcntl.F_WRLCK, os.SEEK_SET)
        kind = struct.unpack("qqihh", fcntl.fcntl(fd, fcntl.F_GETLK, asked))[3]
        return bool(kind != fcntl.F_UNLCK)
    return None


def _undo(main: str) -> None:
    """Have SQLite undo what the journal of a copied database says, and remove it."""
    state = os.lstat(main)
    connecting = closing(sqlite3.connect(main, isolation_level=None))
    with connecting as connection, suppress(sqlite3.Error):  # the tool's own statement will say it
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    with suppress(FileNotFoundError):
        os.unlink(f"{main}-journal")  # where there was nothing to undo yet
    os.utime(main, ns=(state.st_mtime_ns, state.st_mtime_ns))
