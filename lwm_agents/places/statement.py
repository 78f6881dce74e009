"""What the database tools ask of a place, as values that can go to another process and back."""

from __future__ import annotations

import base64
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Literal, cast

from lwm_agents.places.sqlite import (
    Rows,
    SqlError,
    open_database,
    quoted,
    read_rows,
    write_rows,
)

_OBJECTS = (
    "SELECT type, name, sql FROM sqlite_master WHERE substr(name, 1, 7) != 'sqlite_' "
    "ORDER BY type != 'table', type, name"
)
_COLUMNS = frozenset({"table_xinfo"})


@dataclass(frozen=True)
class Statement:
    """One request: a query that only reads, one statement that may write, or the schema."""

    kind: Literal["query", "execute", "schema"]
    query: str = ""
    parameters: Sequence[object] | Mapping[str, object] = ()


def answer(path: str, statement: Statement, stopped: threading.Event) -> list[Rows]:
    """Return what the statement gives in the database file: one table.

    `schema` gives type, name and SQL of each object, then the columns of each table and view in
    that order, as `PRAGMA table_xinfo` says them. Raises FileNotFoundError where the file is
    missing and nothing may make it, and SqlError. Blocks; `stopped` ends it.
    """
    try:
        if statement.kind == "schema":
            return _schema(path, stopped)
        if statement.kind == "query":
            with closing(open_database(path, "ro")) as connection:
                return [read_rows(connection, statement.query, statement.parameters, stopped)]
        return [_execute(path, statement, stopped)]
    except sqlite3.Error as error:
        raise SqlError(str(error)) from error


def _execute(path: str, statement: Statement, stopped: threading.Event) -> Rows:
    try:
        connection = open_database(path, "rw")
    except FileNotFoundError:
        # What fails on an empty database must not leave one behind: tried in memory first.
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as empty:
            write_rows(empty, statement.query, statement.parameters, stopped)
        connection = open_database(path, "rwc")
    with closing(connection):
        return write_rows(connection, statement.query, statement.parameters, stopped)


def _schema(path: str, stopped: threading.Event) -> list[Rows]:
    with closing(open_database(path, "ro")) as connection:
        objects = read_rows(connection, _OBJECTS, (), stopped)
        return [objects] + [
            read_rows(
                connection,
                f"PRAGMA table_xinfo({quoted(str(name))})",
                (),
                stopped,
                pragmas=_COLUMNS,
            )
            for kind, name, _ in objects.rows
            if kind in {"table", "view"}
        ]


def packed(tables: Sequence[Rows]) -> list[dict[str, Any]]:
    """Return the tables as JSON can say them; `unpacked` gives them back."""
    return [
        {**vars(table), "rows": [[_pack(value) for value in row] for row in table.rows]}
        for table in tables
    ]


def unpacked(tables: Sequence[dict[str, Any]]) -> list[Rows]:
    """Return the tables that `packed` made."""
    return [
        Rows(
            **{
                **table,
                "columns": tuple(table["columns"]),
                "rows": tuple(tuple(_unpack(value) for value in row) for row in table["rows"]),
            }
        )
        for table in tables
    ]


def _pack(value: object) -> object:
    return [base64.b64encode(value).decode()] if isinstance(value, bytes) else value


def _unpack(value: object) -> object:
    return base64.b64decode(cast(list[str], value)[0]) if isinstance(value, list) else value
