"""Sequences of calls of files, shell and SQLite on the scratch tree, the same for the same seed."""

from __future__ import annotations

import random
import re
import shlex
from collections.abc import Callable, Iterator

import templates
from scratch import GIT

from lwm_agents.values import Action, Json

LENGTH = 20
"""Calls in a sequence."""

_THEMES: tuple[tuple[int, tuple[str, ...] | tuple[tuple[str, ...], ...]], ...] = (
    (38, templates.COREUTILS),
    (18, templates.BASH),
    (2, templates.BACKGROUND),
    (9, templates.GIT),
    (9, templates.PYTHON),
    (3, templates.MAKE),
    (5, templates.SQLITE),
)
_TOOLS = 16
"""The weight of the file and SQL tools, beside those of the shell's themes."""

_BACK = 0.5
"""How often a command goes back to the root first, in a sequence whose directory may change."""


def sequence(seed: int, root: str, calls: int = LENGTH) -> list[Action]:
    """Return a sequence of calls on the tree at `root`."""
    rng = random.Random(seed)
    found: list[Action] = []
    while len(found) < calls:
        found.extend(_next(rng, root))
    return found[:calls]


def _next(rng: random.Random, root: str) -> Iterator[Action]:
    weights = [weight for weight, _ in _THEMES]
    chosen = rng.choices([*range(len(_THEMES)), None], [*weights, _TOOLS])[0]
    if chosen is None:
        yield _tool(rng)
        return
    template = rng.choice(_THEMES[chosen][1])
    words = _words(rng)
    back = (
        f"cd {shlex.quote(root)}; " if rng.random() < _BACK or isinstance(template, tuple) else ""
    )
    if template in templates.GIT:
        back += GIT
    for one in (template,) if isinstance(template, str) else template:
        yield Action(tool="shell", arguments={"command": back + _filled(one, words)})


def _words(rng: random.Random) -> dict[str, str]:
    """Return what this call is about; what is new may exist by now, what is old may be gone."""

    def old(names: tuple[str, ...]) -> str:
        return rng.choice(names if rng.random() < 0.8 else templates.NEW)

    return {
        "file": old(templates.FILES),
        "file2": old(templates.FILES),
        "text": rng.choice(templates.TEXTS),
        "dir": old(templates.DIRS),
        "link": rng.choice(templates.LINKS),
        "new": rng.choice(templates.NEW),
        "mode": rng.choice(templates.MODES),
        "word": rng.choice(templates.WORDS),
        "n": str(rng.randrange(1, 6)),
    }


def _filled(template: str, words: dict[str, str]) -> str:
    """Fill a template of a command; inside of quotes a word stands as it is, if it can."""

    def word(match: re.Match[str]) -> str:
        value = words[match[1]]
        before = template[: match.start()]
        if match[1] in {"n", "mode"}:
            return value
        if before.count("'") % 2:
            return re.sub(r"[^\w ./-]", "_", value.replace("\udcff\udcfe", "_"))
        return _quoted(value)

    return re.sub(r"\{([a-z]+2?)\}", lambda m: word(m) if m[1] in words else m[0], template)


def _quoted(value: str) -> str:
    if value.isprintable():
        return shlex.quote(value)
    letters = (
        f"\\x{ord(one) - 0xDC00:02x}" if "\udc80" <= one <= "\udcff" else repr(one)[1:-1]
        for one in value
    )
    return "$'" + "".join(letters) + "'"


def _tool(rng: random.Random) -> Action:
    words = _words(rng)
    file = words["file"].replace("\udcff\udcfe", "")
    new = words["new"]
    calls: tuple[tuple[str, Callable[[], dict[str, Json]]], ...] = (
        ("read_file", lambda: {"path": file}),
        ("write_file", lambda: {"path": rng.choice([file, new, f"{words['dir']}/w.txt"]),
                                "content": rng.choice(["", "new\n", "ünï\n", "line\n" * 500])}),
        ("edit_file", lambda: {"path": file, "old_text": rng.choice(["beta 1\n", "a", "x", "T"]),
                               "new_text": rng.choice(["", "B", "two\nlines"])}),
        ("list_directory", lambda: {"path": rng.choice([words["dir"], ".", words["link"]])}),
        ("move_file", lambda: {"source": rng.choice([file, words["dir"]]), "destination": new}),
        ("delete_file", lambda: {"path": rng.choice([file, new, words["link"]])}),
        ("search_files", lambda: {"path": ".", "pattern": rng.choice(["*.txt", "**/*.py", "n*"])}),
        ("sql_query", lambda: {"query": rng.choice(templates.QUERIES)}),
        ("sql_execute", lambda: {"query": _filled(rng.choice(templates.STATEMENTS), words)}),
        ("sql_schema", dict),
    )  # fmt: skip
    name, arguments = rng.choice(calls)
    return Action(tool=name, arguments=arguments())
