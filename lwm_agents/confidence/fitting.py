"""Calibration: fit the maps of a calibrator to logged pairs, with scikit-learn."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from lwm_agents.confidence.calibrator import (
    Calibrator,
    Isotonic,
    Logistic,
    Map,
    Weight,
    features,
    stated_prior,
)
from lwm_agents.confidence.pairs import RIGHT, Pair, folds
from lwm_agents.errors import Misuse

ENOUGH = 50
"""A tool or domain with fewer pairs gets no map of its own."""

FOLDS = 5
"""Parts of the cross-validation that chooses between the two kinds of map."""

_ALIKE = 5
"""Rights and wrongs, at least, to tell them apart by; with fewer all get one probability."""


def fit(pairs: Sequence[Pair], seed: int = 0, *, engine: str = "", prompts: str = "") -> Calibrator:
    """Return a calibrator fitted on the pairs: a map for each tool and domain with ENOUGH of them.

    Each is logistic or isotonic, whichever has the lower Brier score on trajectories that it was
    not fitted on. Raises Misuse where there is nothing to fit on or scikit-learn is missing.
    """
    if not pairs:
        raise Misuse(
            "there is no pair to calibrate on: make rows with `lwm fidelity --out`, or run "
            "sessions in compare mode"
        )
    by_tool: dict[str, list[Pair]] = {}
    by_domain: dict[str, list[Pair]] = {}
    domain_of: dict[str, str] = {}
    for pair in pairs:
        by_tool.setdefault(pair.tool, []).append(pair)
        if pair.domain is not None:
            by_domain.setdefault(pair.domain, []).append(pair)
            domain_of[pair.tool] = pair.domain
    return Calibrator(
        engine=engine,
        prompts=prompts,
        right=RIGHT,
        seed=seed,
        n=len(pairs),
        trajectories=len({pair.trajectory for pair in pairs}),
        tools=_maps(by_tool, seed),
        domains=_maps(by_domain, seed),
        domain_of=dict(sorted(domain_of.items())),
    )


def held_out(pairs: Sequence[Pair], seed: int = 0) -> list[float]:
    """Return the confidence of each pair by a calibrator fitted without its trajectory."""
    found = [0.0] * len(pairs)
    for outside, inside in folds(pairs, seed, FOLDS):
        calibrator = fit([pairs[index] for index in outside], seed) if outside else Calibrator()
        for index in inside:
            one = pairs[index]
            found[index] = calibrator(one.tool, one.signals, one.domain)
    return found


def _maps(groups: dict[str, list[Pair]], seed: int) -> dict[str, Map]:
    return {
        name: _map(group, seed) for name, group in sorted(groups.items()) if len(group) >= ENOUGH
    }


def _map(pairs: Sequence[Pair], seed: int) -> Map:
    right = sum(pair.right for pair in pairs)
    if min(right, len(pairs) - right) < _ALIKE:
        # Laplace's rule of succession: never quite sure.
        return Isotonic(n=len(pairs), x=(0.5,), y=((right + 1) / (len(pairs) + 2),))
    return min((_logistic, _isotonic), key=lambda make: _brier(pairs, seed, make))(pairs)


def _brier(pairs: Sequence[Pair], seed: int, make: Callable[[Sequence[Pair]], Map]) -> float:
    total = 0.0
    for outside, inside in folds(pairs, seed, FOLDS):
        if not outside:
            return 1.0  # one trajectory only: nothing to choose by
        made = make([pairs[index] for index in outside])
        for index in inside:
            pair = pairs[index]
            total += (made(pair.signals, pair.tool) - pair.right) ** 2
    return total / len(pairs)


def _logistic(pairs: Sequence[Pair]) -> Map:
    import numpy as np

    linear: Any = _sklearn("linear_model")
    right = [pair.right for pair in pairs]
    if len(set(right)) < 2:
        return _isotonic(pairs)
    found = [features(pair.signals) for pair in pairs]
    table = np.array([list(one.values()) for one in found])
    varies = table.std(axis=0) > 1e-9
    names = [name for name, used in zip(found[0], varies, strict=True) if used]
    table = table[:, varies]
    scale = table.std(axis=0)
    # One column a tool, not scaled: the penalty pulls tools with few pairs to the domain's mean.
    tools = sorted({pair.tool for pair in pairs})
    tools = tools if len(tools) > 1 else []
    which = np.array([[float(pair.tool == tool) for tool in tools] for pair in pairs])
    model = linear.LogisticRegression(C=1.0, max_iter=2000)
    model.fit(np.hstack([table / scale, which]), right)
    weights = model.coef_[0][: len(names)] / scale
    offsets = model.coef_[0][len(names) :]
    return Logistic(
        n=len(pairs),
        intercept=_short(model.intercept_[0]),
        weights={
            name: Weight(weight=_short(weight), low=_short(low), high=_short(high))
            for name, weight, low, high in zip(
                names, weights, table.min(axis=0), table.max(axis=0), strict=True
            )
        },
        offsets={tool: _short(own) for tool, own in zip(tools, offsets, strict=True)},
    )


def _isotonic(pairs: Sequence[Pair]) -> Map:
    isotonic: Any = _sklearn("isotonic")
    model = isotonic.IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
    model.fit([stated_prior(pair.signals) for pair in pairs], [float(pair.right) for pair in pairs])
    knots = {
        _short(x): _short(y) for x, y in zip(model.X_thresholds_, model.y_thresholds_, strict=True)
    }
    return Isotonic(n=len(pairs), x=tuple(knots), y=tuple(knots.values()))


def _short(number: float) -> float:
    """Return a number with six digits, as many as the pairs could ever support."""
    return float(f"{float(number):.6g}")


def _sklearn(part: str) -> Any:
    try:
        return importlib.import_module(f"sklearn.{part}")
    except ImportError as problem:
        raise Misuse(
            "calibrating needs scikit-learn: pip install 'lwm-agents[calibration]'"
        ) from problem
