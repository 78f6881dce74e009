"""Where a copy differs from the real file system: the one comparison diff and commit share."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from lwm_agents.changes.content import same_bytes
from lwm_agents.changes.copied import Copied
from lwm_agents.changes.tree import Tree, is_below

Type = Literal["file", "directory", "link", "other"]
"""What a path is. `other`: a pipe, a socket or a device."""

SQLITE_FILES = ("", "-wal", "-shm", "-journal")
"""What SQLite puts beside a database, by the end of the name."""


@dataclass(slots=True)
class Difference:
    """One path that is not the same in both worlds.

    The attributes are None where nobody needed them to tell a difference.
    `same_bytes`: content (bytes, a link's target, a device's number) is the same, and the type.
    `group`: the paths that are one file in the copy by hard links, this one among them.
    `relinked`: it is to become a hard link of `group[0]`, which stays as it is.
    `complete`: no name of that file outside the group is known to the file system.
    """

    path: str
    old: os.stat_result | None
    new: os.stat_result | None
    same_bytes: bool
    old_xattrs: dict[str, bytes] | None
    new_xattrs: dict[str, bytes] | None
    group: tuple[str, ...] = ()
    relinked: bool = False
    complete: bool = True

    @property
    def time_of_folder(self) -> bool:
        """Whether all that differs is when a folder was last changed: its contents say why."""
        old, new = self.old, self.new
        return (
            old is not None
            and new is not None
            and stat.S_ISDIR(old.st_mode)
            and self.same_bytes
            and _same_owner_and_mode(old, new)
            and self.old_xattrs == self.new_xattrs
        )


def compare(copied: Copied, real: Tree) -> list[Difference]:
    """Return every path that differs, parents before children. Raises OSError."""
    differences: list[Difference] = []
    groups: dict[tuple[int, int], list[tuple[str, os.stat_result, os.stat_result | None]]] = {}
    for path in copied.touched():
        new = copied.lstat(path)
        old = real.lstat(path)
        if new is not None and new.st_nlink > 1 and stat.S_ISREG(new.st_mode):
            groups.setdefault((new.st_dev, new.st_ino), []).append((path, new, old))
        found = _compare(copied, real, path, old, new)
        if found is not None:
            differences.append(found)
    if groups:
        _find_hard_links(differences, groups)
    return differences


def _compare(
    copied: Copied,
    real: Tree,
    path: str,
    old: os.stat_result | None,
    new: os.stat_result | None,
) -> Difference | None:
    if old is None and new is None:
        return None
    alike = old is not None and new is not None and not _parted(old, new, copied)
    if old is None or new is None or not (alike and _same_content(copied, real, path, old, new)):
        return Difference(path, old, new, False, None, None)
    old_xattrs, new_xattrs = real.xattrs(path), copied.xattrs(path)
    if (
        _same_owner_and_mode(old, new)
        and old.st_mtime_ns == new.st_mtime_ns
        and old_xattrs == new_xattrs
    ):
        return None
    return Difference(path, old, new, True, old_xattrs, new_xattrs)


def _parted(old: os.stat_result, new: os.stat_result, copied: Copied) -> bool:
    """Say whether a name is a file of its own now, whatever its bytes: `sed -i` makes a new one."""
    regular = stat.S_ISREG(old.st_mode) and stat.S_ISREG(new.st_mode)
    return regular and old.st_nlink > 1 and new.st_nlink == 1 and not copied.splits_links


def _same_owner_and_mode(old: os.stat_result, new: os.stat_result) -> bool:
    return (old.st_mode, old.st_uid, old.st_gid) == (new.st_mode, new.st_uid, new.st_gid)


def _same_content(
    copied: Copied, real: Tree, path: str, old: os.stat_result, new: os.stat_result
) -> bool:
    kind = stat.S_IFMT(old.st_mode)
    if kind != stat.S_IFMT(new.st_mode):
        return False
    if kind == stat.S_IFLNK:
        return real.readlink(path) == copied.readlink(path)
    if kind in (stat.S_IFCHR, stat.S_IFBLK):
        return old.st_rdev == new.st_rdev
    if kind != stat.S_IFREG:
        return True
    if old.st_size != new.st_size:
        return False
    if old.st_size == 0:
        return True
    try:
        one = real.open(path)
    except PermissionError:
        # Not to be read for real, so nothing in the copy could read it or write to it either.
        return old.st_mtime_ns == new.st_mtime_ns
    try:
        other = copied.open(path)
        try:
            return same_bytes(one, other, old.st_size)
        finally:
            os.close(other)
    finally:
        os.close(one)


def _find_hard_links(
    differences: list[Difference],
    groups: dict[tuple[int, int], list[tuple[str, os.stat_result, os.stat_result | None]]],
) -> None:
    """Say of each difference which paths it is one file with, and add what only became one."""
    by_path = {one.path: one for one in differences}
    for members in groups.values():
        names = [path for path, _, _ in members]
        # One that keeps its bytes stays the file it is; the others become links of it.
        kept = [
            (path, old)
            for path, _, old in members
            if old is not None and (path not in by_path or by_path[path].same_bytes)
        ]
        if kept:
            anchor, anchor_state = kept[0]
            names.remove(anchor)
            names.insert(0, anchor)
        for path, new, old in members:
            one = by_path.get(path)
            apart = (
                bool(kept)
                and path != names[0]
                and not (
                    old is not None
                    and (old.st_dev, old.st_ino) == (anchor_state.st_dev, anchor_state.st_ino)
                )
            )
            if one is None:
                if not apart:
                    continue
                one = Difference(path, old, new, True, None, None)
                differences.append(one)
            one.group = tuple(names)
            one.relinked = apart
            one.complete = new.st_nlink <= len(members)
    differences.sort(key=lambda one: sort_key(one.path))


def sort_key(path: str) -> list[str]:
    """Return what sorts paths so that a folder comes right before what is in it."""
    return path.split("/")


def type_of(state: os.stat_result) -> Type:
    """Return what a path is."""
    if stat.S_ISREG(state.st_mode):
        return "file"
    if stat.S_ISDIR(state.st_mode):
        return "directory"
    return "link" if stat.S_ISLNK(state.st_mode) else "other"


def is_inside(path: str, copied: Copied) -> bool:
    """Say whether a path belongs to the session: below its root, or a file of its database."""
    if is_below(path, copied.root):
        return True
    database = copied.database
    return database is not None and any(path == database + end for end in SQLITE_FILES)


def selected(
    differences: list[Difference], copied: Copied, elsewhere: tuple[str, ...]
) -> Iterator[Difference]:
    """Yield what is inside, what was named, and the new folders above what was named."""
    named = {
        one.path
        for one in differences
        if any(is_below(one.path, name.rstrip("/") or "/") for name in elsewhere)
    }
    above: set[str] = set()
    for path in named:
        while path := path.rpartition("/")[0]:
            above.add(path)
    for one in differences:
        new_folder = one.old is None and one.new is not None and stat.S_ISDIR(one.new.st_mode)
        if is_inside(one.path, copied) or one.path in named or (one.path in above and new_folder):
            yield one
