"""Runs one command, or one SQL statement, and can end it with everything it started.

A process of its own between the supervisor and the command. It writes lines to the status pipe:
`pid N`; then `exit N` when the command has ended (128 + n after signal n), what it left in the
background goes on; or `failed WHAT ERRNO` before that where it could not begin; or `limit WHAT`.
When the control pipe says anything or closes, as it does when the process that asked dies, it ends
the command and all its descendants and writes `ended`. On Linux orphans come to this process
(PR_SET_CHILD_SUBREAPER), so that no double fork and no new session gets away; elsewhere what left
the process group does.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # the module without underscore takes 5 ms to import
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

GRACE = 1.0
"""Seconds between asking to end (SIGTERM) and ending (SIGKILL)."""

LOOK = 0.2
"""Seconds between two looks at what a command uses."""

_SPARE = 20
"""How far from the limit of processes a command is ended, so that more can be started after it."""

DENIED = signal.SIGUSR1
"""Tells a reaper that its command asked for something that can't be had here, and is to end."""

_SHIELDED = ("SIGINT", "SIGTERM", "SIGHUP")
_DEFAULTS = (*_SHIELDED, "SIGPIPE", "SIGXFSZ", "SIGCHLD", "SIGUSR1")


class Reaper:
    """Serves one request: its descriptors are control, status, output and others."""

    def __init__(self) -> None:
        """Make ready, before there is a request."""
        if sys.platform == "linux":
            from lwm_agents.places.syscalls import PR_SET_CHILD_SUBREAPER, prctl

            prctl(PR_SET_CHILD_SUBREAPER, 1)
        self._wake, waker = os.pipe()
        for fd in (self._wake, waker):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(waker)
        for number in (signal.SIGCHLD, DENIED):
            signal.signal(number, lambda *_: None)
        self._nothing = os.open(os.devnull, os.O_RDWR)
        self._child = 0

    def run(self, request: dict[str, Any], fds: list[int]) -> None:
        """Run the command of one request to its end, or end it."""
        self._request = request
        self._control, self._status, self._output, *self._others = fds
        self._free = _free_bytes(request)
        wake = self._wake
        if not self._begin():
            return
        for fd in (self._output, *self._others):
            os.close(fd)
        self._say(f"pid {self._child}")
        limited = "memory" in self._request
        while True:
            ready, _, _ = select.select([self._control, wake], [], [], LOOK if limited else None)
            if wake in ready:
                if DENIED in os.read(wake, 4096):
                    self._say("limit network")
                    end_tree(self._child)
                    return
                ended = reap().get(self._child)
                if ended is not None:
                    self._say(f"exit {ended if ended >= 0 else 128 - ended}")
                    return
            if self._control in ready:
                end_tree(self._child)
                self._say("ended")
                return
            if limited and (over := self._over()):
                self._say(f"limit {over}")
                end_tree(self._child)
                return

    def _begin(self) -> bool:
        """Start the command in a session of its own; say why where it can't be."""
        if "sql" in self._request:
            self._child = os.fork()
            if self._child == 0:
                self._become_sql()
            return True
        what = "cwd"
        try:
            os.chdir(os.fsencode(self._request["cwd"]))
            what = "start"
            argv, first = self._request["argv"], self._request["first"]
            places = {0: self._nothing, 1: self._output, 2: self._output}
            places |= {first + offset: fd for offset, fd in enumerate(self._others)}
            # Quicker than a fork: the memory is not copied, only to be thrown away.
            self._child = os.posix_spawn(
                argv[0],
                [os.path.basename(argv[0]), *argv[1:]],
                self._request["env"],
                file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in places.items()],
                setsid=True,
                setsigdef=[getattr(signal, name) for name in _DEFAULTS],
            )
        except OSError as error:
            self._say(f"failed {what} {error.errno}")
            return False
        return True

    def _become_sql(self) -> None:
        """Turn this forked process into one that runs the statement."""
        try:
            signal.set_wakeup_fd(-1)
            os.setsid()
            for name in _DEFAULTS:
                signal.signal(getattr(signal, name), signal.SIG_DFL)
            self._run_sql()
            os._exit(0)
        except OSError as error:
            self._say(f"failed start {error.errno}")
        finally:
            os._exit(126)

    def _run_sql(self) -> None:
        import json
        import threading

        from lwm_agents.places.sqlite import SqlError
        from lwm_agents.places.statement import Statement, answer, packed

        path = self._request["path"]
        reply: dict[str, Any]
        try:
            tables = answer(path, Statement(**self._request["sql"]), threading.Event())
            reply = {"tables": packed(tables)}
        except FileNotFoundError:
            reply = {"missing": path}
        except SqlError as error:
            reply = {"error": str(error)}
        with os.fdopen(self._output, "w") as file:
            json.dump(reply, file)

    def _over(self) -> str | None:
        """Return which limit the command is past, if any."""
        if self._free - _free_bytes(self._request) > self._request.get("disk", 0):
            return "disk"
        running = sum(name.isdigit() for name in os.listdir("/proc"))
        if running >= self._request.get("processes", running + 1) - _SPARE:
            return "processes"
        most = self._request.get("memory")
        if most is not None and sum(map(_own_memory, tree(self._child))) > most:
            return "memory"
        return None

    def _say(self, line: str) -> None:
        os.write(self._status, line.encode() + b"\n")


def reap() -> dict[int, int]:
    """Collect the children that have ended: their process ids and exit codes (-n: signal n)."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended[pid] = os.waitstatus_to_exitcode(status)


def end_tree(child: int) -> None:
    """End the command and its descendants: asked first, then killed."""
    asked: set[int] = set()
    _send(signal.SIGTERM, child, asked)
    deadline = time.monotonic() + GRACE
    while time.monotonic() < deadline and 0 < len(tree(child)) <= len(asked):
        reap()
        time.sleep(0.01)
    deadline = time.monotonic() + 5 * GRACE
    while tree(child) and time.monotonic() < deadline:
        # Stop all of them before killing any: a fork bomb must not outrun its end.
        stopped: set[int] = set()
        while _send(signal.SIGSTOP, child, stopped):
            pass
        _send(signal.SIGKILL, child, set())
        reap()
        time.sleep(0.005)


def _send(number: int, child: int, known: set[int]) -> bool:
    """Signal each process of the tree that is not known yet; say whether there was one."""
    fresh = tree(child) - known
    for pid in fresh:
        try:
            if sys.platform == "linux":
                os.kill(pid, number)
            else:
                os.killpg(pid, number)
        except (ProcessLookupError, PermissionError):
            continue
    known |= fresh
    return bool(fresh)


def tree(child: int) -> set[int]:
    """Return the processes still alive: descendants of this one; elsewhere the group's leader."""
    if sys.platform != "linux":
        reap()
        try:
            os.killpg(child, 0)
        except (ProcessLookupError, PermissionError):
            return set()
        return {child}
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    state, parent = file.read().rpartition(b")")[2].split()[:2]
            except (FileNotFoundError, ProcessLookupError):
                continue
            if state not in b"ZX":
                children.setdefault(int(parent), []).append(int(name))
    found: set[int] = set()
    todo = [os.getpid()]
    while todo:
        below = children.get(todo.pop(), [])
        found.update(below)
        todo.extend(below)
    return found


def _own_memory(pid: int) -> int:
    """Return the bytes in memory that this process shares with no file (proc_pid_statm(5))."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            _, resident, shared = map(int, file.read().split()[:3])
    except OSError:
        return 0
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")


def _free_bytes(request: dict[str, Any]) -> int:
    """Return what is free where the layer lies, as any overlay above it says."""
    if "disk" not in request:
        return 0
    state = os.statvfs(request["disk_at"])
    return state.f_bavail * state.f_frsize
