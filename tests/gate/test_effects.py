"""Effects by tool, by declaration and by annotation."""

from __future__ import annotations

import pytest

from lwm_agents.errors import Misuse
from lwm_agents.gate.effects import EFFECT_ORDER, effect_of, effects_of, worst
from lwm_agents.values import Action, Effect, Json, ToolAnnotations, ToolSpec


def call(tool: str, **arguments: Json) -> Action:
    return Action(tool=tool, arguments=arguments)


@pytest.mark.parametrize(
    ("action", "effect"),
    [
        (call("read_file", path="a"), "read"),
        (call("list_directory"), "read"),
        (call("search_files", path=".", pattern="x"), "read"),
        (call("write_file", path="a", content="x"), "write"),
        (call("edit_file", path="a", old_text="x", new_text="y"), "write"),
        (call("move_file", source="a", destination="b"), "write"),
        (call("delete_file", path="a"), "destroy"),
        (call("sql_schema"), "read"),
        (call("sql_query", query="SELECT 1"), "read"),
        (call("sql_query", query="SELECT my_function()"), "read"),
        (call("sql_query", query="DROP TABLE t"), "destroy"),
        (call("sql_query", query="INSERT INTO t VALUES (1)"), "write"),
        (call("sql_execute", query="INSERT INTO t VALUES (1)"), "write"),
        (call("sql_execute", query="DELETE FROM t"), "destroy"),
        (call("sql_execute", query=3), "unknown"),
        (call("sql_execute"), "unknown"),
        (call("browser_snapshot"), "read"),
        (call("browser_navigate", url="https://example.com"), "external"),
        (call("browser_click", ref="e5"), "external"),
        (call("shell", command="ls"), "read"),
        (call("shell", command="rm a; curl x"), "external"),
        (call("shell", command=["rm", "a"]), "unknown"),
        (call("shell"), "unknown"),
        (call("another"), "unknown"),
    ],
)
def test_a_builtin_tool_is_known_by_name(action: Action, effect: Effect) -> None:
    assert effect_of(action, None, builtin=True) == effect


def test_a_namesake_from_elsewhere_is_unknown() -> None:
    assert (
        effect_of(call("read_file", path="a"), ToolSpec(name="read_file"), builtin=False)
        == "unknown"
    )


def test_code_that_opened_the_session_can_declare_a_tool() -> None:
    assert effect_of(call("lookup"), ToolSpec(name="lookup"), "read", builtin=False) == "read"


def test_a_declaration_never_loosens_a_builtin_tool() -> None:
    assert effects_of(call("shell", command="rm a"), None, "read", builtin=True) == {"destroy"}
    assert "external" in effects_of(call("read_file", path="a"), None, "external", builtin=True)


def test_a_declared_effect_that_is_none_is_misuse() -> None:
    with pytest.raises(Misuse, match="must be one of read, write, unknown"):
        effects_of(call("x"), None, "harmless", builtin=False)  # type: ignore[arg-type]


def test_annotations_only_make_it_stricter() -> None:
    kind = ToolSpec(
        name="x", annotations=ToolAnnotations(read_only_hint=True, destructive_hint=False)
    )
    assert effect_of(call("x"), kind, builtin=False) == "unknown"
    bad = ToolSpec(
        name="x", annotations=ToolAnnotations(destructive_hint=True, open_world_hint=True)
    )
    assert effects_of(call("x"), bad, "read", builtin=False) == {"destroy", "external"}


def test_the_order_of_effects() -> None:
    assert EFFECT_ORDER == ("read", "write", "unknown", "destroy", "external")
    assert worst(set()) == "read"
    assert worst({"destroy", "unknown", "read"}) == "destroy"
    assert worst({"destroy", "external"}) == "external"
