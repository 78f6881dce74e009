"""What a commit is about to do, written down before it is done, so that it can't stay half done.

A file of JSON lines in the session's folder: the header, the plan, then one line for each state
that was reached. A line counts once its line feed is there. Everything new is staged before
`planned` is written; from then on a crash is finished, before it is undone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from filelock import BaseFileLock, FileLock, Timeout

from lwm_agents.changes.content import sync_file_system
from lwm_agents.errors import ChangesError
from lwm_agents.values import Json

JOURNAL = "commit.jsonl"
RESERVE = "commit.reserve"
COMMIT_LOCK = "commit.lock"
RUNNING_LOCK = "running.lock"
"""Held for as long as the session runs: `discard` refuses meanwhile."""

FORMAT = 1

Reached = Literal["staging", "planned", "done", "undoing"]
"""How far a commit came.

staging  nothing real was touched yet
planned  everything new is staged; the steps are being taken
done     all steps were taken
undoing  the steps are being taken back
"""


class Meta(NamedTuple):
    """What a path has besides its content. Times in nanoseconds, attributes in hexadecimal."""

    mode: int
    owner: int
    group: int
    accessed_ns: int
    modified_ns: int
    xattrs: dict[str, str]


class Entry(NamedTuple):
    """A path, no folder, that is replaced, added or deleted.

    `old` and `new` are inodes, None where there is nothing; `stage` says in which stage its new
    content and its old one lie, as `n` and `o` with `number`. `old_changed_ns` is the old one's
    ctime when it was checked.
    """

    path: str
    stage: int
    number: int
    old: int | None
    old_changed_ns: int | None
    new: int | None


class Folder(NamedTuple):
    """A folder that is made, removed, or gets other metadata."""

    path: str
    old: Meta | None
    new: Meta | None


class InPlace(NamedTuple):
    """A path, no folder, of which only metadata changes."""

    path: str
    inode: int
    old: Meta
    new: Meta


class Stage(NamedTuple):
    """A folder of ours on one mount, where new files wait and old ones are kept.

    `host_modified_ns` is the time of last change of the folder it lies in, to be given back.
    """

    path: str
    host_modified_ns: int


class Seen(NamedTuple):
    """How a path was left: inode and ctime, or None for no file there."""

    path: str
    inode: int | None
    changed_ns: int | None


@dataclass
class Plan:
    """All that one commit does. `was_done`: what is being taken back is a whole commit."""

    stages: list[Stage] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    folders: list[Folder] = field(default_factory=list)
    in_place: list[InPlace] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    reached: Reached = "staging"
    was_done: bool = False


class Journal:
    """The journal file of one commit, open for adding to it."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
        self._fd = os.open(os.path.join(folder, JOURNAL), flags, 0o600)

    def close(self) -> None:
        """Close the file. May be called more than once."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def begin(self, stages: list[Stage]) -> None:
        """Write the header: what is staged can be found and removed from now on."""
        self._add({"format": FORMAT, "stages": stages})
        # What is in the session's folder is removed with it, whatever the journal says.
        if any(os.path.dirname(stage.path) != self._folder for stage in stages):
            os.fsync(self._fd)
            _sync_folder(self._folder)

    def plan(self, plan: Plan) -> None:
        """Write the plan, and room on the disk for what has to be written after it."""
        self._add({"entries": plan.entries, "folders": plan.folders, "in_place": plan.in_place})
        count = len(plan.entries) + len(plan.folders) + len(plan.in_place)
        paths = sum(len(entry.path) for entry in plan.entries)
        size = 4096 + 80 * count + 6 * paths
        with open(os.path.join(self._folder, RESERVE), "wb") as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
            else:
                file.write(b"\0" * size)

    def reach(self, reached: Reached, seen: list[Seen] | None = None) -> None:
        """Write durably that a state was reached.

        What came before must be durable already. For `done` and `undoing` the file system the
        journal lies on may be left out: it is synced as a whole, its own order being kept.
        """
        if reached != "planned":
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(self._folder, RESERVE))
        self._add({"reached": reached, **({"seen": seen} if seen is not None else {})})
        if reached == "planned":
            os.fsync(self._fd)
        else:
            sync_file_system(self._fd)

    @property
    def device(self) -> int:
        """The file system the session's folder lies on."""
        return os.fstat(self._fd).st_dev

    def sync(self) -> None:
        """Make the whole file system the session's folder lies on durable."""
        sync_file_system(self._fd)

    def _add(self, line: dict[str, Json]) -> None:
        data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        done = 0
        while done < len(data):
            done += os.write(self._fd, data[done:])


def read(folder: str) -> Plan | None:
    """Return the plan of the commit in a session's folder and how far it came.

    None: there was none. Raises ChangesError where the journal is of a newer version.
    """
    try:
        with open(os.path.join(folder, JOURNAL), "rb") as file:
            lines = file.read().split(b"\n")[:-1]  # a last line without its end does not count
    except FileNotFoundError:
        return None
    plan = Plan()
    for text in lines:
        line = json.loads(text)
        if "format" in line:
            if line["format"] != FORMAT:
                raise ChangesError("the commit was written by a newer version of this package")
            plan.stages = [Stage(*one) for one in line["stages"]]
        elif "entries" in line:
            plan.entries = [Entry(*one) for one in line["entries"]]
            plan.folders = [Folder(one[0], _meta(one[1]), _meta(one[2])) for one in line["folders"]]
            plan.in_place = [
                InPlace(one[0], one[1], Meta(*one[2]), Meta(*one[3])) for one in line["in_place"]
            ]
        else:
            plan.reached = line["reached"]
            plan.was_done = plan.was_done or plan.reached == "done"
            plan.seen = [Seen(*one) for one in line.get("seen", plan.seen)]
    return plan


def _meta(values: list[Json] | None) -> Meta | None:
    return None if values is None else Meta(*values)


def remove(folder: str) -> None:
    """Remove the journal: the commit it was about has left nothing behind."""
    for name in (RESERVE, JOURNAL):
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, name))
    _sync_folder(folder)


def _sync_folder(folder: str) -> None:
    if os.name == "nt":
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def locked(folder: str) -> Iterator[None]:
    """Keep other processes from committing, undoing or discarding the same session meanwhile.

    Raises ChangesError where one is at it.
    """
    lock = _hold(folder, COMMIT_LOCK, "another process is committing, undoing or discarding it")
    try:
        yield
    finally:
        lock.release()


def running(folder: str) -> BaseFileLock:
    """Take the lock that says the session runs; release it when the session ends.

    Raises ChangesError where it is held: the session runs already.
    """
    return _hold(folder, RUNNING_LOCK, "the session still runs")


def _hold(folder: str, name: str, why: str) -> BaseFileLock:
    lock = FileLock(os.path.join(folder, name), timeout=0, mode=0o600, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        raise ChangesError(f"{folder}: {why}") from None
    return lock
