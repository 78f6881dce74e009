"""What SQL can do, by parsing it.

    sql_effects("SELECT 1") == {"read"}
    sql_effects("DELETE FROM orders WHERE id = 3") == {"destroy"}

INSERT and CREATE are a write, and so is an UPDATE that names rows: like `write_file`, it replaces
what it is pointed at. A DELETE is always `destroy`, as `delete_file` is: `WHERE id > 0` is no
restraint. What sqlglot does not know for certain, and every function that is not a standard one,
is `unknown`.
"""

from __future__ import annotations

import logging
import re

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from lwm_agents.values import Effect

# sqlglot warns about every statement it keeps as text; without a handler Python prints that.
logging.getLogger("sqlglot").addHandler(logging.NullHandler())

DIALECTS = ("sqlite", "postgres", "mysql")
"""Without a named dialect a text counts for the worst that any of these makes of it."""

MAX_CHARACTERS = 100_000
MAX_TOKENS = 2_500
"""Longer SQL is not parsed, which takes long: it is unknown. A text in quotes is one token."""

_READS = (exp.Select, exp.SetOperation, exp.Values, exp.Show, exp.Describe, exp.Table, exp.Subquery)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_READING_PRAGMAS = _words(
    "table_info table_xinfo table_list index_list index_info index_xinfo foreign_key_list "
    "foreign_key_check database_list collation_list function_list module_list pragma_list "
    "compile_options integrity_check quick_check page_count freelist_count encoding"
)

_PRAGMA = re.compile(
    r"\s*PRAGMA\s+(?:\w+\.)?(\w+)\s*(?:\(\s*['\"]?[\w.]*['\"]?\s*\))?\s*;?\s*",
    re.IGNORECASE,
)
"""A PRAGMA without an equals sign; those in the table above only ask."""

_READING_FUNCTIONS = _words(
    "julianday strftime datetime unixepoch date time printf format typeof total ifnull instr "
    "likely unlikely quote hex unhex zeroblob randomblob last_insert_rowid changes "
    "total_changes sqlite_version json json_valid json_type json_each json_tree json_array "
    "json_object json_set json_insert json_replace json_remove json_patch json_quote "
    "json_group_array json_group_object json_array_length jsonb highlight snippet bm25 char "
    "glob like version current_schema to_char to_date age date_part pg_typeof "
    "jsonb_build_object json_build_object row_to_json to_json to_jsonb date_format found_rows "
    "row_count database schema user"
)
"""Functions without effects that sqlglot keeps as text; any other may be anybody's own."""

_ESCAPING_FUNCTIONS = re.compile(r"dblink|http_|lo_(im|ex)port", re.IGNORECASE)


def sql_effects(text: str, dialect: str | None = None) -> frozenset[Effect]:
    """Return everything the SQL can do.

    `dialect` is one of `DIALECTS`; without it the text must parse in all of them to be more than
    unknown. Never raises.
    """
    found: set[Effect] = set()
    if len(text) > MAX_CHARACTERS:
        return frozenset({"unknown"})
    for name in (dialect,) if dialect else DIALECTS:
        try:
            found |= _effects_in(text, name)
        except RecursionError:
            found.add("unknown")
    return frozenset(found - {"read"}) or frozenset({"read"})


def statements_of(text: str, dialect: str = "sqlite") -> int | None:
    """Return how many statements the SQL holds; None where it does not parse. Never raises."""
    parsed = _parsed(text, dialect)
    return None if parsed is None else len(parsed)


def plain_statements(text: str, dialect: str) -> list[str] | None:
    """Return each statement without comments, on one line; None where the SQL does not parse."""
    parsed = _parsed(text, dialect)
    if parsed is None:
        return None
    try:
        return [statement.sql(dialect=dialect, comments=False) for statement in parsed]
    except (SqlglotError, RecursionError, ValueError):
        return None


def tokens_in(text: str) -> int:
    """Return about how many tokens the SQL has."""
    return len(re.findall(r"'[^']*'|\w+|[^\w\s]", text))


def _parsed(text: str, dialect: str) -> list[exp.Expr] | None:
    if len(text) > MAX_CHARACTERS or "\0" in text or tokens_in(text) > MAX_TOKENS:
        return None
    try:
        found = sqlglot.parse(text, dialect=dialect)
    except (SqlglotError, RecursionError, ValueError):
        return None
    return [s for s in found if s is not None and not isinstance(s, exp.Semicolon)]


def _effects_in(text: str, dialect: str) -> set[Effect]:
    if "/*!" in text or "/*+" in text:
        return {"unknown"}  # MySQL runs what stands in such a comment
    if match := re.match(r"\s*EXPLAIN\b(?P<query>\s+QUERY\s+PLAN\b)?\s*", text, re.IGNORECASE):
        rest = text[match.end() :]
        if match["query"] is None and re.match(
            r"\(|ANALY[SZ]E|VERBOSE|FORMAT", rest, re.IGNORECASE
        ):
            return {"unknown"}  # EXPLAIN ANALYZE runs the statement
        if (count := statements_of(rest, dialect)) is None or count > 1:
            return {"unknown"}
        return {"read"}
    if match := _PRAGMA.fullmatch(" ".join(text[:1_000].split()) if len(text) < 1_000 else ""):
        return {"read" if match[1].lower() in _READING_PRAGMAS else "unknown"}
    statements = _parsed(text, dialect)
    if not statements:
        return {"unknown"}
    found: set[Effect] = set()
    for statement in statements:
        found |= _statement_effects(statement)
    return found


def _statement_effects(statement: exp.Expr) -> set[Effect]:
    found: set[Effect] = set()
    known = isinstance(statement, _READS)
    for node in statement.walk():
        effect = _node_effect(node)
        if effect is not None:
            found.add(effect)
            known = known or node is statement
    if not known:
        found.add("unknown")
    return found or {"read"}


def _node_effect(node: exp.Expr) -> Effect | None:
    """Return what this part of a statement adds; None where it adds nothing."""
    match node:
        case exp.Command():
            return _command_effect(node)
        case exp.Insert():
            return "destroy" if _replaces_rows(node) else "write"
        case exp.Update():
            where = node.args.get("where")
            return "write" if where is not None and _names_rows(where.this) else "destroy"
        case exp.Delete() | exp.Drop() | exp.TruncateTable():
            return "destroy"
        case exp.Merge():
            text = node.sql().upper()
            return "destroy" if "DELETE" in text else "write"
        case exp.Create():
            return _create_effect(node)
        case exp.Alter():
            return _alter_effect(node)
        case exp.Into() | exp.Lock() | exp.NextValueFor():
            return "write"
        case exp.Analyze():
            return "write"
        case (
            exp.Pragma()
            | exp.Copy()
            | exp.Attach()
            | exp.Detach()
            | exp.Transaction()
            | exp.Commit()
        ):
            return "unknown"
        case exp.Anonymous() | exp.AnonymousAggFunc():
            return _function_effect(str(node.name))
        case exp.Dot() if isinstance(node.expression, exp.Anonymous):
            return "unknown"  # a function of some schema
        case _:
            return None


def _command_effect(node: exp.Command) -> Effect:
    keyword = str(node.this).upper()
    rest = (node.expression.name if isinstance(node.expression, exp.Expr) else "").upper()
    if keyword == "VACUUM" and "INTO" not in rest:
        return "write"
    if keyword == "REPLACE" and rest.lstrip().startswith("INTO"):
        values = re.search(r"\bVALUES\s*\(", rest) and "SELECT" not in rest
        return "write" if values else "destroy"
    if keyword in ("DROP", "TRUNCATE"):
        return "destroy"
    if keyword == "ALTER" and re.search(r"\bDROP\b", rest):
        return "destroy"
    return "unknown"


def _names_rows(condition: exp.Expr) -> bool:
    """Say whether a WHERE holds for the rows of given values only: `id = 3`, `id IN (1, ?)`.

    Anything else may hold for every row: `id > -1`, `id IS NOT NULL`, `a = a`.
    """
    match condition:
        case exp.Paren():
            return _names_rows(condition.this)
        case exp.And():
            return _names_rows(condition.left) or _names_rows(condition.right)
        case exp.Or():
            return _names_rows(condition.left) and _names_rows(condition.right)
        case exp.EQ():
            left, right = condition.this, condition.expression
            return _is_value(left, right) or _is_value(right, left)
        case exp.In():
            values = condition.expressions
            return bool(values) and all(_is_value(condition.this, value) for value in values)
        case _:
            return False


def _is_value(column: exp.Expr, value: exp.Expr) -> bool:
    """Say whether the first is a column and the second a constant or a parameter."""
    if isinstance(value, exp.Neg):
        value = value.this
    if not isinstance(column, exp.Column):
        return False
    # SQLite takes "x" for a text where there is no such column, so that "x" = 'x' always holds.
    quoted = isinstance(column.this, exp.Identifier) and bool(column.this.args.get("quoted"))
    if quoted and isinstance(value, exp.Literal):
        return column.name.lower() != str(value.this).lower()
    numbered = isinstance(value, exp.Column) and re.fullmatch(r"\$\w+", value.name)
    return bool(numbered) or isinstance(value, exp.Literal | exp.Parameter | exp.Placeholder)


def _replaces_rows(node: exp.Insert) -> bool:
    """Say whether an INSERT takes away rows it does not list.

    REPLACE from a query does; so does a command to an FTS5 index, which is written as an INSERT
    into a column of the table's own name: `INSERT INTO ft(ft) VALUES ('delete-all')`.
    """
    replaces = str(node.args.get("alternative") or "").upper() == "REPLACE"
    if node.args.get("overwrite") or (
        replaces and not isinstance(node.args.get("expression"), exp.Values)
    ):
        return True
    schema = node.this
    return isinstance(schema, exp.Schema) and any(
        column.name.lower() == schema.this.name.lower() for column in schema.expressions
    )


def _create_effect(node: exp.Create) -> Effect:
    kind = str(node.args.get("kind") or "").upper()
    if kind not in ("TABLE", "INDEX", "VIEW", "SCHEMA", "DATABASE", "SEQUENCE"):
        return "unknown"  # triggers and functions act later
    return "destroy" if node.args.get("replace") and kind != "VIEW" else "write"


def _alter_effect(node: exp.Alter) -> Effect:
    actions = node.args.get("actions") or []
    if any(isinstance(action, exp.Drop) for action in actions):
        return "destroy"
    harmless = (exp.ColumnDef, exp.AlterRename, exp.RenameColumn, exp.AddConstraint)
    return "write" if actions and all(isinstance(a, harmless) for a in actions) else "unknown"


def _function_effect(name: str) -> Effect | None:
    if _ESCAPING_FUNCTIONS.match(name):
        return "external"
    return None if name.lower() in _READING_FUNCTIONS else "unknown"
