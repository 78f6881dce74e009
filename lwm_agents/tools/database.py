"""The database tools: query, execute, schema, over SQLite."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from lwm_agents.places.place import Place
from lwm_agents.places.sqlite import ROW_LIMIT, TIME_LIMIT, Rows, SqlError, leading_verbs
from lwm_agents.places.statement import Statement
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
    kind: Literal["query", "execute", "schema"]
    refuse: Callable[[str], str | None]
    shown: Callable[[Sequence[Rows], Place], Observation]

    def refusal(self, arguments: Mapping[str, Json], root: str | None = None) -> str | None:  # noqa: ARG002
        """Return why this statement is refused whatever the database holds, or None."""
        return self.refuse(arguments["query"]) if "query" in arguments else None

    async def run(self, arguments: Mapping[str, Json], place: Place) -> Observation:
        """Run the statement in the place; cancelling stops it and waits for its end."""
        statement = Statement(
            self.kind, arguments.get("query", ""), arguments.get("parameters", ())
        )
        try:
            return self.shown(await place.sql(statement), place)
        except FileNotFoundError:
            said = f"no such database: {place.database}"
        except SqlError as error:
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


def _table(tables: Sequence[Rows], place: Place) -> Observation:
    return _observation(tables[0], place)


def _schema(tables: Sequence[Rows], place: Place) -> Observation:
    objects, columns = tables[0], iter(tables[1:])
    structured = [
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
                for _, column, declared, not_null, default, key, _ in next(columns).rows
            ],
        }
        for kind, name, sql in objects.rows
        if kind in {"table", "view"}
    ]
    text = "".join(f"{sql};\n" for _, _, sql in objects.rows if sql) or "No tables\n"
    if objects.total > len(objects.rows):
        text += f"[{objects.total - len(objects.rows)} more]\n"
    return Observation(text=text, source=place.source, structured={"tables": structured})


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
        "query",
        _refuse_query,
        _table,
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
        "execute",
        _refuse_statement,
        _table,
    ),
    DatabaseTool(
        _spec(
            "sql_schema",
            "Show the CREATE statements of the SQLite database: tables first, then indexes, "
            "triggers and views.",
            {},
            read_only=True,
        ),
        "schema",
        lambda _: None,
        _schema,
    ),
)
