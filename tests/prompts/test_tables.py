"""Statements on a database that was there before, with tables, triggers and names of its own."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from real_tools import Scratch, call

from lwm_agents.prompts.computed import computed
from lwm_agents.prompts.statements import Statement, statement_of
from lwm_agents.prompts.tables import Tables
from lwm_agents.values import Action

BEFORE = """
CREATE TABLE users (id INTEGER PRIMARY KEY, n TEXT);
INSERT INTO users (n) VALUES ('a'), ('b'), ('c');
CREATE TABLE "order items" (x);
INSERT INTO "order items" VALUES (1), (2);
CREATE TABLE a (x);
INSERT INTO a VALUES (9);
CREATE TABLE src (x);
CREATE INDEX at_x ON src (x);
CREATE TRIGGER tr AFTER INSERT ON src BEGIN INSERT INTO log VALUES (new.x); END;
"""
LOG = "sql CREATE TABLE log (x)"

UNSURE = {
    "a schema before the name": (
        ["schema ", "sql CREATE TABLE IF NOT EXISTS main.users (id)"],
        "query SELECT count(*) FROM users",
    ),
    "a comment before the statement": (
        ["schema ", "sql -- c\nCREATE TABLE IF NOT EXISTS users (id)"],
        "query SELECT count(*) FROM users",
    ),
    "a comment within it": (
        ["schema ", "sql CREATE/**/TABLE IF NOT /* x */ EXISTS users (id)"],
        "query SELECT count(*) FROM users",
    ),
    "a comment before a table made twice": (["schema "], "sql /* c */ CREATE TABLE users (id)"),
    "a name with a blank": (
        ["schema ", 'sql CREATE TABLE IF NOT EXISTS "order items" (x)'],
        'query SELECT count(*) FROM "order items"',
    ),
    "another name that begins alike": (
        ['sql DROP TABLE IF EXISTS "a b"', "sql CREATE TABLE IF NOT EXISTS a (x)"],
        "query SELECT count(*) FROM a",
    ),
    "a table renamed to one that is there": (
        ["schema ", "sql CREATE TABLE t (q)"],
        "sql ALTER TABLE t RENAME TO users",
    ),
    "a column renamed beside a broken trigger": (
        ["schema ", "sql CREATE TABLE t (q)"],
        "sql ALTER TABLE t RENAME COLUMN q TO r",
    ),
    "a table that another's trigger fills": (
        ["schema ", LOG, "sql INSERT INTO src VALUES (5)"],
        "query SELECT count(*) FROM log",
    ),
    "the same by UPDATE OR and a quoted name": (
        ["schema ", LOG, "sql INSERT INTO src VALUES (5)", 'sql UPDATE OR IGNORE "src" SET x = 1'],
        "query SELECT count(*) FROM log",
    ),
    "a default that is never the same": (
        ["schema ", "sql CREATE TABLE d (a DEFAULT (abs(random())), b)"],
        "sql INSERT INTO d (b) VALUES (1)",
    ),
    "a table named as an index": (["schema "], "sql CREATE TABLE at_x (x)"),
    "a trigger that is never the same": (
        [
            "schema ",
            LOG,
            "sql CREATE TABLE t (q)",
            "sql CREATE TRIGGER u AFTER INSERT ON t BEGIN INSERT INTO log VALUES (random()); END",
            "sql INSERT INTO t VALUES (1)",
        ],
        "query SELECT count(*) FROM log",
    ),
    "a trigger perhaps there before": (
        [
            "schema ",
            LOG,
            "sql CREATE TABLE t (q)",
            "sql CREATE TRIGGER IF NOT EXISTS tr AFTER INSERT ON t BEGIN DELETE FROM log; END",
            "sql INSERT INTO log VALUES (1)",
            "sql INSERT INTO t VALUES (1)",
        ],
        "query SELECT count(*) FROM log",
    ),
    "a table perhaps dropped": (["query SELECT 1"], "sql DROP TABLE IF EXISTS users"),
}

SURE = {
    "a new table": (["schema ", LOG, "sql INSERT INTO log VALUES (1)"], "query SELECT * FROM log"),
    "a new table of another spelling": (
        ["schema ", 'sql CREATE TABLE main."New One" (x)'],
        "query SELECT count(*) FROM [new one]",
    ),
    "a table that is not there": (["schema "], "query SELECT * FROM nothing"),
    "a removed table": (["sql DROP TABLE [a]"], "query SELECT * FROM a"),
    "a mistyped write": (["schema "], "sql INSERT users VALUES (1)"),
}


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Scratch]:
    with closing(sqlite3.connect(tmp_path / "scratch.db")) as connection:
        connection.executescript(BEFORE)
    place = Scratch(tmp_path)
    yield place
    place.close()


async def _follow(scratch: Scratch, history: list[str], step: str) -> tuple[str | None, str]:
    """Return what is computed for a step after a history, and what really happens."""
    for before in history:
        tool, arguments = call(before)
        await scratch.run(tool, **arguments)
    tool, arguments = call(step)
    answer = computed(scratch.trajectory, Action(tool=tool, arguments=arguments))
    happened = await scratch.run(tool, **arguments)
    return None if answer is None else answer.text, happened.text


@pytest.mark.parametrize("name", UNSURE)
async def test_is_not_computed(name: str, scratch: Scratch) -> None:
    answer, _ = await _follow(scratch, *UNSURE[name])
    assert answer is None


@pytest.mark.parametrize("name", SURE)
async def test_is_what_happens(name: str, scratch: Scratch) -> None:
    answer, happened = await _follow(scratch, *SURE[name])
    assert answer == happened


async def test_without_triggers_a_write_elsewhere_leaves_known_rows(scratch: Scratch) -> None:
    history = ["sql DROP TRIGGER tr", "schema ", LOG, "sql INSERT INTO src VALUES (5)"]
    answer, happened = await _follow(scratch, history, "query SELECT count(*) FROM log")
    assert answer == happened


@pytest.mark.parametrize(
    ("query", "statement"),
    [
        ("create table T(a)", Statement("CREATE", "TABLE", "t")),
        ('CREATE TABLE "a""b" (x)', Statement("CREATE", "TABLE", 'a"b')),
        ("CREATE UNIQUE INDEX IF NOT EXISTS `i` ON t(a)", Statement("CREATE", "INDEX", "i", True)),
        ("/* */ DROP VIEW IF EXISTS 'v'", Statement("DROP", "VIEW", "v", True)),
        ("ALTER TABLE t RENAME TO [U v]", Statement("ALTER", "TABLE", "t", False, "RENAME", "u v")),
        ("INSERT OR IGNORE INTO main.É VALUES (1)", Statement("INSERT", name="É")),
        ("DELETE -- x\n FROM t", Statement("DELETE", name="t")),
        ("SELECT 1", Statement("SELECT")),
        ("CREATE TABLE temp.t (a)", None),
        ("CREATE TEMP TABLE t (a)", None),
        ("INSERT users VALUES (1)", None),
        ("\ufeffCREATE TABLE t (a)", None),
        ('CREATE TABLE "t', None),
        ("(", None),
        ("", None),
        ("/*" * 50_000, None),
        ('"`' * 50_000, None),
    ],
    ids=range(17),
)
def test_what_a_statement_is_about(query: str, statement: Statement | None) -> None:
    assert statement_of(query) == statement


def test_a_schema_that_contradicts_forgets() -> None:
    tables = Tables(alive=True)
    tables.saw_schema([])
    tables.absorb("CREATE TABLE t (a)", None, None, failed=False)
    assert tables.names() == ["t"]
    tables.saw_schema(["u"])
    assert tables.names() == []
    assert tables.answer("SELECT * FROM t", None, writes=False) == "no such table: t"
    tables.saw_schema(["u"], whole=False)
    assert tables.answer("SELECT * FROM t", None, writes=False) is None
