"""Takes a commit back, finishes one a crash cut short, throws a session away."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from lwm_agents.changes import journal
from lwm_agents.changes.journal import Journal, Plan
from lwm_agents.changes.removal import remove_folder
from lwm_agents.changes.staging import give_back_time
from lwm_agents.changes.steps import Steps
from lwm_agents.changes.tree import Tree, join
from lwm_agents.errors import ChangesError, CommitFailed, Conflict


def undo(folder: str) -> list[str]:
    """Give back exactly what was before the commit; return the paths, absolute.

    Raises Conflict where a committed path changed since, ChangesError where there is no commit to
    undo, CommitFailed where the system refused a step: then `recover` goes on with it.
    """
    folder = os.path.realpath(folder)
    with journal.locked(folder):
        plan = journal.read(folder)
        if plan is None:
            raise ChangesError("there is no commit to undo")
        if plan.reached != "done":
            raise ChangesError("the commit was cut short; recover it first")
        real = Tree()
        try:
            found = _changed_since(plan, real)
            if found:
                raise Conflict(found)
            take_back(folder, plan, real, exact=False)
        except OSError as error:
            raise CommitFailed(
                f"the undo was cut short, recover goes on with it: {error}"
            ) from error
        finally:
            real.close()
    return [entry.path for entry in plan.entries] + [one.path for one in plan.in_place]


def recover(folder: str) -> str | None:
    """Finish or undo what a crash cut short. Harmless at any time, and as often as wanted.

    Returns "committed" or "undone", None where nothing was cut short. A commit whose plan was
    written is finished where that can be, else undone. Raises Conflict where somebody else changed
    a path meanwhile, so that neither can be.
    """
    folder = os.path.realpath(folder)
    if not os.path.exists(os.path.join(folder, journal.JOURNAL)):
        return None
    with journal.locked(folder):
        plan = journal.read(folder)
        if plan is None or plan.reached == "done":
            return None
        real = Tree()
        try:
            if plan.reached == "staging":
                clear(folder, plan, real, exact=True)
                return "undone"
            if plan.reached == "planned" and _finish(folder, plan, real):
                return "committed"
            take_back(folder, plan, real, exact=not plan.was_done)
            return "undone"
        finally:
            real.close()


def _finish(folder: str, plan: Plan, real: Tree) -> bool:
    log = Journal(folder)
    try:
        with Steps(plan, real) as steps:
            seen = steps.forward(first=False)
            steps.sync(log.device)
        log.reach("done", seen)
    except (OSError, Conflict):
        return False
    finally:
        log.close()
    return True


def discard(folder: str) -> None:
    """Remove the session's folder and all that was kept for an undo.

    Raises ChangesError where the session still runs, or a commit was cut short.
    """
    folder = os.path.realpath(folder)
    if not os.path.isdir(folder):
        return
    running = journal.running(folder)
    try:
        with journal.locked(folder):
            plan = journal.read(folder)
            if plan is not None and plan.reached != "done":
                raise ChangesError("a commit was cut short; recover it first")
            if plan is not None:
                real = Tree()
                try:
                    clear(folder, plan, real, exact=False)
                finally:
                    real.close()
    finally:
        running.release()
    remove_folder(folder)


def take_back(folder: str, plan: Plan, real: Tree, *, exact: bool) -> None:
    """Go all the way back from wherever a plan's steps are, and clear up."""
    log = Journal(folder)
    try:
        log.reach("undoing")
        with Steps(plan, real) as steps:
            steps.backward()
            steps.sync(log.device)
        log.sync()
    finally:
        log.close()
    clear(folder, plan, real, exact=exact)


def clear(folder: str, plan: Plan, real: Tree, *, exact: bool) -> None:
    """Remove the stages, then the journal. `exact`: their hosts were not changed by others.

    Then a host's time is the one from before the stage; else the one it has now.
    """
    real.forget()
    for stage in plan.stages:
        host = os.path.dirname(stage.path)
        state = real.lstat(host)
        if state is None:
            continue
        remove_folder(stage.path)
        give_back_time(real, host, stage.host_modified_ns if exact else state.st_mtime_ns)
    journal.remove(folder)


def _changed_since(plan: Plan, real: Tree) -> dict[str, str]:
    """Return every committed path that is not as the commit left it."""
    found: dict[str, str] = {}
    known: dict[str, set[str]] = {one.path: set() for one in plan.folders if one.old is None}
    for seen in plan.seen:
        with suppress(PermissionError):  # below a folder that lets nobody in: the steps will see
            state = real.lstat(seen.path)
            if state is None and seen.inode is not None:
                found[seen.path] = "it has been deleted since the commit"
            elif state is not None and seen.inode is None and not stat.S_ISDIR(state.st_mode):
                found[seen.path] = "it has been made again since the commit"
            elif (
                state is not None
                and seen.inode is not None
                and ((state.st_ino, state.st_ctime_ns) != (seen.inode, seen.changed_ns))
            ):
                found[seen.path] = "it has changed since the commit"
    for path in [*(seen.path for seen in plan.seen), *known]:
        if os.path.dirname(path) in known:
            known[os.path.dirname(path)].add(os.path.basename(path))
    for one in plan.folders:
        with suppress(PermissionError):
            state = real.lstat(one.path)
            is_folder = state is not None and stat.S_ISDIR(state.st_mode)
            if one.new is None:
                if is_folder:
                    found[one.path] = "it has been made again since the commit"
            elif state is None or not is_folder:
                found[one.path] = "it has been deleted or replaced since the commit"
            elif (stat.S_IMODE(state.st_mode), state.st_uid) != (one.new.mode, one.new.owner):
                found[one.path] = "it has changed since the commit"
            elif one.old is None:
                for name in set(real.names(one.path)) - known[one.path]:
                    found[join(one.path, name)] = "it has been made since the commit"
    return found
