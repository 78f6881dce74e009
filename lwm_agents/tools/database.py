"""The database tools: query, execute, schema, over SQLite."""

from __future__ import annotations

import math
import sqlite3
import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass

from lwm_agents.places.place import Place
from lwm_agents.places.sqlite import (
    ROW_LIMIT,
    TIME_LIMIT,
    Rows,
    SqlError,
    leading_verbs,
    quoted,
    read_rows,
    write_rows,
)
from lwm_agents.places.threads import in_thread
from lwm_agents.values import Json, Observation, ToolAnnotations, ToolSpec

_SCALAR = {"type": ["string", "number", "boolean", "null"]}
_STATEMENT = {
    "query": {"type": "string", "minLength": 1, "description": "One SQL statement."},
    "parameters": {
        "type": ["array", "object"],
        "items": _SCALAR,
        "additionalProperties": _SCALAR,
        "description": "Values for the placeholders: a list for `?`, an object for `:name`.",
    },
}
_READS = {"SELECT", "VALUES", "WITH", "EXPLAIN"}
_NOT_ALONE = {
    *("ATTACH", "DETACH", "VACUUM", "BEGIN", "COMMIT", "END"),
    *("ROLLBACK", "SAVEPOINT", "RELEASE"),
}


@dataclass(frozen=True)
class DatabaseTool:
    """One database tool: its spec, what it refuses anywhere, and what it does with a place."""

    spec: ToolSpec
    refuse: Callable[[str], str | None]
    act: Callable[[Place, Mapping[str, Json], threading.Event], Observation]

    def refusal(self, arguments: Mapping[str, Json], root: str | None = None) -> str | None:  # noqa: ARG002
        """Return why this statement is refused whatever the database holds, or None."""
        return self.refuse(arguments["query"]) if "query" in arguments else None

    async def run(self, arguments: Mapping[str, Json], place: Place) -> Observation:
        """Run the statement in the place, in a thread that cancelling stops and waits for."""
        stopped = threading.Event()
        try:
            return await in_thread(lambda: self.act(place, arguments, stopped), stop=stopped.set)
        except FileNotFoundError:
            said = f"no such database: {place.database}"
        except (SqlError, sqlite3.Error) as error:
            said = str(error)
        return Observation(text=f"Error: {said}", source=place.source, is_error=True)


def _refuse_query(query: str) -> str | None:
    verbs = leading_verbs(query)
    if len(verbs) > 1:
        return "Error: one statement a call"
    if verbs and verbs[0] == "PRAGMA":
        return "Error: sql_query only reads rows: PRAGMA; see sql_schema for tables and columns"
    if verbs and verbs[0] not in _READS:
        return f"Error: sql_query only reads: {verbs[0]}; use sql_execute to write"
    return None


def _refuse_statement(query: str) -> str | None:
    verbs = leading_verbs(query)
    if verbs and verbs[0] in _NOT_ALONE:
        return (
            f"Error: sql_execute refuses this: {verbs[0]}; every call is a transaction of its own"
        )
    # The body of a trigger holds statements of its own.
    if len(verbs) > 1 and verbs[0] != "CREATE":
        return "Error: one statement a call"
    return None


def _query(place: Place, arguments: Mapping[str, Json], stopped: threading.Event) -> Observation:
    parameters = arguments.get("parameters", ())
    with closing(place.connect("ro")) as connection:
        rows = read_rows(connection, arguments["query"], parameters, stopped)
    return _observation(rows, place)


def _execute(place: Place, arguments: Mapping[str, Json], stopped: threading.Event) -> Observation:
    query, parameters = arguments["query"], arguments.get("parameters", ())
    try:
        connection = place.connect("rw")
    except FileNotFoundError:
        # What fails on an empty database must not leave one behind: tried in memory first.
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as empty:
            write_rows(empty, query, parameters, stopped)
        connection = place.connect("rwc")
    with closing(connection):
        rows = write_rows(connection, query, parameters, stopped)
    return _observation(rows, place)


def _schema(place: Place, _: Mapping[str, Json], stopped: threading.Event) -> Observation:
    with closing(place.connect("ro")) as connection:
        found = read_rows(
            connection,
            "SELECT type, name, sql FROM sqlite_master WHERE substr(name, 1, 7) != 'sqlite_' "
            "ORDER BY type != 'table', type, name",
            (),
            stopped,
        )
        tables = []
        for kind, name, sql in found.rows:
            if kind in {"table", "view"}:
                columns = read_rows(
                    connection,
                    f"PRAGMA table_xinfo({quoted(str(name))})",
                    (),
                    stopped,
                    pragmas=frozenset({"table_xinfo"}),
                )
                tables.append(
                    {
                        "name": name,
                        "type": kind,
                        "sql": sql,
                        "columns": [
                            {
                                "name": column,
                                "type": declared,
                                "not_null": bool(not_null),
                                "default": default,
                                "primary_key": bool(key),
                            }
                            for _, column, declared, not_null, default, key, _ in columns.rows
                        ],
                    }
                )
    text = "".join(f"{sql};\n" for _, _, sql in found.rows if sql) or "No tables\n"
    if found.total > len(found.rows):
        text += f"[{found.total - len(found.rows)} more]\n"
    return Observation(text=text, source=place.source, structured={"tables": tables})


def _observation(rows: Rows, place: Place) -> Observation:
    structured: dict[str, Json] = {
        "columns": list(rows.columns),
        "rows": [[_json(value) for value in row] for row in rows.rows],
        "row_count": rows.total,
    }
    if rows.affected is not None:
        structured |= {"rows_affected": rows.affected, "last_row_id": rows.last_row_id}
    return Observation(text=render(rows), source=place.source, structured=structured)


def render(rows: Rows) -> str:
    """Return rows as text: a line of column names, a line a row, and how many there are.

    Values are parted by ` | `. NULL and x'…' (bytes) are written as in SQL; a line break inside a
    value is written as an escape.
    """
    lines = []
    if rows.columns:
        lines = [" | ".join(_shown(name) for name in rows.columns)]
        lines += [" | ".join(_shown(value) for value in row) for row in rows.rows]
        hidden = rows.total - len(rows.rows)
        if rows.endless:
            lines.append(f"({len(rows.rows)} rows shown; at least {hidden} more)")
        elif hidden:
            lines.append(f"({len(rows.rows)} rows shown; {hidden} more)")
        else:
            lines.append(_counted(rows.total, ""))
    if rows.affected is not None:
        key = f", last row id {rows.last_row_id}" if rows.last_row_id is not None else ""
        lines.append(_counted(rows.affected, f" affected{key}"))
    return "\n".join(lines or ["OK"]) + "\n"


def _counted(count: int, what: str) -> str:
    return f"({count} row{'' if count == 1 else 's'}{what})"


_BREAKS = str.maketrans({"\n": "\\n", "\r": "\\r", "\0": "\\0"})


def _shown(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, float) and math.isinf(value):
        return "Inf" if value > 0 else "-Inf"
    return str(value).translate(_BREAKS)


def _json(value: object) -> Json:
    """Return a value as JSON can say it: bytes as the text x'…', infinities as text."""
    if isinstance(value, bytes) or (isinstance(value, float) and math.isinf(value)):
        return _shown(value)
    return value


def _spec(
    name: str,
    description: str,
    arguments: Mapping[str, Json],
    *,
    read_only: bool,
) -> ToolSpec:
    return ToolSpec(
        name=name,
        description=description,
        input_schema={
            "type": "object",
            "properties": dict(arguments),
            "required": [key for key in arguments if key == "query"],
            "additionalProperties": False,
        },
        annotations=ToolAnnotations(
            read_only_hint=read_only,
            destructive_hint=not read_only,
            idempotent_hint=read_only,
            open_world_hint=False,
        ),
        domain="database",
    )


DATABASE_TOOLS = (
    DatabaseTool(
        _spec(
            "sql_query",
            "Run one SQL query that only reads (SELECT, VALUES, WITH, EXPLAIN) in the SQLite "
            f"database. Shows up to {ROW_LIMIT:,} rows and how many more there are; stopped after "
            f"{TIME_LIMIT:g} s.",
            _STATEMENT,
            read_only=True,
        ),
        _refuse_query,
        _query,
    ),
    DatabaseTool(
        _spec(
            "sql_execute",
            "Run one SQL statement that may write in the SQLite database (INSERT, UPDATE, DELETE, "
            "CREATE, ALTER, DROP), in a transaction of its own. Shows how many rows it affected, "
            "and the rows of RETURNING. ATTACH, VACUUM and transaction control are refused.",
            _STATEMENT,
            read_only=False,
        ),
        _refuse_statement,
        _execute,
    ),
    DatabaseTool(
        _spec(
            "sql_schema",
            "Show the CREATE statements of the SQLite database: tables first, then indexes, "
            "triggers and views.",
            {},
            read_only=True,
        ),
        lambda _: None,
        _schema,
    ),
)
