"""Secrets whose name stands further off: around them, or at the head of their column.

`"credentials": {"x": "…"}`, YAML's `password:` with the value on the next line, and
`INSERT INTO users (name, password) VALUES ('bob', '…')`. A schema under such a name describes the
secret; only what it gives as an example, a default or the one value allowed can be one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from lwm_agents.secret_shapes import Span
from lwm_agents.secret_values import (
    NAMES,
    bare_hides,
    means_secret,
    name_hides,
    quoted_hides,
    words_of,
)

_REACH = 4000
"""How many characters after a name are searched for what it holds."""

GIVEN = frozenset({"const", "default", "enum", "example", "examples", "value", "values"})
"""The keys under which a schema may hold a value, not a description."""

_COMBINED = frozenset({"allOf", "anyOf", "oneOf", "items"})
_TYPES = frozenset({"string", "object", "array", "number", "integer", "boolean", "null"})
_ASIDE = frozenset(
    """
    user username login email mail name type kind id url uri host hostname server port path file
    filename dir folder domain realm scheme issuer audience scope scopes created updated expires
    expiry expiration date time at version description title label message error errors help hint
    placeholder format pattern comment status state provider method algorithm alg strategy mode
    project role roles site header prefix required ref source region encoding in text
    """.split()  # noqa: SIM905 - a list of words reads better as one
)
"""Last words of keys that stand beside a secret and hold none."""


def inner_kind(key: str, kind: str | None) -> str | None:
    """Return what the value of a key is, within something that holds secrets of a kind."""
    own = name_hides(key)
    if own is not None or kind is None:
        return own
    words = words_of(key)
    aside = bool(words) and words[-1] in _ASIDE and "session" not in words
    return None if aside else kind


def kinds_within(value: Mapping[str, Any], kind: str | None) -> dict[str, str | None]:
    """Return the kind of secret that each key of a JSON object holds, or None."""
    if kind is not None and _is_schema(value):
        return {key: kind if key in GIVEN or key in _COMBINED else name_hides(key) for key in value}
    kinds = {key: inner_kind(key, kind) for key in value}
    # A pair, as in a container's environment: {"name": "DB_PASSWORD", "value": "…"}
    for name, held in (("name", "value"), ("Name", "Value"), ("key", "value"), ("Key", "Value")):
        if held in value and isinstance(paired := value.get(name), str) and len(paired) <= 80:
            kinds[held] = kinds[held] or (None if " " in paired else name_hides(paired))
    return kinds


def column_kinds(value: Mapping[str, Any]) -> list[str | None] | None:
    """Return the kind of secret in each column of a JSON table with `columns` and `rows`."""
    columns, rows = value.get("columns"), value.get("rows")
    if not isinstance(columns, list | tuple) or not isinstance(rows, list | tuple):
        return None
    if not all(isinstance(row, list | tuple) for row in rows):
        return None
    kinds = [name_hides(one) if isinstance(one, str) else None for one in columns]
    return kinds if any(kinds) else None


def _is_schema(value: Mapping[str, Any]) -> bool:
    kind = value.get("type")
    kinds = kind if isinstance(kind, list | tuple) else [kind]
    named = all(isinstance(one, str) and one in _TYPES for one in kinds)
    return (named and bool(kinds)) or not _COMBINED.isdisjoint(value) or "$ref" in value


_PLURAL = r"s?(?:[_-]?(?:\d{1,3}|data|store|config))?"
_OPENS = re.compile(
    rf"{_PLURAL}\\{{0,3}}[\"'`]?\]?\s{{0,40}}(?::|=>?)\s{{0,40}}(?!\[redacted:)(?=[\[{{])"
)
_TOKEN = re.compile(
    r"(?P<quote>\\{0,3}[\"'`])"
    r"(?P<text>(?:(?!(?P=quote))(?:\\[^\r\n]|[^\\\r\n])){0,4000})(?P=quote)(?P<colon>\s*(?::|=>))?"
    r"|(?P<word>[\w$.-]+)(?P<named>\s*(?::|=>))?|(?P<open>[\[{(])|(?P<close>[\]})])"
)
_DESCRIBED = re.compile(
    r"\btype\\{0,3}[\"']?\s*[:=]\s*(?:\\{0,3}[\"']?"
    r"(?:string|object|array|number|integer|boolean|null)\b|[A-Z]\w*)|\$ref|\b(?:any|one|all)Of\b"
)
_BLOCK = re.compile(
    rf"{_PLURAL}[\"']?:[ \t]*(?P<folded>[|>][+-]?\d?)?[ \t]*(?:#[^\n]*)?\r?\n(?=[ \t\r\n])"
)
_BLOCK_KEY = re.compile(r"(?:^|\n)([ \t]*(?:- +)?)[\"']?[\w.-]*$")
_LINE = re.compile(
    r"(?P<indent>[ \t]*(?:- +)*)(?:[\"']?(?P<key>[\w.$-]+)[\"']?:(?=[ \r\n]|$)[ \t]*)?"
    r"(?:(?P<quote>[\"'])(?P<quoted>[^\r\n]{0,4000}?)(?P=quote)|(?P<bare>[^\r\n]*?))"
    r"[ \t]*(?:#[^\n]*)?(?:\r?\n|\Z)"
)


def surrounded(text: str, start: int, end: int, name: str) -> tuple[list[Span], int]:
    """Return the secrets in what opens behind a name at start..end, and where that was read to."""
    if name == "_auth":  # Of npm's own format, which holds one value in a line.
        return [], start
    match = _OPENS.match(text, end)
    if match and means_secret(text, start, name):
        return _bracketed(text, match.end(), NAMES[name])
    if match := _BLOCK.match(text, end):
        head = _BLOCK_KEY.search(text[max(0, start - 120) : start])
        if head is not None and means_secret(text, start, name):
            indented = len(head[1].expandtabs())
            folded = match["folded"] is not None
            return _block(text, match.end(), indented, NAMES[name], folded=folded)
    return [], start


def _bracketed(text: str, start: int, kind: str) -> tuple[list[Span], int]:
    """Read an object or a list, as JSON and most languages write them."""
    keys: list[tuple[str, str]] = []
    key = ""
    given: list[tuple[str, Span]] = []
    position, limit = start, min(len(text), start + _REACH)
    for match in _TOKEN.finditer(text, start, limit):
        position = match.end()
        if match["open"]:
            keys.append((match["open"], key))
        elif match["close"]:
            if not keys:
                break
            _, key = keys.pop()
            if not keys:
                break
        elif match["colon"] or match["named"]:
            key = match["text"] if match["colon"] else match["word"]
        elif match["text"] and not any(one == "(" for one, _ in keys):
            inner: str | None = kind
            for one in (*(name for _, name in keys[1:]), key):
                inner = inner_kind(one, inner) if one else inner
            if inner is not None and quoted_hides(match["text"], inner):
                given.append((key, (*match.span("text"), inner)))
    described = _DESCRIBED.search(text, start, position) is not None
    return [span for key, span in given if not described or key in GIVEN], position


def _block(
    text: str, start: int, indented: int, kind: str, *, folded: bool
) -> tuple[list[Span], int]:
    """Read the lines of YAML that are indented deeper than their key."""
    found: list[tuple[str, Span]] = []
    key, position = "", start
    while position < min(len(text), start + _REACH) and (match := _LINE.match(text, position)):
        if match.end() == position:
            break
        empty = not (match["key"] or match["quoted"] or match["bare"])
        if not empty and len(match["indent"].expandtabs()) <= indented:
            break
        position = match.end()
        if empty:
            continue
        key = match["key"] or key
        inner = inner_kind(key, kind) if key else kind
        if inner is None:
            continue
        if match["quoted"] is not None:
            hidden, place = quoted_hides(match["quoted"], inner), match.span("quoted")
        else:
            hidden, place = _scalar_hides(match["bare"], inner, folded), match.span("bare")
        if hidden:
            found.append((key, (*place, inner)))
        if not match["key"] and "-" not in match["indent"] and not folded:
            break  # One value it was, and that is all.
    described = _DESCRIBED.search(text, start, position) is not None
    return [span for key, span in found if not described or key in GIVEN], position


def _scalar_hides(value: str, kind: str, folded: bool) -> bool:
    if " " in value:
        return folded and kind == "password" and quoted_hides(value, kind)
    return bool(value) and value[0] not in "{[&*!|>" and bare_hides(value, kind)


_INTO = re.compile(
    r"into\s+[\w.`\"\[\]]{1,200}\s*\((?P<columns>[^()]{1,4000})\)\s*values?\s*(?=\()", re.I
)
_CELL = re.compile(
    r"\s*(?:N?'(?P<quoted>(?:[^'\\]|''|\\.){0,4000})'|\\?\"(?P<double>[^\"\\]{0,4000})\\?\""
    r"|(?P<other>[^\s,()'\"][^,()'\"]{0,200}(?:\([^()]{0,400}\))?))\s*(?P<after>[,)])",
    re.S,
)
_NEXT_ROW = re.compile(r"\s*,\s*(?=\()")


def inserted(text: str, start: int) -> tuple[list[Span], int]:
    """Return the secrets of an SQL INSERT whose `into` is at start, and where it was read to."""
    match = _INTO.match(text, start)
    if match is None:
        return [], start
    kinds = [name_hides(name.strip(' \t\r\n`"[]')) for name in match["columns"].split(",")]
    position = match.end()
    if not any(kinds):
        return [], position
    spans: list[Span] = []
    while text.startswith("(", position):
        position += 1
        for kind in kinds:
            cell = _CELL.match(text, position)
            if cell is None:
                return spans, position
            position = cell.end()
            spans += _cell(cell, kind)
            if cell["after"] == ")":
                break
        if (following := _NEXT_ROW.match(text, position)) is None:
            break
        position = following.end()
    return spans, position


def _cell(cell: re.Match[str], kind: str | None) -> Iterator[Span]:
    if kind is None:
        return
    for group in ("quoted", "double"):
        if cell[group] and quoted_hides(cell[group], kind):
            yield *cell.span(group), kind
    if kind == "password" and cell["other"] and cell["other"].strip().isdigit():
        yield *cell.span("other"), kind


_HEAD = re.compile(
    r"\"?\w{1,64}\"?(?P<by> \| |,|\t|;)\"?\w{1,64}\"?(?:(?P=by)\"?\w{1,64}\"?){0,60}\r?\n"
)


def tabled(text: str, start: int) -> tuple[list[Span], int]:
    """Return the secrets of a table, as CSV or with ` | ` between, at whose head start stands."""
    begin = text.rfind("\n", max(0, start - 1000), start) + 1
    head = _HEAD.match(text, begin) if begin or start < 1000 else None
    if head is None:
        return [], start
    by = head["by"]
    kinds = [name_hides(name.strip('"')) for name in head[0].rstrip("\r\n").split(by)]
    position = head.end()
    if not any(kinds):
        return [], position
    spans: list[Span] = []
    while position < len(text):
        end = text.find("\n", position)
        end = len(text) if end < 0 else end
        cells = text[position:end].rstrip("\r").split(by)
        if len(cells) != len(kinds):
            break
        for kind, cell in zip(kinds, cells, strict=True):
            value = cell.strip(' "')
            if kind is not None and quoted_hides(value, kind):
                at = position + cell.index(value)
                spans.append((at, at + len(value), kind))
            position += len(cell) + len(by)
        position = end + 1
    return spans, min(position, len(text))
