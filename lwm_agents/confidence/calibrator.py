"""From the signals of a prediction to the probability that it is right. Needs no library.

A calibrator holds one map a tool, one a domain, and beyond them a stated prior. It is plain JSON:
the weights of a logistic regression, or the knots of an isotonic one.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from lwm_agents.errors import ConfigError
from lwm_agents.values import Observation, Signals, Source, Value

VERSION = 1
"""Of the JSON. A file of another version is refused."""

LEAST, MOST = 0.01, 0.99
"""No prediction is surer than this, either way."""

PRIOR = 0.5
"""The stated prior where nothing at all is known."""

COMPUTED = 0.99
"""The stated prior of an answer that code worked out."""

CUT = 0.5
"""Factor of the stated prior for an answer that the model did not end."""

GUESSED: tuple[Source, ...] = ("imagined", "recalled")
"""The sources that carry a confidence; what was executed or rehearsed is no guess."""


class Weight(Value):
    """The weight of one feature, and the range it had where it was fitted; no further is it led."""

    weight: float
    low: float
    high: float


class Logistic(Value):
    """p = 1 / (1 + exp(-(intercept + Σ weight · feature + offset of the tool))).

    Features as `features` gives them. `offsets` are of the tools of a domain, none for others.
    """

    kind: Literal["logistic"] = "logistic"
    n: int
    intercept: float
    weights: dict[str, Weight]
    offsets: dict[str, float] = Field(default_factory=dict)

    def __call__(self, signals: Signals, tool: str) -> float:
        """Return the probability of being right."""
        found = features(signals)
        total = self.intercept + self.offsets.get(tool, 0.0)
        for name, one in self.weights.items():
            total += one.weight * min(one.high, max(one.low, found.get(name, 0.0)))
        return _within(1 / (1 + math.exp(-max(-40.0, min(40.0, total)))))


class Isotonic(Value):
    """A rising line through knots over the stated prior: `x` and `y` both rise, `x` strictly."""

    kind: Literal["isotonic"] = "isotonic"
    n: int
    x: tuple[float, ...] = Field(min_length=1)
    y: tuple[float, ...] = Field(min_length=1)

    def __call__(self, signals: Signals, tool: str) -> float:  # noqa: ARG002
        """Return the probability of being right."""
        at = stated_prior(signals)
        after = bisect_right(self.x, at)
        if after == 0 or after == len(self.x):
            return _within(self.y[0] if after == 0 else self.y[-1])
        left, right = self.x[after - 1], self.x[after]
        low, high = self.y[after - 1], self.y[after]
        return _within(low + (high - low) * (at - left) / (right - left))


Map = Annotated[Logistic | Isotonic, Field(discriminator="kind")]


class Calibrator(Value):
    """Maps a tool and the signals of a prediction to the probability that it is right.

    `right` is the fidelity from which a prediction counts as right. `engine` and `prompts` name
    what predicted the `n` pairs it was fitted on, from so many `trajectories`; for another engine
    the signals mean something else.
    """

    version: Literal[1] = 1
    engine: str = ""
    prompts: str = ""
    right: float = 0.9
    seed: int = 0
    n: int = 0
    trajectories: int = 0
    tools: dict[str, Map] = Field(default_factory=dict)
    domains: dict[str, Map] = Field(default_factory=dict)
    domain_of: dict[str, str] = Field(default_factory=dict)

    def __call__(self, tool: str, signals: Signals | None, domain: str | None = None) -> float:
        """Return the probability, 0.01 to 0.99, that a prediction with these signals is right.

        By the tool's map, else its domain's (`domain`, or the one it had in the pairs), else the
        stated prior. Without signals it is PRIOR.
        """
        if signals is None:
            return PRIOR
        chosen = self.tools.get(tool) or self.domains.get(domain or self.domain_of.get(tool, ""))
        return _within(stated_prior(signals)) if chosen is None else chosen(signals, tool)

    def applied(self, seen: Observation, tool: str, domain: str | None = None) -> Observation:
        """Return a predicted observation with its confidence calibrated.

        What the world said is kept in `signals.stated`. Others come back as they are.
        """
        if seen.source not in GUESSED:
            return seen
        signals = signals_of(seen.signals, seen.confidence)
        confidence = self(tool, signals, domain)
        return seen.model_copy(update={"confidence": confidence, "signals": signals})

    def save(self, file: str | Path) -> None:
        """Write it as JSON. Raises OSError."""
        document = json.dumps(self.model_dump(mode="json"), indent=1)
        Path(file).write_text(document + "\n", encoding="utf-8")

    @staticmethod
    def load(file: str | Path) -> Calibrator:
        """Read one that `save` wrote. Raises ConfigError where it can't be used."""
        try:
            return _from_json(Path(file).read_text(encoding="utf-8"), str(file))
        except (OSError, UnicodeDecodeError) as problem:
            raise ConfigError(f"can't read the calibration {file}: {problem}") from problem

    @staticmethod
    @cache
    def default(engine: str) -> Calibrator:
        """Return the one that ships for this engine; where there is none, the stated prior."""
        shipped = files("lwm_agents.confidence") / "default.json"
        if shipped.is_file():
            found = _from_json(shipped.read_text(encoding="utf-8"), "default.json")
            if found.engine == engine:
                return found
        return Calibrator(engine=engine)


def signals_of(signals: Signals | None, confidence: float | None) -> Signals:
    """Return signals that hold what the world itself said."""
    signals = signals or Signals()
    return (
        signals if signals.stated is not None else signals.model_copy(update={"stated": confidence})
    )


def stated_prior(signals: Signals) -> float:
    """Return how sure a prediction is before any calibration.

    What the world itself said. Else COMPUTED where code worked it out. Else exp of the least log
    probability: an answer is as sure as its most doubtful token. Without log probabilities the
    nearness of the example it follows, times how like that example it is; without an example PRIOR.
    Half of it where it was cut.
    """
    if signals.stated is not None:
        return signals.stated
    if signals.computed:
        return COMPUTED
    if signals.least is not None:
        sure = math.exp(min(0.0, signals.least))
    elif signals.nearness is not None:
        match = 1.0 if signals.example_match is None else signals.example_match
        sure = signals.nearness * match
    else:
        sure = PRIOR
    if signals.cut:
        sure *= CUT
    return min(0.98, max(0.02, sure))


def features(signals: Signals) -> dict[str, float]:
    """Return what a logistic regression sees of the signals, each about 0..1.

    Log probabilities as probabilities. What is unknown is 0, with a feature that says it is known.
    Squares and hinges let the curve bend; `exactly_near` is there because an action that was
    answered before is of another kind than one nearly like it.
    """
    mean, least = _probability(signals.logprob), _probability(signals.least)
    near, match = signals.nearness or 0.0, signals.example_match or 0.0
    stated = stated_prior(signals)
    agreement, length = signals.agreement or 0.0, math.log1p(signals.length) / 10
    return {
        "stated": stated,
        "stated_squared": stated * stated,
        "mean": mean,
        "mean_known": float(signals.logprob is not None),
        "least": least,
        "least_squared": least * least,
        "least_known": float(signals.least is not None),
        "near": near,
        "near_over_half": max(0.0, near - 0.5),
        "near_over_three_quarters": max(0.0, near - 0.75),
        "near_known": float(signals.nearness is not None),
        "exactly_near": float(near >= 0.999),
        "match": match,
        "match_known": float(signals.example_match is not None),
        "near_and_match": near * match,
        "near_and_length": near * length,
        "agreement": agreement,
        "agreement_known": float(signals.agreement is not None),
        "computed": float(signals.computed),
        "cut": float(signals.cut),
        "empty": float(signals.length == 0),
        "length": length,
        "length_squared": length * length,
    }


def _probability(logarithm: float | None) -> float:
    return 0.0 if logarithm is None else math.exp(min(0.0, logarithm))


def _within(probability: float) -> float:
    return min(MOST, max(LEAST, probability))


def _from_json(text: str, name: str) -> Calibrator:
    try:
        return Calibrator.model_validate_json(text)
    except ValidationError as problem:
        first = problem.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "JSON"
        raise ConfigError(
            f"{name} is no calibration of this version ({where}: {first['msg']}); make it anew "
            "with `lwm calibrate`"
        ) from problem
