"""Secrets out of texts, bytes and JSON before they are written down or leave the machine.

A secret becomes `[redacted:KIND]`. Found are tokens by their shape (`secret_shapes`), passwords in
addresses, and values by the name before them (`secret_values`) or around them
(`secret_surroundings`). Redacting twice changes nothing.
What it can't know: a password without shape or name, one split over two texts, one encoded (base64
of a file, compressed, UTF-16 bytes). docs/store.md says more.
"""

from __future__ import annotations

import re
import string
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

from ahocorasick_rs import AhoCorasick, Implementation

from lwm_agents.digests import readable
from lwm_agents.secret_shapes import (
    SHAPES,
    Span,
    authorization,
    password_before_host,
    password_in_address,
    shaped_secrets,
)
from lwm_agents.secret_surroundings import (
    GIVEN,
    column_kinds,
    inserted,
    kinds_within,
    surrounded,
    tabled,
)
from lwm_agents.secret_values import (
    COMMANDS,
    NAMES,
    command_password,
    named_secret,
    value_hides,
)
from lwm_agents.values import Action, Json, ToolSpec

_MARK = "[redacted:"
_ROUNDS = 16
_ASCII_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
# What colours text or moves the cursor, as it may stand in the midst of a secret.
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-Z\\^-~])"
)
_SURROGATES = re.compile("[\ud800-\udfff]")

_ANCHORS: dict[str, Callable[[str, int], Iterator[Span]]] = {
    "://": password_in_address,
    "@": password_before_host,
    "bearer": authorization,
    "basic": authorization,
    **dict.fromkeys(COMMANDS, command_password),
}
_WORDS: tuple[str, ...] = (*NAMES, *_ANCHORS, "into ", "auth")
"""What is looked for in lower case. "auth" alone matters as the name of a JSON key."""


def suspicious(text: str) -> bool:
    """Say quickly whether a text could hold a secret. False is certain, True is not.

    Holds for JSON text as well: what marks a secret has no character that JSON escapes.
    """
    exact, folded = _finders()
    text = _encodable(text)
    return bool(exact.find_matches_as_indexes(text) or folded.find_matches_as_indexes(_lower(text)))


def redact(text: str) -> str:
    """Return the text with each secret replaced by `[redacted:KIND]`.

    Where there is a secret in coloured text, the colours go as well.
    """
    if "\x1b" in text:
        plain = _ESCAPES.sub("", text).replace("\x1b", "")
        redacted = _redact(plain)
        if redacted != plain:
            return redacted
    return _redact(text)


def _redact(text: str) -> str:
    # Once more until nothing changes: what stood beside a secret can become one's neighbour.
    for _ in range(_ROUNDS):
        redacted = _redact_once(text)
        if redacted == text:
            break
        text = redacted
    return text


def redact_bytes(data: bytes) -> bytes:
    """Return bytes with each secret replaced; all other bytes stay as they are."""
    return redact(data.decode("latin-1")).encode("latin-1")


def redact_json(value: Json) -> Json:
    """Return a JSON value with each secret replaced, in texts, in keys and by the names of keys.

    The same object comes back where there is none. Any depth. Raises as `digests.canonical` does.
    """
    if not suspicious(readable(value)):
        return value
    redacted = _redact_json(value)
    return value if readable(redacted) == readable(value) else redacted


def redact_action(action: Action) -> Action:
    """Return the action as the log may hold it; the same object where there is no secret."""
    arguments = redact_json(action.arguments)
    tool = redact(action.tool)
    if arguments is action.arguments and tool == action.tool:
        return action
    return Action(tool=tool, arguments=arguments)


def redact_tool(tool: ToolSpec) -> ToolSpec:
    """Return the tool's spec as the log may hold it; the same object where there is no secret."""
    redacted: dict[str, Any] = {
        "name": redact(tool.name),
        "description": redact(tool.description),
        "input_schema": redact_json(tool.input_schema),
        "output_schema": redact_json(tool.output_schema),
        "source_code": tool.source_code and redact(tool.source_code),
    }
    if all(getattr(tool, name) is value or getattr(tool, name) == value
           for name, value in redacted.items()):  # fmt: skip
        return tool
    return ToolSpec(annotations=tool.annotations, domain=tool.domain, **redacted)


@cache
def _finders() -> tuple[AhoCorasick, AhoCorasick]:
    """Return the searches for all shapes, as written, and for all words, in lower case.

    One pass over the text each, whatever the number of literals: twenty times as fast as asking
    for them one by one.
    """
    literals = [shape.literal for shape in SHAPES]
    return (
        AhoCorasick(literals, implementation=Implementation.DFA),
        AhoCorasick(list(_WORDS), implementation=Implementation.DFA),
    )


def _encodable(text: str) -> str:
    """Return the text with lone surrogates, which have no UTF-8 form, replaced one for one."""
    return text if text.isascii() else _SURROGATES.sub("?", text)


def _lower(text: str) -> str:
    """Return the text in lower case, every character at its place."""
    lower = text.lower()
    return lower if len(lower) == len(text) else text.translate(_ASCII_LOWER)


def _redact_once(text: str) -> str:
    exact, folded = _finders()
    plain = _encodable(text)
    shapes = exact.find_matches_as_indexes(plain, overlapping=True)
    words = folded.find_matches_as_indexes(_lower(plain), overlapping=True)
    if not shapes and not words:
        return text
    spans = [
        *shaped_secrets(text, ((index, start) for index, start, _ in shapes)),
        *_word_secrets(text, words),
    ]
    return _replace(text, [span for span in spans if not text.startswith(_MARK, span[0])])


def _word_secrets(text: str, words: list[tuple[int, int, int]]) -> Iterator[Span]:
    passed = 0
    reach = dict.fromkeys((inserted, tabled, surrounded), 0)  # How far each has read.
    for index, start, end in words:
        word = _WORDS[index]
        if word == "into ":
            if start >= reach[inserted]:
                spans, reach[inserted] = inserted(text, start)
                yield from spans
            continue
        if word in NAMES:
            if start >= reach[tabled]:
                spans, reach[tabled] = tabled(text, start)
                yield from spans
            if start >= reach[surrounded]:
                spans, reach[surrounded] = surrounded(text, start, end, word)
                yield from spans
        if start < passed:  # Within what is a secret already.
            continue
        found: Iterable[Span] = ()
        if word in _ANCHORS:
            found = _ANCHORS[word](text, start)
        elif word in NAMES:
            found = named_secret(text, start, end, word)
        for span in found:
            passed = span[1]
            yield span


def _replace(text: str, spans: list[Span]) -> str:
    """Replace spans; where some overlap, all of them together, under the kind found first."""
    ranked = deque(
        sorted((start, rank, end, kind) for rank, (start, end, kind) in enumerate(spans))
    )
    pieces: list[str] = []
    position = 0
    while ranked:
        start, rank, end, kind = ranked.popleft()
        while ranked and ranked[0][0] < end:
            _, other_rank, other_end, other_kind = ranked.popleft()
            end = max(end, other_end)
            if other_rank < rank:
                rank, kind = other_rank, other_kind
        pieces += (text[position:start], f"{_MARK}{kind}]")
        position = end
    pieces.append(text[position:])
    return "".join(pieces)


def _redact_json(value: Json) -> Json:
    """Rebuild without recursion. `pending`: where each child goes, and the kind its key hides.

    Last whether a number there is hidden too: only right under a name, not in what it holds.
    """
    result: list[Json] = [None]
    pending: list[tuple[Any, Any, Json, str | None, bool]] = [(result, 0, value, None, False)]
    while pending:
        into, place, current, kind, numbers = pending.pop()
        if isinstance(current, str):
            hidden = kind is not None and value_hides(current, kind)
            into[place] = f"{_MARK}{kind}]" if hidden else redact(current)
        elif isinstance(current, dict):
            copy: dict[str, Any] = {}
            into[place] = copy
            kinds = kinds_within(current, kind)
            columns = column_kinds(current)
            for key, child in current.items():
                name = _free_name(redact(key), copy)
                copy[name] = None  # Keeps the order of keys: children are filled in later.
                if columns is not None and key == "rows":
                    copy[name] = [[None] * len(row) for row in child]
                    pending += [
                        (cells, at, cell, columns[at] if at < len(columns) else None, True)
                        for cells, row in zip(copy[name], child, strict=True)
                        for at, cell in enumerate(row)
                    ]
                    continue
                directly = kinds[key] is not None and (kind is None or key in GIVEN)
                pending.append((copy, name, child, kinds[key], directly))
        elif isinstance(current, list | tuple):
            items: list[Json] = [None] * len(current)
            into[place] = items
            pending.extend((items, at, child, kind, numbers) for at, child in enumerate(current))
        elif numbers and kind == "password" and type(current) is int:
            into[place] = f"{_MARK}{kind}]"
        else:
            into[place] = current
    return result[0]


def _free_name(name: str, taken: dict[str, Json]) -> str:
    """Return a name that is not taken: two keys that were secrets must stay two."""
    number = 2
    free = name
    while free in taken:
        free = f"{name} ({number})"
        number += 1
    return free
