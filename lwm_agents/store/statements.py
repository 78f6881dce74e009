"""Statements that every table needs."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

from lwm_agents.store.rows import storable


def has(connection: sqlite3.Connection, table: str, identity: str) -> bool:
    """Say whether a table has a row with this id."""
    row = connection.execute(
        f"SELECT 1 FROM {table} WHERE id = ?", (storable(identity),)
    ).fetchone()
    return row is not None


def insert(connection: sqlite3.Connection, table: str, row: Mapping[str, Any]) -> None:
    """Insert one row, given by its columns."""
    values = [storable(value) if isinstance(value, str) else value for value in row.values()]
    places = ", ".join("?" * len(row))
    connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})", values)


def dicts(connection: sqlite3.Connection, query: str, *values: Any) -> list[dict[str, Any]]:
    """Return the rows of a query by the names of their columns."""
    # A text that has no UTF-8 form is looked for as the bytes it would be stored as.
    cursor = connection.execute(
        query, [storable(value) if isinstance(value, str) else value for value in values]
    )
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def conditions(**wanted: str | None) -> tuple[str, list[str]]:
    """Return a WHERE clause over columns of `sessions s`, and its values."""
    given = {name: value for name, value in wanted.items() if value is not None}
    where = " AND ".join(f"s.{name} = ?" for name in given)
    return (f" WHERE {where}" if given else ""), list(given.values())
