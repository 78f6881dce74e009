"""Reading TOML so that every complaint names the file, the line and the key."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lwm_agents.errors import ConfigError

MAX_BYTES = 1_000_000


def read_toml(path: Path) -> tuple[dict[str, Any], str]:
    """Return a TOML file's content and its text. Raises ConfigError with file and line."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: can't be read: {error.strerror or error}") from error
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{path}: longer than {MAX_BYTES:,} bytes; is this the right file?")
    try:
        text = data.decode("utf-8-sig")
        return tomllib.loads(text), text
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from error


def line_of(text: str, key: str, table: str | None = None, index: int = 0) -> int | None:
    """Return the line, from 1, where a key is set: in the top table, `[table]` or `[[table]]`.

    `index` counts the `[[table]]`s of one name from 0. A key of "" asks for the table's own line.
    For messages: it reads lines, so a text that spans lines may mislead it.
    """
    here: tuple[str | None, int] = (None, 0)
    seen: dict[str, int] = {}
    start: int | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[\[?\s*([^\[\]]+?)\s*\]", line):
            name = header[1]
            if "." not in name:
                here = (name, seen.get(name, 0))
                seen[name] = here[1] + 1
        if here != (table, index):
            continue
        start = start or number
        if key and re.match(rf"""\s*["']?{re.escape(key)}["']?\s*[=.]""", line):
            return number
    return start if table is not None else None


def place(path: Path, line: int | None) -> str:
    """Return `file:line` for a message."""
    return f"{path}:{line}" if line else str(path)


def suggestion(key: str, allowed: Iterable[str]) -> str:
    """Return what to say of an unknown key: the nearest known one, and all that are known."""
    names = sorted(allowed)
    near = difflib.get_close_matches(key, names, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"{hint}Known here: {', '.join(names)}"
