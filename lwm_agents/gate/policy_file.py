"""Reading a policy file, with every mistake named by file, line and key."""

from __future__ import annotations

import difflib
import os.path
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from lwm_agents.errors import ConfigError
from lwm_agents.gate import globs
from lwm_agents.gate.caps import Caps, size_from
from lwm_agents.gate.policy import ANSWERS, Answer, Policy, Rule
from lwm_agents.toml_text import line_of, place, read_toml, suggestion
from lwm_agents.values import Effect

RULE_KEYS = frozenset({"tool", "effect", "reason", "arguments"})
"""What a rule may say besides arguments of the tool."""


def load_policy(path: Path | str) -> Policy:
    """Read a policy file. Raises ConfigError naming file, line, key and what is allowed."""
    path = Path(path)
    data, text = read_toml(path)
    return policy_from(data, text, path)


def policy_from(data: Mapping[str, Any], text: str, path: Path) -> Policy:
    """Return the policy a parsed TOML file says; `text` and `path` are for messages."""
    if not data:
        raise ConfigError(
            f'{path}: the policy is empty. To deny everything, write [[deny]] tool = "*"; '
            "to let the mode decide, name no policy"
        )
    allowed = {"caps", "network", "otherwise", *ANSWERS}
    for key in data:
        if key not in allowed:
            line = line_of(text, "", key) or line_of(text, key)
            raise ConfigError(
                f"{place(path, line)}: unknown key {key!r}. {suggestion(key, allowed)}"
            )
    rules: list[Rule] = []
    for answer in ANSWERS:
        tables = data.get(answer, [])
        if not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
            line = line_of(text, "", answer) or line_of(text, answer)
            raise ConfigError(f"{place(path, line)}: {answer} must be written [[{answer}]]")
        rules += [_rule(t, answer, i, text, path) for i, t in enumerate(tables)]
    otherwise = data.get("otherwise", "deny")
    if otherwise not in ("deny", "ask"):
        where = place(path, line_of(text, "otherwise") or line_of(text, "", "otherwise"))
        raise ConfigError(f'{where}: otherwise must be "deny" or "ask", not {otherwise!r}')
    return Policy(
        rules=tuple(rules),
        otherwise=otherwise,
        caps=_caps(data.get("caps", {}), text, path),
        network=_network(data.get("network", {}), text, path),
        path=str(path),
    )


def _rule(table: dict[str, Any], answer: Answer, index: int, text: str, path: Path) -> Rule:
    def at(key: str) -> str:
        return place(path, line_of(text, key, answer, index))

    tool = table.get("tool")
    if not isinstance(tool, str) or not tool:
        raise ConfigError(f'{at("tool")}: a [[{answer}]] rule needs tool = "name or pattern"')
    effects = _effects(table["effect"], at("effect")) if "effect" in table else None
    reason = table.get("reason")
    if reason is not None and not isinstance(reason, str):
        raise ConfigError(f"{at('reason')}: reason must be a text, not {_kind(reason)}")
    extra = table.get("arguments", {})
    if not isinstance(extra, dict):
        raise ConfigError(f"{at('arguments')}: arguments must be a table of patterns")
    patterns: dict[str, tuple[str, ...]] = {}
    for key, value in [*((k, v) for k, v in table.items() if k not in RULE_KEYS), *extra.items()]:
        near = difflib.get_close_matches(key, RULE_KEYS, n=1, cutoff=0.8)
        if key not in extra and near:
            # A misspelt `effect` taken for an argument would make a rule that never speaks.
            raise ConfigError(
                f"{at(key)}: unknown key {key!r}. Did you mean {near[0]!r}? "
                f'An argument of that name goes under arguments = {{ {key} = "…" }}'
            )
        patterns[key] = tuple(
            _pattern(key, each, at(key)) for each in _as_list(value, key, at(key))
        )
    return Rule(
        answer=answer,
        tool=tool,
        effects=effects,
        arguments=patterns,
        reason=reason,
        where=f"{at('')} [[{answer}]]",
    )


def _as_list(value: Any, key: str, where: str) -> list[str]:
    values = value if isinstance(value, list) else [value]
    if not values or not all(isinstance(each, str) and each for each in values):
        raise ConfigError(
            f"{where}: {key} must be a pattern, or a list of them, not {_kind(value)}"
        )
    return values


def _pattern(key: str, pattern: str, where: str) -> str:
    if not globs.is_path_argument(key):
        return pattern
    if pattern.startswith("~"):
        pattern = os.path.expanduser(pattern).replace("\\", "/")
    if "\\" in pattern:
        raise ConfigError(
            f"{where}: write {key} with / as the separator; it is used on every system"
        )
    parts = pattern.split("/")
    if ".." in parts or (len(parts) > 1 and "." in parts):
        raise ConfigError(f"{where}: {key} must not contain '.' or '..' as a part of the path")
    return pattern.rstrip("/") or "/"


def _effects(value: Any, where: str) -> frozenset[Effect]:
    values = value if isinstance(value, list) else [value]
    known = get_args(Effect)
    if (
        not values
        or not all(each in known for each in values if isinstance(each, str))
        or not all(isinstance(each, str) for each in values)
    ):
        raise ConfigError(
            f"{where}: effect must be one of {', '.join(known)}, or a list of them, not {value!r}"
        )
    return frozenset(values)


def _caps(table: Any, text: str, path: Path) -> Caps:
    if not isinstance(table, dict):
        raise ConfigError(f"{place(path, line_of(text, 'caps'))}: caps must be a table [caps]")
    for key, value in table.items():
        where = place(path, line_of(text, key, "caps"))
        if key not in Caps.model_fields:
            raise ConfigError(
                f"{where}: unknown key {key!r} in [caps]. {suggestion(key, Caps.model_fields)}"
            )
        if size_from(value) is None or (key != "bytes" and not isinstance(value, int)):
            example = '5000000 or "10 MB"' if key == "bytes" else "a whole number, 0 or more"
            raise ConfigError(f"{where}: {key} must be {example}, not {value!r}")
    return Caps(**{key: size_from(value) for key, value in table.items()})


def _network(table: Any, text: str, path: Path) -> tuple[str, ...]:
    if not isinstance(table, dict):
        raise ConfigError(
            f"{place(path, line_of(text, 'network'))}: network must be a table [network]"
        )
    for key in table:
        if key != "allow":
            where = place(path, line_of(text, key, "network"))
            raise ConfigError(
                f"{where}: unknown key {key!r} in [network]. {suggestion(key, ['allow'])}"
            )
    hosts = table.get("allow", [])
    where = place(path, line_of(text, "allow", "network"))
    host = re.compile(r"(\*\.)?[a-z0-9]([a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:]+\]")
    if not isinstance(hosts, list) or not all(
        isinstance(each, str) and host.fullmatch(each.lower()) for each in hosts
    ):
        raise ConfigError(
            f'{where}: allow must be a list of host names such as "docs.example.com" or '
            f'"*.example.com", without scheme, port or path, not {hosts!r}'
        )
    return tuple(each.lower() for each in hosts)


def _kind(value: Any) -> str:
    return {
        bool: "true or false",
        int: "a number",
        float: "a number",
        dict: "a table",
        list: "a list",
    }.get(type(value), type(value).__name__)
