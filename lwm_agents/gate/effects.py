"""What a call can do: our own classifiers, whatever a tool says about itself.

    effects_of(Action(tool="shell", arguments={"command": "rm x; curl y"}), None, builtin=True)
        == {"destroy", "external"}

A call can do several things at once, so policies and approvals go by the whole set. `worst` makes
one word of it for the log:

    read < write < unknown < destroy < external

`unknown` is worse than `write`, since it may be anything; `destroy` and `external` are known to be
bad. Of these two `external` counts as worse: what is destroyed here can be rehearsed in a copy
first, while what has left the machine can't be rehearsed, diffed or called back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import get_args

from lwm_agents.errors import Misuse
from lwm_agents.values import Action, Effect, ToolSpec

EFFECT_ORDER: tuple[Effect, ...] = ("read", "write", "unknown", "destroy", "external")
"""From harmless to worst."""

FILE_TOOLS: Mapping[str, Effect] = {
    "read_file": "read",
    "list_directory": "read",
    "search_files": "read",
    # These may replace what was there. An agent writes files all day, so that is a write like
    # Bash's `>`, and the diff shows it; to delete is another matter.
    "write_file": "write",
    "edit_file": "write",
    "move_file": "write",
    "delete_file": "destroy",
}

BROWSER_TOOLS: Mapping[str, Effect] = {
    "browser_snapshot": "read",
    "browser_navigate": "external",
    "browser_back": "external",
    "browser_click": "external",
    "browser_type": "external",
    "browser_select": "external",
}
"""All but a look at the page that is open can send a request, and so submit a form."""


def effects_of(
    action: Action,
    spec: ToolSpec | None,
    declared: Effect | None = None,
    *,
    builtin: bool,
    dialect: str | None = None,
) -> frozenset[Effect]:
    """Return everything the call can do, `read` left out beside anything worse.

    `builtin` says that the tool is this package's own and not a namesake from elsewhere: only then
    its name means anything. Any other tool is unknown unless the code that opened the session
    `declared` its effect. Such a tool's annotations can only add to that. `dialect` is the
    database's (see `sql_effects`). Raises Misuse for a declared effect that is none.
    """
    if declared is not None and declared not in get_args(Effect):
        raise Misuse(
            f"the effect of {action.tool!r} is declared as {declared!r}; "
            f"it must be one of {', '.join(EFFECT_ORDER)}"
        )
    found: set[Effect] = set()
    if builtin:
        found |= _builtin_effects(action, dialect)
        if declared is not None:
            found.add(declared)  # of a tool we know, a declaration can only add
    else:
        found.add(declared or "unknown")
    if spec is not None and not builtin:
        # Untrusted: a hint that something is harmless counts for nothing. Those of our own tools
        # speak of all their calls at once; the classifiers above look at this one.
        if spec.annotations.destructive_hint:
            found.add("destroy")
        if spec.annotations.open_world_hint:
            found.add("external")
    return frozenset(found - {"read"}) or frozenset({"read"})


def effect_of(
    action: Action,
    spec: ToolSpec | None,
    declared: Effect | None = None,
    *,
    builtin: bool,
    dialect: str | None = None,
) -> Effect:
    """Return the worst that the call can do (see `effects_of`)."""
    return worst(effects_of(action, spec, declared, builtin=builtin, dialect=dialect))


def worst(effects: Collection[Effect]) -> Effect:
    """Return the worst of some effects; `read` where there are none."""
    return max(effects, key=EFFECT_ORDER.index, default="read")


def _builtin_effects(action: Action, dialect: str | None) -> frozenset[Effect]:
    # Imported where needed: both parsers take a while to load.
    tool = action.tool
    if tool in FILE_TOOLS:
        return frozenset({FILE_TOOLS[tool]})
    if tool in BROWSER_TOOLS:
        return frozenset({BROWSER_TOOLS[tool]})
    if tool == "sql_schema":
        return frozenset({"read"})
    if tool in ("sql_query", "sql_execute"):
        from lwm_agents.gate.sql_effects import sql_effects

        query = action.arguments.get("query")
        found = (
            sql_effects(query, dialect)
            if isinstance(query, str)
            else frozenset[Effect](("unknown",))
        )
        if tool == "sql_query":
            # Its connection can't write, so SQL that only could not be told is a read; SQL that
            # names a write is called one, though it will be refused.
            return frozenset(found - {"unknown"}) or frozenset({"read"})
        return found
    if tool == "shell":
        from lwm_agents.gate.shell_effects import shell_effects

        command = action.arguments.get("command")
        return shell_effects(command) if isinstance(command, str) else frozenset({"unknown"})
    return frozenset({"unknown"})
