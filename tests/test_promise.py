"""The promise, by force: in a dry run nothing real changes, whatever is called or answered."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import watcher

from lwm_agents.places.copies import why_no_namespaces

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="watches the machine through /proc")

DRIVER = Path(__file__).with_name("promise_driver.py")


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Make a real place: a root, a home, a temporary folder and what lies beside them."""
    root = tmp_path / "world" / "root"
    for folder in (root / "src", root / "build", root / "deep/a/b", tmp_path / "world" / "home"):
        folder.mkdir(parents=True)
    (tmp_path / "world" / "tmp").mkdir()
    (root / "notes.txt").write_text("a note\n")
    (root / "src/app.py").write_text("print(1)\n")
    (root / "build/app.o").write_bytes(b"\x7fELF")
    (root / "deep/a/b/c.txt").write_text("c")
    (tmp_path / "world" / "outside.txt").write_text("not yours\n")
    (root / "link-out").symlink_to(tmp_path / "world")
    database = sqlite3.connect(root / "shop.db")
    with database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT, paid INTEGER)")
        database.execute("INSERT INTO orders VALUES (1, 'lamp', 1)")
    database.close()
    return tmp_path / "world"


@pytest.fixture
def server(outside: Path) -> Iterator[watcher.RequestLog]:
    log = watcher.RequestLog(outside / "root")
    yield log
    log.close()


def perform(
    mode: str, outside: Path, server: watcher.RequestLog, calls: int, seed: int
) -> dict[str, int]:
    """Run the driver with a home and a temporary folder of its own; return its counts."""
    environment = {
        **os.environ,
        "HOME": str(outside / "home"),
        "TMPDIR": str(outside / "tmp"),
        "LWM_CONFIG": os.devnull,
    }
    store = outside.parent / "log" / f"{mode}.db"
    command = [sys.executable, "-B", str(DRIVER), mode, str(outside / "root"), str(store)]
    done = subprocess.run(
        [*command, str(server.port), str(calls), str(seed)],
        env=environment,
        cwd=outside / "root",
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    counts: dict[str, int] = json.loads(done.stdout)
    return counts


def check_dry_run(outside: Path, server: watcher.RequestLog, calls: int, seed: int) -> None:
    before, machine = watcher.tree(outside), watcher.machine()
    counts = perform("dry-run", outside, server, calls, seed)
    assert watcher.tree(outside) == before
    assert watcher.machine() - machine == set()
    assert server.requests == []
    assert counts.get("executed", 0) == 0
    assert sum(counts.values()) == calls
    # The calls were answered, not all refused at the door.
    if why_no_namespaces() is None:
        assert counts["rehearsed"] > calls / 2
    assert counts["imagined"] > calls / 20


def test_nothing_real_changes(outside: Path, server: watcher.RequestLog) -> None:
    check_dry_run(outside, server, calls=1_000, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
def test_nothing_real_changes_in_twenty_thousand_calls(
    outside: Path, server: watcher.RequestLog, seed: int
) -> None:
    check_dry_run(outside, server, calls=2_000, seed=seed)


def test_the_watcher_sees_what_the_same_calls_do_for_real(
    outside: Path, server: watcher.RequestLog
) -> None:
    """Without this, the tests above could pass because nothing is being watched."""
    subprocess.run(
        [
            sys.executable, "-c",
            "import asyncio, sys; from lwm_agents import Session\n"
            "async def main():\n"
            "    async with Session.open('live', root=sys.argv[1], store=sys.argv[2]) as s:\n"
            "        await s.call('shell', command=sys.argv[3])\n"
            "asyncio.run(main())",
            str(outside / "root"), str(outside.parent / "live.db"),
            f"touch PWNED; exec 3<>/dev/tcp/127.0.0.1/{server.port}; echo hi >&3",
        ],
        check=True, env={**os.environ, "LWM_CONFIG": os.devnull},
    )  # fmt: skip
    assert "root/PWNED" in watcher.tree(outside)
    assert server.requests != []
