"""New files made ready beside the real ones: one folder of ours on each mount they go to."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress

from lwm_agents.changes.compare import Difference
from lwm_agents.changes.content import copy, sync_file_system
from lwm_agents.changes.copied import Copied
from lwm_agents.changes.journal import Journal, Stage
from lwm_agents.changes.metadata import HAS_OWNERS, put_on_new
from lwm_agents.changes.tree import DIRECTORY, NOFOLLOW, Tree, by_descriptor, join
from lwm_agents.errors import Conflict

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOFOLLOW | getattr(os, "O_BINARY", 0)


class Stages:
    """The stages of one commit, chosen by where its paths lie, then made, then filled.

    A stage lies in the session's folder where that is on the same mount; else beside the root;
    else in the first folder on that mount that is changed.
    """

    def __init__(self, real: Tree, folder: str, root: str) -> None:
        self._real = real
        self._name = f".lwm-{secrets.token_hex(6)}"
        self._numbers: dict[int, int] = {}
        self._chosen: dict[str, int] = {}
        self._preferred: dict[int, str] = {}
        self._fds: list[int | None] = []
        self.stages: list[Stage] = []
        for host in (os.path.dirname(root), folder):
            with suppress(OSError):
                if host == folder or os.access(host, os.W_OK | os.X_OK):
                    self._preferred[self._mount(host)] = host

    def choose(self, folder: str) -> int:
        """Return the number of the stage for what lies in a folder."""
        if folder in self._chosen:
            return self._chosen[folder]
        mount = self._mount(folder)
        if mount not in self._numbers:
            self._numbers[mount] = len(self.stages)
            host = self._preferred.get(mount, folder)
            state = self._real.lstat(host)
            assert state is not None
            self.stages.append(Stage(join(host, self._name), state.st_mtime_ns))
        self._chosen[folder] = self._numbers[mount]
        return self._numbers[mount]

    def make(self) -> None:
        """Make the folders, each readable by its owner only."""
        for stage in self.stages:
            at, name = self._real.at(stage.path)
            os.mkdir(name, 0o700, dir_fd=at)
            self._fds.append(
                None if at is None else os.open(name, os.O_RDONLY | DIRECTORY, dir_fd=at)
            )
            host = os.path.dirname(stage.path)
            give_back_time(self._real, host, stage.host_modified_ns)

    def sync(self, synced: Journal) -> None:
        """Make what was staged durable, and the journal with it: once for each file system."""
        synced.sync()
        devices = {synced.device}
        for fd in self._fds:
            if fd is not None and (device := os.fstat(fd).st_dev) not in devices:
                devices.add(device)
                sync_file_system(fd)

    def close(self) -> None:
        """Give back the descriptors. The folders stay."""
        while self._fds:
            fd = self._fds.pop()
            if fd is not None:
                os.close(fd)

    def file(
        self, stage: int, number: int, copied: Copied, one: Difference, digest: str | None
    ) -> int:
        """Make a regular file ready; return its inode.

        Raises Conflict where its bytes don't have the SHA-256 that was shown.
        """
        new = one.new
        assert new is not None
        at, name = self._at(stage, f"n{number}")
        source = copied.open(one.path)
        try:
            xattrs = copied.xattrs(one.path)
            # Nobody else gets into the stage, so a file may have its mode from the start.
            mode = 0o600 if xattrs else stat.S_IMODE(new.st_mode)
            target = os.open(name, _NEW, mode, dir_fd=at)
            try:
                if not copy(source, target, new, digest):
                    raise Conflict({one.path: "the session has changed it since it was shown"})
                return put_on_new(target, new, xattrs)
            finally:
                os.close(target)
        finally:
            os.close(source)

    def link(self, stage: int, number: int, copied: Copied, one: Difference) -> int:
        """Make a symbolic link ready; return its inode."""
        at, name = self._at(stage, f"n{number}")
        os.symlink(copied.readlink(one.path), name, dir_fd=at)
        return self._finish(at, name, one)

    def pipe(self, stage: int, number: int, one: Difference) -> int:
        """Make a named pipe ready; return its inode."""
        at, name = self._at(stage, f"n{number}")
        assert one.new is not None
        os.mkfifo(name, 0o600, dir_fd=at)
        os.chmod(by_descriptor(at, name), stat.S_IMODE(one.new.st_mode))  # ours, in our folder
        return self._finish(at, name, one)

    def hard_link(self, stage: int, number: int, first: int) -> int:
        """Make another name of a staged file ready; return its inode."""
        at, name = self._at(stage, f"n{number}")
        _, source = self._at(stage, f"n{first}")
        os.link(source, name, src_dir_fd=at, dst_dir_fd=at, follow_symlinks=False)
        return os.stat(name, dir_fd=at, follow_symlinks=False).st_ino

    def hard_link_to_real(self, stage: int, number: int, path: str) -> int:
        """Make another name of a real file ready; return its inode. Raises OSError."""
        at, name = self._at(stage, f"n{number}")
        real_at, real = self._real.at(path)
        os.link(real, name, src_dir_fd=real_at, dst_dir_fd=at, follow_symlinks=False)
        return os.stat(name, dir_fd=at, follow_symlinks=False).st_ino

    def _at(self, stage: int, name: str) -> tuple[int | None, str]:
        fd = self._fds[stage]
        return fd, name if fd is not None else f"{self.stages[stage].path}/{name}"

    @staticmethod
    def _finish(at: int | None, name: str, one: Difference) -> int:
        new = one.new
        assert new is not None
        if HAS_OWNERS and (new.st_uid, new.st_gid) != (os.geteuid(), os.getegid()):
            with suppress(PermissionError):
                os.chown(name, new.st_uid, new.st_gid, dir_fd=at, follow_symlinks=False)
        times = (new.st_atime_ns, new.st_mtime_ns)
        os.utime(name, ns=times, dir_fd=at, follow_symlinks=False)
        return os.stat(name, dir_fd=at, follow_symlinks=False).st_ino

    def _mount(self, folder: str) -> int:
        """Return what tells mounts apart: a rename works within one only."""
        at, name = self._real.at(join(folder, "."))
        if at is None:
            return os.stat(folder).st_dev
        with suppress(OSError), open(f"/proc/self/fdinfo/{at}") as info:
            for line in info:
                if line.startswith("mnt_id:"):
                    return int(line.split()[1])
        return os.stat(name, dir_fd=at).st_dev


def give_back_time(real: Tree, folder: str, modified_ns: int) -> None:
    """Set a folder's time of last change back to what it was before something of ours was in it."""
    with suppress(OSError):
        state = real.lstat(folder)
        if state is not None and state.st_mtime_ns != modified_ns:
            at, name = real.at(folder)
            times = (state.st_atime_ns, modified_ns)
            os.utime(name, ns=times, dir_fd=at, follow_symlinks=False)
