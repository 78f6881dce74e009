"""The five dimensions of AgentWorldBench (arXiv 2606.24597), by rule instead of by a judge.

The benchmark lets a model read both observations and give each dimension a mark. These rules see
words, lines and structure only; docs/fidelity.md says what each misses.

format       the structure of what happened: paths and types of JSON; else the shapes of lines
factuality   words and numbers of what happened, no more and no fewer: F1 as bags
consistency  nothing is said that is in neither what happened nor the action, and what of the action
             happened repeats is repeated: the lower of the two shares
realism      as long as what happened, in lines of the shapes that occurred: the mean; half of it
             where the prediction speaks as a model or leaves something out
quality      the score
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Set

from lwm_agents.scores.align import Alignment
from lwm_agents.scores.reading import Reading
from lwm_agents.scores.text import Line
from lwm_agents.scores.trees import paths
from lwm_agents.values import Value

_SIGNS = (
    (re.compile(r"⟦[^⟦⟧]*⟧"), "⟦⟧"),
    (re.compile(r"\b\d+(?:\.\d+)?\b"), "9"),
    (re.compile(r"[^\W\d_][\w'-]*"), "w"),
    (re.compile(r"w(?:[ ./_-]*w)+"), "w"),
)
_MASK = re.compile(r"⟦[^⟦⟧]*⟧")
_FACT = re.compile(r"\d+(?:\.\d+)?|\w+")
_TELLS = re.compile(
    r"\bas an ai\b|\bi (?:predict|cannot|can't|would expect)\b"
    r"|\bthe (?:output|command|tool) would\b|<think>|</?predicted_observation>"
    r"|\[(?:truncated|omitted|redacted)\]|\(truncated\)"
    r"|^```|^\.\.\.$|\bexample output\b|\bhere is the\b",
    re.IGNORECASE | re.MULTILINE,
)


class Rubric(Value):
    """Five marks, each 0..1; see the rules at the top of this module."""

    format: float = 0.0
    factuality: float = 0.0
    consistency: float = 0.0
    realism: float = 0.0
    quality: float = 0.0

    def capped(self, cap: float) -> Rubric:
        """Return these marks for a prediction that takes an error for a success.

        It may look right: format and realism stay.
        """
        marks = self.model_dump()
        capped = {one: min(cap, marks[one]) for one in ("factuality", "consistency", "quality")}
        return self.model_copy(update=capped)


def rubric(predicted: Reading, happened: Reading, asked: str, score: float) -> Rubric:
    """Mark a prediction, where neither text is empty; `asked` is the text of the action."""
    left, right = _facts(predicted), _facts(happened)
    shapes = _shapes(predicted), _shapes(happened)
    return Rubric(
        format=_format(predicted, happened, shapes),
        factuality=_factuality(left, right),
        consistency=_consistency(left, right, set(_FACT.findall(asked))),
        realism=_realism(predicted.text, happened.text, shapes),
        quality=score,
    )


def _facts(reading: Reading) -> Counter[str]:
    """Return the words and numbers of a text; masks are none."""
    return Counter(_FACT.findall(_MASK.sub(" ", reading.text)))


def _shapes(reading: Reading) -> list[Line]:
    """Return the lines of a text with words as `w` and numbers as `9`."""
    return [Line(_shape(line.text)) for line in reading.lines]


def _format(left: Reading, right: Reading, shapes: tuple[list[Line], list[Line]]) -> float:
    if right.tree is None:
        return Alignment(Line.likeness).common(*shapes, "loose")
    if left.tree is None:
        return 0.0  # what a program reads must parse
    mine, theirs = paths(left.tree), paths(right.tree)
    return 2 * len(mine & theirs) / (len(mine) + len(theirs))


def _factuality(left: Counter[str], right: Counter[str]) -> float:
    total = left.total() + right.total()
    return 2 * (left & right).total() / total if total else 1.0


def _consistency(left: Counter[str], right: Counter[str], asked: Set[str]) -> float:
    supported = _share(left, right.keys() | asked)
    repeated = _share({fact: 1 for fact in right if fact in asked}, left.keys())
    return min(supported, repeated)


def _share(facts: Counter[str] | dict[str, int], among: Set[str]) -> float:
    return sum(fact in among for fact in facts) / len(facts) if facts else 1.0


def _realism(left: str, right: str, shapes: tuple[list[Line], list[Line]]) -> float:
    lengths = sorted(len("".join(text.split())) for text in (left, right))
    known = set(shapes[1])
    # Of a very long text only the ends are read, and these may be blank.
    alike = sum(shape in known for shape in shapes[0]) / max(1, len(shapes[0]))
    mark = (lengths[0] / max(1, lengths[1]) + alike) / 2
    mine, theirs = ({tell.lower() for tell in _TELLS.findall(text)} for text in (left, right))
    return mark / 2 if mine - theirs else mark


def _shape(line: str) -> str:
    for pattern, sign in _SIGNS:
        line = pattern.sub(sign, line)
    return line
