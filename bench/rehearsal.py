"""What a rehearsal costs, each figure beside its limit; and how often it equals running for real.

python bench/rehearsal.py                                    set-up, a shell call, a big root
python bench/rehearsal.py equal [--calls N] [--seed N] [--user self|user] [--out FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "places"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "rehearsal"))

from running import compare_as, reason

from lwm_agents.places.copy import CopyPlace

SETUP_MS, OVER_MS, GROWTH = 30.0, 3.0, 1.2
COMMANDS = {"builtin": "echo x", "three programs": "ls; wc -l < file; grep -c x file"}


def main() -> None:
    """Measure what was asked for, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", nargs="?", choices=["costs", "equal"], default="costs")
    parser.add_argument("--calls", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--user", choices=["self", "user"], default="self")
    parser.add_argument("--out", help="a file for the whole report, as JSON")
    arguments = parser.parse_args()
    base = Path(tempfile.mkdtemp(prefix="lwm-rehearsal-"))
    base.chmod(0o755)
    try:
        if arguments.what == "costs":
            costs(base)
        else:
            equal(base, arguments)
    finally:
        shutil.rmtree(base)


def costs(base: Path) -> None:
    """Print the figures, each with its ratio to the limit."""
    few = make_root(base / "few", 10)
    many = make_root(base / "many", 100_000)
    setup_few, setup_many = setups(base, few, many)
    print(
        f"set-up, 10 files:      {setup_few:6.1f} ms, limit {SETUP_MS:.0f} ms, "
        f"ratio to it {setup_few / SETUP_MS:.2f}"
    )
    print(
        f"set-up, 100,000 files: {setup_many:6.1f} ms, {setup_many / setup_few:.2f} times that of "
        f"10 files, limit {GROWTH:.2f}"
    )
    for name, command in COMMANDS.items():
        direct, rehearsed = shell_calls(base, few, name, command)
        over = rehearsed - direct
        print(
            f"shell call, {name}: {rehearsed:.1f} ms rehearsed, {direct:.1f} ms as a subprocess; "
            f"over it {over:.1f} ms, limit {OVER_MS:.0f} ms, ratio to it {over / OVER_MS:.2f}"
        )
    print("All figures are medians; on a busy machine they say more of what else runs.")


def make_root(root: Path, files: int) -> Path:
    """Make a tree of small files, 100 to a folder."""
    for number in range(files):
        if number % 100 == 0:
            (root / str(number // 100)).mkdir(parents=True)
        (root / str(number // 100) / f"{number}.txt").touch()
    (root / "file").write_text("x\n" * 100)
    return root


def setups(base: Path, *roots: Path) -> list[float]:
    """Return the median milliseconds of 50 set-ups for each root, taken in turns."""
    times: dict[Path, list[float]] = {root: [] for root in roots}
    for number in range(50):
        for root in roots:
            folder = base / "sessions" / f"{root.name}-{number}"
            begun = time.perf_counter()
            place = CopyPlace(root, None, folder)
            times[root].append((time.perf_counter() - begun) * 1000)
            place.close()
    return [statistics.median(times[root]) for root in roots]


def shell_calls(base: Path, root: Path, name: str, command: str) -> tuple[float, float]:
    """Return the median milliseconds of a command run directly, and rehearsed, taken in turns."""
    place = CopyPlace(root, None, base / "sessions" / name)
    direct, rehearsed = [], []

    def run() -> None:
        subprocess.run(
            ["bash", "--noprofile", "--norc", "-c", command],
            cwd=root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=True,
        )

    async def rehearse() -> None:
        assert (await place.bash(command, timeout=60)).exit_code == 0

    async def both() -> None:
        for _ in range(200):
            direct.append(timed(run))
            begun = time.perf_counter()
            await rehearse()
            rehearsed.append((time.perf_counter() - begun) * 1000)

    asyncio.run(both())
    place.close()
    return statistics.median(direct), statistics.median(rehearsed)


def timed(work: Callable[[], object]) -> float:
    """Return how many milliseconds something takes."""
    begun = time.perf_counter()
    work()
    return (time.perf_counter() - begun) * 1000


def equal(base: Path, arguments: argparse.Namespace) -> None:
    """Compare, and print the share that is identical and why the rest is not."""
    user = arguments.user == "user" or os.geteuid() != 0
    report = compare_as(arguments.user, base, arguments.calls, arguments.seed)
    if arguments.out:
        Path(arguments.out).write_text(json.dumps(report, indent=1))
    calls, identical = report["calls"], report["identical"]
    unsaid = report["unsaid"]
    print(f"{calls:,} calls in {report['sequences']} sequences: {report['tools']}")
    print(f"identical: {identical:,}, {100 * identical / calls:.2f} % (limit 99.50 %)")
    said = max(1, calls - unsaid)
    print(f"left to the next world: {unsaid}; of what was said {100 * identical / said:.2f} %")
    for why, count in Counter(reason(d, user=user) for d in report["differences"]).most_common():
        print(f"  {count:4} {why or 'not explained'}")
    print(f"changes outside while rehearsing: {len(report['leaks'])}")
    print(f"differences between a committed tree and a real one: {len(report['commits'])}")


if __name__ == "__main__":
    main()
