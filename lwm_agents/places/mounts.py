"""The file system of a copy: every real mount under a layer that takes all changes.

Run in a process that has a mount namespace of its own. With the right to mount in the real user
namespace there is one overlay for each mount, `/` included. Without it, mounts that came from
outside are locked together, and an overlay needs a lower directory without mounts beneath: then
there is one for each directory at the top, deeper where something is mounted beneath.

What can't be under an overlay is read-only: pseudo file systems, mounts that are read-only anyway,
single files that were mounted, and what overlayfs refuses.
"""

from __future__ import annotations

import errno
import os
import stat

from lwm_agents.places.mountinfo import Mounted, read_mounts, visible_mounts
from lwm_agents.places.syscalls import (
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_PRIVATE,
    MS_RDONLY,
    MS_REC,
    MS_REMOUNT,
    make_read_only,
    mount,
    pivot_root,
    step,
    unmount,
    watch,
    watch_opening,
)

_APART = ("/proc", "/sys", "/dev")
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}
_PSEUDO = frozenset(
    {
        *("proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "mqueue", "hugetlbfs"),
        *("debugfs", "tracefs", "securityfs", "configfs", "fusectl", "pstore", "bpf", "autofs"),
        *("binfmt_misc", "efivarfs", "nsfs", "rpc_pipefs", "selinuxfs", "fuse.lxcfs"),
    }
)
_PROC_FILES = ("sysrq-trigger", "kcore", "kmsg", "keys", "timer_list", "sched_debug", "mtrr")
_PROC_FOLDERS = ("sys", "irq", "bus", "fs", "acpi", "scsi", "driver", "tty", "dynamic_debug")
_REFUSED = frozenset({errno.EINVAL, errno.ELOOP, errno.EOPNOTSUPP, errno.ESTALE, errno.EREMOTE})
"""What overlayfs answers for a lower directory that it can't have."""

_FEATURES = "index=on,redirect_dir=on,xino=on,metacopy=off"
_RESERVED = 300  # numbers that the kernel does not give out again (RESERVED_PIDS)
_SMALL = "size=1m,mode=0755"


class Mounts:
    """Builds the copy's file system. The working directory is the layer's folder.

    `layers` says which upper directory holds the changes below which path; it is added to. So a
    layer that was left on disk is taken up again. `ways` are directories below which much will be
    written: where the rights to be another user are missing, those on the way to them that belong
    to others can't be copied up when that happens (EOVERFLOW), so they are made beforehand;
    `prepared` names them. `watch` tells when something hidden is opened.
    """

    def __init__(self, layers: dict[str, str], ways: list[str], *, privileged: bool) -> None:
        self.layers = layers
        self.prepared: list[str] = []
        self.watch = watch()
        self._ways = ways
        self._privileged = privileged
        self._lowers = 0

    def build(self, hidden: list[str], processes: int) -> None:
        """Make the copy's root this process's root. Raises OSError, and then nothing may run.

        `hidden` are paths that nobody shall see, `processes` is how many there may be.
        """
        mount(None, "/", None, MS_REC | MS_PRIVATE)
        mounted = visible_mounts()
        for name in ("lower", "merged"):
            _folder(name)
        if self._privileged:
            self._whole(mounted)
        else:
            self._spread(mounted)
        there = os.stat("merged")
        self._proc(processes)
        mount("/sys", "merged/sys", None, MS_BIND | MS_REC)
        make_read_only("merged/sys")
        self._dev(mounted)
        empty = os.open("empty", os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o400)
        os.chdir("merged")
        pivot_root(".", ".")
        for path in hidden:
            _hide(path, empty)
        os.close(empty)
        for path in hidden:
            if os.path.exists(path):
                watch_opening(self.watch, path)
        unmount(".")
        step("chdir /")
        os.chdir("/")
        here = os.stat("/")
        if (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino):
            raise OSError(errno.EPERM, "the root is not the copy's", "/")
        _check()

    def _whole(self, mounted: list[Mounted]) -> None:
        for one in mounted:
            if one.path != "/" and _apart(one.path):
                continue
            self._cover(one.path, one)

    def _spread(self, mounted: list[Mounted]) -> None:
        mount("tmpfs", "merged", "tmpfs", MS_NODEV, "size=16m,mode=0755")
        by_path = {one.path: one for one in mounted}
        self._spread_folder("/", by_path)
        mount(None, "merged", None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NODEV)

    def _spread_folder(self, path: str, by_path: dict[str, Mounted]) -> None:
        for name in sorted(os.listdir(path)):
            below = os.path.join(path, name)
            target = "merged" + below
            state = os.lstat(below)
            if stat.S_ISLNK(state.st_mode):
                os.symlink(os.readlink(below), target)
            elif not stat.S_ISDIR(state.st_mode):
                if stat.S_ISREG(state.st_mode):
                    os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
                    self._read_only(below, target)
            else:
                os.mkdir(target, 0o755)
                if below in _APART:
                    continue
                holder = by_path.get(below) or by_path["/"]
                if any(other.startswith(below + "/") for other in by_path):
                    self._spread_folder(below, by_path)
                else:
                    self._cover(below, holder)

    def _cover(self, path: str, holder: Mounted) -> None:
        """Put a layer over what is at `path`, which is or lies in the mount `holder`."""
        target = "merged" + path.rstrip("/")
        if (
            holder.kind in _PSEUDO
            or "ro" in holder.options
            or not stat.S_ISDIR(os.stat(path).st_mode)
            or not os.access(path, os.X_OK, effective_ids=True)
        ):
            self._read_only(path, target)
            return
        lower = path
        if self._privileged:  # without the mounts beneath
            lower = f"lower/{self._lowers}"
            self._lowers += 1
            _folder(lower)
            mount(path, lower, None, MS_BIND)
        upper = self.layers.setdefault(path, f"upper/{len(self.layers)}")
        work = upper.replace("upper", "work")
        for name in (upper, work):
            _folder(name)
        like(path, upper, owned=self._privileged)
        if not self._privileged:
            for way in self._ways:
                self._prepare(path, upper, way)
        options = f"lowerdir={escaped(lower)},upperdir={upper},workdir={work}"
        options += "," + (_FEATURES if self._privileged else "userxattr,xino=auto")
        try:
            mount("overlay", target, "overlay", MS_NODEV, options)
        except OSError as error:
            if error.errno not in _REFUSED or path == "/":
                raise
            del self.layers[path]
            self._read_only(path, target)
            return
        if "noexec" in holder.options or "nosuid" in holder.options:
            flags = MS_NODEV
            flags |= MS_NOEXEC if "noexec" in holder.options else 0
            flags |= MS_NOSUID if "nosuid" in holder.options else 0
            mount(None, target, None, MS_REMOUNT | MS_BIND | flags)

    def _prepare(self, path: str, upper: str, way: str) -> None:
        """Make the directories from the top of a layer to the last one that another user owns."""
        if os.path.commonpath([path, way]) != path:
            return
        above = [""]
        for name in [] if way == path else os.path.relpath(way, path).split("/"):
            above.append(os.path.join(above[-1], name))
        foreign = [at for at, name in enumerate(above) if _is_foreign(os.path.join(path, name))]
        for name in above[1 : foreign[-1] + 1 if foreign else 0]:
            made, real = os.path.join(upper, name), os.path.join(path, name)
            _folder(made)
            like(real, made, owned=False)
            self.prepared.append(real)

    def _read_only(self, path: str, target: str) -> None:
        mount(path, target, None, MS_BIND | (0 if self._privileged else MS_REC))
        make_read_only(target)

    def _proc(self, processes: int) -> None:
        mount("proc", "merged/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
        _limit_processes(processes)
        for name in _PROC_FOLDERS:
            path = f"merged/proc/{name}"
            if os.path.isdir(path):
                mount(path, path, None, MS_BIND | MS_REC)
                make_read_only(path)
        for name in _PROC_FILES:
            path = f"merged/proc/{name}"
            if os.path.exists(path):
                mount("/dev/null", path, None, MS_BIND)
                make_read_only(path)

    def _dev(self, mounted: list[Mounted]) -> None:
        mount("tmpfs", "merged/dev", "tmpfs", MS_NOSUID, _SMALL)
        for name in _DEVICES:
            if os.path.exists(f"/dev/{name}"):
                target = f"merged/dev/{name}"
                os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
                mount(f"/dev/{name}", target, None, MS_BIND)
        for name, points_to in _DEVICE_LINKS.items():
            os.symlink(points_to, f"merged/dev/{name}")
        os.mkdir("merged/dev/pts")
        options = "newinstance,ptmxmode=0666,mode=0620"
        mount("devpts", "merged/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, options)
        os.mkdir("merged/dev/shm")
        real = [one for one in mounted if one.path == "/dev/shm"]
        if real:
            self._cover("/dev/shm", real[0])
        else:
            mount("tmpfs", "merged/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777")


def _check() -> None:
    """Make sure that all there is now is what was built here. Raises OSError."""
    step("check of all mounts")
    devices = {f"/dev/{name}" for name in _DEVICES}
    own = {"/dev": "tmpfs", "/dev/pts": "devpts", "/dev/shm": "tmpfs", "/proc": "proc"}
    for one in read_mounts():
        ours = one.kind == "overlay" and any(
            word.startswith("upperdir=upper/") for word in one.filesystem
        )
        own_kind = one.path in devices or own.get(one.path) == one.kind
        if not (ours or own_kind or "ro" in one.options):
            raise OSError(errno.EPERM, "not of the copy, and not read-only", one.path)


def escaped(path: str) -> str:
    """Return a path as overlayfs reads it in its options."""
    return "".join("\\" + sign if sign in ",:\\" else sign for sign in path)


def like(path: str, upper: str, *, owned: bool) -> None:
    """Give the top of a layer the mode and owner of the real directory.

    Who can't give it away to its owner keeps it, with the rights he has in the real one.
    """
    state = os.stat(path)
    mode = stat.S_IMODE(state.st_mode)
    if owned:
        os.chown(upper, state.st_uid, state.st_gid)
    else:
        rights = (os.R_OK, 0o400), (os.W_OK, 0o200), (os.X_OK, 0o100)
        own = sum(bit for right, bit in rights if os.access(path, right, effective_ids=True))
        mode = mode & ~0o700 | own
    os.chmod(upper, mode)
    os.utime(upper, ns=(state.st_atime_ns, state.st_mtime_ns))


def _is_foreign(path: str) -> bool:
    return os.stat(path).st_uid != os.geteuid()


def _limit_processes(most: int) -> None:
    """Limit how many processes there can be in this process namespace, root's included.

    Only from Linux 6.14 on each namespace has a `pid_max` of its own: before, this would be
    everybody's.
    """
    step("limit of processes")
    release = os.uname().release.split(".")
    if not release[0].isdigit() or not release[1].isdigit():
        return
    if (int(release[0]), int(release[1])) >= (6, 14):
        with open("merged/proc/sys/kernel/pid_max", "w", encoding="ascii") as file:
            file.write(str(most + _RESERVED))


def _apart(path: str) -> bool:
    return any(path == one or path.startswith(one + "/") for one in _APART)


def _folder(path: str) -> None:
    os.makedirs(path, 0o700, exist_ok=True)


def _hide(path: str, empty: int) -> None:
    """Put something empty over what must not be seen."""
    try:
        state = os.stat(path)
    except OSError:
        return
    if stat.S_ISDIR(state.st_mode):
        flags = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC
        mount("tmpfs", path, "tmpfs", flags, "size=4k,mode=0700")
    else:
        mount(f"/proc/self/fd/{empty}", path, None, MS_BIND)
        make_read_only(path)
