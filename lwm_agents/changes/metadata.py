"""Modes, owners, times and extended attributes: read, written where they differ."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from lwm_agents.changes.journal import Meta
from lwm_agents.changes.tree import HAS_XATTRS, NOFOLLOW, by_descriptor, xattrs_of

HAS_OWNERS = hasattr(os, "chown")
_O_PATH = getattr(os, "O_PATH", 0)


def meta_of(state: os.stat_result, xattrs: dict[str, bytes]) -> Meta:
    """Return a path's metadata."""
    return Meta(
        stat.S_IMODE(state.st_mode),
        state.st_uid,
        state.st_gid,
        state.st_atime_ns,
        state.st_mtime_ns,
        {name: value.hex() for name, value in xattrs.items()},
    )


def put_on_new(fd: int, state: os.stat_result, xattrs: dict[str, bytes]) -> int:
    """Give an open file that was just made the metadata of another; return its inode."""
    made = os.fstat(fd)
    mode: int | None = made.st_mode
    if HAS_OWNERS and (state.st_uid, state.st_gid) != (made.st_uid, made.st_gid):
        with suppress(PermissionError):
            os.fchown(fd, state.st_uid, state.st_gid)
            mode = None  # the system may have dropped set-user-id with the owner
    for name, value in xattrs.items():
        _set_xattr(fd, name, value)
        mode = None  # an access list says what the mode is
    if mode != state.st_mode and hasattr(os, "fchmod"):
        os.fchmod(fd, stat.S_IMODE(state.st_mode))
    if os.utime in os.supports_fd:
        os.utime(fd, ns=(state.st_atime_ns, state.st_mtime_ns))
    return made.st_ino


def put(at: int | None, name: str, wanted: Meta) -> None:
    """Give a path, or a link itself, the metadata wanted; what is right already stays untouched.

    A link swapped in at the last moment is not followed. Raises OSError where the mode can't be
    set; owner, times and attributes are kept where the system allows.
    """
    state = os.stat(name, dir_fd=at, follow_symlinks=False)
    if stat.S_ISLNK(state.st_mode) or not _O_PATH:
        _put_by_name(at, name, state, wanted)
    else:
        fd = os.open(name, _O_PATH | NOFOLLOW, dir_fd=at)
        try:
            # A descriptor that only names the path takes no call but through /proc.
            _put_by_path(f"/proc/self/fd/{fd}", os.fstat(fd), wanted)
        finally:
            os.close(fd)
    if state.st_mtime_ns != wanted.modified_ns:
        with suppress(PermissionError):
            times = (wanted.accessed_ns, wanted.modified_ns)
            os.utime(name, ns=times, dir_fd=at, follow_symlinks=False)


def _put_by_path(path: str, state: os.stat_result, wanted: Meta) -> None:
    mode = stat.S_IMODE(state.st_mode)
    if (state.st_uid, state.st_gid) != (wanted.owner, wanted.group):
        with suppress(PermissionError):
            os.chown(path, wanted.owner, wanted.group)
            mode = -1  # the system may have dropped set-user-id with the owner
    if HAS_XATTRS:
        # The link in /proc must be followed once; what it stands for is no link itself.
        now = xattrs_of(path, follow=True)
        attributes = {name: bytes.fromhex(value) for name, value in wanted.xattrs.items()}
        if now != attributes and not state.st_mode & stat.S_IWUSR:
            os.chmod(path, wanted.mode | stat.S_IRWXU)  # an attribute is written like content
            mode = -1
        for name in now.keys() - attributes.keys():
            os.removexattr(path, name)
        for name, value in attributes.items():
            if now.get(name) != value:
                _set_xattr(path, name, value)
    if mode != wanted.mode:
        os.chmod(path, wanted.mode)


def _put_by_name(at: int | None, name: str, state: os.stat_result, wanted: Meta) -> None:
    if HAS_OWNERS and (state.st_uid, state.st_gid) != (wanted.owner, wanted.group):
        with suppress(PermissionError):
            os.chown(name, wanted.owner, wanted.group, dir_fd=at, follow_symlinks=False)
    if not stat.S_ISLNK(state.st_mode) and stat.S_IMODE(state.st_mode) != wanted.mode:
        if os.chmod in os.supports_follow_symlinks:
            os.chmod(name, wanted.mode, dir_fd=at, follow_symlinks=False)
        else:
            os.chmod(name if at is None else by_descriptor(at, name), wanted.mode)


def _set_xattr(path: str | int, name: str, value: bytes) -> None:
    try:
        os.setxattr(path, name, value)
    except OSError as error:
        if error.errno not in (errno.ENOTSUP, errno.EPERM, errno.EACCES):
            raise
