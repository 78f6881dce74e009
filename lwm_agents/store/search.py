"""The text that full-text search finds transitions by, and what it shows of them."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence

from lwm_agents.digests import leaves
from lwm_agents.values import Json

INDEXED = 32_768
"""How many characters of an action and of an observation are indexed: the head of large ones."""

_AROUND = 70
_SURROGATES = re.compile("[\ud800-\udfff]")
_BLANKS = re.compile(r"\s+")


def indexed_action(tool: str, arguments: dict[str, Json]) -> str:
    """Return the words of an action: its tool and every text and number in its arguments."""
    size = len(tool)
    words = [tool]
    for leaf in leaves(arguments):
        words.append(leaf)
        size += len(leaf)
        if size > INDEXED:
            break
    return indexed(" ".join(words))


def indexed(text: str) -> str:
    """Return the head of a text as the index takes it."""
    text = text[:INDEXED]
    return text if text.isascii() else _SURROGATES.sub(" ", text)


def words_of(text: str) -> list[str]:
    """Return the words of what a user typed, as the index has them: folded, without accents.

    SQLite itself takes the text apart, so that a word here is exactly a word there.
    """
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("CREATE VIRTUAL TABLE asked USING fts5 (text)")
        connection.execute("CREATE VIRTUAL TABLE words USING fts5vocab (asked, row)")
        connection.execute("INSERT INTO asked VALUES (?)", (indexed(text.replace("\0", " ")),))
        return [row[0] for row in connection.execute("SELECT term FROM words")]
    finally:
        connection.close()


def query_of(words: Sequence[str]) -> str:
    """Return the FTS5 query for transitions that hold all the words; none of them an operator."""
    return " ".join(f'"{word}"' for word in words)


def snippet_of(words: Sequence[str], *texts: str) -> str:
    """Return the part around the first of the words, from the first text that has one."""
    for text in texts:
        folded = text.lower()
        found = [place for word in words if (place := folded.find(word)) >= 0]
        if found:
            return _cut(text, min(found))
    return _cut(texts[-1] if texts else "", 0)


def _cut(text: str, place: int) -> str:
    start, end = max(0, place - _AROUND), place + 2 * _AROUND
    shown = _BLANKS.sub(" ", text[start:end]).strip()
    return ("…" if start else "") + shown + ("…" if end < len(text) else "")
