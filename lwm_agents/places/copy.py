"""A throw-away copy of the whole file system, where tools act and nothing real changes (Linux).

One supervisor holds the copy: namespaces, and an overlay over every mount (see `mounts`). What is
changed lies in the session's folder, and stays there when the copy closes: another process can take
it up again, show it, or commit it. Nothing else stays: no process, no mount.
"""

from __future__ import annotations

import errno
import json
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lwm_agents.errors import Misuse
from lwm_agents.places.beneath import Beneath, Entry
from lwm_agents.places.commands import Commands, SupervisorError
from lwm_agents.places.hidden import hidden_paths
from lwm_agents.places.network import HIDDEN
from lwm_agents.places.place import CannotSay
from lwm_agents.places.process import BashProcess, Control, Finished, pipe, short_environment
from lwm_agents.places.sqlite import Rows, SqlError, database_path
from lwm_agents.places.statement import Statement, unpacked
from lwm_agents.places.threads import in_thread
from lwm_agents.values import Source

STATE = "copy.json"
LAYER = "layer"

_MISLED = (
    (os.strerror(errno.EOVERFLOW), "it writes where a folder belongs to another user"),
    (os.strerror(errno.EXDEV), "it renames a folder that was there before"),
    ("GIT_DISCOVERY_ACROSS_FILESYSTEM", "it sees a disk of its own in each folder at the top"),
    ("hardlink different from source", "it looks at hard links that were there before"),
    (r"\bch(?:own|grp): .*: Invalid argument", "it gives a file to another user"),
    (r"\b(?:nobody|nogroup|65534)\b", "it shows the owner of what belongs to another user"),
)
"""What a program says that is misled by a copy made without root, and what misled it."""


@dataclass(frozen=True)
class Limits:
    """What all that runs in a copy may use. `memory` and `disk` are bytes for one command."""

    processes: int = 2048
    memory: int = 4 << 30
    disk: int = 10 << 30


@dataclass
class CopyState:
    """What is written down of a copy, so that another process can go on with it.

    `unsaid` is why each command that began here could not be rehearsed to its end.
    """

    root: str
    database: str | None
    began_ns: int
    cwd: str
    layers: dict[str, str]
    prepared: list[str]
    unsaid: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, folder: Path) -> CopyState | None:
        """Return what is written down in a session's folder, None where nothing is."""
        try:
            return cls(**json.loads((folder / STATE).read_bytes()))
        except FileNotFoundError:
            return None

    def write(self, folder: Path) -> None:
        """Write it down, in one step."""
        beside = folder / f"{STATE}.new"
        beside.write_text(json.dumps(asdict(self)))
        beside.replace(folder / STATE)


class CopyPlace:
    """The whole file system, copy on write: files, Bash and SQLite at the same paths.

    `folder` is the session's own; where it holds a copy already, that one goes on. `own` are files
    of ours that nobody inside shall see. Raises Misuse where the root is no directory, and
    SupervisorError where this system can't have a copy; then nothing has run.
    """

    source: Source = "rehearsed"

    def __init__(
        self,
        root: str | os.PathLike[str],
        database: str | None,
        folder: str | os.PathLike[str],
        *,
        own: tuple[str | os.PathLike[str], ...] = (),
        limits: Limits = Limits(),
        environment: Mapping[str, str] | None = None,
        fail_at: int = 0,
    ) -> None:
        if sys.platform != "linux":
            raise SupervisorError(f"namespaces are Linux's; this is {sys.platform}")
        self.folder = Path(folder).absolute()
        layer = self.folder / LAYER
        layer.mkdir(mode=0o700, parents=True, exist_ok=True)
        real = os.path.realpath(root)
        if not os.path.isdir(real):
            raise Misuse(f"the root is no directory: {real}")
        known = CopyState.read(self.folder)
        self._limits = limits
        self._environment = {**short_environment(os.environ), **(environment or {})}
        self.hidden: list[str] = []
        self._secret_names: set[str] = set()
        self._commands = Commands(
            lambda: {
                "layer": str(layer),
                "layers": {} if known is None else known.layers,
                "hidden": self._hide(own),
                "processes": limits.processes,
                "ways": _ways(real, self._environment),
                "counted": os.stat(real).st_nlink > 1,
                "fail_at": fail_at,
            }
        )
        ready, self.root_fd = self._commands.start()
        assert self.root_fd is not None
        try:
            self._files = Beneath(real, of=self.root_fd)
        except OSError as error:
            self.close()
            raise SupervisorError(f"the root is not in the copy: {real}: {error}") from error
        self._state = known or CopyState(
            root=real,
            database=None if database is None else database_path(database, real),
            began_ns=time.time_ns(),
            cwd=real,
            layers=ready["layers"],
            prepared=ready["prepared"],
        )
        self._state.layers = ready["layers"]
        self.without_root = not ready["privileged"]
        self._state.write(self.folder)

    def _hide(self, own: tuple[str | os.PathLike[str], ...]) -> list[str]:
        named = hidden_paths([self.folder.parent, *own], self._environment.get("HOME"))
        self.hidden = [*dict.fromkeys(os.path.realpath(path) for path in named)]
        homes = (self._environment.get("HOME", ""), os.path.expanduser("~"))
        self._secret_names = {*self.hidden} | {
            os.path.relpath(path, home)
            for path in self.hidden
            for home in homes
            if home not in {"", "/"} and _is_at_or_below(path, home)
        }
        return self.hidden

    @property
    def root(self) -> str:
        """The absolute path of the root, free of links."""
        return self._state.root

    @property
    def database(self) -> str | None:
        """The absolute path of the database file, if there is one."""
        return self._state.database

    @property
    def began_ns(self) -> int:
        """When the copy was first made, in nanoseconds since the epoch."""
        return self._state.began_ns

    @property
    def layers(self) -> dict[str, str]:
        """Which folder holds what was changed below which absolute path."""
        layer = self.folder / LAYER
        return {path: str(layer / upper) for path, upper in self._state.layers.items()}

    @property
    def prepared(self) -> list[str]:
        """Directories in the layers whose owner and mode are no change: made beforehand."""
        return [*self._state.prepared, *(self._state.layers if self.without_root else ())]

    @property
    def cwd(self) -> str:
        """The shell's working directory."""
        return self._state.cwd

    @cwd.setter
    def cwd(self, cwd: str) -> None:
        if cwd != self._state.cwd:
            self._state.cwd = cwd
            self._state.write(self.folder)

    def read(self, path: str) -> bytes:
        """Return the content of a regular file; see `Beneath.read`."""
        with self._able(path):
            return self._files.read(path)

    def entries(self, path: str) -> list[Entry]:
        """Return what a directory holds, sorted by name."""
        with self._able(path):
            return self._files.entries(path)

    def write(self, path: str, content: bytes) -> None:
        """Make or replace a regular file; see `Beneath.write`."""
        with self._able(path):
            self._files.write(path, content)

    def move(self, source: str, destination: str) -> None:
        """Rename, never over something that exists; see `Beneath.move`."""
        with self._able(source, destination, follow=False):
            self._files.move(source, destination)

    def delete(self, path: str) -> None:
        """Remove a file, a link or an empty directory."""
        with self._able(path, follow=False):
            self._files.delete(path)

    @contextmanager
    def _able(self, *paths: str, follow: bool = True) -> Iterator[None]:
        """Raise CannotSay for what only a copy hides, or only one made without root hinders."""
        for path in paths:
            with suppress(OSError):
                plain = self._files.plain(path, follow=follow)
                if any(_is_at_or_below(plain, one) for one in self.hidden) or (
                    not follow and any(_is_at_or_below(one, plain) for one in self.hidden)
                ):
                    raise CannotSay(f"a copy hides secrets such as {path}")
        try:
            yield
        except OSError as error:
            if self.without_root and error.errno in {errno.EXDEV, errno.EOVERFLOW}:
                raise CannotSay(f"a copy made without root can't do that: {error}") from error
            raise

    async def bash(self, command: str, *, timeout: float) -> Finished:  # noqa: ASYNC109
        """Run a command in `cwd` and set `cwd` to where it ended.

        Raises CannotSay where the result hangs on what a copy does not have.
        """
        process = BashProcess(
            command,
            self._commands,
            cwd=self.cwd,
            environment=self._environment,
            timeout=timeout,
            limits={
                "memory": self._limits.memory,
                "disk": self._limits.disk,
                "disk_at": self.root,
                "processes": self._limits.processes,
            },
        )
        try:
            finished = await in_thread(process.run, stop=process.stop)
        except BlockingIOError as full:
            raise CannotSay("over the limit of processes of a rehearsal") from full
        self.cwd = finished.cwd or self.cwd
        reason = self._unlike(command, finished)
        if reason is not None:
            self._state.unsaid.append(reason)
            self._state.write(self.folder)
            raise CannotSay(reason)
        return finished

    def _unlike(self, command: str, finished: Finished) -> str | None:
        """Return why a command's end here says nothing of its end for real, if so."""
        if denied := self._commands.denied():
            if denied == [HIDDEN]:
                return f"denied: {HIDDEN}"
            return f"denied: network ({', '.join(denied)})"
        if finished.over is not None:
            return f"ended: over the limit of {finished.over} of a rehearsal"
        if finished.exit_code is None and not (finished.timed_out or finished.truncated):
            return "ended from outside"
        if self.without_root and (misled := _misled(finished.output)):
            return f"{misled}, which a copy made without root can't show as it is"
        text = os.fsencode(command) + b"\n" + finished.output
        named = [one for one in self._secret_names if os.fsencode(one) in text]
        return f"denied: {HIDDEN} ({', '.join(named)})" if named else None

    async def sql(self, statement: Statement) -> list[Rows]:
        """Run a statement in the database, inside the copy."""
        if self.database is None:
            raise Misuse("this session has no database; name one, such as sqlite:///shop.db")
        control = Control()
        reply = await in_thread(lambda: self._sql(statement, control), stop=control.stop)
        if "missing" in reply:
            raise FileNotFoundError(reply["missing"])
        if "tables" not in reply:
            raise SqlError(reply.get("error", "the statement was ended from outside"))
        return unpacked(reply["tables"])

    def _sql(self, statement: Statement, control: Control) -> dict[str, Any]:
        with ExitStack() as ours:
            with ExitStack() as theirs:
                output, output_end = pipe(ours, theirs)
                _, status_end = pipe(ours, theirs)
                control_end, write_end = pipe(theirs, ours)
                request = {
                    "sql": asdict(statement),
                    "path": self.database,
                    "memory": self._limits.memory,
                }
                self._commands.send(request, [control_end, status_end, output_end])
            with control.of(write_end):
                pieces = []
                while piece := os.read(output, 1 << 20):
                    pieces.append(piece)
        body = b"".join(pieces)
        answer: dict[str, Any] = json.loads(body) if body else {}
        return answer

    def close(self) -> None:
        """End all that runs in the copy. What it changed stays in the folder."""
        if getattr(self, "_files", None) is not None:
            self._files.close()
        if self.root_fd is not None:
            os.close(self.root_fd)
            self.root_fd = None
        self._commands.close()


def _is_at_or_below(path: str, top: str) -> bool:
    return path == top or path.startswith(top.rstrip("/") + "/")


def _misled(output: bytes) -> str | None:
    """Return what misled a program in a copy made without root, if its output shows that."""
    for said, what in _MISLED:
        if re.search(os.fsencode(said), output):
            return what
    return None


def _ways(root: str, environment: Mapping[str, str]) -> list[str]:
    """Return the directories in which a session is likely to write."""
    named = [root, environment.get("HOME", "/"), environment.get("TMPDIR", "/tmp")]
    return [os.path.realpath(path) for path in named if os.path.isdir(path)]
