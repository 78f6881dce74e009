"""How often drift cries wolf, how soon it sees a drop, and what calibration does without a model.

    python bench/confidence.py [FILE...] [--limit 2000] [--series 200]

The first two on drawn series of fidelities. With FILEs of recorded trajectories, each step is
predicted by the observation of the recorded action of another task that shares most words with it;
its only signals are that nearness and the length.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from lwm_agents.confidence import Pair, fit, held_out, measure, report
from lwm_agents.confidence.pairs import folds
from lwm_agents.confidence.trend import LEVEL, change
from lwm_agents.evaluation import draw_steps
from lwm_agents.interchange import BrokenLine, read_trajectories
from lwm_agents.scores import fidelity
from lwm_agents.values import Action, Observation, Signals, Trajectory, Transition


def series(
    seed: int, n: int, dropped_at: int | None, kind: str, spread: float, per: int
) -> list[list[float]]:
    """Draw sessions of `per` fidelities of mean 0.8, and 0.5 from a call on."""
    rng = random.Random(f"{seed} {kind}")
    runs: list[list[float]] = []
    own = 0.0
    for index in range(n):
        if index % per == 0:
            own = rng.gauss(0, spread)
            runs.append([])
        mean = 0.8 + own - (0.3 if dropped_at is not None and index >= dropped_at else 0)
        value = float(rng.random() < mean) if kind == "0 or 1" else rng.gauss(mean, 0.25)
        runs[-1].append(min(1.0, max(0.0, value)))
    return runs


def drift(count: int) -> None:
    """Print the share of drawn series that are warned of."""
    print(f"share of {count} series warned of (level {LEVEL})")
    print("fidelities  sessions of  spread  none in 300  drop 30 after 100  30 after 300")
    for kind, per, spread in (
        ("about", 5, 0.0), ("about", 10, 0.15), ("about", 25, 0.15), ("0 or 1", 5, 0.0),
    ):  # fmt: skip
        shares = []
        for n, at in ((300, None), (130, 100), (330, 300)):
            found = [change(series(seed, n, at, kind, spread, per)) for seed in range(count)]
            shares.append(sum(one is not None and one.p <= LEVEL for one in found) / count)
        none, early, late = shares
        print(f"{kind:10}{per:13}{spread:8.2f}{none:13.3f}{early:19.2f}{late:14.2f}")


def words(action: Action) -> frozenset[str]:
    """Return the words and signs of an action's arguments."""
    return frozenset(re.findall(r"\w+|[^\w\s]", json.dumps(action.arguments).lower()))


def pairs_of(file: Path, limit: int) -> Iterator[Pair]:
    """Yield a pair for each step drawn, predicted from the nearest action of another task."""
    known: list[tuple[Trajectory, Transition, frozenset[str]]] = [
        (one, step, words(step.action))
        for one in read_trajectories(file)
        if not isinstance(one, BrokenLine)
        for step in one.transitions
    ]
    having: dict[tuple[str, str], list[int]] = defaultdict(list)
    for index, (_, step, own) in enumerate(known):
        for word in own:
            having[step.action.tool, word].append(index)
    counts = Counter(word for _, _, own in known for word in own)
    weight = {word: math.log(len(known) / count) for word, count in counts.items()}
    for drawn in draw_steps([file], limit=limit, max_observation=600).steps:
        step, own = drawn.transition, words(drawn.transition.action)
        shared: dict[int, float] = defaultdict(float)
        for word in own:
            if weight[word] > 0.5:  # a word that all share finds nothing
                for index in having[step.action.tool, word]:
                    shared[index] += weight[word]
        others = (index for index in shared if known[index][0].task != drawn.history.task)
        best = max(others, key=lambda index: (shared[index], -index), default=None)
        if best is None:
            continue
        found = known[best]
        whole = sum(weight[word] for word in own) + sum(weight[word] for word in found[2])
        both = sum(weight[word] for word in own & found[2])
        nearness = min(1.0, 2 * both / whole) if whole else 1.0
        guess = Observation(
            text=found[1].observation.text,
            source="imagined",
            is_error=found[1].observation.is_error,
            error_known=found[1].observation.error_known,
        )
        yield Pair(
            dataset=file.name,
            id=drawn.history.session,
            step=step.step,
            tool=step.action.tool,
            domain=drawn.history.domain,
            confidence=nearness,
            signals=Signals(nearness=nearness, stated=nearness, length=len(guess.text)),
            fidelity=fidelity(guess, step.observation).score,
        )


def calibration(files: list[Path], limit: int) -> None:
    """Print the calibration error before and after, on trajectories not used to calibrate."""
    pairs = [pair for file in files for pair in pairs_of(file, limit)]
    before, after = report(pairs), measure(pairs, held_out(pairs, 0))
    for name, found in (("said", before), ("calibrated", after)):
        print(
            f"{name:11} n {found.n}  error {found.ece:.3f}  by width {found.ece_width:.3f}  "
            f"by chance {found.chance:.3f}  Brier {found.brier:.3f}  AUROC {found.auroc:.3f}"
        )
    for seed in range(5):
        outside, inside = next(iter(folds(pairs, seed, 2)))
        found = report([pairs[at] for at in inside], fit([pairs[at] for at in outside], seed))
        print(f"fitted on one half, tested on the other, seed {seed}: error {found.ece:.3f}")


def main() -> None:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--limit", type=int, default=2000)
    parser.add_argument("--series", type=int, default=200)
    chosen = parser.parse_args()
    if chosen.files:
        calibration(chosen.files, chosen.limit)
    drift(chosen.series)


if __name__ == "__main__":
    main()
