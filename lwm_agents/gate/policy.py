"""A policy: a short TOML file that says which calls are allowed, asked about or denied.

    [[allow]]
    tool = "read_file"
    path = "src/**"
    [[deny]]
    tool = "*"
    effect = "external"

deny beats ask, ask beats allow, and a policy with rules denies what it does not name. Text in an
observation never changes one: it is read once, from a file, and frozen. See docs/policy.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal

from pydantic import Field

from lwm_agents.digests import canonical
from lwm_agents.gate import globs
from lwm_agents.gate.caps import Caps
from lwm_agents.gate.shell_syntax import Command
from lwm_agents.values import Action, Effect, Json, Value

Answer = Literal["allow", "ask", "deny"]

ANSWERS: tuple[Answer, ...] = ("allow", "ask", "deny")
"""From loose to strict."""

MAY_BE: Mapping[Effect, frozenset[Effect]] = {
    "read": frozenset({"read"}),
    "write": frozenset({"write"}),
    "destroy": frozenset({"write", "destroy"}),
    "external": frozenset({"write", "external"}),
    "unknown": frozenset({"read", "write", "destroy", "external", "unknown"}),
}
"""What a call of an effect may do. Rules that deny or ask go by this, rules that allow do not."""

TREE_TOOLS = frozenset({"move_file", "delete_file", "search_files"})
"""Tools that reach everything below the path they are given."""


class Decision(Value):
    """What the gate says of a call, why, and the rule that said so (`policy.toml:12 [[deny]]`)."""

    answer: Answer
    reason: str
    rule: str | None = None


class Rule(Value):
    """One rule: it speaks of a call when the tool, the effect and every argument named match."""

    answer: Answer
    tool: str
    effects: frozenset[Effect] | None = None
    arguments: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    reason: str | None = None
    where: str = ""

    def speaks_of(
        self,
        action: Action,
        effects: frozenset[Effect],
        root: str | None = None,
        part: Command | None = None,
    ) -> bool:
        """Say whether the rule is about the call; in doubt yes, but no where it allows.

        `part` is the simple command in question where the call runs several.
        """
        allows = self.answer == "allow"
        named = globs.text_covers if allows else globs.text_touches
        if not named(self.tool, action.tool):
            return False
        if self.effects is not None:
            if allows and not effects <= self.effects:
                return False
            if not allows and not any(MAY_BE[effect] & self.effects for effect in effects):
                return False
        return all(
            _argument_matches(action, name, patterns, root, part, allows)
            for name, patterns in self.arguments.items()
        )


class Policy(Value):
    """Rules, caps, and the hosts a dry run may GET from. Build one with `load_policy`.

    `otherwise` is what becomes of a call that no rule names.
    """

    rules: tuple[Rule, ...] = ()
    otherwise: Literal["deny", "ask"] = "deny"
    caps: Caps = Caps()
    network: tuple[str, ...] = ()
    path: str = ""

    def decide(
        self, action: Action, effects: Effect | Collection[Effect], *, root: str | None = None
    ) -> Decision | None:
        """Return what the policy says of a call; None where it has no rules, so the mode decides.

        `effects` come from `effects_of`. `root` is the session's root, so that absolute paths in
        arguments can be told from relative ones. A shell command is judged command by command, and
        the strictest answer holds.
        """
        if not self.rules:
            return None
        found = frozenset({effects}) if isinstance(effects, str) else frozenset(effects)
        decisions = [self._decide_part(action, found, root, part) for part in _parts(action)]
        return strictest(*decisions)

    def _decide_part(
        self, action: Action, effects: frozenset[Effect], root: str | None, part: Command | None
    ) -> Decision:
        for answer in reversed(ANSWERS):
            for rule in self.rules:
                if rule.answer == answer and rule.speaks_of(action, effects, root, part):
                    return Decision(
                        answer=answer, reason=rule.reason or _SAYS[answer], rule=rule.where
                    )
        reason = f"no rule of {self.path or 'the policy'} names it"
        return Decision(answer=self.otherwise, reason=reason)

    def allows_host(self, host: str) -> bool:
        """Say whether the policy lets a dry run send a GET to this host."""
        name = host.lower().rstrip(".")
        return any(
            name == allowed or (allowed.startswith("*.") and name.endswith(allowed[1:]))
            for allowed in self.network
        )


_SAYS = {"deny": "the policy denies it", "ask": "the policy asks", "allow": "the policy allows it"}


def strictest(*decisions: Decision) -> Decision:
    """Return the strictest of some decisions, the first of its kind."""
    return max(decisions, key=lambda decision: ANSWERS.index(decision.answer))


def _parts(action: Action) -> tuple[Command | None, ...]:
    """Return the simple commands of a shell call; (None,) for any other call, or one too odd."""
    command = action.arguments.get("command")
    if action.tool != "shell" or not isinstance(command, str):
        return (None,)
    return globs.command_parts(command) or (None,)


def _argument_matches(
    action: Action,
    name: str,
    patterns: tuple[str, ...],
    root: str | None,
    part: Command | None,
    allows: bool,
) -> bool:
    if name not in action.arguments:
        return False
    value = action.arguments[name]
    if action.tool == "shell" and name == "command" and isinstance(value, str):
        return any(_command_matches(pattern, value, part, allows) for pattern in patterns)
    tests = [
        any(_value_matches(action.tool, name, pattern, leaf, root, allows) for pattern in patterns)
        for leaf in _leaves(value)
    ]
    return bool(tests) and all(tests) if allows else any(tests)


def _command_matches(pattern: str, line: str, part: Command | None, allows: bool) -> bool:
    """Match a rule's pattern with a command line; to allow it, with the one part in question."""
    if not allows:
        return globs.command_touches(pattern, line)
    if pattern == line:
        return True  # written out in full
    return part is not None and globs.command_covers(pattern, part)


def _leaves(value: Json) -> Iterator[Json]:
    """Yield every text, number and key in a value, however deep it nests."""
    stack = [value]
    while stack:
        top = stack.pop()
        if isinstance(top, dict):
            stack += [*top.keys(), *top.values()]
        elif isinstance(top, list | tuple):
            stack += top
        else:
            yield top


def _value_matches(
    tool: str, name: str, pattern: str, value: Any, root: str | None, allows: bool
) -> bool:
    text = value if isinstance(value, str) else canonical(value)
    if name == "query" and tool.startswith("sql_"):
        return (globs.sql_covers if allows else globs.sql_touches)(pattern, text)
    if globs.is_path_argument(name):
        if allows:
            return globs.path_covers(pattern, text, root)
        return globs.path_touches(pattern, text, root, whole_tree=tool in TREE_TOOLS)
    return (globs.text_covers if allows else globs.text_touches)(pattern, text)
