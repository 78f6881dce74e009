"""Two texts: folded, compared as baselines compare them, and cut into lines and words.

Texts are folded: runs of blanks become one space, and both ends are stripped. `similarity` is
2·M / (length of both), M the matching part as difflib.SequenceMatcher finds it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property

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
# A mask, a word or number, or a single sign. Beyond ASCII each letter is its own: there blanks do
# not always part words.
_UNITS = re.compile(r"⟦[^⟦⟧]*⟧|[A-Za-z0-9_]+(?:\.[0-9]+)?|[^\sA-Za-z0-9_]")
_CHUNKS = re.compile(r"⟦[^⟦⟧]*⟧|[^\s⟦]+|⟦")
_LONG = 20_000_000
"""How many pairs of units two lines may have before their order no longer counts."""


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
    left, right = window(left), window(right)
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


def window(text: str, size: int = WINDOW) -> str:
    """Return the text, or where it is longer than two windows its first and last."""
    return text if len(text) <= 2 * size else text[:size] + text[-size:]


def _equal_pairs(left: Counter[str], right: Counter[str]) -> int:
    """Return how many pairs of equal units there are, one of each pair from either side."""
    return sum(count * right[unit] for unit, count in left.items() if unit in right)


def _matching_characters(left: Sequence[str], right: Sequence[str]) -> int:
    blocks = SequenceMatcher(None, left, right, autojunk=False).get_matching_blocks()
    return sum(len(word) for block in blocks for word in left[block.a : block.a + block.size])


@dataclass(frozen=True, order=True)
class Line:
    """One line of a text, folded; how alike two are goes by words and by what words are made of."""

    text: str

    @cached_property
    def chunks(self) -> list[str]:
        """What blanks part."""
        return _CHUNKS.findall(self.text)

    @cached_property
    def units(self) -> list[str]:
        """Words and numbers, each four times as heavy as a sign; a mask weighs as a sign."""
        return [
            f"{unit}\0{part}" if part else unit
            for unit in _UNITS.findall(self.text)
            for part in range(4 if unit[0] == "_" or unit[0].isalnum() else 1)
        ]

    @property
    def weight(self) -> int:
        """How much the line counts in its text: its words, at least 1."""
        return max(1, len(self.chunks))

    def likeness(self, other: Line) -> float:
        """Return how alike two lines are, 0..1: half by words, half by what they are made of.

        Each half is 2·(longest common subsequence) / (length of both), so `total 12` and
        `total 13` share the word, and no part of the number.
        """
        if self.text == other.text:
            return 1.0
        if not self.text or not other.text:
            return 0.0
        return (in_order(self.chunks, other.chunks) + in_order(self.units, other.units)) / 2


def lines_of(text: str) -> list[Line]:
    """Return the lines of a text that hold more than blanks, folded."""
    folded = (" ".join(line.split()) for line in text.splitlines())
    return [Line(line) for line in folded if line]


def in_order(left: Sequence[str], right: Sequence[str]) -> float:
    """Return 2·(longest common subsequence) / (length of both), 0..1; as bags where too long."""
    from rapidfuzz.distance import Indel

    if len(left) * len(right) <= _LONG:
        return Indel.normalized_similarity(left, right)
    common = sum((Counter(left) & Counter(right)).values())
    return 2 * common / (len(left) + len(right))
