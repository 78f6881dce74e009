"""What every tool has, the check of arguments, and the tools that are built in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Protocol, cast, runtime_checkable

import jsonschema
import referencing.exceptions
from jsonschema.exceptions import ValidationError
from jsonschema.protocols import Validator
from referencing.jsonschema import EMPTY_REGISTRY

from lwm_agents.places.place import Place
from lwm_agents.values import Json, Observation, ToolSpec

_SHOWN = 3
"""How many problems with arguments a message names."""

_CACHED = 1024
_validators: dict[str, Validator | None] = {}


@runtime_checkable
class Tool(Protocol):
    """Something an agent can call: what is known of it, and its code over a Place."""

    @property
    def spec(self) -> ToolSpec:
        """What is known of the tool without running it."""
        ...

    def refusal(self, arguments: Mapping[str, Json], root: str | None = None) -> str | None:
        """Return why the tool would refuse these arguments anywhere, or None.

        Pure: nothing is touched. The arguments already conform to the input schema. `root` is the
        resolved path of the root; without it every absolute path is refused.
        """
        ...

    async def run(self, arguments: Mapping[str, Json], place: Place) -> Observation:
        """Act in the place and return what came back; what goes wrong there is data."""
        ...


def builtin_tools(database: bool) -> dict[str, Tool]:
    """Return the built-in tools by name; those for SQL only where there is a database."""
    from lwm_agents.tools.database import DATABASE_TOOLS
    from lwm_agents.tools.files import FILE_TOOLS
    from lwm_agents.tools.shell import Shell

    tools: list[Tool] = [*FILE_TOOLS, Shell(), *(DATABASE_TOOLS if database else ())]
    return {tool.spec.name: tool for tool in tools}


def argument_errors(spec: ToolSpec, arguments: Mapping[str, Json]) -> str | None:
    """Return what is wrong with the arguments against the tool's input schema, or None.

    The message names the argument, what is wrong with it and what is expected. The schema's own
    `$schema` picks the dialect (2020-12 where it names none). References are never fetched. Where a
    schema is itself no valid JSON Schema, nothing is checked: the tool is the judge then.
    """
    validator = _validator(spec)
    if validator is None:
        return None
    try:
        errors = sorted(validator.iter_errors(arguments), key=lambda error: len(error.path))
    except RecursionError:
        return f"Invalid arguments for {spec.name}: nested too deeply"
    except (referencing.exceptions.Unresolvable, jsonschema.exceptions.UnknownType):
        return None
    if not errors:
        return None
    said = list(dict.fromkeys(_message(error) for error in errors))
    more = f"; and {len(said) - _SHOWN} more" if len(said) > _SHOWN else ""
    return f"Invalid arguments for {spec.name}: " + "; ".join(said[:_SHOWN]) + more


def _validator(spec: ToolSpec) -> Validator | None:
    if spec.hash in _validators:
        return _validators[spec.hash]
    if len(_validators) >= _CACHED:
        _validators.clear()
    kind = jsonschema.validators.validator_for(
        spec.input_schema, default=jsonschema.Draft202012Validator
    )
    validator: Validator | None
    try:
        kind.check_schema(spec.input_schema)
        # A registry of our own: the default one would fetch a reference over the network.
        validator = kind(spec.input_schema, registry=EMPTY_REGISTRY)
    except (jsonschema.SchemaError, RecursionError):
        validator = None
    _validators[spec.hash] = validator
    return validator


def _message(error: ValidationError) -> str:
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.path)
    where = f"`{where.lstrip('.')}`" if where else "the arguments"
    wanted: Json = error.validator_value
    if error.validator == "required":
        missing = [
            name for name in cast(list[str], wanted) if name not in cast(Json, error.instance)
        ]
        named = ", ".join(f"`{name}`{_hint(error.schema, name)}" for name in missing)
        return f"missing {named}" if not error.path else f"{where} misses {named}"
    if error.validator == "additionalProperties" and wanted is False:
        known = list(cast(Mapping[str, Json], error.schema).get("properties", {}))
        extra = ", ".join(f"`{name}`" for name in cast(Json, error.instance) if name not in known)
        expected = ", ".join(f"`{name}`" for name in known) or "none"
        return f"unknown argument {extra}; expected: {expected}"
    if error.validator == "type":
        kinds = " or ".join([wanted] if isinstance(wanted, str) else cast(list[str], wanted))
        return f"{where}: expected {kinds}, got {_shown(error.instance)}"
    if error.validator in {"enum", "const"}:
        return f"{where}: expected {_shown(wanted)}, got {_shown(error.instance)}"
    if error.validator in {"anyOf", "oneOf"}:
        return f"{where}: {_shown(error.instance)} is none of the kinds allowed"
    if error.validator == "minLength" and wanted == 1:
        return f"{where} is empty"
    rule = f"{error.validator} {_shown(wanted)}"
    return f"{where}: got {_shown(error.instance)}, which breaks {rule}"


def _hint(schema: Json, name: str) -> str:
    kind = schema.get("properties", {}).get(name, {}) if isinstance(schema, Mapping) else {}
    kind = kind.get("type") if isinstance(kind, Mapping) else None
    return f" ({kind})" if isinstance(kind, str) else ""


def _shown(value: Json) -> str:
    text = json.dumps(value, default=repr)
    return text if len(text) <= 60 else text[:57] + "..."
