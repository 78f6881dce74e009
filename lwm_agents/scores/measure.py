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

from typing import Literal

from lwm_agents.scores.accessibility import compare_snapshots, read_snapshot
from lwm_agents.scores.actions import order_of
from lwm_agents.scores.align import Alignment, Order
from lwm_agents.scores.masks import action_text, masked
from lwm_agents.scores.rubric import Rubric, rubric
from lwm_agents.scores.tables import compare_tables, read_table
from lwm_agents.scores.text import Line, fold, lines_of, similarity, window
from lwm_agents.scores.trees import compare_trees, is_rows, read_tree
from lwm_agents.values import Action, Observation, Value

Kind = Literal["json", "rows", "snapshot", "table", "text"]

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
    if not left or not right:
        likeness = float(exact)
        return Fidelity(
            score=min(cap, likeness),
            exact=exact,
            error_agreement=agreement,
            similarity=alike,
            exact_after_masking=exact,
            likeness=likeness,
            rubric=Rubric(**dict.fromkeys(Rubric.model_fields, min(cap, likeness))),
        )
    pair = masked(predicted.text, action), masked(happened.text, action)
    kind, likeness, found = _compare(*pair, order_of(action))
    found = found or exact or fold(pair[0]) == fold(pair[1])
    likeness = 1.0 if found else min(likeness, ALMOST)
    pair = window(pair[0]), window(pair[1])
    marks = rubric(*pair, asked=action_text(action), score=likeness, cap=cap)
    return Fidelity(
        score=min(cap, likeness),
        exact=exact,
        error_agreement=agreement,
        similarity=alike,
        exact_after_masking=found,
        kind=kind,
        likeness=likeness,
        rubric=marks,
    )


def _compare(left: str, right: str, order: Order | None) -> tuple[Kind, float, bool]:
    """Return what two masked texts are, how alike they are, and whether that is all there is."""
    left, right = window(left), window(right)
    trees = read_tree(left), read_tree(right)
    if trees[0] is not None and trees[1] is not None:
        rows = is_rows(trees[0]) and is_rows(trees[1])
        likeness = compare_trees(trees[0], trees[1], order or ("loose" if rows else "given"))
        return ("rows" if rows else "json"), likeness, trees[0] == trees[1]
    nodes = read_snapshot(left), read_snapshot(right)
    if nodes[0] is not None and nodes[1] is not None:
        return "snapshot", compare_snapshots(nodes[0], nodes[1]), False
    tables = read_table(left), read_table(right)
    if tables[0] and tables[1] and max(len(tables[0].rows), len(tables[1].rows)) > 1:
        return "table", compare_tables(tables[0], tables[1], order or "loose"), False
    lines = lines_of(left), lines_of(right)
    likeness = Alignment(Line.likeness, _weight).common(*lines, order or "given")
    return "text", likeness, order == "none" and sorted(lines[0]) == sorted(lines[1])


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
