"""The mode, the user's policy, the project's and the caps, in one verdict."""

# ruff: noqa: E501

from __future__ import annotations

from pathlib import Path

import pytest

from lwm_agents.errors import ConfigError
from lwm_agents.gate import Caps, Gate, Policy, Spent, cost_of, default_decision
from lwm_agents.gate.caps import size_from
from lwm_agents.gate.effects import effects_of
from lwm_agents.gate.policy import Rule
from lwm_agents.values import Action, Effect, Json, Mode, ToolAnnotations, ToolSpec

BUILTIN = frozenset({"read_file", "write_file", "delete_file", "shell", "sql_query"})
ALL = Policy(rules=(Rule(answer="allow", tool="*"),))
ASK = Policy(rules=(Rule(answer="ask", tool="*"),))
NONE = Policy(rules=(Rule(answer="deny", tool="*"),))
READ = Action(tool="read_file", arguments={"path": "a"})


def gate(mode: Mode, user: Policy | None = None, project: Policy | None = None) -> Gate:
    return Gate(mode=mode, builtin=BUILTIN, user=user, project=project)


def judged(gate: Gate, tool: str, /, **arguments: Json) -> str:
    return gate.judge(Action(tool=tool, arguments=arguments), None).decision.answer


@pytest.mark.parametrize(
    ("mode", "tool", "arguments", "answer"),
    [
        ("dry-run", "shell", {"command": "rm -rf /"}, "allow"),
        ("dry-run", "anything", {}, "allow"),
        ("gated", "read_file", {"path": "a"}, "allow"),
        ("gated", "write_file", {"path": "a", "content": ""}, "ask"),
        ("gated", "shell", {"command": "ls"}, "ask"),
        ("gated", "sql_query", {"query": "SELECT 1"}, "ask"),
        ("gated", "list_directory", {}, "ask"),  # not this package's own here
        ("compare", "shell", {"command": "rm -rf /"}, "allow"),
        ("live", "anything", {}, "allow"),
    ],
)
def test_without_a_policy_the_mode_decides(
    mode: Mode, tool: str, arguments: dict[str, Json], answer: str
) -> None:
    assert judged(gate(mode), tool, **arguments) == answer


@pytest.mark.parametrize("effects", [{"read", "external"}, {"unknown"}, set()])
def test_gated_allows_a_file_tool_only_what_is_known_to_read(effects: set[Effect]) -> None:
    assert default_decision("gated", READ, effects).answer == "ask"


def test_a_hint_makes_the_effect_of_a_foreign_tool_worse_and_says_nothing_of_our_own() -> None:
    hints = ToolAnnotations(destructive_hint=True)
    foreign = gate("gated").judge(Action(tool="erase"), ToolSpec(name="erase", annotations=hints))
    assert foreign.effect == "destroy"
    # Ours speak of all calls of a tool; what this call can do is known better.
    ours = gate("gated").judge(READ, ToolSpec(name="read_file", annotations=hints))
    assert ours.effect == "read"


def test_the_users_policy_can_loosen_and_tighten() -> None:
    assert judged(gate("gated", ALL), "shell", command="ls") == "allow"
    assert judged(gate("live", ASK), "shell", command="ls") == "ask"
    assert judged(gate("live", NONE), "shell", command="ls") == "deny"


@pytest.mark.parametrize(
    ("mode", "user", "project", "answer"),
    [
        ("gated", None, ALL, "ask"),
        ("gated", ASK, ALL, "ask"),
        ("gated", NONE, ALL, "deny"),
        ("gated", ALL, ASK, "ask"),
        ("live", None, ASK, "ask"),
        ("live", ALL, NONE, "deny"),
        ("live", None, Policy(caps=Caps(calls=1)), "allow"),
    ],
)
def test_a_project_can_only_tighten(
    mode: Mode, user: Policy | None, project: Policy, answer: str
) -> None:
    assert judged(gate(mode, user, project), "shell", command="ls") == answer


def test_in_a_dry_run_nothing_is_asked_and_what_is_denied_stays_denied() -> None:
    assert judged(gate("dry-run", ASK), "shell", command="ls") == "allow"
    assert judged(gate("dry-run", NONE), "shell", command="ls") == "deny"
    assert judged(gate("dry-run", ASK, NONE), "shell", command="ls") == "deny"


def test_hosts_need_the_users_name() -> None:
    mine, theirs = Policy(network=("a.org", "b.org")), Policy(network=("b.org", "c.org"))
    both = gate("dry-run", mine, theirs)
    assert [both.allows_host(h) for h in ("a.org", "b.org", "c.org")] == [False, True, False]
    assert gate("dry-run", mine, ALL).allows_host("a.org")
    assert not gate("dry-run", None, theirs).allows_host("b.org")


def test_the_lower_cap_counts() -> None:
    mine, theirs = Caps(calls=5, bytes=10), Caps(calls=9, deletions=0)
    both = gate("live", Policy(caps=mine), Policy(caps=theirs)).caps
    assert both == Caps(calls=5, bytes=10, deletions=0)


def test_a_call_past_a_cap_is_denied_with_the_numbers() -> None:
    limited = gate("live", Policy(caps=Caps(calls=2, bytes=10, deletions=1)))
    write = Action(tool="write_file", arguments={"path": "a", "content": "é" * 6})
    assert limited.judge(READ, None, Spent(calls=1)).decision.answer == "allow"
    third = limited.judge(READ, None, Spent(calls=2)).decision
    assert third.answer == "deny"
    assert "may make 2 calls; this call would make it 3" in third.reason
    assert "12" in limited.judge(write, None).decision.reason  # bytes, not characters
    remove = Action(tool="shell", arguments={"command": "rm a"})
    assert limited.judge(remove, None).decision.answer == "allow"
    assert limited.judge(remove, None, Spent(deletions=1)).decision.answer == "deny"


def test_a_cap_of_nothing_allows_nothing() -> None:
    assert judged(gate("dry-run", Policy(caps=Caps(calls=0))), "shell", command="ls") == "deny"


def test_what_a_call_costs() -> None:
    edit = Action(tool="edit_file", arguments={"old_text": "xyz", "new_text": "ab\ud800"})
    assert cost_of(edit, {"write"}) == Spent(calls=1, bytes=5)
    assert cost_of(Action(tool="x"), {"destroy", "external"}) == Spent(calls=1, deletions=1)


@pytest.mark.parametrize(
    ("value", "size"),
    [(0, 0), (5, 5), ("10 MB", 10_000_000), ("4KiB", 4096), ("1.5 kB", 1500), ("7", 7), ("2 gib", 2**31),
     (-1, None), (True, None), (1.5, None), ("", None), ("MB", None), ("1 XB", None), ("-1 MB", None), (None, None)],
)  # fmt: skip
def test_sizes(value: object, size: int | None) -> None:
    assert size_from(value) == size


def test_a_gate_is_made_from_config_and_policy_files(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('[[allow]]\ntool = "*"')
    (tmp_path / "theirs.toml").write_text('[[ask]]\ntool = "shell"\n[[allow]]\ntool = "*"')
    mine, theirs = tmp_path / "mine.toml", tmp_path / "theirs.toml"
    made = Gate.of(
        "live",
        tmp_path,
        mine,
        project_policy=theirs,
        builtin=BUILTIN,
        declared={"lookup": "read"},
    )
    assert judged(made, "shell", command="ls") == "ask"
    assert made.judge(Action(tool="lookup"), None).effect == "read"
    assert judged(Gate.of("live", tmp_path, NONE, builtin=BUILTIN), "x") == "deny"
    with pytest.raises(ConfigError, match="can't be read"):
        Gate.of("live", tmp_path, tmp_path / "gone.toml", builtin=BUILTIN)


@pytest.mark.parametrize(("text", "answer"), [("", "deny"), ('otherwise = "ask"\n', "ask")])
def test_what_no_rule_names(tmp_path: Path, text: str, answer: str) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(text + '[[allow]]\ntool = "shell"\ncommand = "git status"\n')
    made = Gate.of("gated", tmp_path, path, builtin=BUILTIN)
    assert judged(made, "shell", command="git status") == "allow"
    assert judged(made, "shell", command="git push") == answer
    assert judged(made, "read_file", path="x") == answer


@pytest.mark.parametrize("value", ['"allow"', "1", '["ask"]'])
def test_the_rest_can_not_be_allowed_by_a_word(tmp_path: Path, value: str) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(f'otherwise = {value}\n[[allow]]\ntool = "shell"\n')
    with pytest.raises(ConfigError, match="otherwise must be"):
        Gate.of("gated", tmp_path, path, builtin=BUILTIN)


@pytest.mark.parametrize(
    ("command", "deletions"),
    [
        ("ls", 0),
        ("rm a", 1),
        ("rm q1; rm q2; rm q3", 3),
        ("rm -rf a b c", 3),
        ("sudo rm a b", 2),
        ("bash -c 'rm a b; rm c'", 3),
        ("eval 'rm a'; git reset --hard; > f", 3),
        ("find . -delete && ls", 1),
        ("rm 'a", 1),
    ],
)
def test_a_shell_command_costs_a_deletion_for_all_it_names(command: str, deletions: int) -> None:
    action = Action(tool="shell", arguments={"command": command})
    effects = effects_of(action, None, builtin=True)
    assert cost_of(action, effects).deletions == deletions


def test_sql_that_can_write_costs_its_text_and_parameters() -> None:
    query = "INSERT INTO t VALUES (?)"
    action = Action(tool="sql_execute", arguments={"query": query, "parameters": ["z" * 1000]})
    cost = cost_of(action, {"write"})
    assert cost.bytes == len(query) + len('["') + 1000 + len('"]')
    assert cost_of(Action(tool="sql_execute", arguments={"query": "SELECT 1"}), {"read"}).bytes == 0


def test_a_cap_stops_several_deletions_in_one_line_and_large_sql() -> None:
    caps = Policy(caps=Caps(bytes=10, deletions=1))
    limited = Gate(mode="live", builtin=frozenset({"shell", "sql_execute"}), user=caps)
    assert judged(limited, "shell", command="rm q1") == "allow"
    assert judged(limited, "shell", command="rm q1; rm q2; rm q3") == "deny"
    query = "INSERT INTO t VALUES (?)"
    assert judged(limited, "sql_execute", query=query, parameters=["z" * 1000]) == "deny"
