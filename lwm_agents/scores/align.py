"""What two sequences have in common, in order or not: lines, rows, items, nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

Order = Literal["given", "loose", "none"]
"""What the order of rows or lines is worth.

given  it was asked for, or is the text's own: things count where they stand
loose  not asked for: things count wherever they stand, and a tenth goes by their order
none   the action's order is undefined: it counts nothing
"""

ORDER_SHARE = 0.1
"""What order is worth where it was not asked for."""

_ALIGNED = 4_000_000
_COUNTED = 4_000_000_000
_PAIRED = 2_500
_HEAVY = 250_000

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True)
class Alignment(Generic[T]):
    """How to compare two sequences of T.

    `likeness` of two things is 0..1 and symmetric; `weight` is how much one counts.
    """

    likeness: Callable[[T, T], float]
    weight: Callable[[T], int] = lambda _: 1

    def common(self, left: Sequence[T], right: Sequence[T], order: Order = "given") -> float:
        """Return what two sequences share, 0..1: 2·(shared weight) / (weight of both).

        In time linear in their lengths beyond a bound: two sequences of more than 2,000 items are
        compared by equal items only, and of more than 60,000 as bags.
        """
        total = self._sum(left) + self._sum(right)
        if not total:
            return 1.0
        shared = self.shared(left, right) if order == "given" else self._anyhow(left, right)
        found = shared / total
        if order == "loose" and list(left) != list(right):
            found = (1 - ORDER_SHARE) * found + ORDER_SHARE * _sequence(left, right)
        return min(1.0, found)

    def shared(self, left: Sequence[T], right: Sequence[T]) -> float:
        """Return the weight, of both sides together, of what they share in this order."""
        begin = 0
        while begin < min(len(left), len(right)) and left[begin] == right[begin]:
            begin += 1
        end = 0
        while end < min(len(left), len(right)) - begin and left[-1 - end] == right[-1 - end]:
            end += 1
        found = 2.0 * (self._sum(left[:begin]) + self._sum(left[len(left) - end :]))
        left, right = left[begin : len(left) - end], right[begin : len(right) - end]
        if not left or not right:
            return found
        pairs = len(left) * len(right)
        if pairs > _ALIGNED:
            return found + self._equal(left, right, in_order=pairs <= _COUNTED)
        return found + self._aligned(left, right)

    def _aligned(self, left: Sequence[T], right: Sequence[T]) -> float:
        from rapidfuzz.distance import Indel

        found, row, column = 0.0, 0, 0
        blocks = Indel.opcodes(left, right).as_matching_blocks()
        for block in blocks:  # the last is empty and stands at both ends
            found += self._gap(left[row : block.a], right[column : block.b])
            found += 2.0 * self._sum(left[block.a : block.a + block.size])
            row, column = block.a + block.size, block.b + block.size
        return found

    def _gap(self, left: Sequence[T], right: Sequence[T]) -> float:
        """Compare what stands between equal things: the best pairs in order, or one by one."""
        if not left or not right:
            return 0.0
        weights = [self.weight(one) for one in left], [self.weight(one) for one in right]
        pairs = len(left) * len(right)
        if pairs > _PAIRED or sum(weights[0]) * sum(weights[1]) > _HEAVY:
            return sum(
                self.likeness(one, other) * (a + b)
                for one, other, a, b in zip(left, right, *weights, strict=False)
            )
        above = [0.0] * (len(right) + 1)
        for one, a in zip(left, weights[0], strict=True):
            row = [0.0]
            for column, (other, b) in enumerate(zip(right, weights[1], strict=True), 1):
                paired = above[column - 1] + self.likeness(one, other) * (a + b)
                row.append(max(paired, above[column], row[-1]))
            above = row
        return above[-1]

    def _anyhow(self, left: Sequence[T], right: Sequence[T]) -> float:
        """Return the weight of what both share in any order: equal things, then the nearest."""
        both = Counter(left) & Counter(right)
        found = 2.0 * sum(self.weight(one) * count for one, count in both.items())
        rest = [_without(left, both), _without(right, both)]
        if not rest[0] or not rest[1]:
            return found
        if len(rest[0]) * len(rest[1]) > _PAIRED:
            return found + self._gap(*rest)
        pairs = sorted(
            (
                (self.likeness(one, other) * (self.weight(one) + self.weight(other)), i, j)
                for i, one in enumerate(rest[0])
                for j, other in enumerate(rest[1])
            ),
            reverse=True,
        )
        used: tuple[set[int], set[int]] = set(), set()
        for worth, i, j in pairs:
            if i not in used[0] and j not in used[1]:
                used[0].add(i)
                used[1].add(j)
                found += worth
        return found

    def _equal(self, left: Sequence[T], right: Sequence[T], *, in_order: bool) -> float:
        both = Counter(left) & Counter(right)
        found = 2.0 * sum(self.weight(one) * count for one, count in both.items())
        return found * _sequence(left, right) if in_order else found

    def _sum(self, things: Sequence[T]) -> int:
        return sum(map(self.weight, things))


def _sequence(left: Sequence[T], right: Sequence[T]) -> float:
    """Return how much of what both sides hold stands in the same order, 0..1."""
    from rapidfuzz.distance import LCSseq

    shared = sum((Counter(left) & Counter(right)).values())
    if not shared or len(left) * len(right) > _COUNTED:
        return float(bool(shared))
    return LCSseq.similarity(left, right) / shared


def _without(things: Sequence[T], taken: Counter[T]) -> list[T]:
    left, rest = Counter(taken), []
    for thing in things:
        if left[thing] > 0:
            left[thing] -= 1
        else:
            rest.append(thing)
    return rest
