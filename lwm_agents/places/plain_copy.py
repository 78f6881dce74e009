"""A copy of the world in pure Python, for where the system has no namespaces: files and SQLite.

What a file tool or a database tool does here it does in a layer over the real files, with the
results it would have for real. Commands can't be kept to such a layer, so `bash` can't say.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from lwm_agents.errors import Misuse
from lwm_agents.places.beneath import (
    HAS_DESCRIPTORS,
    Entry,
    check_regular,
    read_whole,
)
from lwm_agents.places.paths import Refused, resolved
from lwm_agents.places.place import CannotSay
from lwm_agents.places.plain_database import laid_out
from lwm_agents.places.plain_folder import Folder
from lwm_agents.places.plain_layer import Layer, failure
from lwm_agents.places.plain_node import Node
from lwm_agents.places.plain_real import RealFiles
from lwm_agents.places.plain_touched import touched
from lwm_agents.places.process import Finished
from lwm_agents.places.sqlite import Rows, database_path
from lwm_agents.places.statement import Statement, answer
from lwm_agents.places.threads import in_thread
from lwm_agents.values import Source


class PlainCopy:
    """A copy-on-write copy of the files below a root and of one SQLite database.

    The real files are read and never changed. What differs lies in the folder, after each call: a
    later process that opens the same folder goes on from there. Where something can't be known
    without changing what is real, CannotSay is raised. `hidden` are absolute paths that may be
    neither seen nor changed, with all that is below them: permission is denied.

    Raises Misuse where the root is no directory, the database's URL is of no kind known here, or
    the folder holds a copy of something else.
    """

    source: Source = "rehearsed"
    splits_links = False

    def __init__(
        self,
        root: str | os.PathLike[str],
        database: str | None,
        folder: str | os.PathLike[str],
        *,
        hidden: Iterable[str] = (),
        descriptors: bool = HAS_DESCRIPTORS,
    ) -> None:
        try:
            self._real = RealFiles(os.fspath(root), hidden=hidden, descriptors=descriptors)
            self._real.entries(self._real.root)
        except OSError as error:
            raise Misuse(f"the root can't be used: {os.fspath(root)}: {error.strerror}") from error
        self.root = self._real.root
        self.cwd = self.root
        self.database = None if database is None else database_path(database, self.root)
        kept = Folder(os.path.abspath(folder), self.root, self.database)
        self._layer = Layer(self._real, kept)
        self.began_ns = kept.began_ns
        """When the copy was begun, in ns since 1970."""
        self._lock = threading.RLock()
        self._longest = os.pathconf(self.root, "PC_PATH_MAX") if hasattr(os, "pathconf") else 0

    def read(self, path: str) -> bytes:
        """Return the content of a regular file."""
        with self._lock:
            node = self._layer.find(self._path(path))
            check_regular(self._layer.stat(node))
            self._layer.check(node, os.R_OK)
            fd = self._layer.open(node)
        return read_whole(fd)

    def entries(self, path: str) -> list[Entry]:
        """Return what a directory holds, sorted by name."""
        with self._lock:
            node = self._layer.find(self._path(path))
            if not stat.S_ISDIR(self._layer.stat(node).st_mode):
                raise failure(errno.ENOTDIR)
            self._layer.check(node, os.R_OK)
            return self._layer.entries(node)

    def write(self, path: str, content: bytes) -> None:
        """Make or replace a regular file in one step; missing directories are made."""
        with self._changing():
            where = self._path(path)
            self._make_above(where)
            old = self._layer.lstat(where)
            if old is not None:
                check_regular(old)
                self._layer.check(self._layer.find(where), os.W_OK)
            above = self._layer.find(os.path.dirname(where))
            self._layer.check(above, os.W_OK | os.X_OK)
            if old is not None:
                self._check_removable(where)
            self._layer.set(where, self._layer.new_file(content, old, above))

    def move(self, source: str, destination: str) -> None:
        """Rename, never over something that exists; missing directories are made."""
        with self._changing():
            old = self._path(source, follow=False)
            new = self._path(destination, follow=False)
            if self.root in (old, new):
                raise Refused("Is the root")
            node = self._layer.find(old)
            directory = stat.S_ISDIR(self._layer.stat(node).st_mode)
            self._make_above(new)
            if self._layer.lstat(new) is not None:
                raise failure(errno.EEXIST)
            old_above, new_above = os.path.dirname(old), os.path.dirname(new)
            self._layer.check(self._layer.find(new_above), os.W_OK | os.X_OK)
            # From here on the real place has claimed the new name, and lets go of it on failure.
            self._layer.own(new_above).mtime_ns = time.time_ns()
            if self._layer.device(old_above) != self._layer.device(new_above):
                raise failure(errno.EXDEV)
            if new.startswith(old + os.sep):
                raise failure(errno.EINVAL)
            self._check_removable(old)
            if directory and old_above != new_above:
                self._layer.check(node, os.W_OK)  # its `..` changes
            self._layer.set(old, None)
            self._layer.set(new, node)

    def delete(self, path: str) -> None:
        """Remove a file, a link or an empty directory."""
        with self._changing():
            where = self._path(path, follow=False)
            if where == self.root:
                raise Refused("Is the root")
            node = self._layer.find(where)
            state = self._layer.stat(node)
            self._check_removable(where)
            if stat.S_ISDIR(state.st_mode) and not self._empty(node, state, where):
                raise failure(errno.ENOTEMPTY)
            self._layer.set(where, None)

    async def sql(self, statement: Statement) -> list[Rows]:
        """Run a statement in the copy of the database."""
        if self.database is None:
            raise Misuse("this session has no database; name one, such as sqlite:///shop.db")
        database, stopped = self.database, threading.Event()

        def act() -> list[Rows]:
            with self._changing(), laid_out(self._layer, database, stopped) as path:
                return answer(path, statement, stopped)

        return await in_thread(act, stop=stopped.set)

    async def bash(self, command: str, *, timeout: float) -> Finished:  # noqa: ASYNC109, ARG002
        """Raise CannotSay."""
        raise CannotSay("commands can't be rehearsed on this system")

    def close(self) -> None:
        """Give back what is held open. May be called more than once."""
        self._real.close()

    def touched(self) -> Iterator[str]:
        """Yield every absolute path that may differ from the real one, parents before children."""
        with self._lock:
            found = list(touched(self._layer))
        return iter(found)

    def lstat(self, path: str) -> os.stat_result | None:
        """Return the state of what has an absolute path, None where nothing has.

        Inode and device of what was made here are those of its bytes in the layer.
        """
        with self._lock:
            try:
                return self._layer.lstat(path)
            except NotADirectoryError:
                return None

    def open(self, path: str) -> int:
        """Return the descriptor of a regular file; the caller closes it."""
        with self._lock:
            return self._layer.open(self._layer.find(path))

    def readlink(self, path: str) -> str:
        """Return where a link points."""
        with self._lock:
            return self._layer.readlink(path)

    def xattrs(self, path: str) -> dict[str, bytes]:
        """Return extended attributes; what was made here has none."""
        with self._lock:
            real = self._layer.find(path).real
        return {} if real is None else self._real.xattrs(real)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        # What was done before an error stays, as it does for real.
        with self._lock:
            try:
                yield
            finally:
                self._layer.folder.save()

    def _path(self, path: str, *, follow: bool = True) -> str:
        """Return the absolute path that is meant, free of links."""
        return os.path.join(self.root, *resolved(path, self.root, self._target, follow=follow))

    def _target(self, names: list[str]) -> str:
        below = os.path.join(*names)
        if self._longest and len(os.fsencode(below)) >= self._longest:
            raise failure(errno.ENAMETOOLONG)
        return self._layer.readlink(os.path.join(self.root, below))

    def _make_above(self, path: str) -> None:
        """Make the directories above a path that are missing."""
        missing = []
        here = os.path.dirname(path) if path != self.root else path
        while (state := self._layer.lstat(here)) is None:
            missing.append(here)
            here = os.path.dirname(here)
        if not stat.S_ISDIR(state.st_mode):
            raise failure(errno.ENOTDIR)
        if missing:
            above = self._layer.own(here)
            for directory in reversed(missing):
                self._layer.check(above, os.X_OK)
                self._layer.check_name(os.path.basename(directory))
                self._layer.check(above, os.W_OK)
                made = self._layer.new_directory(above)
                self._layer.put(above, os.path.basename(directory), made)
                above = made

    def _check_removable(self, path: str) -> None:
        """Raise what the system would where a name may not be taken from its directory."""
        node, above = self._layer.find(path), self._layer.find(os.path.dirname(path))
        self._layer.check(above, os.W_OK | os.X_OK)
        state, directory = self._layer.stat(node), self._layer.stat(above)
        if directory.st_mode & stat.S_ISVTX and hasattr(os, "geteuid"):
            owners = {state.st_uid, directory.st_uid}
            if os.geteuid() not in owners and not self._layer.folder.rules():
                raise failure(errno.EPERM)
        real = node.real is not None and node.content is None and above.real is not None
        if real and state.st_dev != directory.st_dev:
            raise failure(errno.EBUSY)  # something is mounted there

    def _empty(self, node: Node, state: os.stat_result, path: str) -> bool:
        try:
            return not self._layer.entries(node)
        except PermissionError:
            here = [child for child in node.names.values() if child is not None]
            gone = len(node.names) - len(here)
            # Each directory that is really in it points back, and is one of its links.
            if not all(child.hidden for child in here) or state.st_nlink - 2 > gone:
                return False
            raise CannotSay(f"whether it is empty, since it can't be read: {path}") from None
