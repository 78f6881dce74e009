"""How near a prediction is to what really happened, 0..1.

exact                the texts are equal when folded (runs of blanks are one space, ends stripped)
similarity           difflib's ratio of the folded texts
error_agreement      both are errors, or neither is; None where the recording does not say
exact_after_masking  the same, once what no one could predict is masked (`masks`), whatever the
                     order of keys, and of lines where the action gives them none
kind                 what both sides were read as: `json`, `rows`, `table`, `snapshot` or `text`
likeness             how much of the masked sides agrees, by that kind
score                1 where exact after masking, else the likeness, at most ALMOST; at most
                     DISAGREEMENT_CAP where the errors disagree
rubric               the five dimensions of AgentWorldBench, by rule (`rubric`)

An empty prediction for a non-empty observation scores 0, and so does no prediction.
Where errors disagree the score is capped because an agent that was told of success when there was
none goes on wrongly, however alike the two texts look.
"""

from __future__ import annotations

from lwm_agents.scores.accessibility import compare_snapshots
from lwm_agents.scores.actions import order_of
from lwm_agents.scores.align import Alignment, Order
from lwm_agents.scores.masks import action_text, masked
from lwm_agents.scores.reading import Kind, Reading, kind_of
from lwm_agents.scores.rubric import Rubric, rubric
from lwm_agents.scores.tables import compare_tables
from lwm_agents.scores.text import Line, fold, similarity
from lwm_agents.scores.trees import compare_trees
from lwm_agents.values import Action, Observation, Value

ALMOST = 0.99
"""The most a prediction can score that is not exact after masking."""

DISAGREEMENT_CAP = 0.2
"""The most a prediction can score that takes an error for a success, or the other way round."""


class Fidelity(Value):
    """How near one prediction came; see the formulas at the top of this module."""

    score: float
    exact: bool
    error_agreement: bool | None
    similarity: float
    exact_after_masking: bool = False
    kind: Kind = "text"
    likeness: float = 0.0
    rubric: Rubric = Rubric()


def fidelity(
    predicted: Observation | None, happened: Observation, action: Action | None = None
) -> Fidelity:
    """Compare a prediction with what happened. None or an `unanswered` one scores 0.

    The action, where it is known, tells more of what could be predicted and what order is worth.
    """
    if predicted is None or predicted.source == "unanswered":
        agreement = False if happened.error_known else None
        return Fidelity(score=0.0, exact=False, error_agreement=agreement, similarity=0.0)
    left, right = fold(predicted.text), fold(happened.text)
    exact = left == right
    alike = 1.0 if exact else similarity(left, right)
    known = happened.error_known and predicted.error_known
    agreement = predicted.is_error == happened.is_error if known else None
    cap = DISAGREEMENT_CAP if agreement is False else 1.0
    here, there = Reading(predicted.text, action), Reading(happened.text, action)
    likeness, found, marks = 0.0, exact, Rubric()
    if not exact and left and right:
        likeness, found = _compare(here, there, order_of(action))
        likeness = min(likeness, ALMOST)
        marks = rubric(here, there, action_text(action), likeness)
    if found:
        likeness, marks = 1.0, Rubric(**dict.fromkeys(Rubric.model_fields, 1.0))
    return Fidelity(
        score=min(cap, likeness),
        exact=exact,
        error_agreement=agreement,
        similarity=alike,
        exact_after_masking=found,
        kind=kind_of(here, there),
        likeness=likeness,
        rubric=marks.capped(cap),
    )


def _compare(left: Reading, right: Reading, order: Order | None) -> tuple[float, bool]:
    """Return how alike two readings are, and whether nothing is left to tell them apart."""
    equal = left.folded == right.folded
    if right.folded < left.folded:  # of several best alignments, the same one either way
        left, right = right, left
    # What the kind says both can be read as is there: the asserts tell the type checker.
    match kind_of(left, right):
        case "json" | "rows" as kind:
            assert left.tree is not None
            assert right.tree is not None
            default: Order = "loose" if kind == "rows" else "given"
            likeness = compare_trees(left.tree, right.tree, order or default)
            return likeness, equal or left.tree == right.tree
        case "snapshot":
            assert left.nodes is not None
            assert right.nodes is not None
            return compare_snapshots(left.nodes, right.nodes), equal
        case "table":
            assert left.table is not None
            assert right.table is not None
            return compare_tables(left.table, right.table, order or "loose"), equal
    likeness = Alignment(Line.likeness, _weight).common(left.lines, right.lines, order or "given")
    return likeness, equal or (order == "none" and sorted(left.lines) == sorted(right.lines))


def _weight(line: Line) -> int:
    return line.weight


def same(predicted: Observation, happened: Observation, action: Action | None = None) -> bool:
    """Return whether two observations are identical after masking, blanks and all.

    Both are errors or neither is, and the masked texts are equal character for character, or line
    for line in any order where the action gives them none (`find`, `ls -U`).
    """
    if predicted.is_error != happened.is_error:
        return False
    if predicted.text == happened.text:
        return True
    left, right = masked(predicted.text, action), masked(happened.text, action)
    if left == right:
        return True
    return order_of(action) == "none" and sorted(left.split("\n")) == sorted(right.split("\n"))
