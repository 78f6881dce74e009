import hashlib
from typing import Any

import pytest
from pydantic import ValidationError

from lwm_agents.digests import canonical
from lwm_agents.values import (
    MODE_IN_WORDS,
    Action,
    Observation,
    ToolAnnotations,
    ToolSpec,
    Trajectory,
    Transition,
)


def deep(levels: int = 100_000) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_an_actions_digest_is_of_tool_and_arguments_and_nothing_else() -> None:
    action = Action(tool="shell", arguments={"b": 1, "a": "é"})
    text = '{"arguments":{"a":"\\u00e9","b":1},"tool":"shell"}'
    assert action.digest == hashlib.sha256(text.encode()).hexdigest()
    assert Action(tool="shell", arguments={"a": "é", "b": 1}).digest == action.digest
    others = [
        Action(tool="Shell", arguments={"a": "é", "b": 1}),
        Action(tool="shell", arguments={"a": "é", "b": 1.0}),
        Action(tool="shell", arguments={"a": "é", "b": True}),
        Action(tool="shell", arguments={"a": "é", "b": "1"}),
        Action(tool="shell", arguments={"a": "e\u0301", "b": 1}),
        Action(tool="shell", arguments={"a": "é", "b": 1, "c": None}),
    ]
    assert len({action.digest, *(other.digest for other in others)}) == 7


def test_a_tools_hash_is_of_what_it_promises() -> None:
    tool = ToolSpec(name="t", description="d")
    assert tool.model_copy(update={"source_code": "x"}).hash == tool.hash
    changed = [
        ToolSpec(name="u", description="d"),
        ToolSpec(name="t", description="e"),
        ToolSpec(name="t", description="d", input_schema={"type": "object", "required": ["a"]}),
        ToolSpec(name="t", description="d", output_schema={}),
        ToolSpec(name="t", description="d", annotations=ToolAnnotations(read_only_hint=True)),
    ]
    assert len({tool.hash, *(other.hash for other in changed)}) == 6


def test_values_are_frozen_and_know_their_fields() -> None:
    seen = Observation(text="a", source="executed")
    with pytest.raises(ValidationError, match="frozen"):
        seen.text = "b"
    with pytest.raises(ValidationError, match="Extra inputs"):
        Observation(text="a", source="executed", colour="red")  # type: ignore[call-arg]
    with pytest.raises(ValidationError, match="executed"):
        Observation(text="a", source="guessed")  # type: ignore[arg-type]
    for confidence in (-0.1, 1.1):
        with pytest.raises(ValidationError):
            Observation(text="a", source="imagined", confidence=confidence)
    with pytest.raises(ValidationError):
        Action(tool="t", arguments={1: "a"})  # type: ignore[dict-item]


def test_json_of_any_depth_can_be_held_copied_and_digested() -> None:
    action = Action(tool="t", arguments={"a": deep()})
    seen = Observation(text="", source="executed", structured=deep())
    transition = Transition(session="s", step=1, action=action, observation=seen)
    copy = transition.model_copy(update={"step": 2})
    assert copy.action.digest == Action(tool="t", arguments={"a": deep()}).digest
    assert canonical(copy.observation.structured) == "[" * 100_000 + "1" + "]" * 100_000


def test_text_of_any_kind_can_be_held() -> None:
    for text in ("", "\0", "\ud800", "\U0001f600"):
        assert Observation(text=text, source="executed", raw=b"\xff\0").text == text
        assert len(Action(tool=text, arguments={text: text}).digest) == 64


def test_a_trajectory_knows_its_tools_by_name() -> None:
    tools = (ToolSpec(name="a"), ToolSpec(name="b"))
    trajectory = Trajectory(session="s", tools=tools)
    assert trajectory.tool("b") is tools[1]
    assert trajectory.tool("c") is None


def test_every_mode_says_what_it_does() -> None:
    assert set(MODE_IN_WORDS) == {"dry-run", "gated", "compare", "live"}
    assert [mode for mode, words in MODE_IN_WORDS.items() if "EXECUTED" in words] == [
        "compare",
        "live",
    ]
