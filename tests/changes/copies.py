"""Copies for the tests: a plain one in a folder of its own, and a real one by overlayfs."""

from __future__ import annotations

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
    """A whole copy of one folder in another (a `Copied`): everything may differ."""

    def __init__(self, real: Path, copy: Path, *, database: str | None = None) -> None:
        self.root = str(real)
        self.database = database
        self.began_ns = time.time_ns()
        self._copy = str(copy)
        self._tree = Tree()

    def touched(self) -> Iterator[str]:
        found = set()
        for top in (self.root, self._copy):
            found.add(self.root)
            for folder, folders, files in os.walk(top):
                for name in (*folders, *files):
                    found.add(self.root + os.path.join(folder, name)[len(top) :])
        return iter(sorted(found, key=sort_key))

    def _there(self, path: str) -> str:
        assert path == self.root or path.startswith(self.root + "/"), path
        return self._copy + path[len(self.root) :]

    def lstat(self, path: str) -> os.stat_result | None:
        return self._tree.lstat(self._there(path))

    def open(self, path: str) -> int:
        return self._tree.open(self._there(path))

    def readlink(self, path: str) -> str:
        return self._tree.readlink(self._there(path))

    def xattrs(self, path: str) -> dict[str, bytes]:
        return self._tree.xattrs(self._there(path))


def copy_of(real: Path, copy: Path, *, database: str | None = None) -> PlainCopied:
    """Copy a folder, with times, links, hard links and attributes, and wait for the clock."""
    subprocess.run(["cp", "-a", str(real), str(copy)], check=True)
    tick(max(_ctimes(real)))
    copied = PlainCopied(real, copy, database=database)
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
