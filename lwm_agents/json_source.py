"""JSON text written by hand: its value, the line of each field, and what is wrong in plain words.

The standard parser says whether a text is JSON, but not where its fields are. The libraries that do
are unmaintained, or a compiled parser in the place of the short scan below.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from lwm_agents.values import Json

MAX_DEPTH = 200
"""How deep arrays and objects may be nested; the same on every platform and Python."""

Place = tuple[str | int, ...]
"""The way to a value: the field names and indexes that lead there from the outermost one."""


class JsonTextError(ValueError):
    """The text can't be used; `line` and, for broken syntax, `column` count from 1."""

    def __init__(self, words: str, line: int, column: int | None = None) -> None:
        super().__init__(words)
        self.line = line
        self.column = column


@dataclass
class JsonSource:
    """A value, the line of each of its fields and elements, and the fields written twice."""

    value: Json
    lines: dict[Place, int] = field(default_factory=dict)
    repeated: list[tuple[Place, int]] = field(default_factory=list)


def read_json(text: str) -> JsonSource:
    """Parse a text. Of a field written twice the last counts, and `repeated` says so.

    Raises JsonTextError for what is not JSON (NaN is not), and for nesting deeper than MAX_DEPTH.
    """
    try:
        source = JsonSource(json.loads(text, parse_constant=_refuse_constant))
    except json.JSONDecodeError as problem:
        words, at = _syntax(problem)
        line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
        raise JsonTextError(f"not JSON: {words}", line, column) from None
    except RecursionError:
        _scan(text, JsonSource(None))  # raises, naming the line
        raise JsonTextError("nested too deeply", 1) from None
    except ValueError:
        line = next((line for token, line in _tokens(text) if _UNSAYABLE.fullmatch(token)), 1)
        what = "a number can have 4300 digits at most and is never NaN or Infinity"
        raise JsonTextError(f"not JSON: {what}", line) from None
    _scan(text, source)
    return source


def _refuse_constant(constant: str) -> Json:
    raise ValueError(constant)


_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)
_UNSAYABLE = re.compile(r"-?(\d{4301,}|NaN|Infinity)")


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    """Yield each JSON token with its line."""
    line, seen = 1, 0
    for match in _TOKEN.finditer(text):
        line += text.count("\n", seen, match.start())
        seen = match.start()
        yield match.group(), line


def _scan(text: str, found: JsonSource) -> None:
    """Note the line of every field and element, and fields written twice.

    It may take it that the text is JSON, and goes wrong quietly where it is not.
    """
    place: list[str | int] = []  # of the value that is read now; one part for each open bracket
    objects: list[bool] = []  # which of the open brackets are objects
    before = ""
    for token, line in _tokens(text):
        here = tuple(place)
        if token in "]}":
            if objects:
                objects.pop()
                place.pop()
        elif token == ",":
            if objects and not objects[-1]:
                place[-1] = int(place[-1]) + 1
        elif token != ":":
            is_key = bool(objects) and objects[-1] and before in ("{", ",")
            if is_key:
                place[-1] = json.loads(token, strict=False) if token[0] == '"' else token
                here = tuple(place)
                if here in found.lines:
                    found.repeated.append((here, line))
                    continue
            if is_key or before != ":":
                found.lines[here] = line
            if token in "{[":
                objects.append(token == "{")
                place.append("" if token == "{" else 0)
                if len(objects) > MAX_DEPTH:
                    raise JsonTextError(f"nested more than {MAX_DEPTH} deep", line)
        before = token


def _syntax(problem: json.JSONDecodeError) -> tuple[str, int]:
    """Return what is wrong and at which character, the same for every version of Python."""
    text, at = problem.doc, problem.pos
    rest = text[at : at + 40]
    if not text.strip():
        return "the file is empty", at
    if re.match(r",?\s*[\]}]", rest) and text[: at + 1].rstrip("]}\n\t\r ").endswith(","):
        return "a comma stands before a closing bracket; remove it", text.rindex(",", 0, at + 1)
    if not text[at:].strip():
        return "the text ends too early; a bracket or a quote is not closed", at
    hints = (
        (r"'", "strings and fields take double quotes"),
        (r"//|/\*|#", "there are no comments in JSON"),
        (r"(True|False|None)\b", "write true, false or null"),
    )
    for pattern, hint in hints:
        if re.match(pattern, rest):
            return hint, at
    by_message = {
        "Expecting ','": "a comma is missing before this, or a bracket is not closed",
        "Invalid control": "write a line end in a string as \\n and a tab as \\t",
        "Invalid \\": "write a backslash in a string as \\\\",
        "Unterminated": "the string that starts here is not closed",
        "Extra data": "a plan is one object, and something follows it",
        "Expecting property": "a field in double quotes is expected here",
    }
    said = (words for start, words in by_message.items() if problem.msg.startswith(start))
    return next(said, problem.msg), at
