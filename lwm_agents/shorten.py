"""Head-and-tail shortening of long text, used only where an agent or a prompt reads."""

from __future__ import annotations

_HEAD_SHARE = 0.6  # what a text is about stands at its head; how it ended, at its tail


def shorten(text: str, limit: int, left_out: int = 0) -> str:
    """Return `text` in at most `limit` characters, its middle replaced by a marker that says so.

    The same text and limit give the same result forever, and a result is never shortened again.
    `left_out` characters more were taken out of the middle before, and count in the marker.
    Raises ValueError for a negative limit.
    """
    if limit < 0:
        raise ValueError(f"limit must not be negative, got {limit}")
    if len(text) <= limit:
        return text
    # The marker names how many characters are gone, which depends on the marker's own length:
    # reserve for the longest it can be.
    reserve = len(_marker(len(text) + left_out))
    room = limit - reserve
    if room <= 0:
        return text[:limit]
    head = _line_end_before(text, int(room * _HEAD_SHARE))
    tail = _line_start_after(text, len(text) - (room - head))
    return text[:head] + _marker(tail - head + left_out) + text[tail:]


def _marker(characters: int) -> str:
    return f"\n[... {characters} characters left out ...]\n"


def _line_end_before(text: str, position: int) -> int:
    """Return the end of the last whole line before position, if that costs at most a fifth."""
    newline = text.rfind("\n", int(position * 0.8), position)
    return position if newline < 0 else newline


def _line_start_after(text: str, position: int) -> int:
    """Return the start of the first whole line after position, if that costs at most a fifth."""
    newline = text.find("\n", position, position + (len(text) - position) // 5)
    return position if newline < 0 else newline + 1
