"""The database tools on real SQLite files, and everything hostile we know of."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from places import call, tree

from lwm_agents.errors import Misuse
from lwm_agents.places import sqlite
from lwm_agents.places.place import RealPlace
from lwm_agents.places.sqlite import (
    database_path,
    leading_verbs,
    open_database,
    read_rows,
    write_rows,
)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[RealPlace]:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.executescript(
            """
            CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL DEFAULT 1);
            INSERT INTO items VALUES (1, 'tea', 3.5), (2, 'nut|s' || char(10) || 'x', NULL);
            CREATE VIEW cheap AS SELECT * FROM items WHERE price < 5;
            CREATE INDEX by_name ON items (name);
            """
        )
    real = RealPlace(tmp_path, "sqlite:///shop.db", "live")
    yield real
    real.close()


def opened(place: RealPlace, access: sqlite.Access) -> sqlite3.Connection:
    assert place.database is not None
    return open_database(place.database, access)


def content(place: RealPlace) -> str:
    assert place.database is not None
    with closing(sqlite3.connect(place.database)) as connection:
        return "\n".join(connection.iterdump())


async def test_query(place: RealPlace) -> None:
    seen = await call(place, "sql_query", query="SELECT * FROM items ORDER BY id")
    assert seen.text == "id | name | price\n1 | tea | 3.5\n2 | nut|s\\nx | NULL\n(2 rows)\n"
    assert seen.structured == {
        "columns": ["id", "name", "price"],
        "rows": [[1, "tea", 3.5], [2, "nut|s\nx", None]],
        "row_count": 2,
    }
    assert (seen.is_error, seen.source) == (False, "executed")
    seen = await call(place, "sql_query", query="SELECT name FROM cheap WHERE id > 5;")
    assert seen.text == "name\n(0 rows)\n"


async def test_parameters(place: RealPlace) -> None:
    query = "SELECT ? || '', ?2, ?3"
    seen = await call(place, "sql_query", query=query, parameters=["a'b", None, 2.5])
    assert seen.structured["rows"] == [["a'b", None, 2.5]]
    seen = await call(place, "sql_query", query="SELECT :x AS y", parameters={"x": True})
    assert seen.text == "y\n1\n(1 row)\n"
    for bad in ([], [1, 2], {"y": 1}, [2**70], ["\ud800"], [[1]], "x"):
        seen = await call(place, "sql_query", query="SELECT :x", parameters=bad)
        assert seen.is_error, bad


async def test_values_that_json_has_no_word_for(place: RealPlace) -> None:
    query = "SELECT x'00ff' AS b, 9e999 AS i, -9e999 AS j, CAST(x'ff41' AS TEXT) AS t, 1 AS b"
    seen = await call(place, "sql_query", query=query)
    assert seen.structured["columns"] == ["b", "i", "j", "t", "b"]
    assert seen.structured["rows"] == [["x'00ff'", "Inf", "-Inf", "\ufffdA", 1]]
    json.dumps(seen.structured, allow_nan=False)
    assert seen.text.splitlines()[1] == "x'00ff' | Inf | -Inf | \ufffdA | 1"


COUNT_TO = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c {}) SELECT x FROM c"


async def test_more_rows_than_are_shown(place: RealPlace) -> None:
    seen = await call(place, "sql_query", query=COUNT_TO.format("LIMIT 1041"))
    assert seen.text.endswith("\n1000\n(1000 rows shown; 41 more)\n")
    assert (len(seen.structured["rows"]), seen.structured["row_count"]) == (1000, 1041)
    seen = await call(place, "sql_query", query=COUNT_TO.format(""))
    assert seen.text.endswith("\n1000\n(1000 rows shown; at least 999000 more)\n")


HOSTILE_ANYWHERE = [
    "ATTACH '{other}' AS other",
    "ATTACH DATABASE 'file:{other}?mode=rwc' AS other",
    "DETACH main",
    "VACUUM",
    "VACUUM INTO '{other}'",
    "SELECT 1; DROP TABLE items",
    "SELECT load_extension('{other}')",
    "SELECT writefile('{other}', 'x')",
    "SELECT readfile('/etc/passwd')",
    "SELECT edit('x', 'touch {other}')",
    "SELECT fts3_tokenizer('simple')",
    "SELECT hex(fts3_tokenizer('simple', x'00'))",
    "PRAGMA journal_mode = WAL",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA writable_schema = 1",
    "PRAGMA temp_store_directory = '{folder}'",
    "PRAGMA wal_checkpoint(TRUNCATE)",
    "PRAGMA locking_mode = EXCLUSIVE",
    "PRAGMA query_only = 0",
    "PRAGMA trusted_schema = 1",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT a",
    "CREATE TEMP TABLE t (x)",
    "CREATE VIRTUAL TABLE temp.t USING csv(filename='{other}')",
    "",
    ";",
    "-- nothing",
    "SELEC 1",
    "SELECT",
    "SELECT * FROM missing",
    "SELECT zeroblob(1000000000)",
    "SELECT 'unfinished",
    "SELECT '\ud800'",
    "SELECT 1\0; DROP TABLE items",
]
HOSTILE_TO_A_QUERY = [
    "INSERT INTO items VALUES (9, 'x', 1)",
    "INSERT INTO items VALUES (9, 'x', 1) RETURNING id",
    "UPDATE items SET price = 0",
    "DELETE FROM items",
    "REPLACE INTO items VALUES (1, 'x', 1)",
    "WITH a AS (SELECT 1) DELETE FROM items",
    "/* SELECT */ DELETE FROM items -- SELECT",
    "EXPLAIN DELETE FROM items",
    "CREATE TABLE t (x)",
    "CREATE TABLE t AS SELECT 1",
    "CREATE VIRTUAL TABLE t USING fts5(x)",
    "ALTER TABLE items RENAME TO other",
    "DROP TABLE items",
    "DROP VIEW cheap",
    "REINDEX",
    "ANALYZE",
    "PRAGMA user_version = 5",
    "SELECT * FROM pragma_journal_mode('wal')",
    "UPDATE sqlite_master SET sql = ''",
]


@pytest.mark.parametrize("hostile", HOSTILE_ANYWHERE + HOSTILE_TO_A_QUERY)
async def test_a_query_can_do_nothing_but_read(
    place: RealPlace, tmp_path: Path, hostile: str
) -> None:
    query = hostile.format(other=tmp_path / "other.db", folder=tmp_path)
    before = tree(tmp_path)
    # Past the early refusal too: the connection itself must hold.
    tool = await call(place, "sql_query", query=query)
    with closing(opened(place, "ro")) as connection, pytest.raises(sqlite.SqlError):
        read_rows(connection, query, (), threading.Event())
    assert tool.is_error
    assert tool.text
    assert tree(tmp_path) == before


@pytest.mark.parametrize("hostile", HOSTILE_ANYWHERE)
async def test_a_statement_can_do_nothing_but_write_rows_and_tables(
    place: RealPlace, tmp_path: Path, hostile: str
) -> None:
    query = hostile.format(other=tmp_path / "other.db", folder=tmp_path)
    before, files = content(place), os.listdir(tmp_path)
    seen = await call(place, "sql_execute", query=query)
    with closing(opened(place, "rw")) as connection, pytest.raises(sqlite.SqlError):
        write_rows(connection, query, (), threading.Event())
    assert seen.is_error
    assert (content(place), os.listdir(tmp_path)) == (before, files)


async def test_a_thousand_hostile_queries_change_nothing(place: RealPlace, tmp_path: Path) -> None:
    before = tree(tmp_path)
    cheap = [query for query in HOSTILE_ANYWHERE if "zeroblob" not in query]
    hostile = itertools.cycle([*cheap, *HOSTILE_TO_A_QUERY])
    for number in range(1000):
        query = next(hostile).format(other=tmp_path / f"other{number}", folder=tmp_path)
        with closing(opened(place, "ro")) as connection, pytest.raises(sqlite.SqlError):
            read_rows(connection, query, (), threading.Event())
    assert tree(tmp_path) == before


def test_queries_without_end_are_stopped(place: RealPlace) -> None:
    endless = COUNT_TO.format("")
    before = content(place)
    said = "stopped after 0.1 s"
    query = f"SELECT count(*) FROM ({endless})"
    with closing(opened(place, "ro")) as connection, pytest.raises(sqlite.SqlError, match=said):
        read_rows(connection, query, (), threading.Event(), time_limit=0.1)
    statement = f"INSERT INTO items SELECT x + 9, 'x', x FROM ({endless})"
    with closing(opened(place, "rw")) as connection, pytest.raises(sqlite.SqlError, match=said):
        write_rows(connection, statement, (), threading.Event(), time_limit=0.1)
    assert content(place) == before


async def test_a_cancelled_query_is_stopped(place: RealPlace) -> None:
    before = content(place)
    statement = f"INSERT INTO items SELECT x + 9, 'x', x FROM ({COUNT_TO.format('')})"
    task = asyncio.create_task(call(place, "sql_execute", query=statement))
    await asyncio.sleep(0.2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    # The statement has ended and was rolled back: the file is free.
    assert content(place) == before
    assert not (await call(place, "sql_execute", query="DELETE FROM items")).is_error


async def test_execute(place: RealPlace) -> None:
    seen = await call(
        place,
        "sql_execute",
        query="INSERT INTO items (name, price) VALUES (?, ?), ('b', 2) RETURNING id, name",
        parameters=["a", 1],
    )
    assert seen.text == "id | name\n3 | a\n4 | b\n(2 rows)\n(2 rows affected, last row id 4)\n"
    assert seen.structured == {
        "columns": ["id", "name"],
        "rows": [[3, "a"], [4, "b"]],
        "row_count": 2,
        "rows_affected": 2,
        "last_row_id": 4,
    }
    for query, text in (
        ("UPDATE items SET price = 9 WHERE id > 2", "(2 rows affected)\n"),
        ("DELETE FROM items WHERE id = 99", "(0 rows affected)\n"),
        (
            "WITH a AS (SELECT 'c') INSERT INTO items (name) SELECT * FROM a",
            "(1 row affected, last row id 5)\n",
        ),
        ("CREATE TABLE t (x)", "OK\n"),
        (
            "CREATE TRIGGER g AFTER INSERT ON t BEGIN DELETE FROM t WHERE x = 1; "
            "UPDATE t SET x = 2; END",
            "OK\n",
        ),
        ("CREATE VIRTUAL TABLE f USING fts5(x)", "OK\n"),
        ("INSERT INTO f VALUES ('one two')", "(1 row affected, last row id 1)\n"),
        ("ALTER TABLE t ADD COLUMN y", "OK\n"),
        ("DROP VIEW cheap", "OK\n"),
        ("PRAGMA user_version = 7", "OK\n"),
        ("SELECT count(*) AS n FROM items", "n\n5\n(1 row)\n"),
    ):
        assert (await call(place, "sql_execute", query=query)).text == text
    seen = await call(place, "sql_query", query="SELECT x FROM f WHERE f MATCH 'two'")
    assert seen.text == "x\none two\n(1 row)\n"
    assert place.database is not None
    with closing(sqlite3.connect(place.database)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (7,)


async def test_what_fails_changes_nothing(place: RealPlace) -> None:
    before = content(place)
    for query, said in (
        (
            "INSERT INTO items VALUES (7, 'x', 1), (1, 'y', 1)",
            "Error: UNIQUE constraint failed: items.id",
        ),
        ("INSERT INTO items (name) VALUES (NULL)", "Error: NOT NULL constraint failed: items.name"),
        ("UPDATE missing SET x = 1", "Error: no such table: missing"),
        ("DELETE FROM items; DELETE FROM items", "Error: one statement a call"),
    ):
        seen = await call(place, "sql_execute", query=query)
        assert (seen.text, seen.is_error) == (said, True)
    assert content(place) == before


async def test_a_locked_database_is_data(place: RealPlace) -> None:
    assert place.database is not None
    with closing(sqlite3.connect(place.database, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        seen = await call(place, "sql_execute", query="DELETE FROM items")
    assert (seen.text, seen.is_error) == ("Error: database is locked", True)


async def test_a_missing_database(tmp_path: Path) -> None:
    place = RealPlace(tmp_path, "new.db", "live")
    for name, arguments in (
        ("sql_query", {"query": "SELECT 1"}),
        ("sql_schema", {}),
        ("sql_execute", {"query": "INSERT INTO t VALUES (1)"}),
    ):
        assert (await call(place, name, **arguments)).is_error
        assert os.listdir(tmp_path) == []
    assert (await call(place, "sql_execute", query="CREATE TABLE t (x)")).text == "OK\n"
    assert (await call(place, "sql_schema")).text == "CREATE TABLE t (x);\n"
    (tmp_path / "text.db").write_text("this is no database " * 100)
    seen = await call(RealPlace(tmp_path, "text.db", "live"), "sql_query", query="SELECT * FROM t")
    assert (seen.text, seen.is_error) == ("Error: file is not a database", True)
    place.close()


async def test_schema(place: RealPlace) -> None:
    seen = await call(place, "sql_schema")
    assert seen.text == (
        "CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL DEFAULT 1);\n"
        "CREATE INDEX by_name ON items (name);\n"
        "CREATE VIEW cheap AS SELECT * FROM items WHERE price < 5;\n"
    )
    assert [table["name"] for table in seen.structured["tables"]] == ["items", "cheap"]
    assert seen.structured["tables"][0]["columns"][1] == {
        "name": "name",
        "type": "TEXT",
        "not_null": True,
        "default": None,
        "primary_key": False,
    }
    await call(place, "sql_execute", query='CREATE TABLE "odd \' ""name" ("a b")')
    seen = await call(place, "sql_schema")
    assert seen.structured["tables"][1]["columns"][0]["name"] == "a b"


def test_an_odd_file_name(tmp_path: Path) -> None:
    path = str(tmp_path / "a?mode=rwc#%41 é.db")
    with closing(open_database(path, "rwc")) as connection:
        connection.execute("CREATE TABLE t (x)")
    assert os.listdir(tmp_path) == ["a?mode=rwc#%41 é.db"]


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///shop.db", "/root/shop.db"),
        ("sqlite:///data/shop%20x.db", "/root/data/shop x.db"),
        ("sqlite:////srv/shop.db", "/srv/shop.db"),
        ("shop.db", "/root/shop.db"),
        ("/srv/shop.db", "/srv/shop.db"),
        ("../shop.db", "/shop.db"),
    ],
)
def test_database_path(url: str, path: str) -> None:
    assert database_path(url, "/root") == path


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://localhost/shop", r"lwm-agents\[databases\]"),
        ("mysql+pymysql://localhost/shop", r"lwm-agents\[databases\]"),
        ("http://localhost", "no database of the kind http://"),
        ("sqlite://shop.db", "not an SQLite URL"),
        ("sqlite:///", "not an SQLite URL"),
        ("sqlite:///x.db?mode=rw", "not an SQLite URL"),
        (":memory:", "must be a file"),
        ("sqlite:///:memory:", "must be a file"),
        ("", "must be a file"),
    ],
)
def test_no_database_path(url: str, said: str) -> None:
    with pytest.raises(Misuse, match=said):
        database_path(url, "/root")


@pytest.mark.parametrize(
    ("sql", "verbs"),
    [
        ("select 1", ["SELECT"]),
        ("  -- DELETE\n/* DROP; */ select ';' ; ", ["SELECT"]),
        ("select 1; delete from t;", ["SELECT", "DELETE"]),
        ("WITH a AS (SELECT 1), replace AS (DELETE) SELECT * FROM a", ["SELECT"]),
        ("WITH RECURSIVE c(x) AS (VALUES (1)) INSERT INTO t SELECT * FROM c", ["INSERT"]),
        ("EXPLAIN QUERY PLAN UPDATE t SET x = 1", ["UPDATE"]),
        ("/* unfinished DELETE", []),
        ("'text' \"DELETE\" [DROP] `x`", []),
        ("", []),
    ],
)
def test_leading_verbs(sql: str, verbs: list[str]) -> None:
    assert leading_verbs(sql) == verbs
