"""Kills commits, or undos, at random moments and recovers them.

Run as: python crash_driver.py commit|undo SEED ROUNDS [NAMES]. NAMES are functions of
`lwm_agents.changes.steps` that the system shall lack.

Prints how often the tree was finished and how often undone; ends with 1 where it was between.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from copies import copy_of, picture

from lwm_agents.changes import steps
from lwm_agents.changes.commit import commit
from lwm_agents.changes.undo import discard, recover, undo

TREE = """
for d in a b c/d; do mkdir -p $d; for i in 1 2 3 4 5 6; do echo $d $i > $d/$i; done; done
mkdir -p gone/deep; echo x > gone/deep/x; echo q > was-file; mkdir was-folder; echo z > was-folder/z
ln a/1 a/hard; ln -s a link; chmod 640 b/1
"""

CHANGES = """
for f in a/* b/[1-4]; do echo more >> $f; done; rm c/d/[1-3]; rm -r gone; mkdir -p new/deep
for i in 1 2 3 4 5; do echo n$i > new/deep/$i; done; chmod 600 b/5; chmod 700 c
rm was-file; mkdir was-file; echo f > was-file/f; rm -r was-folder; echo g > was-folder
rm link; ln -s b link; ln new/deep/1 new/hard; mkfifo pipe
"""


def main(what: str, seed: int, rounds: int, lacks: list[str]) -> None:
    for name in lacks:  # as on systems that can't exchange names, or have no hard links
        setattr(steps, name, lambda *_: False)
    chance = random.Random(seed)
    base = Path(tempfile.mkdtemp(prefix="lwm-crash-"))
    outcomes: Counter[str] = Counter()
    longest = 0.2
    try:
        for number in range(rounds):
            outcome, took = one_round(what, base / str(number), chance.random() * longest)
            outcomes[outcome] += 1
            if took is not None:  # it came to its end: nearer to how long it takes
                longest = max(0.01, took * 1.1)
    finally:
        shutil.rmtree(base)
    print(json.dumps(outcomes))
    sys.exit("between" in outcomes)


def one_round(what: str, base: Path, moment: float) -> tuple[str, float | None]:
    real, copy, folder = base / "real", base / "copy", str(base / "folder")
    real.mkdir(parents=True)
    os.mkdir(folder, 0o700)
    subprocess.run(["bash", "-ec", TREE], cwd=real, check=True)
    copied = copy_of(real, copy)
    subprocess.run(["bash", "-ec", CHANGES], cwd=copy, check=True)
    before, after = picture(real), picture(copy)
    if what == "undo":
        commit(copied, folder=folder)
        assert picture(real) == after
    begun = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        if what == "undo":
            undo(folder)
        else:
            commit(copied, folder=folder)
        os._exit(0)
    took = killed_after(pid, begun, moment)
    said = recover(folder)
    now = picture(real)
    assert recover(folder) is None
    if now not in (before, after):
        for path in sorted(before.keys() | after.keys() | now.keys()):
            print(path, before.get(path), after.get(path), now.get(path), file=sys.stderr)
        return "between", took
    state = "before" if now == before else "after"
    left = {path.name for path in base.iterdir()} - {"real", "copy", "folder"}
    assert not left, left
    if state == "after":  # a finished commit can be undone, whatever finished it
        undo(folder)
        assert picture(real) == before
    discard(folder)
    assert {path.name for path in base.iterdir()} == {"real", "copy"}
    return f"{state}, {said or 'nothing to recover'}", took


def killed_after(pid: int, begun: float, moment: float) -> float | None:
    """Kill a process at a moment; return how long it took where it ended before, in seconds."""
    while time.perf_counter() - begun < moment:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return time.perf_counter() - begun
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
