"""Named SQL with the effects it must be given."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lwm_agents.gate.sql_effects import DIALECTS, sql_effects, statements_of

EXACT = {
    "read": [
        "SELECT 1",
        "SELECT * FROM t WHERE a LIKE '%x%' ORDER BY b LIMIT 3",
        "SELECT count(*), sum(a), coalesce(a, b), strftime('%Y', d) FROM t GROUP BY 1",
        "SELECT 1 UNION SELECT 2",
        "WITH x AS (SELECT 1 AS a) SELECT a FROM x",
        "PRAGMA table_info(t)",
        "EXPLAIN QUERY PLAN SELECT 1",
        "EXPLAIN DELETE FROM t",
        "SELECT id FROM t -- DROP TABLE t",
        "SELECT 'DROP TABLE t'",
        'SELECT "a" FROM t',
        "SELECT 1;",
    ],
    "write": [
        "INSERT INTO t VALUES (1)",
        "INSERT OR REPLACE INTO t VALUES (1)",
        "INSERT INTO t SELECT * FROM u",
        "INSERT INTO t VALUES (1) ON CONFLICT DO UPDATE SET a = 1",
        "UPDATE t SET a = 1 WHERE id = 3",
        "UPDATE t SET a = 1 WHERE id IN (1, 2) AND b > 3",
        "UPDATE t SET a = 1 WHERE id = 3 OR id = 4",
        "UPDATE t SET a = 1 WHERE 3 = id",
        "UPDATE t SET a = 1 WHERE (id = -3 AND b IS NOT NULL)",
        "UPDATE t SET a = 1 WHERE id = ?",
        "UPDATE t SET a = 1 WHERE id IN (:x, $1)",
        "INSERT INTO ft(a, b) VALUES ('delete-all', 1)",
        "CREATE TABLE a (id integer primary key, n text)",
        "CREATE INDEX i ON t(a)",
        "CREATE VIEW v AS SELECT 1 AS a",
        "ALTER TABLE t ADD COLUMN c int",
        "ALTER TABLE t RENAME TO u",
        "SELECT a INTO b FROM c",
        "SELECT * FROM t FOR UPDATE",
        "VACUUM",
        "ANALYZE",
        "SELECT 1; INSERT INTO t VALUES (1)",
    ],
    "destroy": [
        "DELETE FROM t",
        "DELETE FROM t WHERE id = 1",
        "DROP TABLE t",
        "drop/**/table t",
        "DROP VIEW v",
        "TRUNCATE TABLE t",
        "ALTER TABLE t DROP COLUMN c",
        "UPDATE t SET a = 1",
        "UPDATE t SET a = 1 WHERE 1 = 1",
        "UPDATE t SET a = 1 WHERE id IS NOT NULL",
        "UPDATE t SET a = 1 WHERE a IS a",
        "UPDATE t SET a = 1 WHERE id > -1",
        "UPDATE t SET a = 1 WHERE length(a) >= 0",
        "UPDATE t SET a = 1 WHERE NOT (id = 3)",
        "UPDATE t SET a = 1 WHERE id = 3 OR id > 3",
        "UPDATE t SET a = 1 WHERE id = b",
        "UPDATE t SET a = 1 WHERE id IN (SELECT id FROM t)",
        "UPDATE t SET a = 1 WHERE \"x\" = 'x'",
        "INSERT OR REPLACE INTO t SELECT * FROM u",
        "INSERT INTO ft(ft) VALUES ('delete-all')",
        "INSERT INTO ft(FT, rowid) VALUES ('delete', 1)",
        "UPDATE t SET a = 1 WHERE true",
        "UPDATE t SET a = 1 WHERE a = a",
        "UPDATE t SET a = 1 WHERE id = 3 OR 1 = 1",
        "UPDATE t SET a = 1 WHERE id = 3 OR b = b",
        "SELECT 1; DROP TABLE x",
        "WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x",
        "CREATE OR REPLACE TABLE a AS SELECT 1 AS b",
        "MERGE INTO a USING b ON a.x = b.x WHEN MATCHED THEN DELETE",
        "SELECT '\\'; DROP TABLE x; -- '",
    ],
    "external": ["SELECT * FROM dblink('x', 'y') AS t(a int)"],
    "unknown": [
        "",
        "-- nothing",
        "SELEC 1",
        "SELECT 'unterminated",
        "ATTACH 'x' AS y",
        "VACUUM INTO 'x'",
        "PRAGMA user_version = 3",
        "PRAGMA writable_schema = 1",
        "EXPLAIN ANALYZE DELETE FROM t",
        "CREATE TRIGGER g AFTER INSERT ON x BEGIN DELETE FROM y; END",
        "SELECT writefile('a', 'b')",
        "SELECT load_extension('x')",
        "SELECT my_function(1)",
        "SELECT nextval('s')",
        "SELECT pg_terminate_backend(1)",
        "COPY t TO PROGRAM 'sh'",
        "BEGIN",
        "COMMIT",
        "SET x = 1",
        "GRANT ALL ON t TO u",
        "CALL p()",
        "/*!50000 DROP TABLE x */ SELECT 1",
        "SELECT 1 INTO OUTFILE '/x'",
        "LOAD DATA INFILE 'x' INTO TABLE t",
        "SELECT 1\x00; DROP TABLE t",
        "(" * 3000,
    ],
}


@pytest.mark.parametrize(
    ("query", "effect"), [(query, effect) for effect, queries in EXACT.items() for query in queries]
)
def test_sql_has_exactly_this_effect(query: str, effect: str) -> None:
    assert sql_effects(query) == {effect}


def test_a_named_dialect_is_the_only_one_asked() -> None:
    assert sql_effects("REPLACE INTO t VALUES (1)", "sqlite") == {"write"}
    assert "unknown" in sql_effects("REPLACE INTO t VALUES (1)")
    assert sql_effects("REPLACE INTO t SELECT * FROM u", "sqlite") == {"destroy"}


def test_all_that_several_statements_do_is_found() -> None:
    assert sql_effects("DROP TABLE t; SELECT dblink('x')") == {"destroy", "external"}


def test_statements_are_counted() -> None:
    assert statements_of("SELECT ';'; SELECT 2;") == 2
    assert statements_of("SELECT (") is None


@given(st.text(max_size=120), st.sampled_from(DIALECTS))
@settings(max_examples=200, deadline=None)
def test_any_text_has_some_effect(text: str, dialect: str) -> None:
    assert sql_effects(text, dialect)
