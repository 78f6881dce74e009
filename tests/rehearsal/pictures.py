"""What a tree is, as two ways to make it must agree on it: kinds, modes, owners, links, content."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from contextlib import suppress
from pathlib import Path

Picture = dict[str, tuple[object, ...]]

_HOLDS_TIMES = re.compile(r"(?:^|/)\.git/(?:index$|logs/)|\.pyc$|\.t?gz$|\.tar$|^pid$")
"""Files whose content says when, with what inode or as what process something was made."""

_RANDOM = re.compile(r"(?:(?<=/)|^)(?:tmp\.?\w{6,10}|sed\w{6})(?=/|$)")


def picture(top: Path) -> Picture:
    """Return all that can be told of a tree but its times."""
    found: Picture = {}
    groups: dict[tuple[int, int], str] = {}
    for folder, folders, files in os.walk(os.fsencode(top)):
        folders.sort()
        for name in sorted([*folders, *files]):
            path = os.path.join(folder, name)
            relative = _RANDOM.sub("random", os.fsdecode(os.path.relpath(path, os.fsencode(top))))
            try:
                state = os.lstat(path)
            except PermissionError:
                found[relative] = ()
                continue
            kind = stat.S_IFMT(state.st_mode)
            first = groups.setdefault((state.st_dev, state.st_ino), relative)
            found[relative] = (
                kind,
                oct(stat.S_IMODE(state.st_mode)),
                state.st_uid,
                state.st_gid,
                first if kind == stat.S_IFREG else None,
                _content(path, state, relative),
                _attributes(path),
            )
    return found


def _content(path: bytes, state: os.stat_result, relative: str) -> object:
    if stat.S_ISLNK(state.st_mode):
        return os.readlink(path)
    if not stat.S_ISREG(state.st_mode) or _HOLDS_TIMES.search(relative):
        return None
    try:
        with open(path, "rb") as file:
            return state.st_size, hashlib.file_digest(file, "sha256").hexdigest()
    except PermissionError:
        return state.st_size


def _attributes(path: bytes) -> dict[str, bytes]:
    with suppress(OSError):
        return {
            name: os.getxattr(path, name, follow_symlinks=False)
            for name in os.listxattr(path, follow_symlinks=False)
        }
    return {}


def tell_apart(left: Picture, right: Picture) -> list[str]:
    """Return a line for each path that is not the same in both."""
    return [
        f"{path}: {left.get(path)} and {right.get(path)}"
        for path in sorted(left.keys() | right)
        if left.get(path) != right.get(path)
    ]
