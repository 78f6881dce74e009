"""The real files below a plain copy: looked at, never changed."""

from __future__ import annotations

import errno
import os
import stat
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from lwm_agents.places.beneath import HAS_DESCRIPTORS, Beneath, Entry, entries, open_regular

EFFECTIVE = os.access in os.supports_effective_ids
_AT = os.access in os.supports_dir_fd


class RealFiles:
    """Reads real files by their absolute paths, below the root without following any link.

    Raises OSError as the system does, and for what is `hidden` as if the caller had no right to it
    or to what is below.
    """

    def __init__(
        self, root: str, *, hidden: Iterable[str] = (), descriptors: bool = HAS_DESCRIPTORS
    ) -> None:
        self._beneath = Beneath(root, descriptors=descriptors)
        self._descriptors = descriptors
        self.root = self._beneath.root
        self.fold = without_case if _ignores_case(self.root) else str
        """Turns a name or path into what it is compared by."""
        self._inside = os.path.join(self.root, "")
        self._hidden = tuple(self.fold(os.path.join(os.path.realpath(p), "")) for p in hidden)

    def close(self) -> None:
        """Give back the root's descriptor. May be called more than once."""
        self._beneath.close()

    def lstat(self, path: str) -> os.stat_result:
        """Return the state of what has this path, a link's own."""
        with self._at(path) as (at, name):
            return os.stat(name, dir_fd=at, follow_symlinks=False)

    def readlink(self, path: str) -> str:
        """Return where a link points."""
        with self._at(path) as (at, name):
            return os.readlink(name, dir_fd=at)

    def entries(self, path: str) -> list[Entry]:
        """Return what a directory holds, sorted by name."""
        with self._at(path) as (at, name):
            return entries(name, at)

    def names(self, path: str) -> list[str]:
        """Return the names in a directory, none where it is not there or may not be read."""
        try:
            if stat.S_ISDIR(self.lstat(path).st_mode):
                return [entry.name for entry in self.entries(path)]
        except OSError:
            pass
        return []

    def open(self, path: str) -> int:
        """Return the descriptor of a regular file; the caller closes it."""
        with self._at(path) as (at, name):
            return open_regular(name, at)

    def xattrs(self, path: str) -> dict[str, bytes]:
        """Return the extended attributes that can be read, where the system has any."""
        found: dict[str, bytes] = {}
        if hasattr(os, "listxattr") and not self._hides(path):
            with suppress(OSError):
                for name in os.listxattr(path, follow_symlinks=False):
                    with suppress(OSError):
                        found[name] = os.getxattr(path, name, follow_symlinks=False)
        return found

    def check(self, path: str, want: int) -> None:
        """Raise what the system would where the caller may not do this to a file or directory.

        `want` is made of os.R_OK, os.W_OK and os.X_OK.
        """
        with self._at(path) as (at, name):
            state = os.stat(name, dir_fd=at, follow_symlinks=False)
            if os.access(name, want, dir_fd=at if _AT else None, effective_ids=EFFECTIVE):
                return
            os.stat(name, dir_fd=at, follow_symlinks=False)  # gone meanwhile is another answer
        number = errno.EACCES
        if want & os.W_OK and hasattr(os, "statvfs"):
            if os.statvfs(path).f_flag & os.ST_RDONLY:
                number = errno.EROFS
            elif permitted(state, want):
                number = errno.EPERM  # marked as never to be changed
        raise OSError(number, os.strerror(number))

    @contextmanager
    def _at(self, path: str) -> Iterator[tuple[int | None, str]]:
        if self._hides(path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if not self._descriptors or not (path + os.sep).startswith(self._inside):
            yield None, path
            return
        names = [name for name in path[len(self._inside) :].split(os.sep) if name]
        with self._beneath.at(names) as found:
            yield found

    def _hides(self, path: str) -> bool:
        return self.fold(path + os.sep).startswith(self._hidden)


def _ignores_case(path: str) -> bool:
    try:
        return sys.platform != "linux" and os.path.samefile(path, path.swapcase())
    except OSError:
        return False


def without_case(name: str) -> str:
    """Return a name as a system compares it that tells neither case nor composition apart."""
    return unicodedata.normalize("NFC", name.casefold())


def permitted(state: os.stat_result, want: int) -> bool:
    """Return whether mode and owner allow this to the caller, who has no special rights."""
    if not hasattr(os, "geteuid"):
        return bool(state.st_mode & stat.S_IWRITE) or not want & os.W_OK
    if os.geteuid() == state.st_uid:
        bits = state.st_mode >> 6
    elif state.st_gid in {os.getegid(), *os.getgroups()}:
        bits = state.st_mode >> 3
    else:
        bits = state.st_mode
    return bits & want == want
