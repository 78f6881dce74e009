"""The shell tool with a real Bash and real processes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from places import call

from lwm_agents.places.commands import Commands
from lwm_agents.places.place import RealPlace
from lwm_agents.places.process import BashProcess, short_environment

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[RealPlace]:
    real = RealPlace(tmp_path, None, "live")
    yield real
    real.close()


def running(marker: str) -> list[int]:
    """Return the processes whose arguments hold the marker, this one apart."""
    found = []
    for name in os.listdir("/proc"):
        try:
            arguments = Path(f"/proc/{name}/cmdline").read_bytes() if name.isdigit() else b""
        except (FileNotFoundError, ProcessLookupError):
            continue
        if marker.encode() in arguments and int(name) != os.getpid():
            found.append(int(name))
    return found


async def begun(marker: str, count: int) -> bool:
    """Say whether so many such processes are there, soon."""
    for _ in range(3000):
        if len(running(marker)) >= count:
            return True
        await asyncio.sleep(0.01)
    return False


async def gone(marker: str) -> bool:
    """Say whether no such process is left, soon."""
    for _ in range(3000):
        if not running(marker):
            return True
        await asyncio.sleep(0.01)
    return False


async def test_output_exit_code_and_order(place: RealPlace) -> None:
    seen = await call(place, "shell", command="echo out; echo err >&2; echo out; exit 3")
    assert seen.text == "out\nerr\nout\n[exit 3]"
    assert (seen.is_error, seen.source) == (True, "executed")
    assert seen.structured == {
        "exit_code": 3,
        "cwd": place.root,
        "timed_out": False,
        "truncated": False,
    }
    seen = await call(place, "shell", command="printf hello")
    assert (seen.text, seen.is_error, seen.raw) == ("hello", False, None)
    assert (await call(place, "shell", command="printf hello; false")).text == "hello\n[exit 1]"
    assert (await call(place, "shell", command="true")).text == ""


async def test_messages_are_bashs_own(place: RealPlace) -> None:
    seen = await call(place, "shell", command="echo a\nnosuchcommand\necho $LINENO")
    assert seen.text == "a\nbash: line 2: nosuchcommand: command not found\n3\n"
    seen = await call(place, "shell", command="echo (")
    assert seen.text == (
        "bash: -c: line 1: syntax error near unexpected token `newline'\n"
        "bash: -c: line 1: `echo ('\n[exit 2]"
    )
    seen = await call(place, "shell", command='set -x; : "$#" "$0"; set -- ; cd .')
    assert seen.text == "+ : 0 bash\n+ set --\n+ cd .\n"


@pytest.mark.parametrize(
    "command",
    [
        "cd sub",
        "cd sub; exit 3",
        "cd sub && set -euo pipefail && false",
        "pushd sub",
        "cd sub; trap 'echo bye' TERM; kill -TERM $$",
        "set -C; pwd() { echo /; }; cd sub",
        "cd sub; sleep 30 & disown",
    ],
)
async def test_the_directory_is_kept(place: RealPlace, tmp_path: Path, command: str) -> None:
    (tmp_path / "sub").mkdir()
    await call(place, "shell", command=command)
    assert (await call(place, "shell", command="pwd")).text == f"{tmp_path}/sub\n"


async def test_a_directory_that_is_gone(place: RealPlace, tmp_path: Path) -> None:
    seen = await call(place, "shell", command="mkdir d; cd d; rmdir ../d; pwd")
    assert seen.text == f"{tmp_path}/d\n"
    for name in ("a", "b"):
        (tmp_path / name).touch()
    seen = await call(place, "shell", command="rm -rf *; touch ran")
    assert seen.text == (
        f"The working directory is gone: {tmp_path}/d; nothing was run, "
        f"and the next call starts in {tmp_path}"
    )
    assert (seen.is_error, seen.source, seen.structured) == (True, "executed", None)
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]
    assert place.cwd == str(tmp_path)
    seen = await call(place, "shell", command="pwd")
    assert (seen.text, seen.is_error) == (f"{tmp_path}\n", False)


async def test_a_directory_that_became_a_file(place: RealPlace, tmp_path: Path) -> None:
    await call(place, "shell", command="mkdir d; cd d; rmdir ../d; touch ../d")
    seen = await call(place, "shell", command="touch ran")
    assert seen.text.startswith(f"The working directory is gone: {tmp_path}/d; nothing was run")
    assert os.listdir(tmp_path) == ["d"]
    assert place.cwd == str(tmp_path)


async def test_a_directory_too_deep_to_enter(place: RealPlace, tmp_path: Path) -> None:
    name = "d" * 200
    command = f"for i in {{1..30}}; do mkdir {name}; cd {name}; done"
    await call(place, "shell", command=command)
    seen = await call(place, "shell", command="touch ran")
    assert (seen.is_error, place.cwd) == (True, str(tmp_path))
    assert "nothing was run, and the next call starts in" in seen.text
    assert os.listdir(tmp_path) == [name]


async def test_a_root_that_is_gone(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    place = RealPlace(str(root), None, "live")
    try:
        root.rmdir()
        seen = await call(place, "shell", command=f"touch {tmp_path}/ran")
    finally:
        place.close()
    assert seen.is_error
    assert seen.text.startswith(f"The working directory can't be used: {root}: ")
    assert os.listdir(tmp_path) == []


async def test_readers_of_input_find_its_end(place: RealPlace) -> None:
    seen = await call(place, "shell", command="cat; read x; echo $?; python3 -c 'input()'")
    assert seen.text.startswith("1\n")
    assert "EOFError" in seen.text
    seen = await call(place, "shell", command="echo x > /dev/tty")
    assert seen.structured["exit_code"] == 1


async def test_the_environment_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "hunter2")
    monkeypatch.setenv("LC_TIME", "C")
    # Python sets LC_CTYPE for itself where no locale is set; a command must not get it from that.
    monkeypatch.delenv("LC_CTYPE", raising=False)
    place = RealPlace(tmp_path, None, "live", environment={"EXTRA": "1"})
    seen = await call(place, "shell", command="env; set; cat /proc/$PPID/environ | tr '\\0' '\\n'")
    assert "hunter2" not in seen.text
    assert "BASH_ENV=" not in (await call(place, "shell", command="env; set")).text
    lines = (await call(place, "shell", command="env")).text.splitlines()
    assert {"TERM=dumb", "EXTRA=1", f"PWD={tmp_path}", "LC_TIME=C"} <= set(lines)
    assert not [line for line in lines if line.startswith("LC_CTYPE")]
    assert short_environment({"AWS_SECRET": "x"}).keys() == {"PATH", "LANG", "TERM"}
    place.close()


async def test_signals_and_pipes_are_as_in_a_shell(place: RealPlace) -> None:
    seen = await call(place, "shell", command="yes | head -1; echo ${PIPESTATUS[0]}")
    assert seen.text == "y\n141\n"  # SIGPIPE, which Python ignores and hands down
    assert (await call(place, "shell", command="kill -9 $$")).structured["exit_code"] == 137


TREES = {
    "child": "sleep 300.{n}; true",
    "background": "sleep 300.{n} & sleep 300.{n}",
    "new session": "setsid sleep 300.{n} & wait",
    "double fork": "(setsid bash -c 'sleep 300.{n} & sleep 300.{n} & disown' &) ; sleep 300.{n}",
    "ignores the first signal": "trap '' TERM; (trap '' TERM; sleep 300.{n}; :) ; sleep 300.{n}",
    "stopped": "sleep 300.{n} & kill -STOP $!; wait",
    "no output kept open": "exec >/dev/null 2>&1; sleep 300.{n} & wait",
}


@pytest.mark.parametrize("command", TREES.values(), ids=TREES.keys())
@pytest.mark.parametrize("cancelled", [False, True])
async def test_nothing_outlives_the_end(place: RealPlace, command: str, cancelled: bool) -> None:
    marker = f"300.{os.getpid()}{abs(hash((command, cancelled))) % 10**6}"
    command = command.replace("300.{n}", marker)
    if not cancelled:
        seen = await call(place, "shell", command=f"echo begun; {command}", timeout=2)
        assert seen.text == "begun\n[timed out after 2 s]"
        assert (seen.is_error, seen.structured["exit_code"]) == (True, None)
        assert running(marker) == []
        return
    task = asyncio.create_task(call(place, "shell", command=command))
    assert await begun(marker, 2)  # Bash, and what Bash started
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert running(marker) == []


async def test_a_fork_bomb_ends(place: RealPlace) -> None:
    marker = f"301.{os.getpid()}"
    command = f"f() {{ sleep {marker} & (sleep 0.02; f) & (sleep 0.02; f) & wait; }}; f"
    seen = await call(place, "shell", command=command, timeout=0.3)
    assert seen.structured["timed_out"]
    assert await gone(marker)


async def test_cancelled_before_it_began(place: RealPlace) -> None:
    commands = Commands()
    process = BashProcess(
        "touch made; sleep 300",
        commands,
        cwd=place.root,
        environment=short_environment(os.environ),
        timeout=60,
    )
    process.stop()
    assert process.run().exit_code is None
    commands.close()


def test_nothing_outlives_a_killed_host(tmp_path: Path) -> None:
    marker = f"302.{os.getpid()}"
    script = f"""
import asyncio
from lwm_agents.places.place import RealPlace
from lwm_agents.tools import builtin_tools
place = RealPlace({str(tmp_path)!r}, None, "live")
command = "setsid sleep {marker} & sleep {marker}"
asyncio.run(builtin_tools(False)["shell"].run({{"command": command}}, place))
"""
    host = subprocess.Popen(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert asyncio.run(begun(f"sleep\0{marker}", 2))
    host.kill()
    host.wait()
    assert asyncio.run(gone(marker))


async def test_a_killed_supervisor(place: RealPlace) -> None:
    marker = f"303.{os.getpid()}"
    seen = await call(place, "shell", command=f"echo a; kill -9 $PPID; sleep {marker}")
    assert (seen.is_error, seen.structured["exit_code"]) == (True, None)
    assert seen.text == "a\n[ended from outside]"
    assert await gone(marker)
    seen = await call(place, "shell", command="kill $PPID; echo still here")
    assert seen.text == "still here\n"


async def test_background_jobs_neither_hang_the_call_nor_die(
    place: RealPlace, tmp_path: Path
) -> None:
    script = tmp_path / "server.sh"
    script.write_text(
        textwrap.dedent(
            """
            echo ready
            until [ -e go ]; do sleep 0.02; done
            echo a line of log, to a pipe that nobody reads any more || exit
            echo alive > answer
            """
        )
    )
    seen = await call(place, "shell", command="bash server.sh & echo begun")
    assert "begun\n" in seen.text
    await call(place, "shell", command="touch go; until [ -s answer ]; do sleep 0.02; done")
    assert (tmp_path / "answer").read_text() == "alive\n"


async def test_output_is_complete_however_large(place: RealPlace) -> None:
    seen = await call(place, "shell", command="head -c 100000000 /dev/zero | tr '\\0' x")
    assert len(seen.text) == 100_000_000
    assert (seen.raw, seen.is_error) == (None, False)


async def test_too_much_output(place: RealPlace) -> None:
    marker = f"y{os.getpid()}y"
    seen = await call(place, "shell", command=f"yes {marker}")
    assert seen.structured["truncated"]
    assert seen.is_error
    assert seen.text.endswith("\n[ended: more than 104,857,600 bytes of output]")
    assert seen.raw is not None
    assert len(seen.raw) == 100 * 1024 * 1024
    assert await gone(marker)


async def test_binary_and_drawn_output(place: RealPlace) -> None:
    seen = await call(place, "shell", command=r"printf '\000\377\x80abc'")
    assert (seen.text, seen.raw) == ("\ufffd\ufffdabc", b"\x00\xff\x80abc")
    seen = await call(place, "shell", command=r"printf ' 50%%\r100%%\n\033[31mdone\033[0m\n'")
    assert (seen.text, seen.raw) == (
        "100%\ndone\n",
        b" 50%\r100%\n\x1b[31mdone\x1b[0m\n",
    )


async def test_bad_arguments(place: RealPlace) -> None:
    for arguments in (
        {"command": "a\0b"},
        {"command": "\ud800"},
        {"command": "true", "timeout": 0},
        {"command": "true", "timeout": float("nan")},
        {"command": "true", "timeout": "5"},
        {"command": 5},
        {},
    ):
        assert (await call(place, "shell", **arguments)).is_error
    seen = await call(place, "shell", command="#" + "x" * 3_000_000)
    assert seen.text == "The command is too long for this system; write it to a file and run that"


async def test_no_bash(tmp_path: Path) -> None:
    place = RealPlace(tmp_path, None, "live", environment={"PATH": str(tmp_path)})
    seen = await call(place, "shell", command="true")
    assert (seen.text, seen.is_error) == ("No Bash on this system (linux)", True)
    place.close()


async def test_nothing_stays_open(place: RealPlace) -> None:
    await call(place, "shell", command="true")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        await call(place, "shell", command="echo x; exit 1")
        await call(place, "shell", command="sleep 9", timeout=0.05)
    assert len(os.listdir("/proc/self/fd")) == before


async def test_many_at_once(place: RealPlace) -> None:
    seen = await asyncio.gather(
        *(call(place, "shell", command=f"sleep 0.05; echo {number}") for number in range(20))
    )
    assert [observation.text for observation in seen] == [f"{n}\n" for n in range(20)]
