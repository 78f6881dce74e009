"""JSON, and Python's repr of rows, as trees: compared by paths and values.

One reader for both, because masks stand in the text (`{"pid": ⟦pid⟧}`), rows hold calls
(`Decimal('1.50')`), and neither json nor ast reads those, or any depth, without failing.

A value weighs 2, a key 1, an empty container 2. Two trees share 2·(what is equal) / (both weights):
the keys both have, the values that are equal; items of an array are aligned like lines.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from lwm_agents.scores.align import Alignment, Order
from lwm_agents.scores.text import Line

DEPTH = 40
"""How deep a tree may be; what is deeper is compared as text."""

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<open>[\[({]) | (?P<close>[\])}]) | (?P<mark>[,:])
    | (?P<double>"(?:[^"\\]|\\.)*") | (?P<single>'(?:[^'\\]|\\.)*')
    | (?P<bytes>[bB](?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'))
    | (?P<call>[A-Za-z_][\w.]*\([^()\[\]{}]*\))
    | (?P<number>[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?(?![\w.]))
    | (?P<word>(?:true|false|null|True|False|None|NaN|nan|[+-]?(?:Infinity|inf))\b|⟦[^⟦⟧]*⟧)
    )""",
    re.VERBOSE | re.DOTALL,
)
_WORDS = {"True": "true", "False": "false", "None": "null"}
_PAIRS = {"[": "]", "(": ")", "{": "}"}


@dataclass(frozen=True)
class Tree:
    """An object (keys sorted), an array with its bracket, or a value.

    Values, and keys, are their type and what they say: `string Ann`, `number 3`, `word null`.
    """

    kind: Literal["object", "array", "value"]
    label: str = ""
    keys: tuple[str, ...] = ()
    items: tuple[Tree, ...] = ()

    @cached_property
    def size(self) -> int:
        """The weight of the whole tree."""
        return (len(self.keys) + sum(item.size for item in self.items)) or 2

    @property
    def is_row(self) -> bool:
        """Whether this is an array of values."""
        return self.kind == "array" and all(item.kind == "value" for item in self.items)

    def likeness(self, other: Tree) -> float:
        """Return how alike two trees are, 0..1."""
        return _shared(self, other) / (self.size + other.size)


def read_tree(text: str) -> Tree | None:
    """Read an object or array of JSON or Python, or JSON lines; None where the text is neither."""
    if not text.lstrip().startswith(("[", "{", "(")) or not text.rstrip().endswith(("]", "}", ")")):
        return None
    found = _read(text)
    if found is None and "\n" in text.strip():
        lines = [_read(line) for line in text.splitlines() if line.strip()]
        if all(line is not None for line in lines):
            found = Tree("array", "lines", items=tuple(line for line in lines if line))
    return found


def compare_trees(left: Tree, right: Tree, order: Order) -> float:
    """Return how alike two trees are, 0..1; the order is that of the outermost items."""
    if is_rows(left) and is_rows(right):
        return Alignment(_row_likeness).common(left.items, right.items, order)
    if order != "given" and left.kind == right.kind == "array":
        return Alignment(Tree.likeness, _size).common(left.items, right.items, order)
    return left.likeness(right)


def is_rows(tree: Tree) -> bool:
    """Return whether a tree is rows of a query, as Python shows them: a list of tuples."""
    return tree.kind == "array" and all(row.is_row and row.label == "(" for row in tree.items)


def paths(tree: Tree) -> set[str]:
    """Return every path in a tree with the type of what stands there; items of arrays as one."""
    found: set[str] = set()
    waiting = [("", tree)]
    while waiting:
        path, one = waiting.pop()
        found.add(f"{path}:{one.label.split(' ')[0] if one.kind == 'value' else one.kind}")
        names = [key.partition(" ")[2] for key in one.keys] or ["*"] * len(one.items)
        waiting.extend(
            (f"{path}/{name}", item) for name, item in zip(names, one.items, strict=True)
        )
    return found


def _size(tree: Tree) -> int:
    return tree.size


def _shared(left: Tree, right: Tree) -> float:
    """Return the weight, of both sides together, of what two trees share."""
    if left == right:
        return float(left.size + right.size)
    if left.kind != right.kind:
        return 0.0
    if left.kind == "value":
        texts = [one.label.partition(" ")[2] for one in (left, right)]
        phrases = all(
            one.label.startswith("string") and " " in text.strip()
            for one, text in zip((left, right), texts, strict=True)
        )
        return 4 * Line(texts[0]).likeness(Line(texts[1])) if phrases else 0.0
    if left.kind == "object":
        there = dict(zip(right.keys, right.items, strict=True))
        pairs = zip(left.keys, left.items, strict=True)
        return sum(2 + _shared(item, there[key]) for key, item in pairs if key in there)
    return Alignment(Tree.likeness, _size).shared(left.items, right.items)


def _row_likeness(left: Tree, right: Tree) -> float:
    """Cells that agree, column by column; squared, because half a row is not half the truth."""
    width = max(len(left.items), len(right.items))
    equal = sum(a == b for a, b in zip(left.items, right.items, strict=False))
    return (equal / width) ** 2 if width else 1.0


def _read(text: str) -> Tree | None:
    """Read one object or array without recursion; None where the text is something else."""
    open_ones: list[_Open] = []
    position, end = 0, len(text.rstrip())
    while position < end:
        token = _TOKEN.match(text, position, end)
        if token is None:
            return None
        position = token.end()
        kind, said = token.lastgroup or "", token[0].strip()
        if kind == "open":
            open_ones.append(_Open(said))
            if len(open_ones) > DEPTH:
                return None
            continue
        if not open_ones:
            return None
        if kind == "mark":
            if not open_ones[-1].mark(said):
                return None
            continue
        value = _value(kind, said)
        if kind == "close":
            closed = open_ones.pop().close(said)
            if closed is None:
                return None
            if not open_ones:
                return closed if position >= end else None
            value = closed
        if not open_ones[-1].add(value):
            return None
    return None


def _value(kind: str, said: str) -> Tree:
    if kind == "double":
        try:
            said = json.loads(said, strict=False)
        except ValueError:  # a Python string's escapes
            said = said[1:-1]
        return Tree("value", f"string {said}")
    if kind == "single":
        quoted = said[1:-1].replace("\\'", "'").replace("\\\\", "\\")
        return Tree("value", f"string {quoted}")
    if kind == "number":
        whole = re.fullmatch(r"[+-]?\d+", said)
        return Tree("value", f"number {said.lstrip('+') if whole else _decimal(said)}")
    return Tree("value", f"{kind} {_WORDS.get(said, said)}")


def _decimal(said: str) -> str:
    number = float(said)
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


class _Open:
    """A container that is being read."""

    def __init__(self, bracket: str) -> None:
        self.bracket = bracket
        self.items: list[Tree] = []
        self.keys: list[str] = []
        self.key: str | None = None
        self.ready = True  # for an item: after the bracket, a comma or a colon

    def mark(self, said: str) -> bool:
        if self.ready or (said == ":" and (self.bracket != "{" or self.key is not None)):
            return False
        if said == ":":
            self.key = self.items.pop().label
        self.ready = True
        return True

    def add(self, item: Tree) -> bool:
        if not self.ready:
            return False
        self.ready = False
        self.items.append(item)
        if self.key is not None:
            self.keys.append(self.key)
            self.key = None
        return True

    def close(self, said: str) -> Tree | None:
        if said != _PAIRS[self.bracket] or self.key is not None:
            return None
        if self.bracket == "{" and len(self.keys) == len(self.items):
            unique = dict(zip(self.keys, self.items, strict=True))
            names = tuple(sorted(unique))
            return Tree("object", "{", names, tuple(unique[name] for name in names))
        if self.keys:
            return None  # half of it had keys
        return Tree("array", self.bracket, items=tuple(self.items))
