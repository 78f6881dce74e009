"""The process that runs a session's commands, in the real place or in a copy. Never imported there.

Started as a program of its own with the number of a connected socket and the folder of this
package. Its first message says what place to make (`Order`); it answers {"ready": …} or
{"error": …}. Each later message asks for one command or one SQL statement and brings the pipes to
talk through. It ends, and in a copy all that runs there ends, when the socket closes, as it does
when the process at the other end dies.

For a copy it enters namespaces first (`namespaces`). Any failure before `ready` ends it: nothing
has run.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # the module without underscore takes 5 ms to import
import _socket
import gc
import os
import select
import sys

from lwm_agents.places import syscalls
from lwm_agents.places.reaper import DENIED, Reaper, reap
from lwm_agents.places.wire import receive, send

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from lwm_agents.places.network import Network


def main(number: int) -> None:
    """Serve the socket with this number until it closes."""
    if sys.platform == "linux":
        # Commands that end all Pythons by name shall not mean this one.
        with open("/proc/self/comm", "w", encoding="ascii") as file:
            file.write("lwm-supervisor")
    connection = _socket.socket(fileno=number)
    order, fds = receive(connection)
    host = fds[0] if fds else -1
    network = None
    try:
        if "copy" in order:
            from lwm_agents.places.namespaces import enter_copy

            network = enter_copy(order["copy"], connection)
        else:
            if sys.platform == "linux":
                syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
            send(connection, {"ready": {}})
    except BaseException as error:  # noqa: BLE001 (whatever it is, nothing may run)
        what = f"{error} ({error.filename2 or ''})" if isinstance(error, OSError) else repr(error)
        send(connection, {"error": what, "errno": getattr(error, "errno", None)})
        os._exit(1)
    _serve(connection, host, network)


def _serve(connection: Any, host: int, network: Network | None) -> None:
    wake, waker = os.pipe()
    for fd in (wake, waker):
        os.set_blocking(fd, False)
    signal.set_wakeup_fd(waker)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    # What is there already stays as it is, so that a fork need not copy it.
    gc.disable()
    gc.freeze()
    asks = -1 if network is None else network.listener
    watched = [fd for fd in (connection.fileno(), wake, host, asks) if fd >= 0]
    others = [*watched, waker]
    spare = _spare(others)
    statements = None if network is None else _statements(others)
    running = 0
    while True:
        ready, _, _ = select.select(watched, [], [])
        if wake in ready:
            os.read(wake, 4096)
            reap()
            if network is None:
                spare = spare or _spare(others)
        if host in ready:
            return
        if network is not None and asks in ready:
            network.look(running, _end_command_of)
        if connection.fileno() in ready:
            try:
                request, fds = receive(connection)
            except (EOFError, ConnectionError):
                return
            if "denied" in request:
                send(connection, {"denied": [] if network is None else network.denied()})
                # A command has ended: while its answer is read there is time for a new reaper.
                spare = spare or _spare(others)
                continue
            if "end" in request:
                if os.getpid() == 1:  # all there is in a copy; outside it would be everybody's
                    os.kill(-1, signal.SIGKILL)
                    spare = None
                continue
            try:
                if statements is not None and "sql" in request:
                    statements = _ask(statements, request, fds, others)
                else:
                    running = _hand_over(spare, request, fds, others)
                    spare = None
            except OSError as error:
                os.write(fds[1], f"failed start {error.errno or 5}\n".encode())
            for fd in fds:
                os.close(fd)


def _hand_over(spare: Any, request: dict[str, Any], fds: list[int], others: list[int]) -> int:
    """Give a request to the reaper that waits for one; to a new one where it is gone.

    Return the reaper's process id.
    """
    for one in (spare, None):
        pid, waiting = one or _spare(others, patient=True)
        try:
            send(waiting, request, tuple(fds))
        except OSError:
            continue  # somebody killed it
        finally:
            waiting.close()
        return int(pid)
    raise OSError(5, "no reaper can be started")


def _end_command_of(pid: int, reaper: int) -> bool:
    """End the command that is running where the process is one of its; say whether it is."""
    above = pid
    while above > 1 and above != reaper:
        with open(f"/proc/{above}/stat", "rb") as file:
            above = int(file.read().rpartition(b")")[2].split()[1])
    if above != reaper:
        return False
    os.kill(reaper, DENIED)
    return True


def _spare(others: list[int], *, patient: bool = False) -> Any:
    """Fork a reaper that waits for its request; return its process id and the socket to it.

    It is forked beforehand, while nobody waits for it. `others` are descriptors that are not its
    own. None where there are too many processes; `patient` waits for some to end, and raises then.
    """
    ours, theirs = _socket.socketpair()
    try:
        child = _fork() if patient else os.fork()
    except OSError:
        ours.close()
        theirs.close()
        if patient:
            raise
        return None
    if child:
        theirs.close()
        return child, ours
    ours.close()
    try:
        for fd in others:
            os.close(fd)
        reaper = Reaper()
        try:
            request, fds = receive(theirs)
        except EOFError:
            os._exit(0)
        theirs.close()
        try:
            reaper.run(request, fds)
        except BaseException:
            os.write(fds[1], b"failed start 5\n")
            raise
    finally:
        os._exit(0)


def _statements(others: list[int]) -> Any:
    """Fork a supervisor for SQL statements, with all loaded that they need; return its socket.

    It is a process of its own because a reaper is forked the quicker the less is loaded.
    """
    ours, theirs = _socket.socketpair()
    if _fork():
        theirs.close()
        return ours
    ours.close()
    try:
        for fd in others:
            os.close(fd)
        _load()
        _serve(theirs, -1, None)
    finally:
        os._exit(0)


def _ask(statements: Any, request: dict[str, Any], fds: list[int], others: list[int]) -> Any:
    """Give a statement to the supervisor for them; to a new one where somebody killed it."""
    try:
        send(statements, request, tuple(fds))
    except OSError:
        statements.close()
        statements = _statements(others)
        send(statements, request, tuple(fds))
    return statements


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


def _load() -> None:
    """Load now what statements need: a command may change or delete the files it lies in."""
    import json  # noqa: F401
    import threading  # noqa: F401

    import lwm_agents.places.statement  # noqa: F401
