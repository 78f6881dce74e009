"""Linux system calls that Python has no name for. Each raises OSError when it fails.

Imports little, since the process that needs them is started for every session. Numbers and layouts
are from the kernel's headers (linux/sched.h, mount.h, prctl.h, capability.h, keyctl.h).
"""

from __future__ import annotations

import ctypes
import os

TYPE_CHECKING = False  # as typing's own, without the time that importing it takes
if TYPE_CHECKING:
    from collections.abc import Callable

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000

MNT_DETACH = 0x2

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4

_AT_RECURSIVE = 0x8000
_AT_FDCWD = -100
_AT_EMPTY_PATH = 0x1000
_RESOLVE_NO_MAGICLINKS = 0x2
_MOUNT_ATTR_RDONLY = 0x1
_CAPABILITY_VERSION_3 = 0x20080522
_KEYCTL_JOIN_SESSION_KEYRING = 1
_SECCOMP_SET_MODE_FILTER = 1
_NEW_LISTENER = 1 << 3
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1

# The few that libc has no function for: the numbers are one table for all architectures since
# Linux 5.0, and differ for older calls.
_MOUNT_SETATTR = 442
_OPENAT2 = 437
_BY_MACHINE = {
    "x86_64": {"pivot_root": 155, "keyctl": 250, "seccomp": 317, "capset": 126, "statx": 332},
    "aarch64": {"pivot_root": 41, "keyctl": 219, "seccomp": 277, "capset": 91, "statx": 291},
}

_IN_OPEN, _IN_NONBLOCK_CLOEXEC = 0x20, 0x80800

_libc = ctypes.CDLL(None, use_errno=True)
_fail_at = 0
_calls = 0


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def fail_at(number: int) -> None:
    """Make the `number`th call from now on fail (EPERM), for tests; 0: none. Also counts from 0."""
    global _fail_at, _calls
    _fail_at, _calls = number, 0


def step(what: str) -> None:
    """Count one step of the set-up, and fail there if a test says so. Raises OSError."""
    global _calls
    _calls += 1
    if _calls == _fail_at:
        raise PermissionError(1, f"made to fail at step {_calls}", what)


def unshare(flags: int) -> None:
    """Leave the namespaces that the CLONE_NEW* flags name, for new ones."""
    _check(f"unshare {flags:#x}", lambda: _libc.unshare(flags))


def mount(
    source: str | None, target: str, kind: str | None, flags: int, options: str | None = None
) -> None:
    """Mount, bind or remount; see mount(2)."""
    arguments = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    data = None if options is None else os.fsencode(options)
    _check(
        f"mount {source} on {target} ({kind}, {flags:#x}, {options})",
        lambda: _libc.mount(*arguments, ctypes.c_ulong(flags), data),
    )


def unmount(target: str) -> None:
    """Detach what is mounted there, however busy."""
    _check(f"umount {target}", lambda: _libc.umount2(os.fsencode(target), MNT_DETACH))


def make_read_only(target: str) -> None:
    """Make a mount and all mounts beneath it read-only (mount_setattr, Linux 5.12)."""
    attributes = (ctypes.c_uint64 * 4)(_MOUNT_ATTR_RDONLY, 0, 0, 0)
    _check(
        f"mount_setattr {target}",
        lambda: _libc.syscall(
            ctypes.c_long(_MOUNT_SETATTR),
            ctypes.c_int(_AT_FDCWD),
            os.fsencode(target),
            ctypes.c_uint(_AT_RECURSIVE),
            attributes,
            ctypes.c_size_t(ctypes.sizeof(attributes)),
        ),
    )


def pivot_root(new: str, old: str) -> None:
    """Make `new` the root of this mount namespace, and put the old root at `old`."""
    _check(
        f"pivot_root {new}",
        lambda: _libc.syscall(_number("pivot_root"), os.fsencode(new), os.fsencode(old)),
    )


def prctl(option: int, value: int = 0, third: int = 0) -> None:
    """Set an attribute of this process; see prctl(2)."""
    words = [ctypes.c_ulong(word) for word in (value, third, 0, 0)]
    _check(f"prctl {option} {value}", lambda: _libc.prctl(ctypes.c_int(option), *words))


def keep_capabilities(kept: frozenset[int]) -> None:
    """Give up all capabilities but these, in this process and all it will ever execute."""
    with open("/proc/sys/kernel/cap_last_cap", "rb") as file:
        last = int(file.read())
    for capability in range(last + 1):
        if capability not in kept:
            prctl(PR_CAPBSET_DROP, capability)
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    bits = sum(1 << capability for capability in kept)
    low, high = bits & 0xFFFFFFFF, bits >> 32
    sets = (ctypes.c_uint32 * 6)(low, low, 0, high, high, 0)
    header = _Header(_CAPABILITY_VERSION_3, 0)
    _check(
        "capset", lambda: _libc.syscall(_number("capset"), ctypes.byref(header), ctypes.byref(sets))
    )


def watch() -> int:
    """Return a descriptor that tells what `watch_opening` was told to look at (inotify(7))."""
    return _check("inotify_init", lambda: _libc.inotify_init1(_IN_NONBLOCK_CLOEXEC))


def watch_opening(watch: int, path: str) -> None:
    """Tell when this file or directory is opened."""
    _check(
        f"inotify {path}",
        lambda: _libc.inotify_add_watch(watch, os.fsencode(path), ctypes.c_uint32(_IN_OPEN)),
    )


def new_session_keyring() -> None:
    """Leave the keys that were handed down to this process."""
    _check(
        "keyctl join",
        lambda: _libc.syscall(
            _number("keyctl"), ctypes.c_long(_KEYCTL_JOIN_SESSION_KEYRING), ctypes.c_char_p(None)
        ),
    )


def set_filter(instructions: bytes) -> int:
    """Install a seccomp filter, 8 bytes an instruction (struct sock_filter).

    Return the descriptor through which it asks (SECCOMP_FILTER_FLAG_NEW_LISTENER).
    """
    program = _Filter(len(instructions) // 8, instructions)
    return _check(
        "seccomp",
        lambda: _libc.syscall(
            _number("seccomp"),
            ctypes.c_long(_SECCOMP_SET_MODE_FILTER),
            ctypes.c_long(_NEW_LISTENER),
            ctypes.byref(program),
        ),
    )


def loopback_up() -> None:
    """Bring up the loopback device of this network namespace."""
    import _socket
    import fcntl

    step("loopback up")
    any_socket = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    try:
        request = bytearray(b"lo".ljust(40, b"\0"))
        fcntl.ioctl(any_socket.fileno(), _SIOCGIFFLAGS, request)
        request[16] |= _IFF_UP
        fcntl.ioctl(any_socket.fileno(), _SIOCSIFFLAGS, bytes(request))
    finally:
        any_socket.close()


def open_path(path: bytes, at: int, *, follow: bool) -> int:
    """Open a path, relative to a folder, for looking only (O_PATH; openat2, Linux 5.6).

    Never through a link of /proc that leads to what some process has open, or is in: it would be
    this process that it means by `self`.
    """
    flags = os.O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    how = (ctypes.c_uint64 * 3)(flags, 0, _RESOLVE_NO_MAGICLINKS)
    return _checked(
        _libc.syscall(
            ctypes.c_long(_OPENAT2),
            ctypes.c_long(at),
            path,
            how,
            ctypes.c_size_t(ctypes.sizeof(how)),
        ),
        path,
    )


def statx(fd: int, mask: int) -> bytearray:
    """Return the struct statx (linux/stat.h, 256 bytes) of what is open."""
    found = ctypes.create_string_buffer(256)
    _checked(
        _libc.syscall(
            _number("statx"),
            ctypes.c_long(fd),
            b"",
            ctypes.c_long(_AT_EMPTY_PATH),
            ctypes.c_ulong(mask),
            found,
        ),
        b"",
    )
    return bytearray(found.raw)


def _checked(result: int, path: bytes) -> int:
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), os.fsdecode(path))
    return result


def _number(name: str) -> ctypes.c_long:
    machine = os.uname().machine
    if machine not in _BY_MACHINE:
        raise OSError(38, f"the numbers of system calls on {machine} are not known here", name)
    return ctypes.c_long(_BY_MACHINE[machine][name])


def _check(what: str, call: Callable[[], int]) -> int:
    step(what)
    result = call()
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result
