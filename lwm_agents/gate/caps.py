"""How much one session may do: a bound on the damage, whatever the rules allow."""

from __future__ import annotations

import re
from collections.abc import Collection

from lwm_agents.digests import canonical
from lwm_agents.values import Action, Effect, Value

_UNITS = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
}


class Spent(Value):
    """What a session has done so far, or one call does: calls, bytes written, deletions."""

    calls: int = 0
    bytes: int = 0
    deletions: int = 0

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            calls=self.calls + other.calls,
            bytes=self.bytes + other.bytes,
            deletions=self.deletions + other.deletions,
        )


class Caps(Value):
    """The most a session may spend; None: no limit."""

    calls: int | None = None
    bytes: int | None = None
    deletions: int | None = None

    def with_stricter(self, other: Caps) -> Caps:
        """Return the lower of each limit."""
        return Caps(
            **{
                name: min(
                    (v for v in (getattr(self, name), getattr(other, name)) if v is not None),
                    default=None,
                )
                for name in Caps.model_fields
            }
        )

    def refusal(self, spent: Spent, more: Spent) -> str | None:
        """Return why `more` on top of `spent` is too much, or None."""
        total = spent + more
        for name, what in (
            ("calls", "calls"),
            ("bytes", "bytes written"),
            ("deletions", "deletions"),
        ):
            limit = getattr(self, name)
            if limit is not None and getattr(total, name) > limit:
                return (
                    f"the session may make {limit:,} {what}; this call would make it "
                    f"{getattr(total, name):,}. Raise caps.{name} in your policy, or start a new "
                    "session"
                )
        return None


def cost_of(action: Action, effects: Collection[Effect]) -> Spent:
    """Return what a call is known to cost before it runs.

    One call. The bytes of text that a file tool is given to write; of SQL that can do more than
    read, the bytes of its text and its parameters. One deletion if it destroys; a shell command one
    for each command in it that destroys and each operand of `rm` (`deletions_in`).

    What a cap can't see: how much a shell command writes, whatever it is; what `rm *`, a folder or
    a loop removes beyond its words; how many rows SQL changes or deletes.
    """
    written = 0
    for name in ("content", "new_text"):
        text = action.arguments.get(name)
        if isinstance(text, str):
            written += len(text.encode("utf-8", "surrogatepass"))
    deletions = 1 if "destroy" in effects else 0
    if action.tool == "sql_execute" and set(effects) != {"read"}:
        for name in ("query", "parameters"):
            value = action.arguments.get(name, "")
            text = value if isinstance(value, str) else canonical(value)
            written += len(text.encode("utf-8", "surrogatepass"))
    command = action.arguments.get("command")
    if deletions and action.tool == "shell" and isinstance(command, str):
        # Imported where needed: the grammar takes a while to load.
        from lwm_agents.gate.shell_deletions import deletions_in

        deletions = max(deletions, deletions_in(command))
    return Spent(calls=1, bytes=written, deletions=deletions)


def size_from(value: object) -> int | None:
    """Return a number of bytes from 500, "10 MB" or "4 KiB"; None where it is neither."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if value >= 0 else None
    match = (
        re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", value)
        if isinstance(value, str)
        else None
    )
    if match is None or match[2].lower() not in _UNITS:
        return None
    return int(float(match[1]) * _UNITS[match[2].lower()])
