"""Tries to get out of a copy, and to be told apart from the real thing. Prints JSON.

python copy_driver.py leaks FOLDER | failures FOLDER | wait FOLDER MARKER
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import threading
from pathlib import Path

from lwm_agents.places.commands import SupervisorError
from lwm_agents.places.copy import CopyPlace, Limits
from lwm_agents.places.place import CannotSay
from lwm_agents.tools.base import builtin_tools
from lwm_agents.values import Json

TOOLS = builtin_tools(database=True)


def main() -> None:
    what, folder = sys.argv[1], Path(sys.argv[2])
    root = folder / "root"
    root.mkdir(exist_ok=True)
    if what == "leaks":
        print(json.dumps(asyncio.run(leaks(folder, root))))
    elif what == "failures":
        print(json.dumps(failures(folder, root)))
    else:
        asyncio.run(wait(folder, root, sys.argv[3]))


async def leaks(folder: Path, root: Path) -> dict[str, str]:
    """Run each command, and return what was said, or why it can't be."""
    (folder / ".ssh").mkdir()
    (folder / ".ssh" / "id_rsa").write_text("SECRET KEY")
    (folder / ".netrc").write_text("SECRET PASSWORD")
    (root / "file").write_text("real\n")
    (root / ".folder").mkdir()
    (root / ".other").mkdir()
    (root / "run.sh").write_text("echo ran\n")
    tcp = socket.create_server(("127.0.0.1", 0))
    path = socket.socket(socket.AF_UNIX)
    path.bind(str(root / "socket"))
    path.listen()
    abstract = socket.socket(socket.AF_UNIX)
    abstract.bind(f"\0lwm-test-{os.getpid()}")
    abstract.listen()
    reached: list[str] = []
    for name, one in (("tcp", tcp), ("path", path), ("abstract", abstract)):
        threading.Thread(target=accepting, args=(one, name, reached), daemon=True).start()
    real_descriptor = os.open(root / "file", os.O_RDWR)
    os.set_inheritable(real_descriptor, True)
    say = "python3 -c 'import socket; s=socket.socket({}); s.connect({}); print(s)' 2>&1 | tail -1"
    commands = {
        "who": "id -u",
        "changed": "echo changed > file; echo new > new; rm run.sh; cat file; ls",
        "elsewhere": "echo x > /tmp/lwm-leak; echo x > ~/lwm-leak; cat /tmp/lwm-leak ~/lwm-leak",
        "shared memory": "echo x > /dev/shm/lwm-leak && cat /dev/shm/lwm-leak",
        "devices": "ls /dev | tr '\\n' ' '; cat /dev/zero | head -c 2 | od -An -tx1",
        "disk": "ls /dev/sd* /dev/vd* /dev/nvme* 2>/dev/null; mknod /tmp/d b 8 0 2>&1",
        "proc sys": "echo lwm > /proc/sys/kernel/hostname; cat /proc/sys/kernel/ostype",
        "sysrq": "echo h > /proc/sysrq-trigger; cat /proc/kcore | head -c 1 | wc -c",
        "sys": "echo 0 > /sys/kernel/mm/transparent_hugepage/enabled; ls /sys | head -1",
        "unmount": "umount /proc; umount /dev; umount -l /; echo done",
        "remount": "mount -o remount,rw /proc/sys; mount -t tmpfs x /mnt; echo done",
        "own namespaces": "unshare -Urm sh -c 'umount /proc/sys; umount -l ~/.ssh; cat ~/.ssh/*'",
        "own mounts": "unshare -Urm sh -c 'umount /proc/sys'; echo done",
        "ipc": "ipcs -m | grep -c 0x; ipcmk -M 10 > /dev/null && ipcs -m | grep -c 0x",
        "processes": f"ls -d /proc/{os.getpid()} /proc/{os.getppid()}; kill -9 {os.getpid()} 1",
        "supervisor": "cat /proc/1/environ /proc/1/mem; ls -l /proc/1/fd/3; echo done",
        "host name": "hostname lwm-leak 2>&1; cat /etc/hostname > /dev/null; echo done",
        "tcp": say.format("", f'("127.0.0.1", {tcp.getsockname()[1]})'),
        "far": say.format("", '("192.0.2.1", 80)'),
        "far6": say.format("socket.AF_INET6", '("2001:db8::1", 80)'),
        "name": "python3 -c 'import socket; socket.gethostbyname(\"example.com\")' 2>&1 | tail -1",
        "packets": "python3 -c 'import socket; "
        'socket.socket(2, 2).sendto(b"x", ("192.0.2.1", 9))\' 2>&1 | tail -1',
        "path socket": say.format("socket.AF_UNIX", f'"{root}/socket"'),
        "abstract socket": say.format("socket.AF_UNIX", f'"\\0lwm-test-{os.getpid()}"'),
        "machine socket": say.format("40", "(2, 1)"),
        "own server": "python3 -m http.server 8765 --bind 127.0.0.1 >/dev/null 2>&1 & "
        "for n in $(seq 100); do sleep 0.1; curl -s -o /dev/null http://127.0.0.1:8765/ && break; "
        "done; curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:8765/",
        "loopback nobody": "curl -s http://127.0.0.1:8799/",
        "secrets": "cat ~/.ssh/id_rsa ~/.netrc; ls ~/.ssh",
        "environment": "env | grep -c LWM_TEST_SECRET",
        "keys": "keyctl show 2>&1 || grep -c . /proc/keys; echo done",
        "terminal": "echo x > /dev/tty",
        "descriptors": "ls -l /proc/self/fd /proc/$PPID/fd | grep -c /root/file; echo done",
        "background": "sleep 987 & echo begun",
        "daemon": "setsid -f sleep 986; echo begun",
        "still there": "pgrep -c -f 'sleep 98[67]'",
        "supervisor killed": "kill -9 $PPID; sleep 1",
        "after that": "echo alive",
        "memory": "python3 -c 'a = bytearray(300 << 20); import time; time.sleep(20)'",
        "bytes": "head -c 300M /dev/zero > big; sleep 20",
        "forks": "for n in $(seq 600); do sleep 60 & done; true",
        "after forks": "echo alive",
        "index": "ln file hard; echo more >> hard; cat file; stat -c %h file",
        "quick": "cd /tmp; pwd",
        "where": "pwd",
    }
    place = CopyPlace(
        root,
        None,
        folder / "sessions" / "one",
        environment={"HOME": str(folder)},
        limits=Limits(processes=300, memory=200 << 20, disk=150 << 20),
    )
    said = {"layers": " ".join(place.layers)}
    for name, command in commands.items():
        try:
            seen = await TOOLS["shell"].run({"command": command, "timeout": 60}, place)
            said[name] = seen.text
        except CannotSay as reason:
            said[name] = f"cannot say: {reason}"
    calls: list[tuple[str, dict[str, Json]]] = [
        ("move_file", {"source": ".folder", "destination": ".moved"}),
        ("shell", {"command": "ls -l /etc/passwd | cut -d' ' -f3"}),
        ("shell", {"command": f'python3 -c \'import os; os.rename("{root}/.other", "x")\''}),
    ]
    for tool, given in calls:
        try:
            seen = await TOOLS[tool].run(given, place)
            said[f"without root {tool} {len(said)}"] = seen.text
        except CannotSay as reason:
            said[f"without root {tool} {len(said)}"] = f"cannot say: {reason}"
    place.close()
    said["reached"] = " ".join(reached)
    again = CopyPlace(root, None, folder / "sessions" / "one", environment={"HOME": str(folder)})
    seen = await TOOLS["shell"].run({"command": f"pwd; cat {root}/file; pgrep -c sleep"}, again)
    said["taken up again"] = seen.text
    again.close()
    return said


def accepting(listener: socket.socket, name: str, reached: list[str]) -> None:
    while True:
        listener.accept()
        reached.append(name)


def failures(folder: Path, root: Path) -> dict[str, object]:
    """Make the set-up fail at each of its steps in turn; return which, and what went through."""
    failed, begun = [], 0
    for number in range(1, 1000):
        at = folder / "sessions" / str(number)
        try:
            place = CopyPlace(root, None, at, fail_at=number)
        except SupervisorError as error:
            failed.append(str(error))
            continue
        begun = number
        place.close()
        break
    return {"failed": failed, "begun": begun}


async def wait(folder: Path, root: Path, marker: str) -> None:
    """Start things in a copy, say so, and wait to be killed."""
    place = CopyPlace(root, None, folder / "sessions" / "one")
    command = f"setsid -f sleep {marker}; sleep {marker} & sleep {marker}"
    print("begun", flush=True)
    await place.bash(command, timeout=600)


if __name__ == "__main__":
    main()
