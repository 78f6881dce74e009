"""The copy in namespaces: what leaks, what differs, what fails, what is left. All of it real."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from unprivileged import run_as_user

from lwm_agents.places.copies import why_no_namespaces

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="namespaces are Linux's"),
    pytest.mark.skipif(
        sys.platform == "linux" and why_no_namespaces() is not None,
        reason="this system lets us make no namespaces",
    ),
]

DRIVER = str(Path(__file__).with_name("copy_driver.py"))
ROOT_ONLY = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become someone else"
)
USERS = ["self", pytest.param("user", marks=ROOT_ONLY)]


def drive(user: str, folder: Path, *arguments: str) -> dict[str, Any]:
    environment = {"HOME": str(folder), "LWM_TEST_SECRET": "1"}
    command = [DRIVER, arguments[0], str(folder), *arguments[1:]]
    if user == "user":
        done = run_as_user(command, folder, environment=environment)
    else:
        done = subprocess.run(
            [sys.executable, *command],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module", params=USERS)
def leaks(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    folder = open_to_all(tmp_path_factory.mktemp("copy"))
    with machine_unchanged():
        said = drive(request.param, folder, "leaks")
    said["user"] = request.param
    root = folder / "root"
    assert sorted(os.listdir(root)) == [".folder", ".other", "file", "run.sh", "socket"]
    assert (root / "file").read_text() == "real\n"
    assert sorted(os.listdir(folder)) == [".netrc", ".ssh", "root", "sessions"]
    return said


@contextmanager
def machine_unchanged() -> Iterator[None]:
    """Check what any user can leave on a machine at large: the commands below try."""
    before = left()
    yield
    assert left() == before


def left() -> dict[str, object]:
    return {
        "shared memory": os.path.exists("/dev/shm/lwm-leak"),
        "segments": Path("/proc/sysvipc/shm").read_text(),
        "files": [path for path in ("/tmp/lwm-leak", "/tmp/d") if os.path.lexists(path)],
        "mounts": Path("/proc/self/mountinfo").read_text(),
        "pid_max": Path("/proc/sys/kernel/pid_max").read_text(),
        "host name": os.uname().nodename,
    }


def open_to_all(folder: Path) -> Path:
    """Let another user reach a folder of pytest's."""
    for above in [folder, *folder.parents]:
        if str(above) not in {"/", "/tmp"}:
            above.chmod(above.stat().st_mode | 0o055)
    return folder


NOT_SAID = {
    "supervisor killed": "ended from outside",
    "secrets": "denied: a secret that is hidden",
    "own namespaces": "denied: a secret that is hidden",
    "tcp": "denied: network (127.0.0.1:",
    "far": "denied: network (192.0.2.1:80)",
    "far6": "denied: network ([2001:db8::1]:80)",
    "name": "denied: network (",
    "packets": "denied: network (192.0.2.1:9)",
    "path socket": "/root/socket)",
    "abstract socket": "denied: network (@lwm-test-",
    "loopback nobody": "127.0.0.1:8799",
    "memory": "over the limit of memory",
    "bytes": "over the limit of disk",
    "forks": "over the limit of processes",
}


@pytest.mark.parametrize("name", NOT_SAID)
def test_what_hangs_on_something_denied_is_not_said(leaks: dict[str, str], name: str) -> None:
    assert leaks[name].startswith("cannot say: ")
    assert NOT_SAID[name] in leaks[name]


def test_no_listener_outside_was_reached(leaks: dict[str, str]) -> None:
    assert leaks["reached"] == ""


EXPECTED = {
    "changed": "changed\nfile\nnew\nsocket\n",
    "elsewhere": "x\nx\n",
    "shared memory": "x\n",
    "own server": "200",
    "background": "begun\n",
    "daemon": "begun\n",
    "still there": "2\n",
    "ipc": "0\n1\n",
    "after that": "alive\n",
    "after forks": "alive\n",
    "index": "changed\nmore\n2\n",
    "where": "/tmp\n",
    "environment": "0\n[exit 1]",
    "taken up again": "/tmp\nchanged\nmore\n0\n[exit 1]",
}


@pytest.mark.parametrize("name", EXPECTED)
def test_inside_it_is_as_for_real(leaks: dict[str, str], name: str) -> None:
    assert leaks[name] == EXPECTED[name]


REFUSED = {
    "proc sys": ["/proc/sys/kernel/hostname: Read-only file system", "Linux\n"],
    "sysrq": ["0\n"],
    "sys": ["Read-only file system"],
    "unmount": ["must be superuser to unmount", "done\n"],
    "remount": ["mount: /mnt: ", "done\n"],
    "own mounts": ["/proc/sys: not mounted"],
    "processes": ["No such process"],
    "supervisor": ["/proc/1/environ: Permission denied", "/proc/1/mem: Permission denied"],
    "host name": ["you must be root to change the host name"],
    "machine socket": ["Address family not supported by protocol"],
    "terminal": ["No such device or address"],
    "descriptors": ["0\ndone\n"],
    "disk": ["/tmp/d: Operation not permitted"],
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_way_out_is_closed(leaks: dict[str, str], name: str) -> None:
    for said in REFUSED[name]:
        assert said in leaks[name]


def test_the_user_is_the_caller(leaks: dict[str, str]) -> None:
    own = 61234 if leaks["user"] == "user" else os.geteuid()
    assert leaks["who"] == f"{own}\n"


def test_what_takes_root_is_said_as_root_only(leaks: dict[str, str]) -> None:
    found = [text for name, text in leaks.items() if name.startswith("without root")]
    assert len(found) == 3
    refused = ["cannot say" in text for text in found]
    assert refused == ([True] * 3 if leaks["who"] != "0\n" else [False] * 3)


def test_only_harmless_devices_are_there(leaks: dict[str, str]) -> None:
    names = leaks["devices"].partition("  ")[0].split()
    links = {"fd", "ptmx", "stdin", "stdout", "stderr"}
    assert set(names) - links == {
        *("full", "null", "pts", "random", "shm", "tty", "urandom", "zero")
    }


def test_secrets_are_not_there(leaks: dict[str, str]) -> None:
    assert "SECRET" not in "".join(leaks.values())


@pytest.mark.parametrize("user", USERS)
def test_no_command_starts_where_any_step_of_the_set_up_fails(user: str, tmp_path: Path) -> None:
    folder = open_to_all(tmp_path)
    with machine_unchanged():
        found = drive(user, folder, "failures")
    assert found["begun"] == len(found["failed"]) + 1
    assert len(found["failed"]) > 40
    assert all("made to fail at step" in one for one in found["failed"])


@pytest.mark.parametrize("user", USERS)
def test_a_killed_host_leaves_no_process_and_no_mount(user: str, tmp_path: Path) -> None:
    folder = open_to_all(tmp_path)
    (folder / "root").mkdir()
    marker = f"985.{os.getpid()}"
    starter = (
        "import subprocess, sys, unprivileged\n"
        "from pathlib import Path\n"
        f"unprivileged.run_as_user([{DRIVER!r}, 'wait', {str(folder)!r}, {marker!r}],"
        f" Path({str(folder)!r}))"
    )
    command = (
        [sys.executable, DRIVER, "wait", str(folder), marker]
        if user == "self"
        else [sys.executable, "-c", starter]
    )
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([*sys.path, os.path.dirname(DRIVER)]),
    }
    mounts = Path("/proc/self/mountinfo").read_text()
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
        for _ in range(600):
            if len(running(f"sleep\0{marker}")) == 3:
                break
            time.sleep(0.1)
        assert len(running(f"sleep\0{marker}")) == 3
        hosts = [pid for pid in running(DRIVER) if marker in cmdline(pid)]
        for pid in hosts:
            os.kill(pid, signal.SIGKILL)
        process.kill()
    for _ in range(100):
        if not running(marker):
            break
        time.sleep(0.1)
    assert running(marker) == []
    assert Path("/proc/self/mountinfo").read_text() == mounts


def running(*markers: str) -> list[int]:
    """Return the processes whose arguments hold all the markers, this one apart."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [
        pid for pid in pids if pid != os.getpid() and all(one in cmdline(pid) for one in markers)
    ]


def cmdline(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""
