"""Why this system gives us no namespaces, and what to do about it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

_SWITCHES = (
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "AppArmor keeps users without rights from making namespaces (Ubuntu 24.04 and others): "
        "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ),
    (
        "kernel/unprivileged_userns_clone",
        "0",
        "user namespaces are switched off: sudo sysctl -w kernel.unprivileged_userns_clone=1",
    ),
    (
        "user/max_user_namespaces",
        "0",
        "user namespaces are switched off: sudo sysctl -w user.max_user_namespaces=10000",
    ),
)
_IN_CONTAINER = (
    "this is a container, which as a rule may mount nothing: start it with "
    "--cap-add SYS_ADMIN --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
    "--security-opt systempaths=unconfined"
)
_ON_OVERLAY = (
    "the log lies on an overlay itself, as a container's own files do, and overlays do not stack "
    "that way: mount a volume, and put the log there with --store or LWM_STORE"
)
_OLDEST = (5, 13)


def advice(folder: Path, proc: Path = Path("/proc")) -> list[str]:
    """Return what on this system can keep a copy from being made in a folder, each with its fix."""
    if sys.platform != "linux":
        return ["namespaces are Linux's: run it there, in WSL 2 or a virtual machine"]
    return list(_advice(folder, proc))


def _advice(folder: Path, proc: Path) -> Iterator[str]:
    words = os.uname().release.split(".")
    if all(word.isdigit() for word in words[:2]) and tuple(map(int, words[:2])) < _OLDEST:
        yield f"Linux {'.'.join(map(str, _OLDEST))} or newer is needed; this is {'.'.join(words)}"
    if os.geteuid() != 0:
        for name, off, fix in _SWITCHES:
            if _read(proc / "sys" / name) == off:
                yield fix
    if any(Path(sign).exists() for sign in ("/.dockerenv", "/run/.containerenv")):
        yield _IN_CONTAINER
    if _kind_at(folder, proc) == "overlay":
        yield _ON_OVERLAY


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _kind_at(folder: Path, proc: Path) -> str:
    """Return the type of file system a path lies on, as mountinfo says (proc_pid_mountinfo(5))."""
    path, best, kind = os.path.realpath(folder), "", ""
    for line in _read(proc / "self" / "mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        at = left.split(" ")[4].replace("\\040", " ")
        inside = at == "/" or path == at or path.startswith(at + "/")
        if inside and len(at) >= len(best):
            best, kind = at, right.split(" ")[0]
    return kind
