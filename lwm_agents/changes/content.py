"""The bytes of files: compared, hashed, copied with their holes, in constant memory."""

from __future__ import annotations

import errno
import hashlib
import os
from contextlib import suppress
from typing import Any

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

CHUNK = 1 << 20
"""Bytes held in memory at once."""

_SMALL = 128 * 1024
_FICLONE = 0x40049409
"""ioctl of linux/fs.h: share the extents of another file (btrfs, XFS)."""

_NO_SHORT_CUT = {
    errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EPERM, errno.ENOTTY,
    errno.EBADF, errno.ETXTBSY,
}  # fmt: skip


def same_bytes(one: int, other: int, size: int) -> bool:
    """Say whether two open files of about this size hold the same bytes from where they stand."""
    # To ask for much more than there is costs more than the reading: memory is mapped for it.
    chunk = min(size + 1, CHUNK)
    while True:
        left = os.read(one, chunk)
        if left != os.read(other, chunk):
            return False
        if len(left) < chunk:  # the end, as these are regular files
            return True


def sha256(fd: int) -> str:
    """Return the SHA-256 of an open file, in hexadecimal."""
    digest = hashlib.sha256()
    while data := os.read(fd, CHUNK):
        digest.update(data)
    return digest.hexdigest()


def copy(source: int, target: int, state: os.stat_result, digest: str | None = None) -> bool:
    """Copy an open file into an empty one; holes stay holes. `state` is the source's.

    Where a `digest` (SHA-256) is given, False says that the bytes are others: all are then read.
    """
    if digest is None and state.st_size > _SMALL and _clone(source, target):
        return True
    sparse = state.st_size > _SMALL and getattr(state, "st_blocks", 1 << 62) * 512 < state.st_size
    if sparse:
        _copy_data(source, target, state.st_size)
    elif digest is not None or state.st_size <= _SMALL or not _copy_in_kernel(source, target):
        seen = hashlib.sha256() if digest is not None else None
        chunk = min(state.st_size + 1, CHUNK)
        while data := os.read(source, chunk):
            _write(target, data)
            if seen is not None:
                seen.update(data)
            if len(data) < chunk:
                break
        return seen is None or seen.hexdigest() == digest
    if digest is None:
        return True
    os.lseek(source, 0, os.SEEK_SET)
    return sha256(source) == digest


def _clone(source: int, target: int) -> bool:
    if fcntl is None:
        return False
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError as error:
        if error.errno in _NO_SHORT_CUT:
            return False
        raise
    return True


def _copy_data(source: int, target: int, size: int) -> None:
    """Copy only what is data; what lies between becomes a hole."""
    at = 0
    while at < size:
        try:
            at = os.lseek(source, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole up to the end
                break
            raise
        end = os.lseek(source, at, os.SEEK_HOLE)
        os.lseek(source, at, os.SEEK_SET)
        os.lseek(target, at, os.SEEK_SET)
        while at < end and (data := os.read(source, min(CHUNK, end - at))):
            _write(target, data)
            at += len(data)
        at = max(at, end)
    os.ftruncate(target, size)


def _copy_in_kernel(source: int, target: int) -> bool:
    """Copy without passing the bytes through this process; False: not between these two."""
    if not hasattr(os, "copy_file_range"):
        return False
    done = 0
    try:
        while count := os.copy_file_range(source, target, 1 << 30):
            done += count
    except OSError as error:
        if done or error.errno not in _NO_SHORT_CUT:
            raise
        return False
    return done > 0


def _write(fd: int, data: bytes) -> None:
    done = os.write(fd, data)
    while done < len(data):
        done += os.write(fd, memoryview(data)[done:])


def sync_file_system(fd: int) -> None:
    """Make everything written to the file system of an open file durable."""
    if hasattr(os, "sync"):
        libc = _libc()
        if libc is None or libc.syncfs(fd) != 0:
            os.sync()


def _libc() -> Any:
    import ctypes

    with suppress(OSError):
        libc = ctypes.CDLL(None, use_errno=True)
        if hasattr(libc, "syncfs"):
            return libc
    return None
