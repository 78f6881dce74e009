"""Rules: what they speak of, which one wins, and what a wrong file is told."""

# ruff: noqa: E501

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from lwm_agents.errors import ConfigError
from lwm_agents.gate.effects import effects_of
from lwm_agents.gate.policy import Policy
from lwm_agents.gate.policy_file import load_policy
from lwm_agents.values import Action, Effect, Json

ROOT = "/home/user/project"


def policy(tmp_path: Path, text: str) -> Policy:
    path = tmp_path / "policy.toml"
    path.write_text(text, encoding="utf-8")
    return load_policy(path)


def answer(rules: Policy, tool: str, effect: Effect | None = None, /, **arguments: Json) -> str:
    action = Action(tool=tool, arguments=arguments)
    effects = effects_of(action, None, builtin=True) if effect is None else frozenset({effect})
    decision = rules.decide(action, effects, root=ROOT)
    assert decision is not None
    return decision.answer


ALLOW_SRC = '[[allow]]\ntool = "*_file"\npath = "src/**"\n'


@pytest.mark.parametrize(
    "path",
    ["src/a.py", "src/deep/er/a.py", "./src/a.py", "src//a.py", "src/x/../a.py", "src/.hidden",
     f"{ROOT}/src/a.py", "src", "src/", "src\\a.py", "x/../src/a.py", "../project/src/a.py"],
)  # fmt: skip
def test_a_path_in_the_folder_is_allowed(tmp_path: Path, path: str) -> None:
    assert answer(policy(tmp_path, ALLOW_SRC), "read_file", path=path) == "allow"


@pytest.mark.parametrize(
    "path",
    ["secret", "src/../secret", "src/../../project2/src/a", "../src/a", "/etc/passwd", "/src/a", "srcx/a",
     "src\\..\\secret", "src/..\\secret", "..\\src\\a", "C:src\\a", "src/a\n", "src/\u202ea", "src/\x00a",
     "SRC/a", f"{ROOT}/../src/a", f"{ROOT}2/src/a", "~/src/a", "", ".", "//host/src/a", "C:/src/a"],
)  # fmt: skip
def test_a_path_that_leads_elsewhere_is_not(tmp_path: Path, path: str) -> None:
    assert answer(policy(tmp_path, ALLOW_SRC), "read_file", path=path) == "deny"


def test_a_path_pattern_of_everything_stays_inside_the_root(tmp_path: Path) -> None:
    rules = policy(tmp_path, '[[allow]]\ntool = "*"\npath = "**"')
    assert answer(rules, "read_file", path="a/b") == "allow"
    assert answer(rules, "list_directory", path=".") == "allow"
    assert answer(rules, "read_file", path="../a") == "deny"
    assert answer(rules, "read_file", path="/etc/passwd") == "deny"


def test_one_star_stops_at_a_slash(tmp_path: Path) -> None:
    rules = policy(tmp_path, '[[allow]]\ntool = "read_file"\npath = "src/*.py"')
    assert answer(rules, "read_file", path="src/a.py") == "allow"
    assert answer(rules, "read_file", path="src/x/a.py") == "deny"


def test_an_absolute_pattern_covers_absolute_and_relative_paths(tmp_path: Path) -> None:
    rules = policy(tmp_path, f'[[allow]]\ntool = "read_file"\npath = ["{ROOT}/src/**", "/data/*"]')
    assert answer(rules, "read_file", path="/data/a") == "allow"
    assert answer(rules, "read_file", path="src/a") == "allow"
    assert answer(rules, "read_file", path="/data/../etc/passwd") == "deny"


DENY_SECRET = '[[deny]]\ntool = "*"\npath = "secret/**"\n[[deny]]\ntool = "*"\nsource = "secret/**"\n[[allow]]\ntool = "*"\n'


@pytest.mark.parametrize(
    "path",
    ["secret/a", "secret", "SECRET/a", "Secret/A", "secret./a", "secret /a", "x/../secret/a",
     "secret\\a", f"{ROOT}/secret/a", "ｓecret/a", "./secret//a", "secret/../secret/a"],
)  # fmt: skip
def test_a_denied_path_is_found_however_it_is_written(tmp_path: Path, path: str) -> None:
    assert answer(policy(tmp_path, DENY_SECRET), "read_file", path=path) == "deny"


def test_a_tree_around_a_denied_path_is_denied_to_tools_that_reach_all_of_it(
    tmp_path: Path,
) -> None:
    rules = policy(tmp_path, DENY_SECRET.replace("secret/", "a/secret/"))
    assert answer(rules, "search_files", path=".", pattern="x") == "deny"
    assert answer(rules, "move_file", source="a", destination="b") == "deny"
    assert answer(rules, "delete_file", path="a") == "deny"
    assert answer(rules, "list_directory", path="a") == "allow"
    assert answer(rules, "delete_file", path="b") == "allow"


def test_deny_beats_ask_beats_allow_wherever_they_stand(tmp_path: Path) -> None:
    rules = policy(
        tmp_path,
        '[[allow]]\ntool = "*"\n[[ask]]\ntool = "write_*"\n[[deny]]\ntool = "*"\npath = "a"\n',
    )
    assert answer(rules, "read_file", path="b") == "allow"
    assert answer(rules, "write_file", path="b", content="") == "ask"
    assert answer(rules, "write_file", path="a", content="") == "deny"


def test_what_is_not_named_is_denied_and_a_policy_without_rules_says_nothing(
    tmp_path: Path,
) -> None:
    decision = policy(tmp_path, ALLOW_SRC).decide(Action(tool="shell"), "unknown")
    assert decision is not None
    assert decision.answer == "deny"
    assert "no rule of" in decision.reason
    assert policy(tmp_path, "[caps]\ncalls = 1").decide(Action(tool="shell"), "unknown") is None


def test_a_decision_names_its_rule_and_gives_its_reason(tmp_path: Path) -> None:
    rules = policy(tmp_path, '\n\n[[deny]]\ntool = "*"\nreason = "not on Sundays"')
    decision = rules.decide(Action(tool="x"), "read")
    assert decision is not None
    assert decision.reason == "not on Sundays"
    assert decision.rule == f"{tmp_path / 'policy.toml'}:3 [[deny]]"


def test_effects_allow_when_all_are_listed_and_deny_when_any_may_be(tmp_path: Path) -> None:
    allow = policy(tmp_path, '[[allow]]\ntool = "*"\neffect = ["read", "write"]')
    assert answer(allow, "x", "read") == "allow"
    assert answer(allow, "shell", command="rm a; touch b") == "deny"
    for effect in ("unknown", "destroy", "external"):
        assert answer(allow, "x", effect) == "deny"
    deny = policy(tmp_path, '[[deny]]\ntool = "*"\neffect = "destroy"\n[[allow]]\ntool = "*"')
    assert answer(deny, "shell", command="rm a; curl x") == "deny"
    assert answer(deny, "x", "unknown") == "deny"
    assert answer(deny, "x", "external") == "allow"
    write = policy(tmp_path, '[[deny]]\ntool = "*"\neffect = "write"\n[[allow]]\ntool = "*"')
    assert [answer(write, "x", e) for e in ("read", "write", "destroy", "external")] == [
        "allow", "deny", "deny", "deny",
    ]  # fmt: skip


ALLOW_GIT = '[[allow]]\ntool = "shell"\ncommand = ["git *", "ls", "make -C \\"a b\\" all"]\n'


@pytest.mark.parametrize(
    "command",
    ["git status", "git log --oneline | ls", "git status && ls", "ls; git diff 'a b'", "git  status",
     "git commit -m 'a; b'", "ls 2>/dev/null", "git log 2>&1", "/usr/bin/git status", "'git' status",
     "make -C \"a b\" all", "git log $X", "for i in a; do git show $i; done", "git status # hi"],
)  # fmt: skip
def test_every_command_of_an_allowed_line_is_allowed(tmp_path: Path, command: str) -> None:
    assert answer(policy(tmp_path, ALLOW_GIT), "shell", command=command) == "allow"


@pytest.mark.parametrize(
    "command",
    ["git status; rm x", "git status && rm x", "git log $(rm x)", "git log `rm x`", "git log | sh",
     "git log <(rm x)", "git status\nrm x", "git status & rm x", "git log > /etc/passwd", "git log >> x",
     "A=1 git status", "PATH=/tmp git status", "sudo git status", "./git status", "/tmp/git status",
     "$G status", "git 'x", "gitx", "'git status'", "git\u00a0status", "env git status", "",
     "f() { rm x; }; git status", "git log <<EOF\n$(rm x)\nEOF", "> x", "git status; > x", "{ git log; } > x",
     "git log </dev/tcp/h/80", "ls -la", "GIT status"],
)  # fmt: skip
def test_one_command_that_is_not_allowed_denies_the_line(tmp_path: Path, command: str) -> None:
    assert answer(policy(tmp_path, ALLOW_GIT), "shell", command=command) == "deny"


def test_a_line_written_out_in_full_is_allowed_as_it_is(tmp_path: Path) -> None:
    rules = policy(tmp_path, '[[allow]]\ntool = "shell"\ncommand = "A=1 make > log; ls"')
    assert answer(rules, "shell", command="A=1 make > log; ls") == "allow"
    assert answer(rules, "shell", command="A=1 make > log") == "deny"


DENY_RM = '[[deny]]\ntool = "shell"\ncommand = "rm *"\n[[allow]]\ntool = "*"\n'


@pytest.mark.parametrize(
    "command",
    ["rm x", "ls; rm x", "sudo rm x", "sudo -u me rm x", "\\rm x", "'rm' x", "/bin/rm x", "A=1 rm x",
     "bash -c 'rm x'", "eval rm x", "eval 'rm x'", "find . -exec rm {} +", "xargs rm -f", "echo $(rm x)",
     "$CMD x", "rm  x", "rm 'x", "env A=1 nohup rm x", "ssh host rm x", "trap 'rm x' EXIT",
     "bash <<< 'rm x'", "bash <<EOF\nrm x\nEOF", "RM x"],
)  # fmt: skip
def test_a_denied_command_is_found_where_it_hides(tmp_path: Path, command: str) -> None:
    assert answer(policy(tmp_path, DENY_RM), "shell", command=command) == "deny"


@pytest.mark.parametrize("command", ["ls", "echo rm x", "git rm x", "rmdir x", "grep 'rm ' a"])
def test_a_denied_command_is_not_seen_in_mere_words(tmp_path: Path, command: str) -> None:
    assert answer(policy(tmp_path, DENY_RM), "shell", command=command) == "allow"


def test_sql_is_allowed_one_statement_at_a_time(tmp_path: Path) -> None:
    rules = policy(tmp_path, '[[allow]]\ntool = "sql_*"\nquery = "SELECT *"')
    assert answer(rules, "sql_query", query="SELECT  a\nFROM t") == "allow"
    assert answer(rules, "sql_query", query="SELECT a; DROP TABLE t") == "deny"
    assert answer(rules, "sql_query", query="SELECT '\\'; DROP TABLE t; -- '") == "deny"
    assert answer(rules, "sql_query", query="SELECT (") == "deny"
    assert answer(rules, "sql_query") == "deny"


def test_denied_sql_is_found_behind_comments_and_other_statements(tmp_path: Path) -> None:
    rules = policy(tmp_path, '[[deny]]\ntool = "*"\nquery = "DROP *"\n[[allow]]\ntool = "*"')
    for query in (
        "drop table t",
        "/* x */ DROP TABLE t",
        "SELECT 1; DROP TABLE t",
        "DROP\nTABLE t",
        "x (",
    ):
        assert answer(rules, "sql_execute", query=query) == "deny"
    assert answer(rules, "sql_execute", query="SELECT 'DROP'") == "allow"


def test_every_value_must_match_to_allow_and_any_to_deny(tmp_path: Path) -> None:
    allow = policy(tmp_path, '[[allow]]\ntool = "t"\nto = ["a@x", "b@x", "to", "7", "true"]')
    assert answer(allow, "t", "write", to=["a@x", "b@x"]) == "allow"
    assert answer(allow, "t", "write", to=["a@x", "c@x"]) == "deny"
    assert answer(allow, "t", "write", to=[]) == "deny"
    assert answer(allow, "t", "write", to={"to": [7, True]}) == "allow"
    deny = policy(tmp_path, '[[deny]]\ntool = "t"\nto = "*@evil"\n[[allow]]\ntool = "*"')
    assert answer(deny, "t", "write", to=[["a@x"], {"k": "m@EVIL"}]) == "deny"
    assert answer(deny, "t", "write") == "allow"


def test_an_argument_nested_very_deep_is_read(tmp_path: Path) -> None:
    deep: Json = "m@evil"
    for _ in range(50_000):
        deep = [deep]
    action = Action.model_construct(tool="t", arguments={"to": deep})
    rules = policy(tmp_path, '[[deny]]\ntool = "t"\nto = "*@evil"\n[[allow]]\ntool = "*"')
    decision = rules.decide(action, "write")
    assert decision is not None
    assert decision.answer == "deny"
    while isinstance(deep, list):  # taken apart by hand: Python frees deep lists by recursion
        deep = deep.pop()


def test_arguments_with_names_of_our_own_go_in_a_table(tmp_path: Path) -> None:
    rules = policy(tmp_path, '[[allow]]\ntool = "t"\narguments = { effect = "glow", tool = "x*" }')
    assert answer(rules, "t", "write", effect="glow", tool="xy") == "allow"
    assert answer(rules, "t", "write", effect="glow") == "deny"


def test_tool_names_are_exact_to_allow_and_not_to_deny(tmp_path: Path) -> None:
    assert answer(policy(tmp_path, '[[allow]]\ntool = "send"'), "Send", "write") == "deny"
    rules = policy(tmp_path, '[[deny]]\ntool = "send"\n[[allow]]\ntool = "*"')
    assert answer(rules, "Send", "write") == "deny"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the policy is empty"),
        ("\n\n# nothing\n", "the policy is empty"),
        ("[[alow]]\ntool = 'x'", "policy.toml:1: unknown key 'alow'. did you mean 'allow'"),
        ("x = 1", "policy.toml:1: unknown key 'x'"),
        ("[allow]\ntool = 'x'", "policy.toml:1: allow must be written [[allow]]"),
        ("allow = 1", "policy.toml:1: allow must be written [[allow]]"),
        ("[[allow]]\npath = 'x'", "policy.toml:1: a [[allow]] rule needs tool"),
        ("[[allow]]\ntool = 3", "policy.toml:2: a [[allow]] rule needs tool"),
        (
            "[[allow]]\ntool = 'a'\n[[allow]]\ntool = ''",
            "policy.toml:4: a [[allow]] rule needs tool",
        ),
        (
            "[[deny]]\ntool = '*'\nefect = 'x'",
            "policy.toml:3: unknown key 'efect'. Did you mean 'effect'",
        ),
        ("[[deny]]\ntool = '*'\neffect = 'bad'", "policy.toml:3: effect must be one of read"),
        ("[[deny]]\ntool = '*'\neffect = []", "effect must be one of"),
        ("[[deny]]\ntool = '*'\neffect = [['read']]", "effect must be one of"),
        ("[[deny]]\ntool = '*'\nreason = 1", "policy.toml:3: reason must be a text"),
        ("[[deny]]\ntool = '*'\npath = 1", "policy.toml:3: path must be a pattern"),
        ("[[deny]]\ntool = '*'\npath = []", "path must be a pattern"),
        ("[[deny]]\ntool = '*'\npath = ''", "path must be a pattern"),
        ("[[deny]]\ntool = '*'\npath = '../x'", "path must not contain '.' or '..'"),
        ("[[deny]]\ntool = '*'\npath = 'a\\b'", "write path with / as the separator"),
        ("[[deny]]\ntool = '*'\narguments = 1", "arguments must be a table"),
        ("[caps]\ncals = 1", "policy.toml:2: unknown key 'cals' in [caps]. did you mean 'calls'"),
        ("[caps]\ncalls = '3'", "policy.toml:2: calls must be a whole number"),
        ("[caps]\ncalls = -1", "calls must be a whole number"),
        ("[caps]\ncalls = true", "calls must be a whole number"),
        ("[caps]\nbytes = '10 parsecs'", 'bytes must be 5000000 or "10 MB"'),
        ("caps = 1", "policy.toml:1: caps must be a table"),
        ("[network]\nhosts = []", "policy.toml:2: unknown key 'hosts' in [network]"),
        ("[network]\nallow = 'x'", "policy.toml:2: allow must be a list of host names"),
        ("[network]\nallow = ['https://x.org']", "allow must be a list of host names"),
        ("[network]\nallow = ['*']", "allow must be a list of host names"),
        ("network = []", "network must be a table"),
        ("[[allow]\n", "not valid TOML"),
        ("[caps]\ncalls = 1\ncalls = 2\n[x]", "not valid TOML"),
    ],
)
def test_a_mistake_names_file_line_key_and_what_is_allowed(
    tmp_path: Path, text: str, says: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)):
        policy(tmp_path, text)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: can't be read"):
        load_policy(tmp_path / "none.toml")


def test_hosts_are_matched_whole(tmp_path: Path) -> None:
    rules = policy(tmp_path, '[network]\nallow = ["docs.example.com", "*.python.org"]')
    assert rules.allows_host("DOCS.example.com.")
    assert rules.allows_host("docs.python.org")
    for host in (
        "example.com",
        "xdocs.example.com",
        "docs.example.com.evil",
        "python.org",
        "evilpython.org",
    ):
        assert not rules.allows_host(host)


def test_a_policy_is_frozen(tmp_path: Path) -> None:
    rules = policy(tmp_path, ALLOW_SRC)
    with pytest.raises(ValidationError):
        rules.rules = ()


@given(st.lists(st.sampled_from(["..", ".", "src", "secret", "a", "", "\\", "/"]), max_size=8))
@settings(max_examples=300, deadline=None)
def test_no_path_made_of_dots_gets_out_of_the_allowed_folder(parts: list[str]) -> None:
    import posixpath

    from lwm_agents.gate.globs import path_covers

    path = "/".join(parts)
    real = posixpath.normpath(posixpath.join(ROOT, path.replace("\\", "/")))
    inside = real == f"{ROOT}/src" or real.startswith(f"{ROOT}/src/")
    assert not path_covers("src/**", path, ROOT) or inside


def test_every_toml_block_in_the_docs_is_a_policy(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "policy.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```toml\n(.*?)```", text, re.S)
    assert len(blocks) >= 3
    first = policy(tmp_path, blocks[0])
    assert first.caps.bytes == 10_000_000
    assert answer(first, "shell", command="git status") == "ask"
    assert answer(first, "read_file", path="src/a") == "allow"
    assert answer(first, "shell", command="git push") == "deny"
    second = policy(tmp_path, blocks[1])
    assert answer(second, "shell", command="git status") == "allow"
    assert answer(second, "shell", command="ls") == "ask"
    last = policy(tmp_path, blocks[2])
    assert answer(last, "write_file", path="migrations/1.sql", content="") == "deny"
    assert answer(last, "shell", command="ls") == "allow"
