"""A copy-on-write layer over the real files: what is at a path now, and what is put there."""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from contextlib import suppress

from lwm_agents.places.beneath import Entry, keep_owner_and_mode
from lwm_agents.places.plain_folder import Folder
from lwm_agents.places.plain_node import Node, kind_of, made_state, parts, with_mtime
from lwm_agents.places.plain_real import RealFiles, permitted

_UNTOUCHED = Node()
"""Stands for what a directory's node says of a name that nothing was done to."""


def failure(number: int) -> OSError:
    """Return the error that the system raises with this number."""
    return OSError(number, os.strerror(number))


class Layer:
    """What files are like where real ones are overlaid with what was changed.

    Paths are absolute and free of links. Raises OSError as the system would. Nothing here asks
    whether a change is allowed: `check` says so. Nothing is saved: `folder.save` does that.
    """

    def __init__(self, real: RealFiles, folder: Folder) -> None:
        self.real = real
        self.folder = folder
        self.fold = real.fold
        self._root = parts(real.root)

    def find(self, path: str) -> Node:
        """Return what has this path; where it is real, it may turn out not to be there."""
        anchor, names = parts(path)
        node = self._top(anchor)
        # The root is held open, so the right to pass through what is above it does not matter.
        held = len(self._root[1]) if (anchor, names[: len(self._root[1])]) == self._root else 0
        for depth, name in enumerate(names):
            if node.unchanged and node.real is not None:
                return Node(names[-1], real=os.path.join(node.real, *names[depth:]))
            if node.content is not None:
                raise failure(errno.ENOTDIR)
            if depth >= held:
                self.check(node, os.X_OK)
            child = node.names.get(self.fold(name), _UNTOUCHED)
            if child is _UNTOUCHED and node.real is not None:
                child = Node(name, real=os.path.join(node.real, name))
            if child is _UNTOUCHED or child is None or child.hidden:
                self.check_name(name)
                raise failure(errno.ENOENT)
            node = child
        return node

    def stat(self, node: Node) -> os.stat_result:
        """Return the state of what was found."""
        if node.content is not None:
            return made_state(node, os.lstat(self.folder.file(node.content)))
        if node.real is None:
            return made_state(node, None)
        return with_mtime(self.real.lstat(node.real), node.mtime_ns)

    def lstat(self, path: str) -> os.stat_result | None:
        """Return the state of what has this path, None where nothing has."""
        try:
            return self.stat(self.find(path))
        except FileNotFoundError:
            return None

    def readlink(self, path: str) -> str:
        """Return where a link points; OSError with EINVAL where something else has this path."""
        node = self.find(path)
        if node.content is not None or node.real is None:
            raise failure(errno.EINVAL)
        return self.real.readlink(node.real)

    def open(self, node: Node) -> int:
        """Return the descriptor of a regular file; the caller closes it."""
        if node.content is not None:
            flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
            return os.open(self.folder.file(node.content), flags)
        if node.real is None:
            raise failure(errno.EISDIR)
        return self.real.open(node.real)

    def entries(self, node: Node) -> list[Entry]:
        """Return what a directory holds, sorted by name."""
        found = [] if node.real is None else self.real.entries(node.real)
        if node.names:
            found = [entry for entry in found if self.fold(entry.name) not in node.names]
            for child in node.names.values():
                if child is not None and not child.hidden:
                    with suppress(FileNotFoundError):  # moved here, and really gone meanwhile
                        found.append(self._entry(child))
        return sorted(found, key=lambda entry: entry.name)

    def check(self, node: Node, want: int) -> None:
        """Raise what the system would where the caller may not do this to a file or directory.

        `want` is made of os.R_OK, os.W_OK and os.X_OK.
        """
        if node.real is not None:
            with suppress(FileNotFoundError):  # copied, and really gone meanwhile
                self.real.check(node.real, want)
                return
        if not permitted(self.stat(node), want) and not self.folder.rules():
            raise failure(errno.EACCES)

    def device(self, path: str) -> int:
        """Return the number of the file system that a directory is on."""
        node = self.find(path)
        while node.real is None:
            path = os.path.dirname(path)
            node = self.find(path)
        return self.real.lstat(node.real).st_dev

    def changed(self, node: Node) -> bool:
        """Return whether a file's bytes in the layer are no longer those that were copied."""
        if node.content is None:
            return False
        kept = os.lstat(self.folder.file(node.content))
        return node.copied != (kept.st_size, kept.st_mtime_ns)

    def set(self, path: str, node: Node | None) -> None:
        """Put something at a path, or nothing; the directory above is there."""
        self.put(self.own(os.path.dirname(path)), os.path.basename(path), node)

    def put(self, above: Node, name: str, node: Node | None) -> None:
        """Put something, or nothing, into a directory that is part of the tree."""
        above.mtime_ns = time.time_ns()
        old = above.names.pop(self.fold(name), None)
        if old is not None and old.content is not None:
            self.folder.drop(old.content)
        if node is not None:
            node.name = name
            above.names[self.fold(name)] = node
        elif above.real is not None:
            with suppress(FileNotFoundError):
                self.real.lstat(os.path.join(above.real, name))
                above.names[self.fold(name)] = None

    def hide(self, path: str) -> None:
        """Have nothing at a path, whatever really is or comes to be there, and no change either.

        What was put there, or removed, stays so.
        """
        above, name = self.own(os.path.dirname(path)), os.path.basename(path)
        above.names.setdefault(self.fold(name), Node(name, hidden=True))

    def own(self, path: str) -> Node:
        """Return the node of something that is there, as part of the tree: it can be changed."""
        anchor, names = parts(path)
        node = self._top(anchor)
        for name in names:
            child = node.names.get(self.fold(name))
            if child is None:
                if node.real is None:
                    raise failure(errno.ENOENT)
                child = Node(name, real=os.path.join(node.real, name))
                node.names[self.fold(name)] = child
            node = child
        return node

    def new_file(self, content: bytes, old: os.stat_result | None, above: Node) -> Node:
        """Return a file of the caller's with these bytes, or as near to the old one as it may.

        It is made in the layer as it would be for real, so the system itself says what becomes of
        its mode and owner.
        """
        number = self.folder.number()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        fd = os.open(self.folder.file(number), flags, 0o666 if old is None else 0o600)
        with os.fdopen(fd, "wb") as file:
            if old is not None:
                keep_owner_and_mode(fd, old)
            file.write(content)
            file.flush()
            state = os.fstat(fd)
        os.chmod(self.folder.file(number), 0o600)
        kept = old is not None and (state.st_uid, state.st_gid) == (old.st_uid, old.st_gid)
        gid = state.st_gid if kept else self.group(above)
        return Node(content=number, mode=stat.S_IMODE(state.st_mode), uid=state.st_uid, gid=gid)

    def new_directory(self, above: Node) -> Node:
        """Return an empty directory of the caller's, to be put into the one above."""
        tried = self.folder.file("directory")
        os.mkdir(tried)
        state = os.lstat(tried)
        os.rmdir(tried)
        inherited = self.stat(above).st_mode & stat.S_ISGID
        return Node(
            mode=stat.S_IMODE(state.st_mode) | inherited,
            uid=state.st_uid,
            gid=self.group(above),
            mtime_ns=time.time_ns(),
        )

    def group(self, above: Node) -> int:
        """Return the group of what the caller makes in a directory."""
        state = self.stat(above)
        if sys.platform != "linux" or state.st_mode & stat.S_ISGID:
            return state.st_gid
        return os.getegid()

    def _top(self, anchor: str) -> Node:
        return self.folder.tops.setdefault(anchor, Node(real=anchor))

    def _entry(self, node: Node) -> Entry:
        kind, target = kind_of(self.stat(node).st_mode), None
        if kind == "link" and node.real is not None:
            with suppress(OSError):
                target = self.real.readlink(node.real)
        return Entry(node.name, kind, target)

    def check_name(self, name: str) -> None:
        """Raise what the system does for a name that no file can have."""
        with suppress(FileNotFoundError):
            os.lstat(self.folder.file(name))
