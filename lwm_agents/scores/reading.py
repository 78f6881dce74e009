"""One observation's text, masked, and what it can be read as."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

from lwm_agents.scores.accessibility import Node, read_snapshot
from lwm_agents.scores.masks import masked
from lwm_agents.scores.tables import Table, read_table
from lwm_agents.scores.text import Line, fold, lines_of, window
from lwm_agents.scores.trees import Tree, is_rows, read_tree
from lwm_agents.values import Action

Kind = Literal["json", "rows", "snapshot", "table", "text"]
"""What a pair of observations is compared as.

json      objects and arrays, by paths and values
rows      Python's repr of a query's rows, by rows
snapshot  an accessibility tree, by nodes
table     columns in text, by rows
text      anything else, by lines and by words inside them
"""


READ = 100_000
"""How many characters at the start, and as many at the end, are read for likeness and rubric."""


class Reading:
    """What a text reads as; of very long ones, what their first and last characters read as."""

    def __init__(self, text: str, action: Action | None) -> None:
        whole = masked(text, action)
        self.folded = fold(whole)
        self.text = window(whole, READ)

    @cached_property
    def tree(self) -> Tree | None:
        """JSON or rows."""
        return read_tree(self.text)

    @cached_property
    def nodes(self) -> tuple[Node, ...] | None:
        """The nodes of an accessibility tree."""
        return read_snapshot(self.text)

    @cached_property
    def table(self) -> Table | None:
        """A table."""
        return read_table(self.text)

    @cached_property
    def lines(self) -> list[Line]:
        """The lines that hold more than blanks."""
        return lines_of(self.text)


def kind_of(left: Reading, right: Reading) -> Kind:
    """Return what to compare two readings as: what both can be read as."""
    if left.tree is not None and right.tree is not None:
        return "rows" if is_rows(left.tree) and is_rows(right.tree) else "json"
    if left.nodes is not None and right.nodes is not None:
        return "snapshot"
    tables = left.table, right.table
    if tables[0] and tables[1] and max(len(tables[0].rows), len(tables[1].rows)) > 1:
        return "table"
    return "text"
