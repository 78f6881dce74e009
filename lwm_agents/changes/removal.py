"""Removes a folder of ours with everything in it, whatever modes, depths or names are in it."""

from __future__ import annotations

import itertools
import os
import secrets
from collections.abc import Iterator

from lwm_agents.changes.tree import DIRECTORY, HAS_DESCRIPTORS


def remove_folder(path: str) -> None:
    """Remove a folder and all below it; links are removed, not followed. Raises OSError.

    Folders further down are first moved up into this one: however deep a session went, the way
    down never gets long. Nothing happens where the folder is not there.
    """
    if not HAS_DESCRIPTORS:
        import shutil

        if os.path.lexists(path):
            shutil.rmtree(path)
        return
    try:
        top = os.open(path, os.O_RDONLY | DIRECTORY)
    except FileNotFoundError:
        return
    except PermissionError:
        os.chmod(path, 0o700)
        top = os.open(path, os.O_RDONLY | DIRECTORY)
    try:
        os.fchmod(top, 0o700)
        # No name an earlier removal, cut short, can have left.
        names = (f".removed-{secrets.token_hex(4)}-{number}" for number in itertools.count())
        todo = _empty(top, top, names)
        while todo:
            name = todo.pop()
            fd = os.open(name, os.O_RDONLY | DIRECTORY, dir_fd=top)
            try:
                todo.extend(_empty(fd, top, names))
            finally:
                os.close(fd)
            os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(path)


def _empty(fd: int, top: int, names: Iterator[str]) -> list[str]:
    """Remove what is no folder; move folders to the top under new names, and return these."""
    moved: list[str] = []
    with os.scandir(fd) as scan:
        entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in scan]
    for name, is_directory in entries:
        if not is_directory:
            os.unlink(name, dir_fd=fd)
            continue
        # A folder that is moved gets another parent, which takes the right to write to it.
        os.chmod(name, 0o700, dir_fd=fd)
        new = next(names)
        os.rename(name, new, src_dir_fd=fd, dst_dir_fd=top)
        moved.append(new)
    return moved
