"""Fidelity over time, and whether it has dropped: environments change.

The test is a permutation test for one change: the statistic is the greatest standardised difference
of the means before and after any point (the likelihood ratio for a change of mean; Sen and
Srivastava 1975), its null distribution that of the same calls in shuffled order. So it supposes
nothing about how fidelities are distributed, only that their order means nothing. Calls of one
session are alike, so runs of them are shuffled, not single calls.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain, pairwise
from operator import mul

from lwm_agents.store import Store
from lwm_agents.values import Value

LEVEL = 0.02
"""A warning is given at this probability, or a lower one, that order alone looks so."""

WINDOW = 20
"""Calls of the rolling mean."""

BEFORE, AFTER = 30, 8
"""Calls there must be at least before and after a change for it to be seen."""

LOOKED_AT = 1_000
"""How many of a tool's last calls are looked at."""

TOGETHER, CUT = 60, 20
"""A session of up to so many calls is shuffled as one, a longer one in runs of so many."""

_DRAWS = 1_999
_ENOUGH = 25  # draws at least as great: the probability is known well enough by then
_MARKS = "▁▂▃▄▅▆▇█"


class Scored(Value):
    """The fidelity of one prediction; `at` is when the call began, in seconds since the epoch."""

    session: str
    step: int
    at: float
    fidelity: float


class Change(Value):
    """Where a series parts best in two: its index, the means on both sides, and the test's p."""

    index: int
    before: float
    after: float
    p: float


class Drift(Value):
    """The fidelity of one tool's predictions by one engine over time.

    `mean` is over all `n` calls, `rolling` over the last WINDOW up to each of the last LOOKED_AT.
    `before` and `after` are the means where it parts best, None where there are too few calls. `p`
    is the probability that a series without change parts so well, times the number of series looked
    at. `warned` where that is at most LEVEL. `index` counts in `rolling`; `session`, `step` and
    `since` name the first call after the change.
    """

    tool: str
    engine: str
    n: int
    mean: float
    rolling: tuple[float, ...]
    before: float | None = None
    after: float | None = None
    p: float | None = None
    warned: bool = False
    index: int | None = None
    session: str | None = None
    step: int | None = None
    since: float | None = None


def drift(store: Store, tool: str | None = None) -> list[Drift]:
    """Return the fidelity over time of each tool and engine in the log, or of one tool.

    From transitions that were predicted and executed. What was warned of comes first.
    """
    series: dict[tuple[str, str], list[Scored]] = {}
    for one in store.compared(tool):
        if one.fidelity is not None:
            series.setdefault((one.action.tool, one.engine or ""), []).append(
                Scored(session=one.session, step=one.step, at=one.started_at, fidelity=one.fidelity)
            )
    found = [_drift(name, engine, calls) for (name, engine), calls in series.items()]
    tested = sum(one.p is not None for one in found)
    return sorted(
        (_corrected(one, tested) for one in found), key=lambda one: (not one.warned, one.tool)
    )


def change(runs: Sequence[Sequence[float]]) -> Change | None:
    """Return the likeliest drop in a series, given as runs that belong together.

    None where it is shorter than BEFORE + AFTER. One-sided: a rise is no drop, its p is 1 or near.
    """
    values = list(chain.from_iterable(runs))
    n = len(values)
    if n < BEFORE + AFTER:
        return None
    mean = math.fsum(values) / n
    weights = [
        math.sqrt(n / (k * (n - k))) if BEFORE <= k <= n - AFTER else 0.0 for k in range(1, n)
    ]

    def scores(order: Iterable[float]) -> Iterable[float]:
        return map(mul, accumulate(order), weights)

    centred = [[value - mean for value in run] for run in runs]
    found = list(scores(chain.from_iterable(centred)))
    best = max(found)
    index = found.index(best) + 1
    # The same series is always shuffled alike, but no two are: that would tie their errors.
    rng = random.Random(repr(runs))
    reached, draws = 0, 0
    # Besag and Clifford 1991: stop when enough were as great; p stays valid.
    while draws < _DRAWS and reached < _ENOUGH:
        rng.shuffle(centred)
        draws += 1
        reached += max(scores(chain.from_iterable(centred))) >= best - 1e-9
    return Change(
        index=index,
        before=math.fsum(values[:index]) / index,
        after=math.fsum(values[index:]) / (n - index),
        p=reached / draws if reached >= _ENOUGH else (reached + 1) / (draws + 1),
    )


def rolling(values: Sequence[float], window: int = WINDOW) -> list[float]:
    """Return at each value the mean of the last `window` values up to it, or of as many as are."""
    sums = [0.0, *accumulate(values)]
    return [
        (sums[end] - sums[max(0, end - window)]) / min(end, window)
        for end in range(1, len(values) + 1)
    ]


def sparkline(values: Sequence[float], width: int = 24) -> str:
    """Return numbers from 0 to 1 as blocks of eight heights, each the mean of its share."""
    count = min(width, len(values))
    edges = [round(part * len(values) / count) for part in range(count + 1)] if count else []
    means = [math.fsum(values[low:high]) / (high - low) for low, high in pairwise(edges)]
    return "".join(_MARKS[min(7, max(0, int(mean * 8)))] for mean in means)


def runs_of(calls: Sequence[Scored]) -> list[list[Scored]]:
    """Return calls as runs that belong together, whole sessions mostly, in order of their begin."""
    by_session: dict[str, list[Scored]] = {}
    for call in calls:
        by_session.setdefault(call.session, []).append(call)
    runs = [
        own[start : start + size]
        for own in by_session.values()
        for size in (TOGETHER if len(own) <= TOGETHER else CUT,)
        for start in range(0, len(own), size)
    ]
    return sorted(runs, key=lambda run: run[0].at)


def _drift(tool: str, engine: str, calls: Sequence[Scored]) -> Drift:
    runs = runs_of(calls[-LOOKED_AT:])
    ordered = list(chain.from_iterable(runs))
    values = [call.fidelity for call in ordered]
    seen = Drift(
        tool=tool,
        engine=engine,
        n=len(calls),
        mean=math.fsum(call.fidelity for call in calls) / len(calls),
        rolling=tuple(rolling(values)),
    )
    found = change([[call.fidelity for call in run] for run in runs])
    if found is None:
        return seen
    first = ordered[found.index]
    return seen.model_copy(
        update={
            "before": found.before,
            "after": found.after,
            "p": found.p,
            "index": found.index,
            "session": first.session,
            "step": first.step,
            "since": first.at,
        }
    )


def _corrected(one: Drift, tested: int) -> Drift:
    """Bonferroni's correction: many tools are looked at, and none of them may cry wolf."""
    if one.p is None:
        return one
    p = min(1.0, one.p * tested)
    return one.model_copy(update={"p": p, "warned": p <= LEVEL})
