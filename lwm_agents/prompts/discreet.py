"""What a prompt shows of texts and actions, without their secrets where it leaves this machine.

Secrets go before a text is shortened: half a key is no longer told from other text.
"""

from __future__ import annotations

import json
from functools import lru_cache

from lwm_agents.prompts.certain import unless_odd
from lwm_agents.redaction import redact, redact_action, redact_json, suspicious
from lwm_agents.shorten import shorten
from lwm_agents.values import Action, Json

_WINDOW = 100_000
"""Characters at each end of a long text that are searched for secrets, many more than are shown."""

redacted = lru_cache(maxsize=4096)(redact)
"""`redact`, kept for the texts that come again at every step."""
_NESTED = 8
"""Levels of JSON texts in JSON texts that are looked into."""


def shown(text: str, limit: int, *, secrets: bool) -> str:
    """Return a text in at most `limit` characters; without secrets unless `secrets`."""
    if secrets:
        return shorten(text, limit)
    if len(text) <= 2 * _WINDOW:
        return shorten(shown_json(text), limit)
    head, tail = redact(text[:_WINDOW]), redact(text[-_WINDOW:])
    if min(len(head), len(tail)) <= _WINDOW // 2 or limit > _WINDOW // 2:
        # So much was a secret that the cut between the two could come into sight.
        return shorten(shown_json(text), limit)
    return shorten(head + tail, limit, len(text) - 2 * _WINDOW)


def shown_action(action: Action) -> Action:
    """Return an action without its secrets."""
    hidden = Action(tool=redact(action.tool), arguments={"arguments": "(not shown)"})
    return unless_odd(action.tool, lambda: _shown_action(action), hidden)


def _shown_action(action: Action) -> Action:
    action = redact_action(action)
    arguments = {name: _inside(value, _NESTED) for name, value in action.arguments.items()}
    return (
        action if arguments == action.arguments else Action(tool=action.tool, arguments=arguments)
    )


def shown_json(text: str) -> str:
    """Return a text without its secrets; those of JSON by the names of its keys too."""
    return redact(unless_odd("a text", lambda: str(_inside(text, _NESTED)), text))


def _inside(value: Json, levels: int) -> Json:
    """Return a value with the JSON texts in it, and those in them, without secrets."""
    if isinstance(value, dict):
        return {key: _inside(item, levels) for key, item in value.items()}
    if isinstance(value, list):
        return [_inside(item, levels) for item in value]
    if not isinstance(value, str) or not levels or not value.lstrip().startswith(("{", "[", '"')):
        return value
    if not suspicious(value):
        return value
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return value
    kept = _inside(redact_json(found), levels - 1)
    return value if kept == found else json.dumps(kept, ensure_ascii=False)
