"""What stands in the way of a commit: asked before anything is touched."""

from __future__ import annotations

import os
import stat

from lwm_agents.changes.change import Change, Changes, shown
from lwm_agents.changes.compare import SQLITE_FILES, Difference, type_of
from lwm_agents.changes.copied import Copied
from lwm_agents.changes.databases import is_sqlite
from lwm_agents.changes.tree import Tree, is_below, parent_of

CHANGED = "it has changed since the session began"


def conflicts(chosen: list[Difference], copied: Copied, real: Tree) -> dict[str, str]:
    """Return every path that can't be committed, and why."""
    found: dict[str, str] = {}
    made = {
        one.path
        for one in chosen
        if one.new is not None
        and stat.S_ISDIR(one.new.st_mode)
        and not (one.old is not None and stat.S_ISDIR(one.old.st_mode))
    }
    parents: dict[str, str | None] = {}
    for one in chosen:
        why = _own(one, copied)
        parent = parent_of(one.path)
        if why is None and one.path != copied.root and parent not in made:
            if parent not in parents:
                parents[parent] = _of_parent(real, parent, copied.began_ns)
            why = parents[parent]
        if why is not None:
            found[one.path] = why
    return found


def _own(one: Difference, copied: Copied) -> str | None:
    old, new = one.old, one.new
    if old is not None and changed_ns(old) > copied.began_ns:
        return CHANGED
    if new is None:
        return None
    if not one.same_bytes and type_of(new) == "other" and not stat.S_ISFIFO(new.st_mode):
        return "a socket or a device can't be committed"
    if not one.same_bytes and old is not None and old.st_nlink > 1 and copied.splits_links:
        return "it has another name, by a hard link; a copy made without root can't tell of that"
    if (
        not (one.same_bytes or one.relinked or one.complete)
        and old is not None
        and old.st_nlink > 1
    ):
        return "it has another name, by a hard link, that was not found; both would have to change"
    return None


def _of_parent(real: Tree, parent: str, began_ns: int) -> str | None:
    state = real.lstat(parent)
    if state is None:
        return "its folder is gone, or a link now"
    if not stat.S_ISDIR(state.st_mode):
        return "its folder is a link or a file now"
    # A folder such as /tmp, where everybody may make files of their own, changes all the time.
    shared = state.st_mode & stat.S_ISVTX and state.st_mode & stat.S_IWOTH
    if changed_ns(state) > began_ns and not shared:
        return "its folder has changed since the session began"
    return None


def changed_ns(state: os.stat_result) -> int:
    """Return when content or metadata last changed (Windows' ctime is the time of creation)."""
    return max(state.st_ctime_ns, state.st_mtime_ns) if os.name == "nt" else state.st_ctime_ns


def not_as_shown(chosen: list[Difference], changes: Changes, copied: Copied) -> dict[str, str]:
    """Return every path that is not, or no longer, what the changes show."""
    expected: dict[str, Change | None] = {}
    for change in (*changes.inside, *changes.elsewhere):
        expected[change.path] = change
        if change.renamed_from is not None:
            expected[change.renamed_from] = None
    found: dict[str, str] = {}
    for one in chosen:
        if one.time_of_folder:
            continue
        name = shown_path(one.path, copied)
        if name not in expected:
            found[one.path] = "the session has changed it since, it was not shown"
            continue
        shown_as = expected.pop(name)
        new = shown_as.new if shown_as is not None else None
        if (new is None) != (one.new is None) or (
            new is not None
            and one.new is not None
            and (new.type, new.mode, new.owner, new.group, new.modified_ns)
            != (
                type_of(one.new),
                stat.S_IMODE(one.new.st_mode),
                one.new.st_uid,
                one.new.st_gid,
                one.new.st_mtime_ns,
            )
        ):
            found[one.path] = "the session has changed it since it was shown"
    inside = {change.path for change in changes.inside}
    for name in expected:
        if name in inside:
            found[name] = "it was shown as changed, and is no longer"
    return found


def shown_path(path: str, copied: Copied) -> str:
    """Return a path as `Change.path` has it: relative to the root, absolute elsewhere."""
    if path == copied.root:
        return "."
    if is_below(path, copied.root):
        return shown(path[len(copied.root.rstrip("/")) + 1 :])
    return shown(path)


def databases(chosen: list[Difference], copied: Copied, real: Tree) -> list[str]:
    """Return the real SQLite files that would change, by themselves or by their journals."""
    found: set[str] = set()
    for one in chosen:
        if one.path == copied.database or _is_database(real, one.path, one.old):
            found.add(one.path)
        if one.path.endswith(SQLITE_FILES[1:]):
            base = one.path.rpartition("-")[0]
            if base == copied.database or _is_database(real, base, real.lstat(base)):
                found.add(base)
    return sorted(found)


def _is_database(real: Tree, path: str, state: os.stat_result | None) -> bool:
    # Its size is a multiple of its page size, which is one of 512 (sqlite.org/fileformat2.html).
    if state is None or not stat.S_ISREG(state.st_mode):
        return False
    if state.st_size == 0 or state.st_size % 512:
        return False
    try:
        fd = real.open(path)
    except OSError:
        return False
    try:
        return is_sqlite(fd)
    finally:
        os.close(fd)
