"""Runs one command and can end it with everything it started. A program of its own, never imported.

    python supervisor.py CONTROL STATUS KEEP_LC_CTYPE COMMAND ARGUMENT…

CONTROL and STATUS are numbers of open descriptors. It writes `pid N` to STATUS, then `exit N` when
the command has ended (128 + n after signal n); what the command left in the background goes on.
When CONTROL says anything or closes, as it does when the process that started this one dies, it
ends the command and all its descendants and writes `ended`. On Linux orphans come to this process
(PR_SET_CHILD_SUBREAPER), so that no double fork and no new session gets away; elsewhere what left
the process group does. It imports little, since every command waits for it.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
GRACE = 1.0
"""Seconds between asking to end (SIGTERM) and ending (SIGKILL)."""

SHIELDED = ("SIGINT", "SIGTERM", "SIGHUP")
DEFAULTS = (*SHIELDED, "SIGPIPE", "SIGXFSZ", "SIGCHLD")


def main(arguments: list[str]) -> None:
    """Run the command; see the module's first lines."""
    control, status = int(arguments[0]), int(arguments[1])
    if arguments[2] == "0":
        os.environ.pop("LC_CTYPE", None)  # Python itself sets it in a C locale
    for fd in (control, status):
        os.set_inheritable(fd, False)
    if sys.platform == "linux":
        adopt_orphans()
    wake, waker = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    child = os.fork()
    if child == 0:
        become(arguments[3:])
    for name in SHIELDED:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nothing, fd)
    os.write(status, b"pid %d\n" % child)
    while True:
        ready, _, _ = select.select([control, wake], [], [])
        if wake in ready:
            os.read(wake, 4096)
            ended = reap().get(child)
            if ended is not None:
                os.write(status, b"exit %d\n" % (ended if ended >= 0 else 128 - ended))
                return
        if control in ready:
            end_tree(child)
            os.write(status, b"ended\n")
            return


def become(command: list[str]) -> None:
    """Turn this forked process into the command, in a session of its own."""
    os.setsid()
    for name in DEFAULTS:
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execv(command[0], [os.path.basename(command[0]), *command[1:]])
    except OSError as error:
        os.write(2, os.fsencode(f"{command[0]}: {error.strerror}\n"))
        os._exit(126)


def adopt_orphans() -> None:
    """Make every orphan among the descendants a child of this process."""
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


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
    send(signal.SIGTERM, child, asked)
    deadline = time.monotonic() + GRACE
    while time.monotonic() < deadline and 0 < len(tree(child)) <= len(asked):
        reap()
        time.sleep(0.01)
    deadline = time.monotonic() + 5 * GRACE
    while tree(child) and time.monotonic() < deadline:
        # Stop all of them before killing any: a fork bomb must not outrun its end.
        stopped: set[int] = set()
        while send(signal.SIGSTOP, child, stopped):
            pass
        send(signal.SIGKILL, child, set())
        reap()
        time.sleep(0.005)


def send(number: int, child: int, known: set[int]) -> bool:
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


if __name__ == "__main__":
    main(sys.argv[1:])
