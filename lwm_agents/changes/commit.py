"""Makes a session's changes real: checked, staged, journaled, then done in one go."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress

from lwm_agents.changes import journal
from lwm_agents.changes.change import Changes
from lwm_agents.changes.checks import changed_ns, conflicts, databases, not_as_shown, shown_path
from lwm_agents.changes.compare import Difference, compare, selected, sort_key
from lwm_agents.changes.copied import Copied
from lwm_agents.changes.databases import unused
from lwm_agents.changes.journal import Entry, Folder, InPlace, Journal, Plan
from lwm_agents.changes.metadata import meta_of
from lwm_agents.changes.staging import Stages
from lwm_agents.changes.steps import Steps
from lwm_agents.changes.tree import Tree, parent_of
from lwm_agents.changes.undo import clear, take_back
from lwm_agents.errors import ChangesError, CommitFailed, Conflict


def commit(
    copied: Copied,
    changes: Changes | None = None,
    *,
    folder: str,
    elsewhere: Sequence[str] = (),
) -> list[str]:
    """Make the session's changes real; return the paths, absolute.

    `changes` is what was shown and approved: nothing else is committed. `folder` is the session's
    own folder, where the journal and, where it can, what `undo` needs is kept. `elsewhere` names
    paths outside the root, or folders, that are committed too.

    Raises Conflict where a path or its folder changed since the session began, CommitFailed where
    the system refused a step, ChangesError where the session was committed already; in all three
    the real files are as they were.
    """
    folder = os.path.realpath(folder)
    with journal.locked(folder):
        earlier = journal.read(folder)
        if earlier is not None:
            raise ChangesError(
                "the session was committed already; undo that first"
                if earlier.reached == "done"
                else "an earlier commit was cut short; recover it first"
            )
        real = Tree()
        try:
            return _commit(copied, changes, real, folder, tuple(map(os.path.abspath, elsewhere)))
        finally:
            real.close()


def _commit(
    copied: Copied, changes: Changes | None, real: Tree, folder: str, elsewhere: tuple[str, ...]
) -> list[str]:
    chosen = [
        one
        for one in selected(compare(copied, real), copied, elsewhere)
        # A time alone is nothing to refuse for: where the real folder moved on, its own stays.
        if not (one.time_of_folder and one.old and changed_ns(one.old) > copied.began_ns)
    ]
    found = conflicts(chosen, copied, real)
    digests: dict[str, str] = {}
    if changes is not None:
        found |= not_as_shown(chosen, changes, copied)
        shown = {change.path: change for change in (*changes.inside, *changes.elsewhere)}
        for one in chosen:
            change = shown.get(shown_path(one.path, copied))
            if change is not None and change.new is not None and change.new.sha256 is not None:
                digests[one.path] = change.new.sha256
    if found:
        raise Conflict(found)
    if not chosen:
        return []
    with unused(real, databases(chosen, copied, real)) as busy:
        if busy:
            raise Conflict(busy)
        plan = _stage(copied, real, folder, chosen, digests)
        _take(plan, real, folder)
    return [one.path for one in chosen]


def _stage(
    copied: Copied, real: Tree, folder: str, chosen: list[Difference], digests: dict[str, str]
) -> Plan:
    """Make everything new ready and write the plan; from its last line on it is to be done."""
    plan = Plan()
    stages = Stages(real, folder, copied.root)
    entries = [one for one in chosen if _is_entry(one)]
    plan.folders = _folders(copied, real, chosen, entries)
    plan.in_place = [
        InPlace(
            one.path,
            one.old.st_ino,
            meta_of(one.old, one.old_xattrs or {}),
            meta_of(one.new, one.new_xattrs or {}),
        )
        for one in chosen
        if one.old and one.new and not stat.S_ISDIR(one.new.st_mode) and not _is_entry(one)
    ]
    lasting = _Lasting(plan.folders)
    numbers = [stages.choose(lasting.above(one.path)) for one in entries]
    plan.stages = stages.stages
    log = Journal(folder)
    try:
        log.begin(plan.stages)
        stages.make()
        filler = _Filler(copied, stages, digests)
        plan.entries = [
            filler.entry(number, stage, one)
            for number, (stage, one) in enumerate(zip(numbers, entries, strict=True))
        ]
        log.plan(plan)
        stages.sync(log)
        log.reach("planned")
    except BaseException as error:
        stages.close()
        log.close()
        clear(folder, plan, real, exact=True)
        if isinstance(error, OSError):
            raise CommitFailed(f"nothing was changed: {error}") from error
        raise
    stages.close()
    log.close()
    return plan


def _take(plan: Plan, real: Tree, folder: str) -> None:
    log = Journal(folder)
    try:
        with Steps(plan, real) as steps:
            seen = steps.forward(first=True)
            steps.sync(log.device)
        log.reach("done", seen)
    except BaseException as error:
        log.close()
        try:
            take_back(folder, plan, real, exact=True)
        except (OSError, Conflict) as second:
            raise ChangesError(
                f"the commit was cut short ({error}) and can't be taken back yet ({second}); "
                "put that right and recover it"
            ) from error
        if isinstance(error, OSError):
            raise CommitFailed(f"everything is as it was before: {error}") from error
        raise
    finally:
        log.close()


def _is_entry(one: Difference) -> bool:
    """Whether a path's file itself is replaced, added or deleted, not only its metadata."""
    old = one.old is not None and not stat.S_ISDIR(one.old.st_mode)
    new = one.new is not None and not stat.S_ISDIR(one.new.st_mode)
    return (old or new) and (not one.same_bytes or one.relinked)


def _folders(
    copied: Copied, real: Tree, chosen: list[Difference], entries: list[Difference]
) -> list[Folder]:
    """Return the folders that change, and those whose time changes with what is in them."""
    found: dict[str, Folder] = {}
    for one in chosen:
        old = one.old if one.old is not None and stat.S_ISDIR(one.old.st_mode) else None
        new = one.new if one.new is not None and stat.S_ISDIR(one.new.st_mode) else None
        if old is not None or new is not None:
            found[one.path] = Folder(
                one.path,
                None if old is None else meta_of(old, _or(one.old_xattrs, real.xattrs, one.path)),
                None if new is None else meta_of(new, _or(one.new_xattrs, copied.xattrs, one.path)),
            )
    holders = [one.path for one in entries]
    holders += [path for path, one in found.items() if one.old is None or one.new is None]
    for path in holders:
        parent = parent_of(path)
        if parent in found:
            continue
        old, new = real.lstat(parent), copied.lstat(parent)
        if old is None or new is None:
            continue
        before = meta_of(old, real.xattrs(parent))
        found[parent] = Folder(parent, before, before._replace(modified_ns=new.st_mtime_ns))
    return sorted(found.values(), key=lambda one: sort_key(one.path))


def _or(
    known: dict[str, bytes] | None, ask: Callable[[str], dict[str, bytes]], path: str
) -> dict[str, bytes]:
    return ask(path) if known is None else known


class _Lasting:
    """The folders that are there before, during and after the commit."""

    def __init__(self, folders: list[Folder]) -> None:
        self._passing = {one.path for one in folders if one.old is None or one.new is None}

    def above(self, path: str) -> str:
        """Return the nearest one above a path."""
        parent = parent_of(path)
        while parent in self._passing:
            parent = parent_of(parent)
        return parent


class _Filler:
    """Fills the stages, one entry after the other; hard links in the copy stay hard links."""

    def __init__(self, copied: Copied, stages: Stages, digests: dict[str, str]) -> None:
        self._copied = copied
        self._stages = stages
        self._digests = digests
        self._first: dict[tuple[int, tuple[str, ...]], int] = {}

    def entry(self, number: int, stage: int, one: Difference) -> Entry:
        """Make an entry's new content ready and return the entry."""
        old = one.old if one.old is not None and not stat.S_ISDIR(one.old.st_mode) else None
        new = one.new if one.new is not None and not stat.S_ISDIR(one.new.st_mode) else None
        return Entry(
            one.path,
            stage,
            number,
            None if old is None else old.st_ino,
            None if old is None else old.st_ctime_ns,
            None if new is None else self._new(number, stage, one, new.st_mode),
        )

    def _new(self, number: int, stage: int, one: Difference, mode: int) -> int:
        if stat.S_ISLNK(mode):
            return self._stages.link(stage, number, self._copied, one)
        if stat.S_ISFIFO(mode):
            return self._stages.pipe(stage, number, one)
        if one.relinked:
            with suppress(OSError):  # such as across mounts: then it becomes a file of its own
                return self._stages.hard_link_to_real(stage, number, one.group[0])
        key = (stage, one.group)
        if one.group and key in self._first:
            return self._stages.hard_link(stage, number, self._first[key])
        self._first[key] = number
        return self._stages.file(stage, number, self._copied, one, self._digests.get(one.path))
