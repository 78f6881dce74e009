"""A file system walked by descriptors: no link on the way is ever followed.

Paths are absolute and plain (no `.`, no `..`). One directory after another is opened without
following links, so a link swapped in meanwhile makes a walk fail; it can't lead elsewhere. Where
the system has no such descriptors (Windows) paths are used as they are.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress

HAS_DESCRIPTORS = {os.open, os.stat, os.unlink, os.rename, os.mkdir} <= os.supports_dir_fd
HAS_XATTRS = hasattr(os, "listxattr")

NOFOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
READ = os.O_RDONLY | NOFOLLOW | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
DIRECTORY = NOFOLLOW | getattr(os, "O_DIRECTORY", 0)
# To pass through a directory takes the right to search it, not the right to read it.
WALK = DIRECTORY | getattr(os, "O_PATH", os.O_RDONLY)

KEPT = ("user.", "security.capability", "system.posix_acl_access", "system.posix_acl_default")
"""The extended attributes that diff shows and commit keeps: a prefix, or a whole name."""

_NOATIME = getattr(os, "O_NOATIME", 0)
_OVERLAYS_OWN = "user.overlay."
_NO_XATTRS = {errno.ENOTSUP, errno.ENODATA, errno.EPERM, errno.EACCES}


class Tree:
    """The real file system, or the one below a descriptor of its top."""

    def __init__(self, top: int | None = None, *, descriptors: bool = HAS_DESCRIPTORS) -> None:
        self._top: int | None = None
        if top is not None:
            self._top = os.dup(top)
        elif descriptors:
            self._top = os.open("/", WALK)
        self._parent = ""
        self._fd = self._top

    def close(self) -> None:
        """Give the descriptors back. May be called more than once."""
        if self._fd is not None and self._fd != self._top:
            os.close(self._fd)
        if self._top is not None:
            os.close(self._top)
        self._top = self._fd = None

    def at(self, path: str) -> tuple[int | None, str]:
        """Return a descriptor of the folder that holds the path, and the name in it.

        The descriptor is good until the next call. Raises FileNotFoundError where the folder is
        not there and NotADirectoryError where it, or one on the way, is a link or no folder.
        """
        if self._top is None:
            return None, path
        parent, _, name = path.rpartition("/")
        if parent != self._parent:
            self._enter(parent)
        return self._fd, name or "."

    def _enter(self, parent: str) -> None:
        # A walk goes on from the last folder where it can: paths come sorted.
        above = self._parent + "/"
        start, rest = (self._fd, parent[len(above) :]) if parent.startswith(above) else (
            self._top, parent
        )  # fmt: skip
        assert start is not None
        at = start
        try:
            for name in rest.split("/"):
                if name:
                    below = os.open(name, WALK, dir_fd=at)
                    if at not in (start, self._top):
                        os.close(at)
                    at = below
        except BaseException:
            if at not in (start, self._top):
                os.close(at)
            raise
        if self._fd is not None and self._fd not in (self._top, at):
            os.close(self._fd)
        self._fd, self._parent = at, parent

    def forget(self) -> None:
        """Walk from the top next time: folders were moved or made anew."""
        if self._fd is not None and self._fd != self._top:
            os.close(self._fd)
        self._fd, self._parent = self._top, ""

    def lstat(self, path: str) -> os.stat_result | None:
        """Return the state of a path, of a link itself. None: it is not there."""
        try:
            at, name = self.at(path)
            return os.stat(name, dir_fd=at, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def open(self, path: str) -> int:
        """Open a file for reading; the caller closes the descriptor."""
        at, name = self.at(path)
        return open_quietly(name, READ, at)

    def readlink(self, path: str) -> str:
        """Return where a link points."""
        at, name = self.at(path)
        return os.readlink(name, dir_fd=at)

    def names(self, path: str) -> list[str]:
        """Return the names in a folder, sorted. Raises OSError where it can't be listed."""
        at, name = self.at(path)
        if at is None:
            return sorted(os.listdir(path))
        fd = open_quietly(name, os.O_RDONLY | DIRECTORY, at)
        try:
            return sorted(os.listdir(fd))
        finally:
            os.close(fd)

    def xattrs(self, path: str) -> dict[str, bytes]:
        """Return the extended attributes that are kept (`KEPT`), by name."""
        if not HAS_XATTRS:
            return {}
        at, name = self.at(path)
        return xattrs_of(by_descriptor(at, name))


def open_quietly(name: str, flags: int, at: int | None) -> int:
    """Open without moving the time of last access, where the owner may ask for that.

    A diff is part of a dry run, and there nothing real changes.
    """
    if _NOATIME:
        with suppress(PermissionError):
            return os.open(name, flags | _NOATIME, dir_fd=at)
    return os.open(name, flags, dir_fd=at)


def by_descriptor(at: int | None, name: str) -> str:
    """Return a path for calls that take no descriptor: it starts at one all the same."""
    return name if at is None else f"/proc/self/fd/{at}/{name}"


def xattrs_of(path: str, *, follow: bool = False) -> dict[str, bytes]:
    """Return the kept extended attributes of a path; of a link itself unless it is followed."""
    found: dict[str, bytes] = {}
    try:
        names = os.listxattr(path, follow_symlinks=follow)
    except OSError as error:
        if error.errno in _NO_XATTRS:
            return found
        raise
    for name in names:
        if name.startswith(KEPT) and not name.startswith(_OVERLAYS_OWN):
            with suppress(OSError):  # removed meanwhile, or not ours to read
                found[name] = os.getxattr(path, name, follow_symlinks=follow)
    return found


def join(folder: str, name: str) -> str:
    """Return the absolute path of a name in a folder."""
    return (folder if folder.endswith("/") else folder + "/") + name


def parent_of(path: str) -> str:
    """Return the folder an absolute path lies in."""
    return path.rpartition("/")[0] or "/"


def is_below(path: str, folder: str) -> bool:
    """Say whether a path is the folder or lies in it, by the text alone."""
    return path == folder or path.startswith(folder if folder.endswith("/") else folder + "/")
