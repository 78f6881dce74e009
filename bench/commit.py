"""What a commit costs beside `cp -a` of the same files: python bench/commit.py [--rounds N]

Runs in real overlay mounts where this system has them (as root), else on a plain copy. One line a
figure, in the end the ratio of the medians (at most 2.00 is within the limit).
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "changes"))

from copies import copy_of, tick
from overlay_driver import NoMounts, rehearsed

from lwm_agents.changes.commit import commit
from lwm_agents.changes.copied import Copied
from lwm_agents.changes.diff import diff
from lwm_agents.changes.undo import undo

FILES, FOLDERS = 1_000, 40
LIMIT = 2.0

CHANGE_ALL = 'find . -type f | while read -r name; do echo changed >> "$name"; done'


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=7, help="how often each is measured")
    rounds = arguments.parse_args().rounds
    base = Path(tempfile.mkdtemp(prefix="lwm-commit-"))
    seconds: dict[str, list[float]] = {"cp -a": [], "commit": [], "undo": [], "diff": []}
    try:
        for number in range(rounds):
            # Nothing is removed between rounds: that would slow down whatever comes next.
            one_round(base / str(number), seconds)
    finally:
        shutil.rmtree(base)
    for name, figures in seconds.items():
        low, middle = min(figures), statistics.median(figures)
        print(
            f"{name:8} of {FILES:,} changed files: {middle * 1000:6.0f} ms, least {low * 1000:.0f}"
        )
    ratio = statistics.median(seconds["commit"]) / statistics.median(seconds["cp -a"])
    print(f"commit / cp -a: {ratio:.2f}, limit {LIMIT:.2f}, ratio to it {ratio / LIMIT:.2f}")


def one_round(base: Path, seconds: dict[str, list[float]]) -> None:
    """Rehearse a change of all files, then time both ways to make it real."""
    base.mkdir()
    real = base / "real"
    make_tree(real, random.Random(1))
    try:
        with rehearsed("root", base, CHANGE_ALL) as (copied, _):
            measure(copied, base, base / "upper", seconds)
    except NoMounts as why:
        print(f"no overlay mounts here ({why}); measured on a plain copy", file=sys.stderr)
        plain = copy_of(real, base / "copy")
        subprocess.run(["bash", "-c", CHANGE_ALL], cwd=base / "copy", check=True)
        (base / "folder").mkdir(exist_ok=True)
        measure(plain, base, base / "copy", seconds)


def make_tree(real: Path, chance: random.Random) -> None:
    """Make files of the sizes source code has: up to 16 kB."""
    for number in range(FILES):
        folder = real / f"d{number % FOLDERS}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.txt").write_bytes(chance.randbytes(chance.randrange(100, 16_000)))
    tick(time.time_ns())


def measure(copied: Copied, base: Path, changed: Path, seconds: dict[str, list[float]]) -> None:
    """Time each on its own, with nothing left to write from before."""
    target = str(base / "target")
    folder = str(base / "folder")
    steps: dict[str, Callable[[], object]] = {
        "diff": lambda: diff(copied),
        "cp -a": lambda: subprocess.run(["cp", "-a", str(changed), target], check=True),
        "commit": lambda: commit(copied, folder=folder),
        "undo": lambda: undo(folder),
    }
    for name, step in steps.items():
        os.sync()
        begun = time.perf_counter()
        step()
        seconds[name].append(time.perf_counter() - begun)


if __name__ == "__main__":
    main()
