"""Accessibility trees as Playwright's aria snapshots write them, compared by nodes.

A node is a line: `- heading "Orders" [level=1] [ref=e3]`, `- link "Home":`, `- text: 3 items`.
Its depth, role, name, states and text count; its ref and its cursor do not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lwm_agents.scores.align import Alignment
from lwm_agents.scores.text import Line

ROLE, NAME, STATE, DEPTH = 0.3, 0.4, 0.2, 0.1
"""What each part of a node is worth where two nodes have the same role."""

_NODE = re.compile(
    r"(?P<indent> *)- '?(?P<role>/?[a-z]+)(?: (?P<name>\"(?:[^\"\\]|\\.)*\"|/.+/))?"
    r"(?P<states>(?: \[[^\]]*\])*)'?(?::(?: (?P<text>.*))?)?"
)
_ROLE_NAMES = """
    alert alertdialog application article banner blockquote button caption cell checkbox code
    columnheader combobox complementary contentinfo definition dialog directory document emphasis
    feed figure form generic grid gridcell group heading iframe img insertion link list listbox
    listitem log main mark marquee math menu menubar menuitem menuitemcheckbox menuitemradio meter
    navigation none note option paragraph presentation progressbar radio radiogroup region row
    rowgroup rowheader scrollbar search searchbox separator slider spinbutton status strong
    subscript superscript switch tab table tablist tabpanel term text textbox time timer toolbar
    tooltip tree treegrid treeitem /url /placeholder
"""
_ROLES = frozenset(_ROLE_NAMES.split())


@dataclass(frozen=True)
class Node:
    """One line of a snapshot; a line that is no node has the role `other` and is all name."""

    depth: int
    role: str
    name: str
    states: frozenset[str] = frozenset()

    def likeness(self, other: Node) -> float:
        """Return how alike two nodes are, 0..1; nothing where their roles differ."""
        if self.role != other.role:
            return 0.0
        name = Line(self.name).likeness(Line(other.name))
        both = self.states | other.states
        state = len(self.states & other.states) / len(both) if both else 1.0
        return ROLE + NAME * name + STATE * state + DEPTH * (self.depth == other.depth)


def read_snapshot(text: str) -> tuple[Node, ...] | None:
    """Read a snapshot; None where fewer than half of the lines are nodes."""
    lines = [line for line in text.splitlines() if line.strip()]
    found = [_node(line) for line in lines]
    known = sum(node.role != "other" for node in found)
    return tuple(found) if known and 2 * known >= len(lines) else None


def compare_snapshots(left: tuple[Node, ...], right: tuple[Node, ...]) -> float:
    """Return how alike two snapshots are, 0..1, node by node in their order."""
    return Alignment(Node.likeness).common(left, right)


def _node(line: str) -> Node:
    match = _NODE.fullmatch(line.rstrip())
    if match is None or match["role"] not in _ROLES:
        return Node(0, "other", " ".join(line.split()))
    states = frozenset(re.findall(r"\[([^\]]*)\]", match["states"]))
    kept = frozenset(state for state in states if not state.startswith(("ref=", "cursor=")))
    name = f"{match['name'] or ''} {match['text'] or ''}".strip()
    return Node(len(match["indent"]) // 2, match["role"], name, kept)
