"""Hostile input: every classifier answers, strictly, and none hangs or raises.

A hang is what these find: without a bound each took from seconds to hours. The limit of time is a
safety net for the run, far above what they take.
"""

from __future__ import annotations

import faulthandler
from collections.abc import Iterator

import pytest

from lwm_agents.gate.effects import effects_of
from lwm_agents.gate.gate import Gate
from lwm_agents.gate.globs import command_touches, sql_touches
from lwm_agents.gate.policy import Policy, Rule
from lwm_agents.gate.shell_deletions import deletions_in
from lwm_agents.gate.shell_effects import shell_effects
from lwm_agents.gate.sql_effects import sql_effects
from lwm_agents.values import Action

COMMANDS = {
    "find in find": "find . " + "-exec find . " * 25,
    "find of words": "find " * 30 + "x",
    "sudo 18": "sudo " * 18,
    "sudo 25": "sudo " * 25 + "ls",
    "sudo 400": "sudo " * 400 + "ls",
    "sudo 9,000": "sudo " * 9_000 + "ls",
    "sudo with odd options": "sudo --odd ssh h " * 2_500,
    "ssh in ssh": "ssh h " * 2_000,
    "fd in fd": "fd -x " * 8_000,
    "eval in eval": "eval " * 9_000,
    "comments": "echo #a\n" * 6_000,
    "more comments": "echo #a\n" * 50_000,
    "commands": "ls;" * 6_000,
    "many commands": "ls;" * 33_000,
    "redirects": "ls " + ">a " * 16_000,
    "substitutions": "echo $(" * 6_000 + "ls" + ")" * 6_000,
    "parameters": "echo " + "${a:-" * 8_000 + "}" * 8_000,
    "tests": "[[ $(" * 5_000,
    "here-documents": "cat <<E\n" * 6_000,
    "braces": "echo {" + "," * 49_000,
    "brackets": "x='" + "[" * 49_000 + "'",
    "quotes": "'" * 49_001,
    "parentheses": "(" * 49_000,
    "sed": "sed s/" + "/" * 49_000,
    "tar": "tar " + "t" * 49_000 + "9",
    "bash options": "bash -" + "c" * 49_000 + "9",
    "sqlite": "sqlite3 x '" + "SELECT 1;" * 5_000 + "'",
    "sqlite blanks": "sqlite3 x '.tables" + " " * 49_000 + "!'",
    "sqlite lines": "sqlite3 x '" + "\n" * 49_000 + "x'",
    "many sqlite": "sqlite3 x 'SELECT 1';" * 2_300,
    "git options": "git " + "-c x " * 9_000,
    "letters beyond ASCII": "\U000fffff{" * 10_000,
}

QUERIES = {
    "columns": "SELECT " + ", ".join(f"c{n}" for n in range(20_000)),
    "some columns": "SELECT " + ", ".join(f"c{n}" for n in range(1_200)),
    "conditions": "UPDATE t SET a = 1 WHERE " + " AND ".join(["a = 1"] * 600),
    "alternatives": "UPDATE t SET a = 1 WHERE " + " OR ".join(["a = 1"] * 600),
    "parentheses": "SELECT " + "(" * 1_000 + "1" + ")" * 1_000,
    "few parentheses": "SELECT " + "(" * 30 + "1" + ")" * 30,
    "not": "SELECT " + "NOT " * 2_000 + "1",
    "pragma": "PRAGMA x" + " " * 99_000 + "!",
    "explain": "EXPLAIN " * 12_000,
    "statements": "SELECT 1;" * 800,
    "quotes": "'" * 99_999,
    "cases": "SELECT " + "CASE WHEN 1 THEN " * 400,
}


@pytest.fixture(autouse=True)
def no_hang() -> Iterator[None]:
    faulthandler.dump_traceback_later(60, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_hostile_command_is_answered_with_something_strict_or_right(name: str) -> None:
    command = COMMANDS[name]
    assert shell_effects(command)
    assert command_touches("sudo *", command) in (True, False)
    assert deletions_in(command) >= 0


@pytest.mark.parametrize("name", QUERIES)
def test_hostile_sql_is_answered(name: str) -> None:
    query = QUERIES[name]
    assert sql_effects(query)
    assert sql_touches("DROP *", query) in (True, False)


def test_what_is_too_much_to_look_at_is_unknown_and_touches_every_rule() -> None:
    for name in ("many commands", "more comments", "letters beyond ASCII"):
        assert "unknown" in shell_effects(COMMANDS[name])
        assert command_touches("rm *", COMMANDS[name])
    assert sql_effects(QUERIES["columns"]) == {"unknown"}
    assert sql_touches("DROP *", QUERIES["columns"])


def test_a_command_behind_many_wrappers_is_still_told() -> None:
    assert command_touches("ls", "sudo " * 400 + "ls")
    assert not command_touches("rm *", "sudo " * 25 + "ls")
    assert command_touches("rm *", "sudo " * 25 + "rm a")


@pytest.mark.parametrize("name", ["sudo 400", "ssh in ssh", "commands", "many commands"])
def test_a_gate_with_rules_answers_a_hostile_command(name: str) -> None:
    rules = [
        Rule(answer="deny", tool="*", arguments={"command": ("rm *", "curl *")}),
        Rule(answer="ask", tool="*", arguments={"command": ("git *",)}),
        Rule(answer="allow", tool="shell", arguments={"command": ("ls *", "echo *")}),
    ]
    gate = Gate(mode="live", builtin=frozenset({"shell"}), user=Policy(rules=tuple(rules)))
    action = Action(tool="shell", arguments={"command": COMMANDS[name]})
    effects = effects_of(action, None, builtin=True)
    assert gate.judge(action, None).effects == effects
