"""One Bash command as a process: its output, its end, and the directory it ended in."""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

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
_SUPERVISOR = str(Path(__file__).with_name("supervisor.py"))
_CHUNK = 1 << 16
_FIRST_FD = 200
"""Where descriptors for our own use begin in the command; scripts pick low numbers for theirs."""
_UNWILLING = 15.0
"""Seconds to wait for a supervisor that was told to end its command."""


@dataclass(frozen=True)
class Finished:
    """How a command ended.

    `output` is stdout and stderr in the order written. `exit_code` is 128 + n after signal n, and
    None where the command was ended from here: after `timed_out`, or `truncated` because it wrote
    more than the limit. `cwd` is where it ended, None where it could not say.
    """

    output: bytes
    exit_code: int | None
    cwd: str | None
    timed_out: bool = False
    truncated: bool = False


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
        *,
        cwd: str,
        environment: Mapping[str, str],
        timeout: float,
        output_limit: int = OUTPUT_LIMIT,
    ) -> None:
        self._command = command
        self._cwd = cwd
        self._environment = {**environment, "PWD": cwd}
        self._timeout = timeout
        self._limit = output_limit
        self._lock = threading.Lock()
        self._control: int | None = None
        self._stopped = False

    def stop(self) -> None:
        """End the command and everything it started. May be called at any time, and again."""
        with self._lock:
            self._stopped = True
            if self._control is not None:
                with suppress(BrokenPipeError):
                    os.write(self._control, b"end")

    def run(self) -> Finished:
        """Run the command to its end, the time limit or `stop`.

        Raises NoBash; and OSError where the command is too long or the directory can't be entered.
        """
        bash = shutil.which("bash", path=self._environment["PATH"]) if os.name == "posix" else None
        if bash is None:
            raise NoBash(f"No Bash on this system ({sys.platform})")
        with ExitStack() as ours:
            with ExitStack() as theirs:
                output, output_end = _pipe(ours, theirs)
                status, status_end = _pipe(ours, theirs)
                where, where_end = _pipe(ours, theirs)
                control_end, control = _pipe(theirs, ours)
                where_end = _high(theirs, where_end)
                setup = _high(theirs, _setup(theirs, where_end))
                keep_ctype = int("LC_CTYPE" in self._environment)
                numbers = [str(number) for number in (control_end, status_end, keep_ctype)]
                process = subprocess.Popen(
                    [
                        *(sys.executable, "-I", "-S", _SUPERVISOR, *numbers),
                        *(bash, "--noprofile", "--norc", "-c", self._command),
                    ],
                    cwd=self._cwd,
                    env={**self._environment, "BASH_ENV": f"/dev/fd/{setup}"},
                    stdin=subprocess.DEVNULL,
                    stdout=output_end,
                    stderr=output_end,
                    pass_fds=(control_end, status_end, where_end, setup),
                    start_new_session=True,
                )
            with self._lock:
                self._control = control
                stopped = self._stopped
            try:
                if stopped:
                    self.stop()
                return self._follow(process, output, status, where)
            finally:
                with self._lock:
                    self._control = None
                process.wait()

    def _follow(
        self, process: subprocess.Popen[bytes], output: int, status: int, where: int
    ) -> Finished:
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
                        process.kill()
                        break
                    timed_out = True
                    deadline = time.monotonic() + _UNWILLING
                    self.stop()
        words = said.split()
        if len(words) == 2:  # the supervisor itself was killed: do what it can't
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(int(words[1]), signal.SIGKILL)
        code = int(words[3]) if words[2:3] == [b"exit"] else None
        if code is not None and not truncated:
            self._drain(output, kept)
        return Finished(
            output=bytes(kept),
            exit_code=None if truncated else code,
            cwd=_read_cwd(where),
            timed_out=timed_out and code is None,
            truncated=truncated,
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


def _pipe(of_reader: ExitStack, of_writer: ExitStack) -> tuple[int, int]:
    reader, writer = os.pipe()
    of_reader.callback(os.close, reader)
    of_writer.callback(os.close, writer)
    return reader, writer


def _high(owner: ExitStack, fd: int) -> int:
    """Return a duplicate with a number that no script is likely to use."""
    import fcntl

    try:
        copy = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST_FD)
    except OSError:  # the limit on open files is that low
        copy = os.dup(fd)
    owner.callback(os.close, copy)
    return copy


def _setup(owner: ExitStack, where: int) -> int:
    """Return a file that Bash reads before the command (BASH_ENV): it reports the directory.

    So the command itself stays as it is, with its own line numbers in error messages. The braces
    keep the report out of a trace (`set -x`) and its failure out of the output.
    """
    file = owner.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 (it is closed by its owner)
    trap = f"trap '{{ builtin pwd >&{where}; }} 2>/dev/null' EXIT"
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
