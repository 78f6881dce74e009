"""Tables in text: psql, sqlite3, `a | b`, Markdown, TSV, CSV and `ls -l`, compared by rows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lwm_agents.scores.align import Alignment, Order

Row = tuple[str, ...]

_RULE = re.compile(r"(?=[\s|:]*[+=-])[\s|+:=-]+")
_FOOTER = re.compile(r"\(\d+ rows?.*\)|\d+ rows? in set.*|Empty set.*|total \d+\w?|\S.*:")
_LISTED = re.compile(
    r"(?P<before>(?:⟦[^⟧]*⟧ +)?(?:\d+ +)?[-dlbcps][-rwxsStT]{9}[.+@]? .*?⟦time⟧) (?P<name>.+)"
)
_SEPARATORS = ("|", "\t", ",")


@dataclass(frozen=True)
class Table:
    """Rows of cells; the last cell of a `listing` is the name that its row is about."""

    separator: str
    rows: tuple[Row, ...]


def read_table(text: str) -> Table | None:
    """Read a table; None where lines do not all have the same number of the same separators."""
    lines = [line for line in text.splitlines() if line.strip()]
    footers = [bool(_FOOTER.fullmatch(line.strip())) for line in lines]
    body = [line for line, foot in zip(lines, footers, strict=True) if not foot]
    if not body:
        return None
    listed = [_LISTED.fullmatch(line.strip()) for line in body]
    if all(listed):
        rows = iter([(*found["before"].split(), found["name"]) for found in listed if found])
        return Table("listing", _with_footers(lines, footers, rows))
    body = [line for line in body if not _RULE.fullmatch(line)]
    for separator in _SEPARATORS:
        counts = {line.count(separator) for line in body}
        if len(counts) == 1 and counts != {0}:
            kept = [
                foot or not _RULE.fullmatch(line) for line, foot in zip(lines, footers, strict=True)
            ]
            cells = iter([_cells(line, separator) for line in body])
            lines = [line for line, keep in zip(lines, kept, strict=True) if keep]
            footers = [foot for foot, keep in zip(footers, kept, strict=True) if keep]
            return Table(separator, _with_footers(lines, footers, cells))
    return None


def compare_tables(left: Table, right: Table, order: Order) -> float:
    """Return how alike two tables are, 0..1, by rows."""
    listing = left.separator == right.separator == "listing"
    alignment = Alignment(_listed_likeness if listing else _row_likeness)
    return alignment.common(left.rows, right.rows, order)


def _cells(line: str, separator: str) -> Row:
    inside = line.strip().strip("|") if separator == "|" else line
    return tuple(cell.strip() for cell in inside.split(separator))


def _with_footers(
    lines: Sequence[str], footers: Sequence[bool], rows: Iterator[Row]
) -> tuple[Row, ...]:
    return tuple(
        (line.strip(),) if foot else next(rows) for line, foot in zip(lines, footers, strict=True)
    )


def _row_likeness(left: Row, right: Row) -> float:
    """Cells that agree, column by column; squared, because half a row is not half the truth."""
    equal = sum(a == b for a, b in zip(left, right, strict=False))
    return float((equal / max(len(left), len(right))) ** 2)


def _listed_likeness(left: Row, right: Row) -> float:
    """Of the same name only: what else the two rows say."""
    if left[-1] != right[-1]:
        return 0.0
    told = [cell for cell in left + right if not cell.startswith("⟦")]
    equal = sum(a == b for a, b in zip(left, right, strict=False) if not a.startswith("⟦"))
    return min(1.0, 2 * equal / len(told))
