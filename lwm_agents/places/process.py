"""One Bash command as a process: its output, its end, and the directory it ended in."""

from __future__ import annotations

import os
import selectors
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from lwm_agents.places.commands import Commands

OUTPUT_LIMIT = 100 * 1024 * 1024
"""Bytes of output that are kept; a command that writes more is ended."""

PASSED_ON = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR"),
        *("VIRTUAL_ENV", "CONDA_PREFIX"),
    }
)
"""Variables a command gets from this process, beside LC_*. Keys and tokens stay here."""

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_CHUNK = 1 << 16
_FIRST_FD = 200
"""Where descriptors for our own use begin in the command; scripts pick low numbers for theirs."""
_UNWILLING = 15.0
"""Seconds to wait for a command that was told to end."""


@dataclass(frozen=True)
class Finished:
    """How a command ended.

    `output` is stdout and stderr in the order written. `exit_code` is 128 + n after signal n, and
    None where the command was ended from here: after `timed_out`, `truncated` because it wrote
    more than the limit, or `over` another limit ("memory", "disk"). `cwd` is where it ended, None
    where it could not say. `denied` names what it asked for that a copy does not have.
    """

    output: bytes
    exit_code: int | None
    cwd: str | None
    timed_out: bool = False
    truncated: bool = False
    over: str | None = None
    denied: tuple[str, ...] = ()


class NoBash(OSError):
    """This system has no Bash, or none that can be supervised."""


def short_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the few variables that a command is given, out of all there are."""
    short = {
        name: value
        for name, value in environment.items()
        if name in PASSED_ON or name.startswith("LC_")
    }
    short.setdefault("PATH", _PATH)
    if not {"LANG", "LC_ALL", "LC_CTYPE"} & short.keys():
        short["LANG"] = "C.UTF-8"
    short["TERM"] = "dumb"
    return short


class BashProcess:
    """One command in a Bash of its own. `run` blocks; `stop` ends it from another thread."""

    def __init__(
        self,
        command: str,
        commands: Commands,
        *,
        cwd: str,
        environment: Mapping[str, str],
        timeout: float,
        output_limit: int = OUTPUT_LIMIT,
        limits: Mapping[str, Any] | None = None,
    ) -> None:
        self._command = command
        self._commands = commands
        self._cwd = cwd
        self._environment = {**environment, "PWD": cwd}
        self._timeout = timeout
        self._limit = output_limit
        self._limits = limits or {}
        self._control = Control()

    def stop(self) -> None:
        """End the command and everything it started. May be called at any time, and again."""
        self._control.stop()

    def run(self) -> Finished:
        """Run the command to its end, a limit or `stop`.

        Raises NoBash, SupervisorError; and OSError where the command is too long or the directory
        can't be entered.
        """
        bash = shutil.which("bash", path=self._environment["PATH"]) if os.name == "posix" else None
        if bash is None:
            raise NoBash(f"No Bash on this system ({sys.platform})")
        with ExitStack() as ours:
            with ExitStack() as theirs:
                output, output_end = pipe(ours, theirs)
                status, status_end = pipe(ours, theirs)
                where, where_end = pipe(ours, theirs)
                control_end, control = pipe(theirs, ours)
                first = _first_fd()
                setup = _setup(theirs, first)
                request = {
                    "argv": [bash, "--noprofile", "--norc", "-c", self._command],
                    "cwd": self._cwd,
                    "env": {**self._environment, "BASH_ENV": f"/dev/fd/{first + 1}"},
                    "first": first,
                    **self._limits,
                }
                self._commands.send(
                    request, [control_end, status_end, output_end, where_end, setup]
                )
            with self._control.of(control):
                return self._follow(output, status, where)

    def _follow(self, output: int, status: int, where: int) -> Finished:
        kept = bytearray()
        said = b""
        timed_out = truncated = False
        deadline = time.monotonic() + self._timeout
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            selector.register(status, selectors.EVENT_READ)
            while True:
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                fds = {key.fd for key, _ in ready}
                if output in fds:
                    piece = os.read(output, _CHUNK)
                    if not piece:
                        selector.unregister(output)
                    room = self._limit - len(kept)
                    kept += piece[:room]
                    if len(piece) > room and not truncated:
                        truncated = True
                        deadline = time.monotonic() + _UNWILLING
                        self.stop()
                elif status in fds:
                    piece = os.read(status, 4096)
                    if not piece:
                        break
                    said += piece
                elif not ready:
                    if timed_out or truncated:
                        self._commands.end_all()
                        break
                    timed_out = True
                    deadline = time.monotonic() + _UNWILLING
                    self.stop()
        told = dict(line.split(" ", 1) for line in said.decode().splitlines() if " " in line)
        if "failed" in told:
            what, number = told["failed"].split()
            raise OSError(
                int(number), os.strerror(int(number)), self._cwd if what == "cwd" else None
            )
        if told.keys() == {"pid"} and b"ended" not in said:
            # The reaper itself was killed: what it can't do now is done here.
            self._commands.end_group(int(told["pid"]))
        code = int(told["exit"]) if "exit" in told else None
        if code is not None and not truncated:
            self._drain(output, kept)
        return Finished(
            output=bytes(kept),
            exit_code=None if truncated else code,
            cwd=_read_cwd(where),
            timed_out=timed_out and code is None and "limit" not in told,
            truncated=truncated,
            over=told.get("limit"),
        )

    def _drain(self, output: int, kept: bytearray) -> None:
        """Read what was written before the command ended, without waiting for what runs on.

        That is at most what a pipe holds. If something in the background still has the pipe, a
        thread goes on emptying it: closing it would kill a server at its next line of log.
        """
        os.set_blocking(output, False)
        room = min(_pipe_size(output), self._limit - len(kept))
        while room > 0:
            try:
                piece = os.read(output, room)
            except BlockingIOError:
                break
            if not piece:
                return
            kept += piece
            room -= len(piece)
        rest = os.dup(output)
        os.set_blocking(rest, True)
        threading.Thread(target=_empty, args=(rest,), daemon=True, name="lwm-drain").start()


def _empty(fd: int) -> None:
    try:
        while os.read(fd, _CHUNK):
            pass
    finally:
        os.close(fd)


class Control:
    """The pipe through which a command is ended. `stop` may come before it is there."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._fd: int | None = None
        self._stopped = False

    def stop(self) -> None:
        """Say that the command shall end. May be called at any time, and again."""
        with self._lock:
            self._stopped = True
            if self._fd is not None:
                with suppress(BrokenPipeError):
                    os.write(self._fd, b"end")

    @contextmanager
    def of(self, fd: int) -> Iterator[None]:
        """Use this descriptor meanwhile."""
        with self._lock:
            self._fd = fd
            stopped = self._stopped
        try:
            if stopped:
                self.stop()
            yield
        finally:
            with self._lock:
                self._fd = None


def pipe(of_reader: ExitStack, of_writer: ExitStack) -> tuple[int, int]:
    """Return a pipe, each end closed by its own stack."""
    reader, writer = os.pipe()
    of_reader.callback(os.close, reader)
    of_writer.callback(os.close, writer)
    return reader, writer


def _first_fd() -> int:
    """Return a number for descriptors that no script is likely to use, and the limit allows."""
    import resource

    return _FIRST_FD if resource.getrlimit(resource.RLIMIT_NOFILE)[0] > _FIRST_FD + 2 else 20


def _setup(owner: ExitStack, where: int) -> int:
    """Return a file that Bash reads before the command (BASH_ENV): it reports the directory.

    So the command itself stays as it is, with its own line numbers in error messages. The braces
    keep the report out of a trace (`set -x`) and its failure out of the output. Where it can, it
    lies in memory: a temporary folder shows when something was made in it.
    """
    # Not in a child that ends before it becomes another program.
    report = f"[[ $BASHPID == $$ ]] && builtin pwd >&{where}"
    trap = f"trap '{{ {report}; }} 2>/dev/null' EXIT"
    if hasattr(os, "memfd_create"):
        file = owner.enter_context(os.fdopen(os.memfd_create("bash-env"), "w+b"))
    else:
        file = owner.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 (its owner closes it)
    file.write(f"{trap}; unset BASH_ENV\n".encode())
    file.seek(0)
    return file.fileno()


def _read_cwd(where: int) -> str | None:
    os.set_blocking(where, False)
    try:
        said = os.read(where, _CHUNK)
    except BlockingIOError:  # something in the background still has the pipe
        return None
    return os.fsdecode(said.removesuffix(b"\n")) or None


def _pipe_size(fd: int) -> int:
    import fcntl

    return fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ) if sys.platform == "linux" else _CHUNK
