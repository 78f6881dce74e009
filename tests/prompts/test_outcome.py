from __future__ import annotations

import pytest

from lwm_agents.prompts.outcome import exit_code, looks_like_error, shell_structured
from lwm_agents.tools.shell import SHELL_SPEC
from lwm_agents.values import Action, ToolSpec

LARGE = "a line of output\n" * 100_000


@pytest.mark.parametrize("before", ["", "short\n", LARGE])
def test_the_exit_code_is_the_last_line_however_long_the_text(before: str) -> None:
    assert exit_code(f"{before}[exit 3]\n") == 3
    assert exit_code(f"{before}x[exit 3]\n") is None
    assert shell_structured(f"{before}[timed out after 5 s]", None) == {
        "exit_code": None,
        "timed_out": True,
        "truncated": False,
    }


def test_an_exit_code_is_not_seen_in_the_midst_of_a_long_line() -> None:
    assert exit_code("x" * 1_000_000 + "[exit 3]") is None
    assert exit_code("[exit 3]" + "x" * 1_000_000) is None


def test_errors_of_large_texts() -> None:
    shell, other = Action(tool="shell", arguments={"command": "./x"}), Action(tool="t")
    assert looks_like_error(LARGE + "[exit 1]", shell, SHELL_SPEC)
    assert not looks_like_error(LARGE, shell, SHELL_SPEC)
    assert looks_like_error("Error: no\n" + LARGE, other, ToolSpec(name="t"))
    assert not looks_like_error("a" * 1_000_000, other, ToolSpec(name="t"))
