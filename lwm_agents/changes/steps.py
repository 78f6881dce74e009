"""Takes the steps of a plan, forwards or backwards, from wherever a crash left them.

Every step looks at what is there first, by inode: done already, to be done, or somebody else's.
A file and its new content change places in one step, so a reader sees the old or the new one, and
to go back is one rename. Where the system can't exchange names, a hard link keeps the old file in
the stage before the new one is renamed over it.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from lwm_agents.changes.content import sync_file_system
from lwm_agents.changes.exchange import exchange
from lwm_agents.changes.journal import Entry, Meta, Plan, Seen
from lwm_agents.changes.metadata import put
from lwm_agents.changes.tree import DIRECTORY, Tree
from lwm_agents.errors import Conflict

_NO_HARD_LINK = {
    errno.EPERM, errno.EACCES, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL,
}  # fmt: skip


class Steps:
    """The steps of one plan on the real file system. Use as a context manager."""

    def __init__(self, plan: Plan, real: Tree) -> None:
        self._plan = plan
        self._real = real
        self._stages: list[int | None] = []

    def __enter__(self) -> Steps:
        for stage in self._plan.stages:
            at, name = self._real.at(stage.path)
            fd = None
            if at is not None:
                with suppress(FileNotFoundError):  # a crash came after it was removed
                    fd = os.open(name, os.O_RDONLY | DIRECTORY, dir_fd=at)
            self._stages.append(fd)
        return self

    def __exit__(self, *_: object) -> None:
        for fd in self._stages:
            if fd is not None:
                os.close(fd)
        self._stages.clear()

    def forward(self, *, first: bool) -> list[Seen]:
        """Do everything that is not done yet; return how each path was left.

        `first`: nothing was done before, nothing old lies in the stages.
        Raises Conflict where somebody else changed a path meanwhile, and OSError.
        """
        plan = self._plan
        self._open_up()
        for entry in plan.entries:
            if entry.old is not None:
                self._put_aside(entry, first=first)
        self._remove_folders([one.path for one in plan.folders if one.new is None])
        self._make_folders([one.path for one in plan.folders if one.old is None])
        for entry in plan.entries:
            if entry.new is not None and entry.old is None:
                self._add(entry)
        for one in plan.in_place:
            self._put(one.path, one.new, one.inode)
        # Before the folders get their modes: some let nobody in any more.
        paths = [one.path for one in plan.entries] + [one.path for one in plan.in_place]
        seen = [self._see(path) for path in paths]
        self._finish([(one.path, one.new) for one in plan.folders])
        return seen

    def backward(self) -> None:
        """Take back everything that is done. Raises as `forward` does."""
        plan = self._plan
        self._open_up()
        for entry in plan.entries:
            if entry.new is not None:
                self._take_away(entry)
        self._remove_folders([one.path for one in plan.folders if one.old is None])
        self._make_folders([one.path for one in plan.folders if one.new is None])
        for entry in plan.entries:
            if entry.old is not None:
                self._give_back(entry)
        for one in plan.in_place:
            self._put(one.path, one.old, one.inode)
        self._finish([(one.path, one.old) for one in plan.folders])

    def sync(self, synced: int) -> None:
        """Make all of it durable on every file system but `synced`, the journal's own."""
        devices = {synced}
        for fd in self._stages:
            if fd is not None and (device := os.fstat(fd).st_dev) not in devices:
                devices.add(device)
                sync_file_system(fd)

    # Forwards.

    def _put_aside(self, entry: Entry, *, first: bool) -> None:
        """Keep the old file in the stage; put the new one, or nothing, in its place."""
        path = entry.path
        stage, new, old = self._staged(entry)
        try:
            at, name = self._real.at(path)
            state = os.stat(name, dir_fd=at, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            state = None
        if state is not None and state.st_ino == entry.new:
            return
        kept = not first and self._kept(old, stage, entry.old)
        if state is None:
            if not kept:
                raise Conflict({path: "it has been deleted meanwhile"})
            if entry.new is None:
                return  # the folder it lay in may be gone as well
            at, name = self._real.at(path)
        elif state.st_ino != entry.old:
            if entry.new is None and kept and stat.S_ISDIR(state.st_mode):
                return  # the folder that takes its place
            raise Conflict({path: "it has been replaced meanwhile"})
        elif not kept:
            if state.st_nlink == 1 and state.st_ctime_ns != entry.old_changed_ns:
                raise Conflict({path: "it has been changed meanwhile"})
            if entry.new is not None and exchange(new, name, stage, at):
                return
            if entry.new is None or not _link(name, old, at, stage):
                os.rename(name, old, src_dir_fd=at, dst_dir_fd=stage)
                state = None
        if entry.new is not None:
            os.replace(new, name, src_dir_fd=stage, dst_dir_fd=at)
        elif state is not None:
            os.unlink(name, dir_fd=at)

    def _add(self, entry: Entry) -> None:
        """Put a new file where nothing is, and only there."""
        at, name = self._real.at(entry.path)
        stage, new, _ = self._staged(entry)
        try:
            # A rename would overwrite what came into being a moment ago; a link fails instead.
            os.link(new, name, src_dir_fd=stage, dst_dir_fd=at, follow_symlinks=False)
        except OSError as error:
            state = self._real.lstat(entry.path)
            if state is not None:
                if state.st_ino != entry.new:
                    raise Conflict({entry.path: "it has been made meanwhile"}) from None
            elif error.errno in _NO_HARD_LINK:
                os.rename(new, name, src_dir_fd=stage, dst_dir_fd=at)
                return
            else:
                raise
        with suppress(FileNotFoundError):
            os.unlink(new, dir_fd=stage)

    # Backwards.

    def _take_away(self, entry: Entry) -> None:
        """Put the old file, or nothing, in the place of the new one."""
        state = self._real.lstat(entry.path)
        if state is None or state.st_ino == entry.old:
            return
        if state.st_ino != entry.new:
            if entry.old is None and stat.S_ISDIR(state.st_mode):
                return  # the folder that was there before, given back already
            raise Conflict({entry.path: "it has been replaced since"})
        if entry.old is not None:
            self._put_back(entry)
        else:
            at, name = self._real.at(entry.path)
            os.unlink(name, dir_fd=at)

    def _give_back(self, entry: Entry) -> None:
        state = self._real.lstat(entry.path)
        if state is None:
            self._put_back(entry)
        elif state.st_ino != entry.old:
            raise Conflict({entry.path: "something new is in its place"})

    def _put_back(self, entry: Entry) -> None:
        """Put the old file in its place: it changed names with the new one, or was put aside."""
        stage, new, old = self._staged(entry)
        for kept in (old, new):
            if self._kept(kept, stage, entry.old):
                at, name = self._real.at(entry.path)
                os.replace(kept, name, src_dir_fd=stage, dst_dir_fd=at)
                return
        raise Conflict({entry.path: "what was there before is no longer kept"})

    # Both ways.

    def _put(self, path: str, wanted: Meta, inode: int) -> None:
        state = self._real.lstat(path)
        if state is None or state.st_ino != inode:
            raise Conflict({path: "it has been replaced meanwhile"})
        put(*self._real.at(path), wanted)

    def _remove_folders(self, paths: list[str]) -> None:
        for path in reversed(paths):
            state = self._real.lstat(path)
            if state is None or not stat.S_ISDIR(state.st_mode):
                continue
            at, name = self._real.at(path)
            try:
                os.rmdir(name, dir_fd=at)
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                    raise Conflict({path: "something new lies in it"}) from None
                raise
        self._real.forget()

    def _make_folders(self, paths: list[str]) -> None:
        for path in paths:
            at, name = self._real.at(path)
            try:
                os.mkdir(name, 0o700, dir_fd=at)
            except FileExistsError:
                state = self._real.lstat(path)
                if state is None or not stat.S_ISDIR(state.st_mode):
                    raise Conflict({path: "something new is in its place"}) from None

    def _open_up(self) -> None:
        """Let the owner change folders whose mode forbids it; `_finish` sets the mode asked for."""
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            return
        for one in self._plan.folders:
            state = self._real.lstat(one.path)
            if state is None or not stat.S_ISDIR(state.st_mode):
                continue
            if state.st_mode & stat.S_IRWXU != stat.S_IRWXU:
                before = one.old or one.new
                if before is not None:
                    open_ = before._replace(
                        mode=stat.S_IMODE(state.st_mode) | stat.S_IRWXU,
                        modified_ns=state.st_mtime_ns,
                    )
                    with suppress(PermissionError):  # not ours; the steps will say if it matters
                        put(*self._real.at(one.path), open_)

    def _finish(self, folders: list[tuple[str, Meta | None]]) -> None:
        for path, wanted in reversed(folders):
            if wanted is not None:
                put(*self._real.at(path), wanted)
        self._real.forget()

    @staticmethod
    def _kept(name: str, stage: int | None, inode: int | None) -> bool:
        try:
            return os.stat(name, dir_fd=stage, follow_symlinks=False).st_ino == inode
        except FileNotFoundError:
            return False

    def _see(self, path: str) -> Seen:
        state = self._real.lstat(path)
        if state is None or stat.S_ISDIR(state.st_mode):
            return Seen(path, None, None)
        return Seen(path, state.st_ino, state.st_ctime_ns)

    def _staged(self, entry: Entry) -> tuple[int | None, str, str]:
        """Return the stage, and the names of the new and the old file in it."""
        stage = self._stages[entry.stage]
        folder = "" if stage is not None else f"{self._plan.stages[entry.stage].path}/"
        return stage, f"{folder}n{entry.number}", f"{folder}o{entry.number}"


def _link(source: str, target: str, at: int | None, stage: int | None) -> bool:
    """Make a hard link in the stage; False: not possible on this file system, or not allowed."""
    try:
        os.link(source, target, src_dir_fd=at, dst_dir_fd=stage, follow_symlinks=False)
    except OSError as error:
        if error.errno in _NO_HARD_LINK:
            return False
        raise
    return True
