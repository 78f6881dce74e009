"""Rehearses a script in real overlay mounts, then diffs and commits from outside of them.

Run as: python overlay_driver.py HOW BASE [commit], where BASE/real is the root and BASE/script
runs in it. A child makes the mounts in namespaces of its own and hands `/` of the copy over as a
descriptor, as a session's helper does. Prints one JSON document; exits 77, with why, where this
system has no such mounts.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from copies import picture, tick

from lwm_agents.changes.commit import commit
from lwm_agents.changes.diff import diff
from lwm_agents.changes.overlay import Layer, OverlayCopied

NEWNS, NEWUSER = 0x20000, 0x10000000
MS_REC_PRIVATE = 0x4000 | 0x40000
NO_MOUNTS = 77
NOBODY = 65534

LIBC = ctypes.CDLL(None, use_errno=True)


class NoMounts(Exception):
    pass


def call(name: str, *arguments: object) -> None:
    if getattr(LIBC, name)(*arguments) != 0:
        code = ctypes.get_errno()
        raise NoMounts(f"{name}: {os.strerror(code)}")


def mount_overlay(lower: str, upper: str, work: str, at: str, options: str) -> None:
    data = f"lowerdir={lower},upperdir={upper},workdir={work},{options}"
    call("mount", b"overlay", at.encode(), b"overlay", 0, data.encode())


def child(how: str, base: Path, script: str, channel: socket.socket) -> None:
    uid, gid = os.getuid(), os.getgid()
    real, new = base / "real", base / "new"
    whole = how == "whole"
    lower = "/" if whole else str(real)
    at = str(new) if whole else f"{new}{real}"
    try:
        if how == "user":
            call("unshare", NEWUSER | NEWNS)
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
            Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
        else:
            call("unshare", NEWNS)
        call("mount", b"none", b"/", None, MS_REC_PRIVATE, None)
        os.makedirs(at, exist_ok=True)
        options = "userxattr" if how == "user" else "index=on,redirect_dir=on,xino=on"
        mount_overlay(lower, str(base / "upper"), str(base / "work"), at, options)
    except (NoMounts, OSError) as error:
        channel.sendall(b"!" + str(error).encode())
        return
    fd = os.open(new, os.O_PATH | os.O_DIRECTORY)
    if whole:
        at = f"{new}{real}"
    done = subprocess.run(["bash", "-ec", script], cwd=at, check=False)
    socket.send_fds(channel, [str(done.returncode).encode()], [fd])
    channel.recv(1)  # the mounts stay until the parent is done


@contextmanager
def rehearsed(how: str, base: Path, script: str) -> Iterator[tuple[OverlayCopied, int]]:
    """Run a script in a copy of BASE/real; yield the copy and a descriptor of its `/`.

    Raises NoMounts where this system has none for us.
    """
    real = base / "real"
    for name in ("upper", "work", "new", "folder"):
        (base / name).mkdir(exist_ok=True)
    lower = Path("/") if how == "whole" else real
    shutil.copystat(lower, base / "upper")
    if os.geteuid() == 0:
        os.chown(base / "upper", lower.stat().st_uid, lower.stat().st_gid)
    began = time.time_ns()
    tick(began)
    here, there = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        here.close()
        child(how, base, script, there)
        os._exit(0)
    there.close()
    try:
        message, fds, *_ = socket.recv_fds(here, 1000, 1)
        if not fds:
            raise NoMounts(message.decode())
        assert message == b"0", f"the script ended with {message.decode()}"
        layers = [Layer("/" if how == "whole" else str(real), str(base / "upper"))]
        copied = OverlayCopied(str(real), None, began, fds[0], layers)
        try:
            yield copied, fds[0]
        finally:
            copied.close()
            os.close(fds[0])
    finally:
        here.close()
        os.waitpid(pid, 0)


def main(how: str, base: Path, *, commits: bool) -> None:
    if how == "user" and os.geteuid() == 0:
        # Only now, with everything imported: the checkout may be closed to others.
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        LIBC.prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: /proc/self is ours again
    real = base / "real"
    found: dict[str, Any] = {"before": jsonable(picture(real))}
    with rehearsed(how, base, (base / "script").read_text()) as (copied, root_fd):
        changes = diff(copied)
        found["changes"] = changes.model_dump(mode="json")
        if how != "user":
            top = os.open(str(real).lstrip("/"), os.O_RDONLY | os.O_DIRECTORY, dir_fd=root_fd)
            found["copy"] = jsonable(picture(Path(f"/proc/self/fd/{top}/.")))
        if commits:
            commit(copied, changes, folder=str(base / "folder"))
            found["real"] = jsonable(picture(real)) if how != "user" else None
    print(json.dumps(found))


def jsonable(seen: dict[str, tuple[object, ...]]) -> dict[str, list[str]]:
    return {path: [repr(value) for value in values] for path, values in seen.items()}


if __name__ == "__main__":
    try:
        main(sys.argv[1], Path(sys.argv[2]), commits="commit" in sys.argv[3:])
    except NoMounts as why:
        print(why)
        sys.exit(NO_MOUNTS)
