"""Looks at the real world from outside: everything a dry run must leave as it was."""

from __future__ import annotations

import hashlib
import http.server
import os
import socket
import threading
from pathlib import Path


def tree(folder: Path) -> dict[str, tuple[object, ...]]:
    """Return what can be told of every entry below a folder: kind, mode, owner, times, content."""
    found: dict[str, tuple[object, ...]] = {}
    for where, folders, files in os.walk(folder):
        for name in [".", *folders, *files]:
            path = os.path.join(where, name)
            stat = os.lstat(path)
            content: object = None
            if os.path.islink(path):
                content = os.readlink(path)
            elif os.path.isfile(path) and os.access(path, os.R_OK):
                content = hashlib.sha256(Path(path).read_bytes()).hexdigest()
            found[os.path.relpath(path, folder)] = (
                stat.st_mode, stat.st_uid, stat.st_gid, stat.st_nlink, stat.st_mtime_ns,
                stat.st_ctime_ns, stat.st_size, content,
            )  # fmt: skip
    return found


def machine() -> set[str]:
    """Return what a command could leave behind on the machine at large."""
    found = set()
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":  # LISTEN
                found.add(f"listening {name} {fields[1]}")
    for name in ("shm", "sem", "msg"):
        if (table := Path(f"/proc/sysvipc/{name}")).exists():
            found |= {f"ipc {name} {line}" for line in table.read_text().splitlines()[1:]}
    found |= {f"shared memory {name}" for name in os.listdir("/dev/shm")}
    for name in ("hostname", "domainname", "core_pattern", "pid_max"):
        found.add(f"{name} {Path('/proc/sys/kernel', name).read_text()}")
    return found


class RequestLog:
    """A server that notes every connection it gets: on loopback, and at Unix sockets.

    These are `server.sock` in `folder`, and one without a file, named after the port.
    """

    def __init__(self, folder: Path) -> None:
        log: list[str] = []
        self.requests = log

        class Handler(http.server.BaseHTTPRequestHandler):
            def handle(self) -> None:
                log.append(f"{self.client_address}")
                self.connection.settimeout(1)
                try:
                    super().handle()
                except OSError:
                    return

            def do_GET(self) -> None:
                self.send_response(204)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                log.append(format % args)

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self._unix = [socket.socket(socket.AF_UNIX) for _ in range(2)]
        names = str(folder / "server.sock"), f"\0lwm-promise-{self.port}"
        for listener, name in zip(self._unix, names, strict=True):
            listener.bind(name)
            listener.listen()
            threading.Thread(target=_accept, args=(listener, log), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        for listener in self._unix:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()


def _accept(listener: socket.socket, log: list[str]) -> None:
    while True:
        try:
            listener.accept()[0].close()
        except OSError:
            return
        log.append("a Unix socket")
