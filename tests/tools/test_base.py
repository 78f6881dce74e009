"""Argument checks, and what every built-in tool promises."""

from __future__ import annotations

import jsonschema
import pytest

from lwm_agents.tools import Tool, argument_errors, builtin_tools
from lwm_agents.values import Json, ToolSpec

READ = builtin_tools(False)["read_file"].spec
SHELL = builtin_tools(False)["shell"].spec


def test_builtin_tools() -> None:
    tools = builtin_tools(database=True)
    assert list(tools) == [
        *("read_file", "write_file", "edit_file", "list_directory", "move_file", "delete_file"),
        *("search_files", "shell", "sql_query", "sql_execute", "sql_schema"),
    ]
    assert list(builtin_tools(database=False)) == list(tools)[:8]
    for name, tool in tools.items():
        assert isinstance(tool, Tool)
        assert tool.spec.name == name
        assert tool.spec.description
        jsonschema.Draft202012Validator.check_schema(tool.spec.input_schema)
        assert tool.spec.input_schema["additionalProperties"] is False


@pytest.mark.parametrize(
    ("spec", "arguments", "said"),
    [
        (READ, {"path": "a"}, None),
        (READ, {}, "Invalid arguments for read_file: missing `path` (string)"),
        (READ, {"path": ""}, "Invalid arguments for read_file: `path` is empty"),
        (
            READ,
            {"path": None},
            "Invalid arguments for read_file: `path`: expected string, got null",
        ),
        (
            READ,
            {"path": "a", "file": 1},
            "Invalid arguments for read_file: unknown argument `file`; expected: `path`",
        ),
        (
            SHELL,
            {"command": "x", "timeout": 0},
            "Invalid arguments for shell: `timeout`: got 0, which breaks exclusiveMinimum 0",
        ),
        (
            SHELL,
            {"command": ["x" * 100]},
            'Invalid arguments for shell: `command`: expected string, got ["' + "x" * 55 + "...",
        ),
    ],
)
def test_argument_errors(spec: ToolSpec, arguments: dict[str, Json], said: str | None) -> None:
    assert argument_errors(spec, arguments) == said


def spec(**schema: Json) -> ToolSpec:
    return ToolSpec(name="t", input_schema={"type": "object", **schema})


def test_the_dialect_is_the_schemas_own() -> None:
    draft4 = {"properties": {"n": {"minimum": 5, "exclusiveMinimum": True}}}
    url = "http://json-schema.org/draft-04/schema#"
    assert argument_errors(spec(**{"$schema": url}, **draft4), {"n": 5})
    assert argument_errors(spec(**draft4), {"n": 5}) is None  # no schema in the newest dialect


def test_nested_problems_are_located_and_few() -> None:
    schema = {"properties": {"rows": {"items": {"required": ["id"], "type": "object"}}}}
    said = argument_errors(spec(**schema), {"rows": [{"id": 1}, {}, 5, {}, {}]})
    assert said == (
        "Invalid arguments for t: `rows[1]` misses `id`; `rows[2]`: expected object, got 5; "
        "`rows[3]` misses `id`; and 1 more"
    )


def test_references() -> None:
    inside = spec(properties={"a": {"$ref": "#/$defs/n"}}, **{"$defs": {"n": {"type": "number"}}})
    assert argument_errors(inside, {"a": "x"})
    # Never fetched: there is no such host, and the check says nothing.
    outside = spec(properties={"a": {"$ref": "http://127.0.0.1:9/schema.json"}})
    assert argument_errors(outside, {"a": 1}) is None


def test_arguments_of_any_depth() -> None:
    deep: Json = []
    for _ in range(100_000):
        deep = [deep]
    loop = spec(
        properties={"a": {"$ref": "#/$defs/l"}},
        **{"$defs": {"l": {"type": "array", "items": {"$ref": "#/$defs/l"}}}},
    )
    assert argument_errors(loop, {"a": deep}) == "Invalid arguments for t: nested too deeply"
    assert argument_errors(loop, {"a": [[]]}) is None
