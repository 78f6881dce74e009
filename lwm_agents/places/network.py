"""What a copy's programs want from the network, which is not there.

A copy has a network of its own, with nothing but itself on it. So that a result which hangs on a
refused connection is not taken for what would really happen, every `connect`, and every `sendto`
with an address, waits until the supervisor has looked at it (seccomp_unotify(2)); then it goes on
and fails, or reaches what listens inside.
"""

from __future__ import annotations

import os
import struct

from lwm_agents.places import linkcount

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_RECEIVE, _SEND, _IS_VALID = 0xC0502100, 0xC0182101, 0x40082102
_REQUEST = struct.Struct("=QIIiIQ6Q")  # struct seccomp_notif
_ANSWER = struct.Struct("=QqiI")  # struct seccomp_notif_resp
_CONTINUE = 1
_UNIX, _INET, _INET6 = 1, 2, 10
_LISTENS = "0A"
_LOOPBACK6 = bytes(15) + b"\1"
_MAPPED6 = bytes(10) + b"\xff\xff"

HIDDEN = "a secret that is hidden"
"""Said of a call that opened a place which a copy shows empty."""

_NAMES = 53
"""The port of name servers: what is asked of one here is never answered as for real."""

_WILDCARDS = ("0.0.0.0", "[::]")

_ASKED_BY_ALL = ("/run/nscd/", "/run/systemd/", "/dev/log")
"""Sockets that libc itself tries, and does without: name services and the log."""


class Network:
    """Looks at what is asked of the network through `listener`, the filter's descriptor.

    `counted`: folders here have a link for each subfolder, as on most file systems.
    """

    def __init__(self, listener: int, watch: int, *, counted: bool) -> None:
        self.listener = listener
        self._watch = watch
        self._counted = counted
        self._denied: dict[str, None] = {}
        self._waited: dict[str, tuple[int, bool]] = {}

    def look(self, reaper: int, end_command_of: Callable[[int, int], bool]) -> None:
        """Look at one request, and let it go on, or answer it.

        Who asks in vain gets no answer where `end_command_of` ends its command, run by this reaper:
        a command shall not do what it does without a network.
        """
        import fcntl

        request = bytearray(_REQUEST.size)
        try:
            fcntl.ioctl(self.listener, _RECEIVE, request)
        except OSError:  # whoever asked is gone
            return
        number, pid, _, call, _, _, *arguments = _REQUEST.unpack(request)
        answered = False
        try:
            if call not in linkcount.CALLS:
                denied = self._judge(pid, *_address(pid, call, arguments))
                if denied and end_command_of(pid, reaper):
                    return
            elif self._counted:
                answered = self._answer(number, pid, linkcount.answer(pid, arguments))
        except (OSError, ValueError, struct.error):
            if call not in linkcount.CALLS:
                self._denied.setdefault("an address that could not be read")
        answer = _ANSWER.pack(number, 0, 0, 0 if answered else _CONTINUE)
        try:
            fcntl.ioctl(self.listener, _SEND, answer)
        except OSError:
            return

    def _answer(self, number: int, pid: int, answer: tuple[int, bytes] | None) -> bool:
        """Write what a call shall have found into its caller's memory, if there is anything."""
        import fcntl

        if answer is None:
            return False
        where, content = answer
        with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
            # Only now is it sure that this is the caller, not one that came after it.
            fcntl.ioctl(self.listener, _IS_VALID, struct.pack("=Q", number))
            memory.seek(where)
            return memory.write(content) == len(content)

    def denied(self) -> list[str]:
        """Return what was asked for in vain since this was last asked.

        A port of this host that could be reached later is left out: programs wait for their own
        servers to begin. So is a wildcard address of a port where something listens by now: libc
        looks at these before a server begins to.
        """
        waited = [
            name
            for name, (port, wildcard) in self._waited.items()
            if not (wildcard and _listens(port))
        ]
        found = [*self._denied, *waited]
        try:
            if os.read(self._watch, 1 << 16):
                found.append(HIDDEN)
        except BlockingIOError:
            pass  # nobody did
        self._denied.clear()
        self._waited.clear()
        return found

    def _judge(self, pid: int, family: int, body: bytes) -> bool:
        """Note what is asked for; say whether it can't ever be had here."""
        if family == _UNIX:
            return self._judge_path(pid, body)
        if family not in {_INET, _INET6}:
            return False
        port = int.from_bytes(body[:2], "big")
        host, inside = _host(family, body)
        name = f"{host}:{port}"
        if not inside or port == _NAMES:
            self._denied.setdefault(name)
            return True
        if _listens(port):
            for other in [name for name, (one, _) in self._waited.items() if one == port]:
                del self._waited[other]
        elif port:
            self._waited.setdefault(name, (port, host in _WILDCARDS))
        return False

    def _judge_path(self, pid: int, body: bytes) -> bool:
        if body[:1] == b"\0":
            name = "@" + os.fsdecode(body[1:].rstrip(b"\0"))
        else:
            path = os.fsdecode(body.partition(b"\0")[0])
            name = os.path.normpath(os.path.join(os.readlink(f"/proc/{pid}/cwd"), path))
            if not os.path.exists(f"/proc/{pid}/root{name}"):
                return False
            name = os.path.realpath(name)
        if name.startswith(_ASKED_BY_ALL) or name.startswith("/var/run/nscd/"):
            return False
        with open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as file:
            bound = {line.split(maxsplit=7)[-1].rstrip("\n") for line in file}
        if name in bound or os.path.basename(name) in bound:
            return False
        self._denied.setdefault(name)
        return True


def _address(pid: int, call: int, arguments: list[int]) -> tuple[int, bytes]:
    """Return the family and the rest of the address that a call was given."""
    where, size = arguments[1:3] if call in {42, 203} else arguments[4:6]
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        memory.seek(where)
        raw = memory.read(min(size, 128))
    (family,) = struct.unpack_from("=H", raw)
    return family, raw[2:]


def _host(family: int, body: bytes) -> tuple[str, bool]:
    """Return the host that is asked for, and whether it is this one."""
    import _socket

    raw = body[2:6] if family == _INET else body[6:22]
    if family == _INET6 and raw.startswith(_MAPPED6):
        family, raw = _INET, raw[12:]
    name = _socket.inet_ntop(family, raw)
    if family == _INET:
        return name, raw[0] in {0, 127}
    return f"[{name}]", raw in {_LOOPBACK6, bytes(16)}


def _listens(port: int) -> bool:
    """Say whether anything inside takes connections or packets at this port."""
    return any(port == used for used in _ports())


def _ports() -> Iterator[int]:
    for name in ("tcp", "tcp6", "udp", "udp6"):
        try:
            with open(f"/proc/net/{name}", encoding="ascii") as file:
                next(file)
                for line in file:
                    _, local, _, state, *_ = line.split()
                    if name.startswith("udp") or state == _LISTENS:
                        yield int(local.rpartition(":")[2], 16)
        except FileNotFoundError:
            continue
