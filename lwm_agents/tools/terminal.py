"""What a terminal would show at the end, given the bytes a command wrote to it.

The terminal has no edges: lines are as long and as many as the output makes them, and the place
where the output begins is its top left corner. Cursor movement past what was written stops at the
usual 80 columns and 24 rows. Colours, titles and bells leave no trace. Text without any control
characters comes back as it is. Sequences are those of ECMA-48 and xterm that programs use to draw
progress: carriage return, backspace, cursor movement, erasing, inserting and deleting characters.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

COLUMNS, ROWS, TAB = 80, 24, 8

_BUDGET = 100_000_000
_SEQUENCE = 10
"""Work, in cells touched: all that is spent on one output, and what following a sequence costs."""

# Every control sequence and every control character but newline and tab, from left to right, so
# that what is left after taking one out can't join to form another. Unfinished ones reach the end.
# It begins with one class of characters, which the search can skip to; look-behinds then tell them
# apart.
_CONTROL = re.compile(
    r"""[\x00-\x08\x0b-\x1f\x7f-\x9f](?:
     (?:(?<=\x1b)\[|(?<=\x9b))(?P<arguments>[\x30-\x3f]*)(?P<middle>[\x20-\x2f]*)(?P<final>[\x40-\x7e])
    |(?:(?<=\x1b)[\]PX^_]|(?<=[\x9d\x90\x98\x9e\x9f]))
     [^\x07\x18\x1a\x1b\x9c]*(?:[\x07\x18\x1a\x9c]|\x1b\\|(?=\x1b)|\Z)
    |(?:(?<=\x1b)\[|(?<=\x9b))[\x20-\x3f]*\Z
    |(?<=\x1b)[\x20-\x2f]+[\x30-\x7e]
    |(?<=\x1b)(?P<escape>[78cDEM])
    |(?<=\x1b)[\x30-\x7e]
    |(?P<move>(?<=\r)\r*|(?<=\x08)\x08*|(?<=[\x0b\x0c]))
    |)
    """,
    re.VERBOSE,
)
# Characters a terminal passes over, even in the midst of a sequence.
_INERT = bytes({*range(0x07), *range(0x0E, 0x20), 0x7F} - {0x18, 0x1A, 0x1B})
_PLAIN = re.compile(r"[^\x00-\x08\x0b-\x1f\x7f-\x9f]*")
# What takes one column for sure and is common: Latin, Greek, Cyrillic, arrows, boxes, Braille.
_NARROW = re.compile(
    "[\x20-\x7e\xa0-\xac\xae-\u02ff\u0370-\u0482\u2010-\u2027\u2190-\u2319\u2500-\u25fc\u2800-\u28ff]*"
)
_LINE_END = re.compile(r"\r+\n")
_EFFECTIVE = frozenset("ABCDEFGHJKPX@`adefsu")

Cells = list[str]
"""One line, a cell a column. A wide character or tab fills its cell and leaves "" in the others."""


def screen_text(raw: bytes) -> str:
    """Return the text a terminal would show after these bytes, decoded as UTF-8.

    Takes time linear in the number of bytes. Where drawing takes more work than _BUDGET, as only
    output made for that does, the control sequences are taken out without being followed.
    """
    text = raw.translate(None, _INERT).replace(b"\r\n", b"\n").decode("utf-8", "replace")
    if _PLAIN.fullmatch(text):
        return text
    kept = _LINE_END.sub("\n", _CONTROL.sub(_effective, text))
    if _PLAIN.fullmatch(kept):
        return kept
    screen = _Screen(_BUDGET)
    try:
        screen.draw(kept)
    except _TooMuchWork:
        return _CONTROL.sub("", kept)
    return screen.text()


def _effective(found: re.Match[str]) -> str:
    """Return a control sequence that moves or erases something as it is, any other as nothing."""
    if found["move"] is not None or found["escape"]:
        return found[0]
    private = found["middle"] or (found["arguments"] or "")[:1] in {"<", "=", ">", "?"}
    return found[0] if found["final"] in _EFFECTIVE and not private else ""


class _TooMuchWork(Exception):
    """Following the sequences costs more than there is to spend."""


class _Screen:
    """Lines and a cursor. A line is text until the cursor does more than append to it.

    `column` is None while the cursor is at the end of a line that is still text. `budget` counts
    the cells that may still be touched by work that the size of the output does not pay for.
    """

    def __init__(self, budget: int) -> None:
        self.lines: list[str | Cells] = [""]
        self.row = 0
        self.column: int | None = None
        self.saved = (0, 0)
        self.budget = budget

    def text(self) -> str:
        """Return the lines; blanks at the end of lines that were drawn, and empty lines, go."""
        lines = (
            line if isinstance(line, str) else "".join(line).rstrip(" ") for line in self.lines
        )
        text = "\n".join(lines)
        shown = text.rstrip("\n")
        return shown + "\n" if shown and shown != text else shown

    def draw(self, text: str) -> None:
        """Follow text and control sequences."""
        at = 0
        for found in _CONTROL.finditer(text):
            if found.start() > at:
                self.write(text[at : found.start()])
            at = found.end()
            self.spend(_SEQUENCE)
            if found["move"] is not None:
                self.move(found[0])
            elif found["escape"]:
                self.escape(found["escape"])
            elif found["final"]:
                self.sequence(found["final"], found["arguments"])
        if at < len(text):
            self.write(text[at:])

    def write(self, text: str) -> None:
        """Write text with newlines and tabs at the cursor."""
        first, *others = text.split("\n")
        if first:
            self.put(first)
        if not others:
            return
        if self.row == len(self.lines) - 1:
            self.lines.extend(others)
            self.row = len(self.lines) - 1
            self.column = None
            return
        for line in others:
            self.row += 1
            self.column = 0
            if self.row == len(self.lines):
                self.lines.append("")
            if line:
                self.put(line)

    def put(self, text: str) -> None:
        """Write text without newlines over what is at the cursor."""
        line = self.lines[self.row]
        if isinstance(line, str) and (self.column is None or (not line and not self.column)):
            self.lines[self.row] = line + text
            self.column = None
            return
        cells, column = self.cells(), self.at()
        if column > len(cells):
            self.spend(column - len(cells))
            cells.extend(" " * (column - len(cells)))
        self.column = self.put_cells(cells, column, text)

    def put_cells(self, cells: Cells, column: int, text: str) -> int:
        """Write text into cells and return the column after it."""
        if _NARROW.fullmatch(text):
            end = column + len(text)
            _split(cells, column)
            _split(cells, end)
            cells[column:end] = text
            return end
        for character in text:
            if character == "\t":
                stop = (column // TAB + 1) * TAB
                if column >= len(cells):
                    cells.extend(" " * (column - len(cells)))
                    cells += ["\t", *[""] * (stop - column - 1)]
                column = stop
                continue
            width = _width(character)
            if width == 0:
                self.combine(cells, column, character)
                continue
            if column > len(cells):
                cells.extend(" " * (column - len(cells)))
            _split(cells, column)
            _split(cells, column + width)
            cells[column : column + width] = [character, ""][:width]
            column += width
        return column

    def combine(self, cells: Cells, column: int, mark: str) -> None:
        """Put a mark of no width on the character before the cursor."""
        column = min(column, len(cells)) - 1
        while column >= 0 and not cells[column]:
            column -= 1
        if column >= 0 and cells[column] != "\t":
            self.spend(len(cells[column]))
            cells[column] += mark

    def at(self) -> int:
        """Return the cursor's column."""
        if self.column is None:
            self.column = len(self.cells())
        return self.column

    def cells(self) -> Cells:
        """Return the cells of the cursor's line."""
        line = self.lines[self.row]
        if isinstance(line, str):
            cells: Cells = []
            self.put_cells(cells, 0, line)
            self.lines[self.row] = line = cells
        return line

    def spend(self, cells: int) -> None:
        """Take work off the budget. Raises _TooMuchWork."""
        self.budget -= cells
        if self.budget < 0:
            raise _TooMuchWork

    def go(self, row: int, column: int) -> None:
        """Set the cursor, within what was written or the usual size of a terminal."""
        self.row = max(0, min(row, max(len(self.lines), ROWS) - 1))
        while len(self.lines) <= self.row:
            self.lines.append("")
        self.column = max(0, column)

    def right(self, column: int) -> int:
        """Return a column to the right, as far as a cursor gets there."""
        return max(self.at(), min(column, max(len(self.cells()), COLUMNS - 1)))

    def move(self, characters: str) -> None:
        """Follow carriage returns, backspaces, or one vertical tab or form feed."""
        if characters[0] == "\r":
            self.at()
            self.column = 0
        elif characters[0] == "\b":
            self.column = max(0, self.at() - len(characters))
        else:
            self.down()

    def down(self) -> None:
        """Go down one line, which is made where there is none, in the same column."""
        column = self.at()
        self.row += 1
        self.column = column
        if self.row == len(self.lines):
            self.lines.append("")

    def escape(self, letter: str) -> None:
        """Follow an escape sequence of one letter."""
        column = self.at()
        if letter == "7":
            self.saved = (self.row, column)
        elif letter == "8":
            self.go(*self.saved)
        elif letter == "c":
            self.lines, self.row, self.column, self.saved = [""], 0, None, (0, 0)
        elif letter == "M":
            self.go(self.row - 1, column)
        else:
            self.down()
            if letter == "E":
                self.column = 0

    def sequence(self, final: str, arguments: str) -> None:
        """Follow a control sequence: cursor movement or erasing."""
        # Numbers beyond any screen are cut, before they can be too long for int().
        numbers = [int(part[:6]) if part.isdigit() else 0 for part in arguments.split(";")]
        first = numbers[0]
        count = max(1, first)
        second = max(1, numbers[1] if len(numbers) > 1 else 1)
        row, column = self.row, self.at()
        if final in "AF":
            self.go(row - count, 0 if final == "F" else column)
        elif final in "BEe":
            self.go(row + count, 0 if final == "E" else column)
        elif final in "Ca":
            self.column = self.right(column + count)
        elif final == "D":
            self.go(row, column - count)
        elif final == "d":
            self.go(count - 1, column)
        elif final in "Hf":
            self.go(count - 1, 0)
            self.column = self.right(second - 1)
        elif final in "G`":
            self.column = 0
            self.column = self.right(count - 1)
        elif final == "s":
            self.saved = (row, column)
        elif final == "u":
            self.go(*self.saved)
        elif final == "J":
            self.erase_display(first)
        elif final == "K":
            self.erase_line(first)
        else:
            self.edit_line(final, count)

    def erase_display(self, kind: int) -> None:
        """Erase below the cursor (0), above it (1), or all (2)."""
        if kind in (0, 1):
            self.erase_line(kind)
            part = slice(self.row + 1, None) if kind == 0 else slice(0, self.row)
            count = len(self.lines[part])
            self.spend(count)
            self.lines[part] = [""] * count
        elif kind == 2:
            column = self.at()
            # What scrolled off a real screen leaves no empty lines above the cursor.
            self.row = min(self.row, ROWS - 1)
            self.lines = [""] * (self.row + 1)
            self.column = column

    def erase_line(self, kind: int) -> None:
        """Erase right of the cursor (0), left of it (1), both with its cell, or the line (2)."""
        cells, column = self.cells(), self.at()
        if kind == 0:
            _split(cells, column)
            del cells[column:]
        elif kind == 1:
            end = min(column + 1, len(cells))
            self.spend(end)
            _split(cells, end)
            cells[:end] = " " * end
        elif kind == 2:
            cells.clear()

    def edit_line(self, final: str, count: int) -> None:
        """Erase (X), delete (P) or insert (@) characters at the cursor."""
        cells, column = self.cells(), self.at()
        behind = len(cells) - column
        if behind <= 0:
            return
        count = min(count, max(behind, COLUMNS) if final == "@" else behind)
        self.spend(behind + count)
        _split(cells, column)
        if final == "@":
            cells[column:column] = " " * count
            return
        _split(cells, column + count)
        cells[column : column + count] = " " * count if final == "X" else ""


def _split(cells: Cells, column: int) -> None:
    """Make a column the border of characters: one that reaches across it becomes blanks."""
    if column >= len(cells) or cells[column]:
        return
    start, end = column, column
    while not cells[start]:
        start -= 1
    while end < len(cells) and not cells[end]:
        end += 1
    cells[start:end] = " " * (end - start)


@lru_cache(maxsize=4096)
def _width(character: str) -> int:
    """Return how many columns a character takes: 0, 1 or 2."""
    if unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1
