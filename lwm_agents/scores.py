"""How near a prediction is to what really happened, 0..1. Pure functions on plain values.

Formulas, on texts whose runs of blanks are folded to one space and stripped at both ends:

exact            the folded texts are equal
similarity       2·M / (length of both), M the matching part as difflib.SequenceMatcher finds it
error agreement  both are errors, or neither is; None where the recording does not say
score            0.3 · exact + 0.7 · similarity, and at most 0.2 where the errors disagree

An empty prediction for a non-empty observation scores 0, and so does no prediction.
Where errors disagree the score is capped because an agent that was told of success when there was
none goes on wrongly, however alike the two texts look.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher

from lwm_agents.values import Observation, Value

EXACT_SHARE = 0.3
"""What being exact is worth; the rest goes by similarity."""

DISAGREEMENT_CAP = 0.2
"""The most a prediction can score that takes an error for a success, or the other way round."""

PAIR_LIMIT = 100_000
"""How many pairs of equal units SequenceMatcher may have to look at, at each of its divisions.

Two English texts of 1,200 characters have about that many equal pairs of characters.
"""

WINDOW = 500_000
"""How many characters at the start, and as many at the end, similarity looks at."""

# A single space needs no folding: leaving it alone halves the time.
_BLANKS = re.compile(r"\s{2,}|[^\S ]")
# Short runs of letters with the signs that follow, so that compact JSON and base64 have words too.
_WORDS = re.compile(r"\w{1,16}[^\w\s]{0,8}|[^\w\s]{1,8}")


class Fidelity(Value):
    """How near one prediction came; see the formulas at the top of this module."""

    score: float
    exact: bool
    error_agreement: bool | None
    similarity: float


def fidelity(predicted: Observation | None, happened: Observation) -> Fidelity:
    """Compare a prediction with what happened. None or an `unanswered` one scores 0."""
    if predicted is None or predicted.source == "unanswered":
        agreement = False if happened.error_known else None
        return Fidelity(score=0.0, exact=False, error_agreement=agreement, similarity=0.0)
    left, right = fold(predicted.text), fold(happened.text)
    exact = left == right
    likeness = 1.0 if exact else similarity(left, right)
    known = happened.error_known and predicted.error_known
    agreement = predicted.is_error == happened.is_error if known else None
    score = EXACT_SHARE * exact + (1 - EXACT_SHARE) * likeness
    if agreement is False:
        score = min(score, DISAGREEMENT_CAP)
    return Fidelity(score=score, exact=exact, error_agreement=agreement, similarity=likeness)


def fold(text: str) -> str:
    """Return the text stripped, each run of blanks and line ends folded to one space."""
    return _BLANKS.sub(" ", text).strip()


def similarity(left: str, right: str) -> float:
    """Return how alike two texts are, 0..1, in a time that stays in bounds whatever they hold.

    By characters, exactly difflib's ratio without its `autojunk`, while that is quick. Its time
    grows with the number of pairs of equal characters, cubic at worst (a text of one repeated
    character), so texts with more than PAIR_LIMIT such pairs are compared word by word, each word
    weighing its length; and where equal words are too many as well, as bags of words, which is
    blind to order and so an upper bound. Of texts longer than two windows only the first and the
    last WINDOW characters count.
    """
    left, right = _window(left), _window(right)
    if _equal_pairs(Counter(left), Counter(right)) <= PAIR_LIMIT:
        return SequenceMatcher(None, left, right, autojunk=False).ratio()
    words = [_WORDS.findall(text) for text in (left, right)]
    bags = [Counter(side) for side in words]
    if _equal_pairs(*bags) <= PAIR_LIMIT:
        common = _matching_characters(*words)
    else:
        common = sum(len(word) * count for word, count in (bags[0] & bags[1]).items())
    total = sum(len(word) for side in words for word in side)
    return 2 * common / total if total else 1.0  # nothing but blanks on both sides


def _window(text: str) -> str:
    return text if len(text) <= 2 * WINDOW else text[:WINDOW] + text[-WINDOW:]


def _equal_pairs(left: Counter[str], right: Counter[str]) -> int:
    """Return how many pairs of equal units there are, one of each pair from either side."""
    return sum(count * right[unit] for unit, count in left.items() if unit in right)


def _matching_characters(left: Sequence[str], right: Sequence[str]) -> int:
    blocks = SequenceMatcher(None, left, right, autojunk=False).get_matching_blocks()
    return sum(len(word) for block in blocks for word in left[block.a : block.a + block.size])
