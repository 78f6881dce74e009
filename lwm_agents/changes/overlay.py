"""A copy made by overlayfs: what was changed lies in an upper folder for each mount.

Format of the upper folder (Linux, Documentation/filesystems/overlayfs.rst): a character device
0:0 is a deletion (whiteout); a folder with the attribute overlay.opaque = y hides what is real
beneath it; one with overlay.redirect shows another real folder's contents.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from lwm_agents.changes.tree import (
    DIRECTORY,
    HAS_XATTRS,
    NOFOLLOW,
    WALK,
    Tree,
    by_descriptor,
    is_below,
    join,
    open_quietly,
)

_Below = Literal["nothing", "upper", "both"]
"""Where what lies below a path is found: nowhere, in its upper folder, in both whole worlds."""


_INODE = (1 << 56) - 1
"""The part of an inode's number in the copy that is the real one; overlay may use the rest."""


@dataclass(slots=True)
class _Names:
    """How many names a file has in the copy, and for real, and those of them that are touched."""

    copied_count: int = 0
    real_count: int = 0
    copied: set[str] = field(default_factory=set)
    real: set[str] = field(default_factory=set)

    @property
    def complete(self) -> bool:
        """Whether every name is touched anyway."""
        return len(self.copied) >= self.copied_count and len(self.real) >= self.real_count


@dataclass(frozen=True)
class Layer:
    """One overlay: `upper` is the folder on disk that holds what changed below `path`."""

    path: str
    upper: str


class OverlayCopied:
    """The merged view of a session's overlays (a `Copied`).

    `root_fd` is a directory descriptor of `/` in the copy. `prepared` are folders of the layers
    that whoever mounted them made beforehand: their owner and mode are no change. `hidden` are
    paths that the copy does not show as they are; nothing at or below them is a change.
    `splits_links`: a name of a file with several that was written to is a file of its own there.
    Close it after use: `close()` gives back only what this object opened itself.
    """

    def __init__(
        self,
        root: str,
        database: str | None,
        began_ns: int,
        root_fd: int,
        layers: Sequence[Layer],
        prepared: Iterable[str] = (),
        hidden: Iterable[str] = (),
        splits_links: bool = False,
    ) -> None:
        self.root = root
        self.database = database
        self.began_ns = began_ns
        self._layers = sorted(layers, key=lambda layer: layer.path)
        self._prepared = frozenset(prepared)
        self._hidden = frozenset(hidden)
        self.splits_links = splits_links
        self._merged = Tree(root_fd)
        self._real = Tree()
        self._uppers = {layer.path: _upper_tree(layer.upper) for layer in self._layers}
        self._one_file: dict[tuple[int, int], tuple[int, int]] = {}

    def close(self) -> None:
        """Give back the descriptors. May be called more than once."""
        for tree in (self._merged, self._real, *self._uppers.values()):
            tree.close()

    def lstat(self, path: str) -> os.stat_result | None:
        """Return the state of a path in the copy. None: it is not there."""
        try:
            state = self._merged.lstat(path)
        except PermissionError:
            with self._upper(path) as (upper, inner):
                return upper.lstat(inner)
        if state is not None and state.st_nlink > 1 and stat.S_ISREG(state.st_mode):
            return self._as_one_file(path, state)
        return state

    def _as_one_file(self, path: str, state: os.stat_result) -> os.stat_result:
        """Give all names of one file one inode: without an index overlayfs shows several."""
        layer = self._layer(path)
        if layer is None:
            return state
        upper = self._uppers[layer.path].lstat(_inner(path, layer.path))
        if upper is None:
            return state
        device, inode = self._one_file.setdefault(
            (upper.st_dev, upper.st_ino), (state.st_dev, state.st_ino)
        )
        values, named = cast(tuple[Any, Any], state.__reduce__()[1])
        return os.stat_result((values[0], inode, device, *values[3:]), named)

    def open(self, path: str) -> int:
        """Open a regular file of the copy for reading; the caller closes the descriptor."""
        try:
            return self._merged.open(path)
        except PermissionError:
            with self._upper(path) as (upper, inner), _opened(upper, inner):
                return upper.open(inner)

    def readlink(self, path: str) -> str:
        """Return where a link of the copy points."""
        try:
            return self._merged.readlink(path)
        except PermissionError:
            with self._upper(path) as (upper, inner):
                return upper.readlink(inner)

    def xattrs(self, path: str) -> dict[str, bytes]:
        """Return the extended attributes of a path in the copy, without overlay's own."""
        try:
            return self._merged.xattrs(path)
        except PermissionError:
            with self._upper(path) as (upper, inner), _opened(upper, inner):
                return upper.xattrs(inner)

    def touched(self) -> Iterator[str]:
        """Yield every path that may differ from the real one, parents before children."""
        shared: dict[int, _Names] = {}
        mounts = {layer.path for layer in self._layers}
        for layer in self._layers:
            upper = self._uppers[layer.path]
            yield from self._below(layer.path, upper, mounts - {layer.path}, shared)
        yield from self._other_names(shared)

    def _below(
        self, base: str, upper: Tree, mounts: set[str], shared: dict[int, _Names]
    ) -> Iterator[str]:
        todo: list[tuple[str, _Below]] = [(base, "upper")]
        while todo:
            path, where = todo.pop()
            if path in mounts:
                continue  # another overlay lies over it
            if path in self._hidden:
                continue
            if path not in self._prepared:
                yield path
            if where != "upper":
                self._share(path, shared)
            if where == "nothing":
                continue
            below: dict[str, _Below]
            if where == "upper":
                below = self._names_in(upper, base, path)
            else:
                below = dict.fromkeys(self._names_of_both(path), "both")
            todo.extend((join(path, name), below[name]) for name in sorted(below, reverse=True))

    def _share(self, path: str, shared: dict[int, _Names]) -> None:
        """Note a path that is one of several names of a file, or was: it may have been changed."""
        for tree in (self._merged, self._real):
            with suppress(PermissionError):
                state = tree.lstat(path)
                if state is not None and state.st_nlink > 1 and stat.S_ISREG(state.st_mode):
                    names = shared.setdefault(state.st_ino & _INODE, _Names())
                    if tree is self._merged:
                        names.copied.add(path)
                        names.copied_count = state.st_nlink
                    else:
                        names.real.add(path)
                        names.real_count = state.st_nlink

    def _names_in(self, upper: Tree, base: str, path: str) -> dict[str, _Below]:
        """Return the names in an upper folder, and where to look for what is below each."""
        inner = _inner(path, base)
        below: dict[str, _Below] = {}
        with _opened(upper, inner):
            states = {name: upper.lstat(join(inner, name)) for name in upper.names(inner)}
        for name, state in states.items():
            if state is None:
                continue
            child = join(path, name)
            real = self._real.lstat(child)
            in_both = real is not None and stat.S_ISDIR(real.st_mode)
            if not stat.S_ISDIR(state.st_mode):
                below[name] = "both" if in_both else "nothing"
            elif in_both and not _stands_alone(upper, join(inner, name)):
                below[name] = "upper"
            else:
                below[name] = "both"
        return below

    def _names_of_both(self, path: str) -> set[str]:
        names: set[str] = set()
        merged = self.lstat(path)
        if merged and stat.S_ISDIR(merged.st_mode):
            try:
                names.update(self._merged.names(path))
            except PermissionError:
                with self._upper(path) as (upper, inner), _opened(upper, inner):
                    names.update(upper.names(inner))
        real = self._real.lstat(path)
        if real and stat.S_ISDIR(real.st_mode):
            with suppress(PermissionError):  # then what was removed was empty
                names.update(self._real.names(path))
        return names

    @contextmanager
    def _upper(self, path: str) -> Iterator[tuple[Tree, str]]:
        """Yield the upper folder that holds a path, and the path in it.

        A session can take from itself the right to read what it made; its owner may read it all
        the same. The rights to the folders above are given while this lasts, in the copy only,
        and the merged view would not notice: it remembers them.
        """
        layer = self._layer(path)
        if layer is None:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        inner = _inner(path, layer.path)
        upper = self._uppers[layer.path]
        with ExitStack() as stack:
            above = ""
            for name in inner.split("/")[1:-1]:
                above = f"{above}/{name}"
                stack.enter_context(_opened(upper, above))
            yield upper, inner

    def _layer(self, path: str) -> Layer | None:
        """Return the overlay a path lies in: the innermost one."""
        return max(
            (one for one in self._layers if is_below(path, one.path)),
            key=lambda one: len(one.path),
            default=None,
        )

    def _other_names(self, shared: dict[int, _Names]) -> Iterator[str]:
        """Yield the real names under the root of files that a touched name shares by a hard link.

        With overlay's index the copy keeps such a file one file, but only the name that was
        used, or made, lies in the upper folder.
        """
        wanted = {inode: names for inode, names in shared.items() if not names.complete}
        if not wanted:
            return
        for path, inode in _with_inodes(self._real, self.root, wanted):
            if path not in wanted[inode].copied | wanted[inode].real:
                state = self._merged.lstat(path)
                if state is not None and state.st_ino & _INODE == inode:
                    yield path


def _upper_tree(upper: str) -> Tree:
    top = os.open(upper, WALK)
    try:
        return Tree(top)
    finally:
        os.close(top)


def _inner(path: str, base: str) -> str:
    """Return a path as the upper folder of the overlay at `base` has it."""
    return "/" + path[len(base) :].lstrip("/")


def _with_inodes(tree: Tree, top: str, inodes: Container[int]) -> Iterator[tuple[str, int]]:
    todo = [top]
    while todo:
        folder = todo.pop()
        with suppress(OSError):
            at, name = tree.at(folder)
            fd = open_quietly(name, os.O_RDONLY | DIRECTORY, at)
            try:
                with os.scandir(fd) as scan:
                    entries = [(e.name, e.inode(), e.is_dir(follow_symlinks=False)) for e in scan]
            finally:
                os.close(fd)
            for name, inode, is_directory in entries:
                if is_directory:
                    todo.append(join(folder, name))
                elif inode in inodes:
                    yield join(folder, name), inode


def _stands_alone(upper: Tree, path: str) -> bool:
    """Say whether an upper folder shows something else than the real folder of its name."""
    if not HAS_XATTRS:
        return False
    where = by_descriptor(*upper.at(path))
    for space in ("trusted", "user"):
        with suppress(OSError):
            if os.getxattr(where, f"{space}.overlay.opaque", follow_symlinks=False) == b"y":
                return True
        with suppress(OSError):
            os.getxattr(where, f"{space}.overlay.redirect", follow_symlinks=False)
            return True
    return False


@contextmanager
def _opened(upper: Tree, path: str) -> Iterator[None]:
    """Give the owner every right to a path while this lasts."""
    at, name = upper.at(path)
    fd = os.open(name, getattr(os, "O_PATH", 0) | NOFOLLOW, dir_fd=at)
    try:
        mode = stat.S_IMODE(os.fstat(fd).st_mode)
        if mode & stat.S_IRWXU == stat.S_IRWXU or stat.S_ISLNK(os.fstat(fd).st_mode):
            yield
            return
        os.chmod(f"/proc/self/fd/{fd}", mode | stat.S_IRWXU)
        try:
            yield
        finally:
            os.chmod(f"/proc/self/fd/{fd}", mode)
    finally:
        os.close(fd)
