"""How many links a folder of a copy has: what the real file system would say.

overlayfs says 1 of every folder that is in both layers (ovl_getattr in fs/overlayfs/inode.c), so
`ls -l` would show that something in it was changed. Elsewhere it is 2 and one for each subfolder.
So `statx` with AT_NO_AUTOMOUNT, which `ls` and `stat` pass and hardly anything else does, waits
until the supervisor has looked; for such a folder it answers in the kernel's place.

The size on disk is mended too: overlayfs' own attributes can take a block more.
"""

from __future__ import annotations

import os
import stat
import struct
import sys

from lwm_agents.places.syscalls import open_path, statx

CALLS = frozenset({332, 291})
"""The numbers of statx on x86-64 and on arm64."""

_NOFOLLOW = 0x100
_CURRENT = -100
_LONGEST = 4096
_LINKS, _SIZE, _BLOCKS = 16, 40, 48  # offsets in struct statx (linux/stat.h)


def answer(pid: int, arguments: list[int]) -> tuple[int, bytes] | None:
    """Return where to write what in the caller's memory; None: let the kernel answer.

    Raises OSError or ValueError where that can't be found out; then the kernel shall answer too.
    """
    folder, where, flags, mask, buffer = arguments[:5]
    if os.stat(f"/proc/{pid}").st_uid != os.geteuid() or os.readlink(f"/proc/{pid}/root") != "/":
        return None
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        memory.seek(where)
        path, end, _ = memory.read(_LONGEST).partition(b"\0")
    if not path or not end:
        return None
    (number,) = struct.unpack("=i", struct.pack("=I", folder & 0xFFFFFFFF))
    start = f"/proc/{pid}/cwd" if number == _CURRENT else f"/proc/{pid}/fd/{number}"
    at = os.open(start, os.O_PATH | os.O_CLOEXEC)
    try:
        fd = open_path(path, at, follow=not flags & _NOFOLLOW)
        try:
            found = _counted(fd, mask)
        finally:
            os.close(fd)
    finally:
        os.close(at)
    return None if found is None else (buffer, found)


def _counted(fd: int, mask: int) -> bytes | None:
    """Return the struct statx of a folder, with its links counted; None: there is no need to."""
    state = os.stat(fd)
    if not stat.S_ISDIR(state.st_mode) or state.st_nlink != 1:
        return None
    listing = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=fd)
    try:
        with os.scandir(listing) as entries:
            folders = sum(entry.is_dir(follow_symlinks=False) for entry in entries)
    finally:
        os.close(listing)
    found = statx(fd, mask & 0xFFFFFFFF)
    found[_LINKS : _LINKS + 4] = (2 + folders).to_bytes(4, sys.byteorder)
    size, blocks = struct.unpack_from("=QQ", found, _SIZE)
    found[_BLOCKS : _BLOCKS + 8] = min(blocks, -(-size // 512)).to_bytes(8, sys.byteorder)
    return bytes(found)
