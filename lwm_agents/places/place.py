"""A Place is where a tool's code acts: the real one here, a throw-away copy elsewhere.

Tools hold the logic, a Place the access to the system: files below a root, a Bash command, a
connection to a database. So one implementation of each tool serves every place.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Mapping
from typing import Protocol, get_args, runtime_checkable

from lwm_agents.errors import Misuse, PromiseError
from lwm_agents.places.beneath import Beneath, Entry
from lwm_agents.places.commands import Commands, SupervisorError
from lwm_agents.places.process import BashProcess, Finished, short_environment
from lwm_agents.places.sqlite import Rows, database_path
from lwm_agents.places.statement import Statement, answer
from lwm_agents.places.threads import in_thread
from lwm_agents.values import Mode, Source


class CannotSay(Exception):
    """This place can't say what would happen; the text says why. The next world may."""


@runtime_checkable
class Place(Protocol):
    """Where a tool's code acts.

    Paths of files are relative to the root, or absolute and inside. The file operations block and
    raise OSError; `lwm_agents.places.beneath` says what they do. `cwd` is the shell's working
    directory, kept between calls.
    """

    cwd: str

    @property
    def source(self) -> Source:
        """What observations from here are labelled with."""
        ...

    @property
    def root(self) -> str:
        """The absolute path of the root, free of links."""
        ...

    @property
    def database(self) -> str | None:
        """The absolute path of the database file, if there is one."""
        ...

    def read(self, path: str) -> bytes:
        """Return the content of a regular file."""
        ...

    def entries(self, path: str) -> list[Entry]:
        """Return what a directory holds, sorted by name."""
        ...

    def write(self, path: str, content: bytes) -> None:
        """Make or replace a regular file in one step; missing directories are made."""
        ...

    def move(self, source: str, destination: str) -> None:
        """Rename, never over something that exists; missing directories are made."""
        ...

    def delete(self, path: str) -> None:
        """Remove a file, a link or an empty directory."""
        ...

    async def sql(self, statement: Statement) -> list[Rows]:
        """Run a statement in the database; `lwm_agents.places.statement.answer` says what it gives.

        Cancelling stops it and waits for its end.
        """
        ...

    async def bash(self, command: str, *, timeout: float) -> Finished:  # noqa: ASYNC109
        """Run a command in `cwd`, and set `cwd` to where it ended.

        `timeout` is in seconds. Raises OSError: FileNotFoundError where `cwd` is gone, NoBash.
        """
        ...

    def close(self) -> None:
        """Give back what is held open. May be called more than once."""
        ...


class RealPlace:
    """The real place: what is done here is done. No dry run can build one.

    Raises PromiseError in a dry run, and Misuse where the root is no directory or the database's
    URL is of no kind known here. `environment` adds variables to the few that commands are given.
    """

    source: Source = "executed"

    def __init__(
        self,
        root: str | os.PathLike[str],
        database: str | None,
        mode: Mode,
        *,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        if mode not in set(get_args(Mode)) - {"dry-run"}:
            raise PromiseError(f"in {mode} nothing real happens, so the real place can't be built")
        try:
            self._files = Beneath(os.fspath(root))
            self._files.entries(".")
        except OSError as error:
            raise Misuse(f"the root can't be used: {os.fspath(root)}: {error.strerror}") from error
        self.root = self._files.root
        self.cwd = self.root
        self.database = None if database is None else database_path(database, self.root)
        self._commands = Commands()
        self._environment = {**short_environment(os.environ), **(environment or {})}
        self.read = self._files.read
        self.entries = self._files.entries
        self.write = self._files.write
        self.move = self._files.move
        self.delete = self._files.delete

    async def sql(self, statement: Statement) -> list[Rows]:
        """Run a statement in the database of this place."""
        if self.database is None:
            raise Misuse("this session has no database; name one, such as sqlite:///shop.db")
        path, stopped = self.database, threading.Event()
        return await in_thread(lambda: answer(path, statement, stopped), stop=stopped.set)

    async def bash(self, command: str, *, timeout: float) -> Finished:  # noqa: ASYNC109
        """Run a command in `cwd` and set `cwd` to where it ended."""
        process = BashProcess(
            command,
            self._commands,
            cwd=self.cwd,
            environment=self._environment,
            timeout=timeout,
        )
        try:
            finished = await in_thread(process.run, stop=process.stop)
        except SupervisorError as failure:
            raise OSError(failure.errno or errno.EIO, str(failure)) from failure
        self.cwd = finished.cwd or self.cwd
        return finished

    def close(self) -> None:
        """Give back what is held open. May be called more than once.

        What commands left in the background goes on.
        """
        self._files.close()
        self._commands.close()
