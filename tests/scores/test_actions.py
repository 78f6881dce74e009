import pytest

from lwm_agents.scores.actions import order_of
from lwm_agents.values import Action


@pytest.mark.parametrize(
    "command",
    [
        "find . -name '*.c'",
        "cd /tmp && find .",
        "find . -type f | grep x | head -3",
        "find . -name a -exec wc -l {} +",
        "find . -print0 | xargs -0 md5sum",
        "find . | xargs -I {} -n 1 basename {}",
        "ls -U",
        "ls -lf /etc",
        "grep -rn 'a; b' src",
        "du -h",
        "mkdir d; find .",
    ],
)
def test_commands_without_order(command: str) -> None:
    assert order_of(Action(tool="shell", arguments={"command": command})) == "none"


@pytest.mark.parametrize(
    "command",
    [
        "ls",
        "ls -la",
        "find . | sort",
        "find . -type f | xargs cat | python3 sum.py",
        "find . -exec cat {} +",
        "find . | xargs -n 1 cat",
        "find . | uniq -c",
        "find . | xargs",
        "cat a; find .",
        "find .; ls",
        "grep x a",
        "for f in $(find .); do echo $f; done",
        "echo find",
        "find . 'unclosed",
        "",
    ],
)
def test_commands_with_an_order(command: str) -> None:
    assert order_of(Action(tool="shell", arguments={"command": command})) is None


@pytest.mark.parametrize(
    ("query", "order"),
    [
        ("SELECT * FROM t", "loose"),
        ("select * from t order by a", "given"),
        ("SELECT * FROM (SELECT a FROM t ORDER BY a) x", "loose"),
        ("WITH x AS (SELECT 1) SELECT * FROM x ORDER  BY 1", "given"),
        ("SHOW TABLES", None),
    ],
)
def test_queries_ask_for_an_order_or_do_not(query: str, order: str | None) -> None:
    assert order_of(Action(tool="sql_query", arguments={"query": query})) == order


def test_other_actions_do_not_say() -> None:
    assert order_of(None) is None
    assert (
        order_of(Action(tool="get_user", arguments={"id": 3, "nested": {"a": ["SELECT 1"]}}))
        is None
    )
