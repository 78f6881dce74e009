"""Asking a person at the terminal.

Everything shown may come from a model or a hostile page, so none of it can move the cursor, change
direction, hide, or imitate the question: control and invisible characters are shown as escapes, and
what is predicted stays inside a box.
"""

from __future__ import annotations

import asyncio
import os
import select
import sys
import threading
import time
import unicodedata
from typing import TextIO

from rich.console import Console, Group
from rich.panel import Panel
from rich.text import Text

from lwm_agents.digests import canonical
from lwm_agents.gate.approvals import Approval, ApprovalRequest, approve
from lwm_agents.values import Observation

ARGUMENT_CHARACTERS = 4_000
PREDICTION_CHARACTERS = 2_000

_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
_BLANK_LETTERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")


def visible(text: str, *, lines: bool = False) -> str:
    """Return the text with every character that is not plainly visible as `\\n` or `\\u202e`.

    With `lines`, line breaks stay line breaks.
    """
    return "".join(c if lines and c == "\n" else _shown(c) for c in text)


def _shown(character: str) -> str:
    if " " <= character <= "~":
        return character
    category = unicodedata.category(character)
    variation = 0xFE00 <= ord(character) <= 0xFE0F or 0xE0100 <= ord(character) <= 0xE01EF
    hidden = category in _HIDDEN or category == "Zs" or character in _BLANK_LETTERS or variation
    if not hidden:
        return character
    if character in "\n\r\t":
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}[character]
    code = ord(character)
    return (
        f"\\x{code:02x}"
        if code < 0x100
        else f"\\u{code:04x}"
        if code < 0x10000
        else f"\\U{code:08x}"
    )


def shortened(text: str, limit: int) -> str:
    """Return a long text without its middle, saying how many characters are not shown."""
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit // 3
    return f"{text[:head]} […{len(text) - head - tail:,} characters not shown…] {text[-tail:]}"


class TerminalApprover:
    """Shows what is asked on a console and reads y or N from a terminal.

    No answer in `timeout` seconds (at most until the request expires), an end of input, or a
    standard input that is no terminal all mean no. What was typed before the question is dropped.
    """

    def __init__(
        self,
        console: Console | None = None,
        *,
        stdin: TextIO | None = None,
        timeout: float = 300.0,
    ) -> None:
        self._console = console or Console(stderr=True)
        self._stdin = stdin
        self._timeout = timeout

    async def decide(self, request: ApprovalRequest) -> Approval | None:
        """Ask, and return an approval if the answer is y or yes."""
        stdin = self._stdin or sys.stdin
        if stdin is None or stdin.closed or not stdin.isatty():
            return None
        seconds = min(self._timeout, request.expires_at - time.time())
        if seconds <= 0:
            return None
        self._console.print(rendered(request, time.time()))
        _drop_typed_ahead(stdin)
        self._console.print(Text("Run this for real? [y/N] "), end="")
        stop = threading.Event()
        try:
            answer = await asyncio.to_thread(_read_line, stdin, seconds, stop)
        finally:
            stop.set()
        if answer is None:
            self._console.print("\nno answer: not run")
            return None
        if answer.strip().lower() not in ("y", "yes"):
            return None
        return approve(request, "terminal")


def rendered(request: ApprovalRequest, now: float) -> Group:
    """Return what a person is shown before the question. `now` is in seconds since the epoch."""
    lines = Text()
    lines.append("tool       ", style="dim").append(visible(request.tool), style="bold")
    effects = ", ".join(sorted(request.effects))
    lines.append("\neffect     ", style="dim").append(effects, style="bold")
    lines.append("\nwhere      ", style="dim").append(visible(request.root_or_url))
    if request.cwd != request.root_or_url:
        lines.append("\nfolder     ", style="dim").append(visible(request.cwd))
    for name, value in request.arguments.items():
        text = value if isinstance(value, str) else canonical(value)
        lines.append(f"\n{visible(name)} = ", style="dim")
        lines.append(visible(shortened(text, ARGUMENT_CHARACTERS)))
    lines.append("\nexpires    ", style="dim").append(
        f"in {max(0, request.expires_at - now):.0f} s"
    )
    parts = [Panel(lines, title="an agent asks to run", title_align="left")]
    if request.prediction is not None:
        parts.append(_boxed(request.prediction.text, _title(request.prediction)))
    if request.difference:
        parts.append(_boxed(request.difference, "what would change"))
    return Group(*parts)


def _title(prediction: Observation) -> str:
    sure = "" if prediction.confidence is None else f", confidence {prediction.confidence:.0%}"
    error = ", an error" if prediction.is_error else ""
    return f"expected outcome: {prediction.source}{sure}{error}; it has not happened"


def _boxed(text: str, title: str) -> Panel:
    shown = visible(shortened(text, PREDICTION_CHARACTERS), lines=True)
    return Panel(Text(shown), title=title, title_align="left", border_style="dim")


def _drop_typed_ahead(stdin: TextIO) -> None:
    """Forget what was typed before the question was there to be read."""
    if sys.platform == "win32":
        import msvcrt

        while msvcrt.kbhit():
            msvcrt.getwch()
    else:
        import termios

        termios.tcflush(stdin.fileno(), termios.TCIFLUSH)


def _read_line(stdin: TextIO, seconds: float, stop: threading.Event) -> str | None:
    """Return a typed line; None at the end of input, after `seconds`, or once `stop` is set."""
    typed = ""
    deadline = time.monotonic() + seconds
    while not stop.is_set() and time.monotonic() < deadline:
        if sys.platform == "win32":
            import msvcrt

            if not msvcrt.kbhit():
                time.sleep(0.05)
                continue
            piece = msvcrt.getwche()
            if piece in ("\x03", "\x1a"):
                return None
        else:
            # select, because a thread that waits in a read can't be told to stop.
            ready, _, _ = select.select([stdin.fileno()], [], [], 0.1)
            if not ready:
                continue
            try:
                piece = os.read(stdin.fileno(), 4096).decode("utf-8", "replace")
            except OSError:
                return None  # the terminal is gone
            if not piece:
                return None
        typed += piece
        if "\n" in typed or "\r" in typed:
            return typed
    return None
