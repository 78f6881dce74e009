"""Copies for the tests: a plain one in a folder of its own, and a real one by overlayfs."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from lwm_agents.changes.compare import sort_key
from lwm_agents.changes.tree import Tree


class PlainCopied:
    """A whole copy of one folder in another (a `Copied`).

    `root` is the session's root below the folder; the rest of it is elsewhere.
    """

    splits_links = False

    def __init__(
        self, real: Path, copy: Path, *, root: str | None = None, database: str | None = None
    ) -> None:
        self._real = str(real)
        self.root = os.path.join(real, root) if root else self._real
        self._hidden: set[str] = set()
        self._broken: set[str] = set()
        self.database = database
        self.began_ns = time.time_ns()
        self._copy = str(copy)
        self._tree = Tree()
        self._began = dict(self._states())

    def touched(self) -> Iterator[str]:
        now = dict(self._states())
        found = {
            path for path in now.keys() | self._began if now.get(path) != self._began.get(path)
        }
        return iter(sorted(found - self._hidden, key=sort_key))

    def _states(self) -> Iterator[tuple[str, tuple[int, int]]]:
        for folder, folders, files in os.walk(self._copy):
            for path in (folder, *(os.path.join(folder, name) for name in (*folders, *files))):
                state = os.lstat(path)
                yield self._real + path[len(self._copy) :], (state.st_ino, state.st_ctime_ns)

    def hide(self, name: str) -> None:
        """Don't find a path any more."""
        self._hidden.add(os.path.join(self._real, name))

    def break_(self, name: str) -> None:
        """Let the disk fail where a path is read."""
        self._broken.add(os.path.join(self._real, name))

    def _there(self, path: str) -> str:
        if path != self._real and not path.startswith(self._real + "/"):
            return path  # above: there the copy is the real world
        return self._copy + path[len(self._real) :]

    def lstat(self, path: str) -> os.stat_result | None:
        return self._tree.lstat(self._there(path))

    def open(self, path: str) -> int:
        if path in self._broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return self._tree.open(self._there(path))

    def readlink(self, path: str) -> str:
        return self._tree.readlink(self._there(path))

    def xattrs(self, path: str) -> dict[str, bytes]:
        return self._tree.xattrs(self._there(path))


def copy_of(
    real: Path, copy: Path, *, root: str | None = None, database: str | None = None
) -> PlainCopied:
    """Copy a folder, with times, links, hard links and attributes, and wait for the clock."""
    subprocess.run(["cp", "-a", str(real), str(copy)], check=True)
    tick(max(*_ctimes(real), *_ctimes(copy)))
    copied = PlainCopied(real, copy, root=root, database=database)
    tick(copied.began_ns)
    return copied


def tick(after_ns: int) -> None:
    """Wait until the clock that stamps changes to files, which ticks slowly, is past a time."""
    with tempfile.NamedTemporaryFile() as file:
        while os.stat(file.name).st_ctime_ns <= after_ns:
            os.utime(file.name)


def _ctimes(top: Path) -> Iterator[int]:
    yield top.lstat().st_ctime_ns
    for path in top.rglob("*"):
        yield path.lstat().st_ctime_ns


def picture(top: Path, *, inodes: bool = False) -> dict[str, tuple[object, ...]]:
    """Return everything about a tree that a commit or an undo answers for."""
    found: dict[str, tuple[object, ...]] = {}
    groups: dict[tuple[int, int], str] = {}
    for folder, folders, files in os.walk(os.fsencode(top)):
        folders.sort()
        for name in [b".", *sorted([*folders, *files])]:
            path = os.path.join(folder, name)
            if name == b"." and folder != os.fsencode(top):
                continue
            state = os.lstat(path)
            content: object = None
            if stat.S_ISREG(state.st_mode):
                with open(path, "rb") as file:
                    content = hashlib.sha256(file.read()).hexdigest()
            elif stat.S_ISLNK(state.st_mode):
                content = os.readlink(path)
            attributes = {}
            with suppress(OSError):
                attributes = {
                    one: os.getxattr(path, one, follow_symlinks=False)
                    for one in os.listxattr(path, follow_symlinks=False)
                }
            is_file = not stat.S_ISDIR(state.st_mode)
            relative = os.fsdecode(os.path.relpath(path, os.fsencode(top)))
            first = groups.setdefault((state.st_dev, state.st_ino), relative) if is_file else None
            found[relative] = (
                state.st_mode, state.st_uid, state.st_gid, state.st_mtime_ns,
                state.st_size if is_file else None, state.st_nlink if is_file else None,
                first, content, attributes, state.st_ino if inodes and is_file else None,
            )  # fmt: skip
    return found


def session_folder(path: Path) -> str:
    path.mkdir(mode=0o700)
    return str(path)
