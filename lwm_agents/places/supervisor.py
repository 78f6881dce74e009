"""The process that runs a session's commands, in the real place or in a copy. Never imported there.

Started as a program of its own with the number of a connected socket and the folder of this
package. Its first message says what place to make (`Order`); it answers {"ready": …} or
{"error": …}. Each later message asks for one command or one SQL statement and brings the pipes to
talk through. It ends, and in a copy all that runs there ends, when the socket closes, as it does
when the process at the other end dies.

For a copy it makes a user namespace, so that the caller's own user needs no rights; process,
network, IPC and host name namespaces; and a mount namespace whose root is built by `mounts`. Then
it gives up what it could do with them. Any failure before `ready` ends it: nothing has run.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # the module without underscore takes 5 ms to import
import _socket
import marshal
import os
import select
import sys

from lwm_agents.places import syscalls
from lwm_agents.places.reaper import Reaper, reap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from lwm_agents.places.network import Network

_ROOT_KEEPS = frozenset({0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 29, 31})
"""What root may go on doing inside: CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID,
SETPCAP, NET_BIND_SERVICE, NET_RAW, SYS_CHROOT, AUDIT_WRITE, SETFCAP. Nothing that mounts."""

_NAMESPACES = syscalls.CLONE_NEWNET | syscalls.CLONE_NEWIPC | syscalls.CLONE_NEWUTS
_MOST_FDS = 8


def main(number: int) -> None:
    """Serve the socket with this number until it closes."""
    connection = _socket.socket(fileno=number)
    order, fds = receive(connection)
    host = fds[0] if fds else -1
    network = None
    try:
        if "copy" in order:
            network = _enter_copy(order["copy"], connection)
        else:
            if sys.platform == "linux":
                syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
            send(connection, {"ready": {}})
    except BaseException as error:  # noqa: BLE001 (whatever it is, nothing may run)
        what = f"{error} ({error.filename2 or ''})" if isinstance(error, OSError) else repr(error)
        send(connection, {"error": what, "errno": getattr(error, "errno", None)})
        os._exit(1)
    _serve(connection, host, network)


def receive(connection: Any) -> tuple[dict[str, Any], list[int]]:
    """Return the next message and the descriptors it brings. Raises EOFError at the end."""
    room = _socket.CMSG_SPACE(4 * _MOST_FDS)
    head, ancillary, _, _ = connection.recvmsg(4, room, getattr(_socket, "MSG_CMSG_CLOEXEC", 0))
    fds: list[int] = []
    for _, _, content in ancillary:
        whole = len(content) // 4
        fds += [int.from_bytes(content[4 * n : 4 * n + 4], sys.byteorder) for n in range(whole)]
    head = _exactly(connection, 4, head)
    body = _exactly(connection, int.from_bytes(head, "big"), b"")
    message: dict[str, Any] = marshal.loads(body)
    return message, fds


def send(connection: Any, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
    """Send one message, with descriptors."""
    body = marshal.dumps(message)
    whole = len(body).to_bytes(4, "big") + body
    ancillary = []
    if fds:
        packed = b"".join(fd.to_bytes(4, sys.byteorder) for fd in fds)
        ancillary = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, packed)]
    sent = connection.sendmsg([whole], ancillary)
    if sent < len(whole):
        connection.sendall(whole[sent:])


def _exactly(connection: Any, size: int, got: bytes) -> bytes:
    while len(got) < size:
        piece = connection.recv(min(size - len(got), 1 << 20))
        if not piece:
            raise EOFError
        got += piece
    return got


def _serve(connection: Any, host: int, network: Network | None) -> None:
    wake, waker = os.pipe()
    for fd in (wake, waker):
        os.set_blocking(fd, False)
    signal.set_wakeup_fd(waker)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    asks = -1 if network is None else network.listener
    watched = [fd for fd in (connection.fileno(), wake, host, asks) if fd >= 0]
    while True:
        ready, _, _ = select.select(watched, [], [])
        if wake in ready:
            os.read(wake, 4096)
            reap()
        if host in ready:
            return
        if network is not None and asks in ready:
            network.look()
        if connection.fileno() in ready:
            try:
                request, fds = receive(connection)
            except (EOFError, ConnectionError):
                return
            if "denied" in request:
                send(connection, {"denied": [] if network is None else network.denied()})
                continue
            if "end" in request:
                if os.getpid() == 1:  # all there is in a copy; outside it would be everybody's
                    os.kill(-1, signal.SIGKILL)
                continue
            try:
                child = _fork()
            except OSError as error:
                child = -1
                os.write(fds[1], f"failed start {error.errno}\n".encode())
            if child == 0:
                connection.close()
                for fd in (wake, waker, host, asks):
                    if fd >= 0:
                        os.close(fd)
                try:
                    Reaper(request, fds).run()
                except BaseException:
                    os.write(fds[1], b"failed start 5\n")
                    raise
                finally:
                    os._exit(0)
            for fd in fds:
                os.close(fd)


def _fork() -> int:
    """Fork; where there are too many processes, wait a little for those that are ending."""
    import time

    for _ in range(50):
        try:
            return os.fork()
        except BlockingIOError:
            time.sleep(0.02)
            reap()
    return os.fork()


def _enter_copy(copy: dict[str, Any], connection: Any) -> Network:
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
    network = Network(syscalls.set_filter(instructions()), counted=copy["counted"])
    syscalls.keep_capabilities(_ROOT_KEEPS if privileged else frozenset())
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)
    _make_sure(privileged)
    syscalls.step("ready")
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
    root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    made = {"layers": mounts.layers, "prepared": mounts.prepared, "privileged": privileged}
    send(connection, {"ready": made}, (root,))
    os.close(root)
    _load()
    return network


def _load() -> None:
    """Load now what is needed later: a command may change or delete the files it lies in."""
    import fcntl  # noqa: F401
    import json  # noqa: F401
    import threading  # noqa: F401

    import lwm_agents.places.statement  # noqa: F401


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
