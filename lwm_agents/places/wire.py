"""How messages go to and from a supervisor: a length, marshalled values, and descriptors.

Both ends are the same Python, so that marshal serves: it is quick, and there without an import.
"""

from __future__ import annotations

import _socket
import marshal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MOST_FDS = 8


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
