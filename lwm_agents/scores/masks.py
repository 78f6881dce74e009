"""Masking: what no one could predict is replaced by its kind, so that only the rest is compared.

`Modify: 2026-01-02 03:04:05.678901234 +0000` becomes `Modify: ⟦time⟧`. What stands in the action
itself is never masked: it could be predicted. A thing that occurs twice in a text is numbered, so
two hard links still share an inode: `⟦inode 1⟧`. The mask of a commit's id says its length. Blanks
that fill a column beside a mask are folded, because the width of what was masked set them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from lwm_agents.scores.mask_rules import RULES, Rule
from lwm_agents.scores.text import WINDOW
from lwm_agents.values import Action

_ASKED = 10_000
"""How much of an action's text the rules for certain actions look at."""

_NUMBERED = frozenset(
    ("address", "commit", "device", "inode", "job", "pid", "port", "ref", "temporary", "uuid")
)
_PLACE = re.compile("⟦([a-z]+)\x00(\\d+)⟧")
_PADDING = re.compile(
    "(?P<start>^[ \t]+(?=⟦))|(?<![ \t])[ \t]{2,}(?=⟦)|(?<=⟧)[ \t]{2,}", re.MULTILINE
)
_TEMPLATE = re.compile(r"([\w.-]{0,40}?)(X{3,})([\w.-]{0,40})")
_FORMAT = re.compile(
    r"\b(?:stat|find)\b[^|;&\n]{0,300}?(?:-c|--format=?|--printf=?|-printf)\s*"
    r"(?:'([^'\n]+)'|\"([^\"\n]+)\"|(%\S+))"
)
_PREFIX = re.compile(r"prefix=['\"]([\w.-]+)")
# The columns of ps, top and lsof that say what the machine was doing, not what it was asked.
_VOLATILE = {
    **dict.fromkeys(("PID", "PPID", "PGID", "PGRP", "SID", "SESS", "TID", "LWP", "SPID"), "pid"),
    **dict.fromkeys(("START", "STIME", "STARTED"), "time"),
    **dict.fromkeys(("TIME", "TIME+", "ELAPSED"), "duration"),
    **dict.fromkeys(("%CPU", "%MEM", "C", "PRI", "VSZ", "RSS", "SZ", "VIRT", "RES", "SHR"), "load"),
    **dict.fromkeys(("ADDR", "WCHAN"), "address"),
    "NODE": "inode",
    "DEVICE": "device",
}


def masked(text: str, action: Action | None = None) -> str:
    """Return the text with everything masked that no one could predict.

    The action allows more: commit ids in what git prints, what `date` prints, `mktemp` templates.
    Of texts longer than two windows (`text.WINDOW`) only the first and the last are masked. A `⟦`
    of the text's own becomes `〚`, so no text passes for a mask.
    """
    if len(text) > 2 * WINDOW:
        head = text.rfind("\n", 0, WINDOW) + 1 or WINDOW
        tail = text.find("\n", len(text) - WINDOW) + 1 or len(text) - WINDOW
        return masked(text[:head], action) + text[head:tail] + masked(text[tail:], action)
    return _Masking(action).of(text.replace("⟦", "〚"))


def action_text(action: Action | None) -> str:
    """Return every string among the arguments of an action, a line each."""
    found: list[str] = []
    waiting: list[object] = [action.arguments] if action else []
    while waiting:
        value = waiting.pop(0)
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, Sequence):
            waiting.extend(value)
        elif value is not None:
            found.append(str(value))
    return "\n".join(found)


class _Masking:
    """The masking of one text: what was masked, and the places that stand for it meanwhile."""

    def __init__(self, action: Action | None) -> None:
        self.asked = action_text(action)
        self.head = self.asked[:_ASKED]
        self.found: list[tuple[str, str]] = []

    def of(self, text: str) -> str:
        for rule in (*RULES, *_templates(self.head)):
            if rule.when is not None and not rule.when.search(self.head):
                continue
            if not rule.near or any(one in text for one in rule.near):
                text = rule.pattern.sub(self._replace, text)
        if "PID" in text:
            text = self._process_table(text)
        if not self.found:
            return text
        counts = Counter(self.found)
        numbers: dict[tuple[str, str], int] = {}
        for kind, value in self.found:
            if kind in _NUMBERED and counts[kind, value] > 1:
                numbers.setdefault((kind, value), len(numbers) + 1)

        def name(place: re.Match[str]) -> str:
            kind, value = self.found[int(place[2])]
            length = f":{len(value)}" if kind == "commit" else ""
            number = numbers.get((kind, value))
            return f"⟦{kind}{length}{f' {number}' if number else ''}⟧"

        return _PLACE.sub(name, _PADDING.sub(_fold_padding, text))

    def _replace(self, match: re.Match[str]) -> str:
        whole, start = match[0], match.start()
        for group in sorted(match.re.groupindex, key=match.start, reverse=True):
            if match[group] is not None:
                place = self._place(group.rstrip("1234"), match[group])
                begin, end = match.start(group) - start, match.end(group) - start
                whole = whole[:begin] + place + whole[end:]
        return whole

    def _place(self, kind: str, value: str) -> str:
        if "⟦" in value or (
            value in self.asked and re.search(rf"(?<!\w){re.escape(value)}(?!\w)", self.asked)
        ):
            return value
        self.found.append((kind, value))
        return f"⟦{kind}\x00{len(self.found) - 1}⟧"

    def _process_table(self, text: str) -> str:
        lines = text.split("\n")
        columns: list[str] = []
        for index, line in enumerate(lines):
            cells = line.split()
            if "PID" in cells:
                columns = cells
            elif columns and len(cells) >= len(columns):
                cells = line.split(None, len(columns) - 1)
                if not re.fullmatch(r"\d+|⟦.*⟧", cells[columns.index("PID")]):
                    columns = []
                    continue
                kinds = [_VOLATILE.get(column) for column in columns]
                cells = [
                    self._place(kind, cell) if kind else cell
                    for kind, cell in zip(kinds, cells, strict=True)
                ]
            else:
                columns = []
                continue
            lines[index] = " ".join(cells)
        return "\n".join(lines)


def _fold_padding(match: re.Match[str]) -> str:
    return "" if match["start"] else match[0][-1]


def _templates(asked: str) -> list[Rule]:
    """Return rules for what an action's own formats and templates make unpredictable.

    `stat -c '%n %i'`, `find -printf '%p %i'`, `mktemp log.XXXXXX`, `mkstemp(prefix="log")`.
    """
    rules = [
        Rule(re.compile(f"^{_form(style)}$", re.MULTILINE))
        for style in dict.fromkeys(
            found[1] or found[2] or found[3] for found in _FORMAT.finditer(asked)
        )
        if re.search("%[idXYZW]", style)
    ]
    forms: set[str] = set()
    if "mktemp" in asked:
        forms |= {
            rf"{re.escape(before)}(?P<temporary>[A-Za-z0-9]{{{len(marks)}}}){re.escape(after)}"
            for before, marks, after in _TEMPLATE.findall(asked)
        }
    if "temp" in asked:
        forms |= {
            rf"{re.escape(prefix)}(?P<temporary>[a-z0-9_]{{8}})"
            for prefix in _PREFIX.findall(asked)
        }
    return [*rules, *(Rule(re.compile(rf"(?<!\w){form}(?!\w)")) for form in sorted(forms))]


def _form(style: str) -> str:
    """Return a pattern of the lines that a format of stat or find prints; each kind once."""
    kinds = {"%i": "inode", "%d": "device", "%X": "time", "%Y": "time", "%Z": "time", "%W": "time"}
    pattern, used = "", Counter[str]()
    for part in re.split(r"(%[A-Za-z])", style.removesuffix("\\n")):
        kind = kinds.get(part)
        if kind and used[kind] < 4:
            used[kind] += 1
            pattern += rf"(?P<{kind}{used[kind]}>\d+)"
        elif re.fullmatch("%[A-Za-z]", part):
            # Blanks part the columns. Names may hold some, so the first column takes what is left.
            pattern += r"[^\n]*?" if not pattern else r"[^\s]+"
        else:
            pattern += re.escape(part)
    return pattern
