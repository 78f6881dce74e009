"""The seccomp filter of a copy: what namespaces do not cover is answered as if not there.

Refused for every process inside: sockets of families that no network namespace holds (virtual
machine sockets and the like), keyrings, opening files by handle, io_uring (which makes sockets past
any such rule), BPF and performance events, and calls of another architecture's numbering. All get
an error a program knows; nothing is killed. `connect`, and `sendto` with an address, wait for
`network` to look at them, and so does `statx` where it is about a folder's links (`linkcount`).
"""

from __future__ import annotations

import os
import struct

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO, _NOTIFY = 0x7FFF0000, 0x00050000, 0x7FC00000
_NUMBER, _MACHINE, _FIRST, _THIRD, _FOURTH, _FIFTH = 0, 4, 16, 32, 40, 48
"""Offsets in struct seccomp_data: of arguments, the lower half."""
_ENOSYS, _EPERM, _EAFNOSUPPORT = 38, 1, 97

_FAMILIES = (1, 2, 10, 16)
"""AF_UNIX, AF_INET, AF_INET6, AF_NETLINK: bound to the copy's own namespaces."""

_X32 = 0x40000000
_NO_AUTOMOUNT, _STATX_NLINK = 0x800, 0x4

_MACHINES: dict[str, tuple[int, dict[str, int]]] = {
    "x86_64": (
        0xC000003E,
        {
            "socket": 41,
            "connect": 42,
            "sendto": 44,
            "socketpair": 53,
            "add_key": 248,
            "request_key": 249,
            "keyctl": 250,
            "perf_event_open": 298,
            "open_by_handle_at": 304,
            "bpf": 321,
            "statx": 332,
        },
    ),
    "aarch64": (
        0xC00000B7,
        {
            "socket": 198,
            "connect": 203,
            "sendto": 206,
            "socketpair": 199,
            "add_key": 217,
            "request_key": 218,
            "keyctl": 219,
            "perf_event_open": 241,
            "open_by_handle_at": 265,
            "bpf": 280,
            "statx": 291,
        },
    ),
}
_IO_URING_SETUP = 425


def instructions() -> bytes:
    """Return the filter for this machine. Raises OSError where its numbers are not known."""
    machine = os.uname().machine
    if machine not in _MACHINES:
        raise OSError(_ENOSYS, f"the numbers of system calls on {machine} are not known here")
    audit, numbers = _MACHINES[machine]
    refused = {
        **{numbers[name]: _ENOSYS for name in ("add_key", "request_key", "keyctl", "bpf")},
        numbers["perf_event_open"]: _EPERM,
        numbers["open_by_handle_at"]: _EPERM,
        _IO_URING_SETUP: _ENOSYS,
    }
    program = [
        (_LOAD, 0, 0, _MACHINE),
        (_EQUAL, 1, 0, audit),
        _answer(_ENOSYS),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        _answer(_ENOSYS),
    ]
    for number, error in refused.items():
        program += [(_EQUAL, 0, 1, number), _answer(error)]
    program += [(_EQUAL, 0, 1, numbers["connect"]), (_RETURN, 0, 0, _NOTIFY)]
    program += [
        (_EQUAL, 0, 6, numbers["sendto"]),
        (_LOAD, 0, 0, _FIFTH),
        (_EQUAL, 0, 2, 0),
        (_LOAD, 0, 0, _FIFTH + 4),
        (_EQUAL, 1, 0, 0),
        (_RETURN, 0, 0, _NOTIFY),
        (_RETURN, 0, 0, _ALLOW),
    ]
    program += [
        (_EQUAL, 0, 6, numbers["statx"]),
        (_LOAD, 0, 0, _THIRD),
        (_ANY_BIT, 0, 3, _NO_AUTOMOUNT),
        (_LOAD, 0, 0, _FOURTH),
        (_ANY_BIT, 0, 1, _STATX_NLINK),
        (_RETURN, 0, 0, _NOTIFY),
        (_RETURN, 0, 0, _ALLOW),
    ]
    families = [(_EQUAL, len(_FAMILIES) - at, 0, family) for at, family in enumerate(_FAMILIES)]
    program += [
        (_EQUAL, 1, 0, numbers["socket"]),
        (_EQUAL, 0, len(families) + 2, numbers["socketpair"]),
        (_LOAD, 0, 0, _FIRST),
        *families,
        _answer(_EAFNOSUPPORT),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *one) for one in program)


def _answer(error: int) -> tuple[int, int, int, int]:
    return (_RETURN, 0, 0, _ERRNO | error)
