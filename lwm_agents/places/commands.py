"""The near end of a supervisor: starts it, and sends it what to run."""

from __future__ import annotations

import importlib
import marshal
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

START_SECONDS = 30.0
"""How long a supervisor may take to begin."""

_ABOVE = str(Path(__file__).parents[2])
_PROGRAM = (
    "import sys; sys.path.append(sys.argv[2]); "
    "from lwm_agents.places.supervisor import main; main(int(sys.argv[1]))"
)

_MODULES = tuple(
    f"lwm_agents.places.{name}"
    for name in ("supervisor", "namespaces", "mounts", "network", "seccomp", "statement")
)


class SupervisorError(Exception):
    """The supervisor could not begin, or has ended. `errno` is the system's, where it has one."""

    def __init__(self, text: str, errno: int | None = None) -> None:
        super().__init__(text)
        self.errno = errno


class Commands:
    """Runs commands in one place, through one supervisor that begins with the first.

    `copy` gives what the supervisor is told of the copy to make; it is asked while that process
    starts. Without it the place is the real one. Every method may be called from any thread.
    """

    def __init__(self, copy: Callable[[], Mapping[str, Any]] | None = None) -> None:
        self._copy = copy
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> tuple[dict[str, Any], int | None]:
        """Begin, and return what the supervisor says of the place, and its root where it is a copy.

        Raises SupervisorError; then nothing has run.
        """
        with self._lock:
            return self._start()

    def send(self, request: Mapping[str, Any], fds: Sequence[int]) -> None:
        """Ask for a command; it talks through the descriptors, which stay the caller's.

        Raises SupervisorError.
        """
        with self._lock:
            if self._socket is None or (self._process and self._process.poll() is not None):
                if self._is_copy:
                    raise SupervisorError("the copy has ended")
                self._end()
                self._start()
            assert self._socket is not None
            try:
                _send(self._socket, request, fds)
            except OSError as error:
                raise SupervisorError(f"the supervisor has ended: {self._last_words()}") from error

    def denied(self) -> list[str]:
        """Return what was asked of a copy's network in vain since this was last asked."""
        with self._lock:
            if self._socket is None:
                return []
            try:
                _send(self._socket, {"denied": True}, [])
                answer, _ = _receive(self._socket, START_SECONDS)
            except (OSError, EOFError) as error:
                raise SupervisorError(f"the supervisor has ended: {self._last_words()}") from error
        found: list[str] = answer["denied"]
        return found

    def end_group(self, pid: int) -> None:
        """End what is left of a command whose reaper was killed."""
        if self._is_copy:
            self.end_all()  # the number is of the copy's own processes
        else:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)

    def end_all(self) -> None:
        """End all that runs in a copy; in the real place, nothing."""
        if self._is_copy:
            with suppress(SupervisorError):
                self.send({"end": True}, [])

    @property
    def _is_copy(self) -> bool:
        return self._copy is not None

    def close(self) -> None:
        """End the supervisor, and wait for it. In a copy all that runs there has ended then."""
        with self._lock:
            self._end()

    def _start(self) -> tuple[dict[str, Any], int | None]:
        # What it loads is compiled here, once: it writes nothing, and its start is waited for.
        for module in _MODULES if sys.platform == "linux" else ():
            importlib.import_module(module)
        ours, theirs = socket.socketpair()
        with theirs:
            python = [sys.executable, "-I", "-S", "-B", "-c", _PROGRAM]
            self._process = subprocess.Popen(
                [*python, str(theirs.fileno()), _ABOVE],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env={},  # what runs can read its parent's
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self._socket = ours
        try:
            with ExitStack() as held:
                fds = []
                if hasattr(os, "pidfd_open"):
                    fds = [os.pidfd_open(os.getpid())]
                    held.callback(os.close, fds[0])
                _send(ours, {} if self._copy is None else {"copy": dict(self._copy())}, fds)
            answer, received = _receive(ours, START_SECONDS)
        except (OSError, EOFError) as error:
            self._end()
            raise SupervisorError(f"the supervisor did not begin: {error or 'it ended'}") from error
        if "error" in answer:
            self._end()
            raise SupervisorError(answer["error"], answer["errno"])
        return answer["ready"], received[0] if received else None

    def _last_words(self) -> str:
        """Return how a supervisor ended, once its socket broke."""
        if self._process is None or self._process.stderr is None:
            return "it was closed"
        _, said = self._process.communicate()
        return f"exit code {self._process.returncode}; {said.decode(errors='replace')[-2000:]}"

    def _end(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            if self._process.stderr is not None:
                self._process.stderr.close()
            self._process = None


def _send(to: socket.socket, message: Mapping[str, Any], fds: Sequence[int]) -> None:
    body = marshal.dumps(dict(message))
    whole = len(body).to_bytes(4, "big") + body
    sent = socket.send_fds(to, [whole], list(fds)) if fds else 0
    to.sendall(whole[sent:])


def _receive(of: socket.socket, seconds: float) -> tuple[dict[str, Any], list[int]]:
    of.settimeout(seconds)
    head, fds, _, _ = socket.recv_fds(of, 4, 1)
    while len(head) < 4:
        head += _some(of, 4 - len(head))
    size, body = int.from_bytes(head, "big"), b""
    while len(body) < size:
        body += _some(of, size - len(body))
    of.settimeout(None)
    message: dict[str, Any] = marshal.loads(body)
    return message, fds


def _some(reader: socket.socket, size: int) -> bytes:
    piece = reader.recv(size)
    if not piece:
        raise EOFError
    return piece
