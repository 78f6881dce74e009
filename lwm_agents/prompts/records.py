"""Records of a service that a history shows: JSON objects by the id they go by."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from lwm_agents.values import Action, Json

_ID_KEY = re.compile(r"(?:^|_)(?:id|key|code|number|uuid|slug|name|email)$", re.IGNORECASE)
_LONGEST = 200_000
_KEPT = 2000


@dataclass
class Records:
    """The latest JSON text of each record, by id, and which call showed it."""

    known: dict[str, str] = field(default_factory=dict)

    def absorb(self, action: Action, text: str, *, failed: bool, read: bool) -> None:
        """Take in a call and its answer; a write that does not show a record makes it unknown."""
        if failed:
            return
        shown = dict(self._shown(action, text))
        if not read:
            for name in mentioned(action):
                if name not in shown:
                    self.known.pop(name, None)
        for name, record in shown.items():
            self.known.pop(name, None)
            self.known[name] = record
        while len(self.known) > _KEPT:
            del self.known[next(iter(self.known))]

    def named(self, action: Action) -> list[tuple[str, str]]:
        """Return the records that an action names: each id, and the JSON text."""
        return [(name, self.known[name]) for name in mentioned(action) if name in self.known]

    def _shown(self, action: Action, text: str) -> Iterator[tuple[str, str]]:
        if len(text) > _LONGEST or not text.lstrip().startswith(("{", "[")):
            return
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return
        if isinstance(value, dict):
            # A record need not hold its own id: then it goes by the id it was asked for.
            asked = [name for name in mentioned(action) if _looks_like_id(name)]
            own = [
                value[key] for key in value if _ID_KEY.search(key) and isinstance(value[key], str)
            ]
            names = (
                own[:1] if own[:1] and own[0] in asked else asked if len(asked) == 1 else own[:1]
            )
            for name in names:
                yield name, json.dumps(value, ensure_ascii=False)
        elif isinstance(value, list):
            for item in value[:200]:
                if isinstance(item, dict):
                    own = [
                        item[k]
                        for k in item
                        if _ID_KEY.search(k) and isinstance(item[k], (str, int))
                    ]
                    if own:
                        yield str(own[0]), json.dumps(item, ensure_ascii=False)


def mentioned(action: Action) -> list[str]:
    """Return the short texts and whole numbers among an action's arguments, at any depth."""
    found: dict[str, None] = {}
    todo: list[Json] = [action.arguments]
    while todo:
        value = todo.pop(0)
        if isinstance(value, dict):
            todo.extend(value.values())
        elif isinstance(value, list):
            todo.extend(value[:50])
        elif isinstance(value, str) and 0 < len(value) <= 100:
            found[value] = None
        elif isinstance(value, int) and not isinstance(value, bool):
            found[str(value)] = None
    return list(found)


def _looks_like_id(name: str) -> bool:
    """Return whether a text is one word with a digit or sign in it, or all capitals."""
    return bool(re.fullmatch(r"[\w.@:-]{2,}", name)) and bool(
        re.search(r"[\d_.@:-]|^[A-Z]+$", name)
    )
