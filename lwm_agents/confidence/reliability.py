"""How far confidence can be trusted: calibration error, Brier score, AUROC. Needs no library.

Expected calibration error (Naeini et al. 2015, "Obtaining well calibrated probabilities using
Bayesian binning"): Σ over bins of (pairs in the bin / all) · |mean confidence - share right|.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import groupby

from lwm_agents.confidence.calibrator import PRIOR, Calibrator
from lwm_agents.confidence.pairs import Pair
from lwm_agents.values import Value

BINS = 10
_DRAWS = 200


class Bin(Value):
    """The pairs whose confidence is within one bin."""

    n: int
    low: float
    high: float
    confidence: float
    right: float


class ToolReliability(Value):
    """One tool's share."""

    n: int
    right: float
    confidence: float
    ece: float
    brier: float
    auroc: float | None


class Reliability(Value):
    """What a report found over `n` pairs of so many trajectories.

    `right` is the share that was right, `confidence` the mean. `ece` is over ten bins of equal mass
    (equal confidences are never parted, so there may be fewer), `ece_width` over ten of equal
    width. `chance` is the mean `ece` of confidences that are exactly true, with as many pairs: none
    can be seen to be better. `auroc` is the probability that a right
    prediction has the higher confidence of two, None where all are right or all wrong.
    """

    n: int
    trajectories: int
    right: float
    confidence: float
    ece: float
    ece_width: float
    chance: float
    brier: float
    auroc: float | None
    bins: tuple[Bin, ...]
    bins_width: tuple[Bin, ...]
    tools: dict[str, ToolReliability]


def report(pairs: Sequence[Pair], calibrator: Calibrator | None = None) -> Reliability:
    """Return how far a calibrator's confidence can be trusted on these pairs.

    Without one, the confidence that was said when they were predicted.
    """
    if calibrator is None:
        said = [PRIOR if pair.confidence is None else pair.confidence for pair in pairs]
    else:
        said = [calibrator(pair.tool, pair.signals, pair.domain) for pair in pairs]
    return measure(pairs, said)


def measure(pairs: Sequence[Pair], confidences: Sequence[float]) -> Reliability:
    """Return how far these confidences, one a pair, can be trusted. There must be pairs."""
    if not pairs:
        raise ValueError("there is no pair to report on")
    right = [pair.right for pair in pairs]
    mass, width = mass_bins(confidences, right), width_bins(confidences, right)
    tools: dict[str, ToolReliability] = {}
    for tool in sorted({pair.tool for pair in pairs}):
        own = [index for index, pair in enumerate(pairs) if pair.tool == tool]
        said, was = [confidences[index] for index in own], [right[index] for index in own]
        tools[tool] = ToolReliability(
            n=len(own),
            right=_mean(was),
            confidence=_mean(said),
            ece=calibration_error(mass_bins(said, was)),
            brier=brier(said, was),
            auroc=auroc(said, was),
        )
    return Reliability(
        n=len(pairs),
        trajectories=len({pair.trajectory for pair in pairs}),
        right=_mean(right),
        confidence=_mean(confidences),
        ece=calibration_error(mass),
        ece_width=calibration_error(width),
        chance=chance(confidences),
        brier=brier(confidences, right),
        auroc=auroc(confidences, right),
        bins=mass,
        bins_width=width,
        tools=tools,
    )


def calibration_error(bins: Sequence[Bin]) -> float:
    """Return the expected calibration error, 0..1, of these bins."""
    total = sum(one.n for one in bins)
    return sum(one.n * abs(one.confidence - one.right) for one in bins) / total if total else 0.0


def mass_bins(confidences: Sequence[float], right: Sequence[bool]) -> tuple[Bin, ...]:
    """Return up to ten bins of about equally many pairs, lowest confidence first.

    A bin is full when its share is reached; what has the same confidence as its last still joins.
    """
    order = sorted(range(len(confidences)), key=lambda index: confidences[index])
    made: list[list[int]] = []
    placed = 0
    for _, same in groupby(order, key=lambda index: confidences[index]):
        # In terms of how many were placed before, so that no rounding adds up.
        if not made or placed * BINS >= len(made) * len(order):
            made.append([])
        made[-1] += same
        placed = sum(map(len, made))
    return tuple(_bin(confidences, right, members) for members in made)


def width_bins(confidences: Sequence[float], right: Sequence[bool]) -> tuple[Bin, ...]:
    """Return the bins of width 0.1 that hold a pair; the last one holds 1 too."""
    made: dict[int, list[int]] = {}
    for index, confidence in enumerate(confidences):
        made.setdefault(min(BINS - 1, int(confidence * BINS)), []).append(index)
    return tuple(_bin(confidences, right, made[number]) for number in sorted(made))


def brier(confidences: Sequence[float], right: Sequence[bool]) -> float:
    """Return the mean of (confidence - right)², 0 the best (Brier 1950)."""
    return _mean([(c - r) ** 2 for c, r in zip(confidences, right, strict=True)])


def auroc(confidences: Sequence[float], right: Sequence[bool]) -> float | None:
    """Return the area under the receiver operating characteristic, by ranks; ties count half."""
    positives = sum(right)
    negatives = len(right) - positives
    if not positives or not negatives:
        return None
    order = sorted(range(len(right)), key=lambda index: confidences[index])
    below, won = 0, 0.0
    for _, same in groupby(order, key=lambda index: confidences[index]):
        outcomes = [right[index] for index in same]
        good = sum(outcomes)
        won += good * (below + (len(outcomes) - good) / 2)
        below += len(outcomes) - good
    return won / (positives * negatives)


def chance(confidences: Sequence[float], seed: int = 0) -> float:
    """Return the mean calibration error were each confidence exactly true: 200 drawn outcomes."""
    rng = random.Random(seed)
    # Enough to know it to two digits, whatever the number of pairs.
    draws = max(5, min(_DRAWS, 400_000 // max(1, len(confidences))))
    found = [
        calibration_error(mass_bins(confidences, [rng.random() < c for c in confidences]))
        for _ in range(draws)
    ]
    return _mean(found)


def _bin(confidences: Sequence[float], right: Sequence[bool], members: Sequence[int]) -> Bin:
    said = [confidences[index] for index in members]
    return Bin(
        n=len(members),
        low=min(said),
        high=max(said),
        confidence=_mean(said),
        right=_mean([right[index] for index in members]),
    )


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)
