"""File operations that can't leave a root folder, whatever the path, the links or the timing.

A path is first resolved to plain names, link by link, as text. Then the walk opens one directory
after another through descriptors, following no link at all: a link swapped in meanwhile makes it
fail, never leave. Where the system has no such descriptors (Windows) the resolved path is used as
it is: links and `..` still can't leave, but someone who swaps a link at the right moment could.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Literal

from lwm_agents.places.paths import Refused, resolved, split

LIMIT = 100 * 1024 * 1024
"""The largest file that is read, in bytes."""

HAS_DESCRIPTORS = {os.open, os.stat, os.unlink, os.rename, os.mkdir} <= os.supports_dir_fd

_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_DIRECTORY = _NOFOLLOW | getattr(os, "O_DIRECTORY", 0)
# To pass through a directory takes the right to search it, not the right to read it.
_WALK = _DIRECTORY | getattr(os, "O_PATH", getattr(os, "O_SEARCH", os.O_RDONLY))
_BINARY = getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)

Kind = Literal["file", "directory", "link", "other"]


@dataclass(frozen=True)
class Entry:
    """One name in a directory. `target` is where a link points, as text."""

    name: str
    kind: Kind
    target: str | None = None


class Beneath:
    """The files below one root. Paths are relative to it, or absolute and inside.

    Raises OSError for what the system refuses and Refused for what the root's rules forbid.
    """

    def __init__(
        self, root: str, *, descriptors: bool = HAS_DESCRIPTORS, of: int | None = None
    ) -> None:
        """`of` is a directory to look for the root in, instead of `/`; it stays the caller's."""
        if of is None:
            self.root = os.path.realpath(root)
            self._fd = os.open(self.root, _WALK) if descriptors else None
        else:
            self.root = root
            self._fd = _walk(of, split(root))

    def close(self) -> None:
        """Give back the root's descriptor. May be called more than once."""
        if self._fd is not None and self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def read(self, path: str) -> bytes:
        """Return the bytes of a regular file, following links that stay inside."""
        with self.at(self._resolve(path)) as (at, name):
            return read_whole(open_regular(name, at))

    def entries(self, path: str) -> list[Entry]:
        """Return what a directory holds, sorted by name."""
        with self.at(self._resolve(path)) as (at, name):
            return entries(name, at)

    def write(self, path: str, content: bytes) -> None:
        """Make or replace a regular file in one step; missing directories are made.

        The new content is written beside the file and renamed over it: a reader sees the old or
        the new content, never a part. Mode, and owner where allowed, stay.
        """
        with self.at(self._resolve(path), make=True) as (at, name):
            try:
                old = os.stat(name, dir_fd=at, follow_symlinks=False)
            except FileNotFoundError:
                old = None
            if old is not None:
                check_regular(old)
                # A rename asks only the directory; the file's own permission counts too.
                os.close(os.open(name, os.O_WRONLY | _BINARY | _NOFOLLOW, dir_fd=at))
            beside = os.path.join(os.path.dirname(name), f".lwm-{secrets.token_hex(8)}.tmp")
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY | _NOFOLLOW
            fd = os.open(beside, flags, 0o666 if old is None else 0o600, dir_fd=at)
            try:
                with os.fdopen(fd, "wb") as file:
                    if old is not None:
                        keep_owner_and_mode(file.fileno(), old)
                    file.write(content)
                os.replace(beside, name, src_dir_fd=at, dst_dir_fd=at)
            except BaseException:
                with suppress(OSError):
                    os.unlink(beside, dir_fd=at)
                raise

    def move(self, source: str, destination: str) -> None:
        """Rename a file, link or directory; never over something that exists.

        Missing directories above the destination are made.
        """
        old = self._resolve(source, follow=False)
        new = self._resolve(destination, follow=False)
        if not old or not new:
            raise Refused("Is the root")
        with self.at(old) as (old_at, old_name):
            state = os.stat(old_name, dir_fd=old_at, follow_symlinks=False)
            with self.at(new, make=True) as (new_at, new_name):
                if os.name == "nt":  # there a rename refuses to overwrite by itself
                    os.rename(old_name, new_name)
                    return
                # Claim the name first, in one step that fails where it exists: a rename alone
                # would overwrite what came into being after a look.
                directory = stat.S_ISDIR(state.st_mode)
                if directory:
                    os.mkdir(new_name, dir_fd=new_at)
                else:
                    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW
                    os.close(os.open(new_name, flags, 0o600, dir_fd=new_at))
                try:
                    os.rename(old_name, new_name, src_dir_fd=old_at, dst_dir_fd=new_at)
                except OSError:
                    (os.rmdir if directory else os.unlink)(new_name, dir_fd=new_at)
                    raise

    def delete(self, path: str) -> None:
        """Remove a file, a link (not what it points to) or an empty directory."""
        names = self._resolve(path, follow=False)
        if not names:
            raise Refused("Is the root")
        with self.at(names) as (at, name):
            state = os.stat(name, dir_fd=at, follow_symlinks=False)
            (os.rmdir if stat.S_ISDIR(state.st_mode) else os.unlink)(name, dir_fd=at)

    def plain(self, path: str, *, follow: bool = True) -> str:
        """Return the absolute path that is meant, free of links and `..`. Raises OSError."""
        return os.path.join(self.root, *self._resolve(path, follow=follow))

    def _resolve(self, path: str, *, follow: bool = True) -> list[str]:
        return resolved(path, self.root, self._target, follow=follow)

    def _target(self, names: list[str]) -> str:
        """Return where the link with these names points; OSError where it is none."""
        if self._fd is None:
            return os.readlink(os.path.join(self.root, *names))
        return os.readlink(os.path.join(*names), dir_fd=self._fd)

    @contextmanager
    def at(self, names: list[str], *, make: bool = False) -> Iterator[tuple[int | None, str]]:
        """Yield the descriptor of the directory that holds the last name, and that name.

        Without descriptors: None and the whole path.
        """
        if self._fd is None:
            above = self.root
            for name in names[:-1]:
                above = os.path.join(above, name)
                _pass(above, make)
            yield None, os.path.join(self.root, *names)
            return
        at = self._fd
        try:
            for name in names[:-1]:
                below = _enter(name, at, make)
                if at != self._fd:
                    os.close(at)
                at = below
            yield at, names[-1] if names else "."
        finally:
            if at != self._fd:
                os.close(at)


def _walk(at: int, names: list[str]) -> int:
    """Return the descriptor of a directory so many names below another, through no link."""
    here = os.open(".", _WALK, dir_fd=at)
    for name in names:
        try:
            below = os.open(name, _WALK, dir_fd=here)
        finally:
            os.close(here)
        here = below
    return here


def _enter(name: str, at: int, make: bool) -> int:
    try:
        return os.open(name, _WALK, dir_fd=at)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=at)
    return os.open(name, _WALK, dir_fd=at)


def _pass(path: str, make: bool) -> None:
    """Do what `_enter` does where there are no descriptors."""
    try:
        state = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        if not make:
            raise
        with suppress(FileExistsError):
            os.mkdir(path)
        state = os.stat(path, follow_symlinks=False)
    if not stat.S_ISDIR(state.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))


def open_regular(name: str, at: int | None) -> int:
    """Return the descriptor of a regular file, open for reading, which is the caller's to close.

    Nothing else is opened, no link is followed, and the time of last access is left where it is
    if the system allows to ask for that. Raises Refused where it is no regular file.
    """
    check_regular(os.stat(name, dir_fd=at, follow_symlinks=False))
    fd = _open_quietly(name, os.O_RDONLY | _BINARY | _NOFOLLOW, at)
    try:
        check_regular(os.fstat(fd))
    except OSError:
        os.close(fd)
        raise
    return fd


def read_whole(fd: int) -> bytes:
    """Return what is left to read of a file and close it. Raises Refused beyond LIMIT bytes."""
    with os.fdopen(fd, "rb") as file:
        content = file.read(LIMIT + 1)
    if len(content) > LIMIT:
        raise Refused(f"Larger than {LIMIT:,} bytes")
    return content


def entries(name: str, at: int | None) -> list[Entry]:
    """Return what a directory holds, sorted by name."""
    if at is None:
        return _entries(name, None)
    fd = _open_quietly(name, os.O_RDONLY | _DIRECTORY, at)
    try:
        return _entries(fd, fd)
    finally:
        os.close(fd)


def _open_quietly(name: str, flags: int, at: int | None) -> int:
    """Open without moving the time of last access, where the owner may ask for that."""
    quiet = getattr(os, "O_NOATIME", 0)
    if quiet:
        with suppress(PermissionError):
            return os.open(name, flags | quiet, dir_fd=at)
    return os.open(name, flags, dir_fd=at)


def check_regular(state: os.stat_result) -> None:
    """Raise IsADirectoryError or Refused where this is no regular file."""
    if stat.S_ISDIR(state.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(state.st_mode):
        # To open a pipe or a device can block, or do something to it.
        raise Refused("Not a regular file")


def _entries(where: int | str, at: int | None) -> list[Entry]:
    found = []
    with os.scandir(where) as scan:
        for entry in scan:
            if entry.is_symlink():
                name = entry.name if at is not None else entry.path
                try:
                    target = os.readlink(name, dir_fd=at)
                except OSError:
                    target = None  # changed meanwhile
                found.append(Entry(entry.name, "link", target))
            elif entry.is_dir(follow_symlinks=False):
                found.append(Entry(entry.name, "directory"))
            elif entry.is_file(follow_symlinks=False):
                found.append(Entry(entry.name, "file"))
            else:
                found.append(Entry(entry.name, "other"))
    return sorted(found, key=lambda entry: entry.name)


def keep_owner_and_mode(fd: int, old: os.stat_result) -> None:
    """Give the new file the old one's owner, where allowed, and its mode."""
    if hasattr(os, "fchown"):
        with suppress(PermissionError):
            os.fchown(fd, old.st_uid, old.st_gid)
    if hasattr(os, "fchmod"):
        os.fchmod(fd, stat.S_IMODE(old.st_mode))
