"""Makes the namespaces of a copy and becomes their first process.

A user namespace, so that the caller's own user needs no rights; process, network, IPC and host name
namespaces; and a mount namespace whose root is built by `mounts`. Then it gives up what it could do
with them. Any failure raises OSError, and then nothing has run.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # without it: 5 ms to import
import os

from lwm_agents.places import syscalls
from lwm_agents.places.wire import send

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from lwm_agents.places.network import Network

_ROOT_KEEPS = frozenset({0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 29, 31})
"""What root may go on doing inside: CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID,
SETPCAP, NET_BIND_SERVICE, NET_RAW, SYS_CHROOT, AUDIT_WRITE, SETFCAP. Nothing that mounts."""

_NAMESPACES = syscalls.CLONE_NEWNET | syscalls.CLONE_NEWIPC | syscalls.CLONE_NEWUTS


def enter_copy(copy: dict[str, Any], connection: Any) -> Network:
    """Make the copy and become its first process; the process that was here waits for its end."""
    syscalls.fail_at(copy.get("fail_at", 0))
    privileged = _may_mount()
    proc = os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    if privileged:
        syscalls.unshare(syscalls.CLONE_NEWPID)
    else:
        uid, gid = os.geteuid(), os.getegid()
        syscalls.unshare(syscalls.CLONE_NEWUSER | syscalls.CLONE_NEWPID)
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{uid} {uid} 1")
        _write("/proc/self/gid_map", f"{gid} {gid} 1")
    asks, asked = os.pipe()
    answers, answered = os.pipe()
    child = os.fork()
    if child:
        for fd in (asked, answers):
            os.close(fd)
        connection.close()
        _wait_outside(child, proc, asks, answered)
    for fd in (asks, answered):
        os.close(fd)
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)

    from lwm_agents.places.mounts import Mounts
    from lwm_agents.places.network import Network
    from lwm_agents.places.seccomp import instructions

    os.chdir(copy["layer"])
    mounts = Mounts(dict(copy["layers"]), copy["ways"], privileged=privileged)
    others = 0 if privileged else _NAMESPACES
    syscalls.unshare(syscalls.CLONE_NEWNS | others)
    mounts.build(copy["hidden"], copy["processes"])
    _limit_processes(copy["processes"])
    if privileged:
        # The mounts stay with the real user namespace: nobody in the new one can undo them.
        syscalls.unshare(syscalls.CLONE_NEWUSER | _NAMESPACES)
        os.write(asked, b"map")
        if os.read(answers, 1) != b"1":
            raise OSError(1, "no map of users could be set")
    for fd in (asked, answers, proc):
        os.close(fd)
    syscalls.loopback_up()
    syscalls.new_session_keyring()
    network = Network(syscalls.set_filter(instructions()), mounts.watch, counted=copy["counted"])
    syscalls.keep_capabilities(_ROOT_KEEPS if privileged else frozenset())
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)
    _make_sure(privileged)
    syscalls.step("ready")
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
    root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    made = {"layers": mounts.layers, "prepared": mounts.prepared, "privileged": privileged}
    send(connection, {"ready": made}, (root,))
    os.close(root)
    return network


def _may_mount() -> bool:
    with open("/proc/self/status", encoding="ascii") as file:
        effective = next(line for line in file if line.startswith("CapEff:"))
    return os.geteuid() == 0 and bool(int(effective.split()[1], 16) >> 21 & 1)


def _wait_outside(child: int, proc: int, asks: int, answered: int) -> None:
    """Map the users of the copy's namespace when asked, wait for its end, and end."""
    if os.read(asks, 3) == b"map":
        try:
            for name in ("uid_map", "gid_map"):
                fd = os.open(f"{child}/{name}", os.O_WRONLY | os.O_CLOEXEC, dir_fd=proc)
                os.write(fd, b"0 0 4294967295")
                os.close(fd)
            os.write(answered, b"1")
        except OSError:
            pass
    os.close(answered)
    _, status = os.waitpid(child, 0)
    os._exit(abs(os.waitstatus_to_exitcode(status)))


def _limit_processes(most: int) -> None:
    """Limit how many processes there can be, root's too where the kernel can (Linux 6.14)."""
    import resource

    syscalls.step("limit of processes")
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    if hard == resource.RLIM_INFINITY or hard > most:
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))


def _make_sure(privileged: bool) -> None:
    """Check that what should be given up is gone. Raises OSError."""
    with open("/proc/self/status", encoding="ascii") as file:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    allowed = sum(1 << one for one in _ROOT_KEEPS) if privileged else 0
    for name in ("CapEff", "CapPrm", "CapBnd"):
        if int(status[name], 16) & ~allowed:
            raise OSError(1, f"capabilities are left: {name} {status[name]}")
    if status["Seccomp"].strip() != "2":
        raise OSError(1, "the filter of system calls is not in force")
    if os.getpid() != 1:
        raise OSError(1, "not the first process of a namespace")


def _write(path: str, text: str) -> None:
    syscalls.step(f"write {path}")
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
