"""The text that full-text search finds transitions by, and what it shows of them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lwm_agents.values import Json

INDEXED = 32_768
"""How many characters of an action and of an observation are indexed: the head of large ones."""

_AROUND = 70
_SURROGATES = re.compile("[\ud800-\udfff]")
_BLANKS = re.compile(r"\s+")
_SIGN = re.compile(r"[^\W_]")


def indexed_action(tool: str, arguments: dict[str, Json]) -> str:
    """Return the words of an action: its tool and every text and number in its arguments."""
    size = len(tool)
    words = [tool]
    for leaf in _leaves(arguments):
        words.append(leaf)
        size += len(leaf)
        if size > INDEXED:
            break
    return indexed(" ".join(words))


def indexed(text: str) -> str:
    """Return the head of a text as the index takes it."""
    text = text[:INDEXED]
    return text if text.isascii() else _SURROGATES.sub(" ", text)


def query_of(text: str) -> str | None:
    """Return the FTS5 query for what a user typed: all words, in any order; None: no word in it.

    Every word is quoted, so nothing a user types is an operator or a syntax error. A word with
    signs in it, such as `src/main.py`, is found as a phrase.
    """
    words = [word for word in _words(text) if _SIGN.search(word)]
    return " ".join('"' + word.replace('"', '""') + '"' for word in words) or None


def snippet_of(wanted: str, *texts: str) -> str:
    """Return the part around the first of the wanted words, from the first text that has one."""
    words = [part for word in _words(wanted) for part in _BLANKS.split(re.sub(r"\W", " ", word))]
    for text in texts:
        folded = text.lower()
        places = [folded.find(word.lower()) for word in words if word]
        found = [place for place in places if place >= 0]
        if found:
            return _cut(text, min(found))
    return _cut(texts[-1] if texts else "", 0)


def _cut(text: str, place: int) -> str:
    start, end = max(0, place - _AROUND), place + 2 * _AROUND
    shown = _BLANKS.sub(" ", text[start:end]).strip()
    return ("…" if start else "") + shown + ("…" if end < len(text) else "")


def _words(text: str) -> list[str]:
    return _SURROGATES.sub(" ", text.replace("\0", " ")).split()


def _leaves(value: Json) -> Iterator[str]:
    """Yield every text and number in a JSON value of any depth, in order."""
    pending = [value]
    while pending:
        current = pending.pop()
        if isinstance(current, str):
            yield current
        elif isinstance(current, dict):
            pending.extend(reversed(current.values()))
        elif isinstance(current, list | tuple):
            pending.extend(reversed(current))
        elif isinstance(current, float) or (isinstance(current, int) and abs(current) < 10**18):
            yield str(current)
