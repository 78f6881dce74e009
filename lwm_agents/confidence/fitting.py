"""Calibration: fit the maps of a calibrator to logged pairs, with scikit-learn."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
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

    Each is logistic; isotonic where that has surely the lower Brier score on trajectories that it
    was not fitted on. Raises Misuse where there is nothing to fit on or scikit-learn is missing.
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
    tools = _maps(by_tool, seed)
    domains = {
        # A domain of one tool has that tool's map.
        domain: tools[group[0].tool]
        for domain, group in by_domain.items()
        if len(group) == len(by_tool[group[0].tool]) >= ENOUGH
        and all(pair.tool == group[0].tool for pair in group)
    }
    rest = {domain: group for domain, group in by_domain.items() if domain not in domains}
    return Calibrator(
        engine=engine,
        prompts=prompts,
        right=RIGHT,
        seed=seed,
        n=len(pairs),
        trajectories=len({pair.trajectory for pair in pairs}),
        tools=tools,
        domains=dict(sorted((domains | _maps(rest, seed)).items())),
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
    # Breiman's rule of one standard error: isotonic, which bends more, must be surely better.
    gains = _gains(pairs, seed)
    mean = sum(gains) / len(gains) if gains else 0.0
    error = (sum((gain - mean) ** 2 for gain in gains) / (len(gains) or 1) ** 2) ** 0.5
    return (_isotonic if mean > error else _logistic)(pairs)


def _gains(pairs: Sequence[Pair], seed: int) -> list[float]:
    """Return by how much isotonic has the lower summed squared error, a trajectory at a time.

    Each is judged by maps fitted without it. Nothing where there is but one.
    """
    gains: dict[tuple[str, str], float] = {}
    for outside, inside in folds(pairs, seed, FOLDS):
        if not outside:
            return []
        fitted = [pairs[index] for index in outside]
        logistic, isotonic = _logistic(fitted), _isotonic(fitted)
        for index in inside:
            pair = pairs[index]
            straight, bent = (
                (made(pair.signals, pair.tool) - pair.right) ** 2 for made in (logistic, isotonic)
            )
            gains[pair.trajectory] = gains.get(pair.trajectory, 0.0) + straight - bent
    return list(gains.values())


def _logistic(pairs: Sequence[Pair]) -> Map:
    linear: Any = _sklearn("linear_model")
    import numpy as np

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
    model = linear.LogisticRegression(C=1.0, solver="newton-cholesky")
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
