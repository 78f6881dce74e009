"""The one place where what a history or a command says can fail without harm.

Commands, statements and outputs are written by others, and may be made to break whatever reads
them. Where reading them fails, nothing is certain; a prediction goes on without it.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from typing import TypeVar

log = logging.getLogger(__name__)

Value = TypeVar("Value")

ODD = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    MemoryError,
    sqlite3.Error,
    sqlite3.Warning,
)
"""What odd text raises in code that reads it. Files and engines are not read there."""


def unless_odd(what: str, work: Callable[[], Value], otherwise: Value) -> Value:
    """Return what `work` returns; `otherwise` where it fails, with the reason in the debug log."""
    try:
        return work()
    except ODD as odd:
        log.debug("%s: not certain, since reading it failed: %r", what, odd)
        return otherwise
