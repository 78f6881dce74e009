"""Names that a history shows to exist in a database of any dialect, and those it shows missing.

For recorded tools that print rows as Python does; our own tools' tables are in `tables`.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field

_DESCRIBE = re.compile(
    r"\s*(?:desc|describe|show\s+(?:full\s+)?columns\s+(?:from|in))\s+[`\"]?(\w+)[`\"]?\s*;?\s*\Z",
    re.IGNORECASE,
)
_SHOW_TABLES = re.compile(r"\s*show\s+tables\s*;?\s*\Z", re.IGNORECASE)
_MISSING_TABLE = re.compile(r"Table '(?:\w+\.)?(\w+)' doesn't exist|no such table: (\w+)")
_COLUMN_OF_ONE = re.compile(r"\s*select\s+\*\s+from\s+[`\"]?(\w+)[`\"]?\s*;?\s*\Z", re.IGNORECASE)


@dataclass
class Schemas:
    """What is known of a database's names.

    `tables`: all of them, in order, once listed. `columns`: of each described table. `missing`: the
    error message a name that is no table gave. `counts`: rows of tables that were read whole.
    """

    tables: tuple[str, ...] | None = None
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def absorb(self, query: str, text: str, *, wrote: bool) -> None:
        """Take in a statement and what it printed; `wrote`: it may have changed something."""
        if wrote:
            self.counts.clear()
            if re.match(r"\s*(create|drop|alter|rename|use)\b", query, re.IGNORECASE):
                self.tables, self.columns, self.missing = None, {}, {}
            return
        missing = _MISSING_TABLE.search(text)
        if missing and len(text) < 500:
            self.missing[(missing[1] or missing[2]).lower()] = text.strip()
            return
        if not text.startswith("[") or len(text) > 20_000:
            return
        described, whole = _DESCRIBE.match(query), _COLUMN_OF_ONE.match(query)
        if not (described or whole or _SHOW_TABLES.match(query)):
            return
        rows = _rows(text)
        if rows is None:
            return
        if _SHOW_TABLES.match(query):
            self.tables = tuple(str(row[0]) for row in rows if row)
        elif described:
            self.columns[described[1]] = tuple(str(row[0]) for row in rows if row)
        elif whole:
            self.counts[whole[1]] = len(rows)

    def lines(self) -> list[str]:
        """Return what is known, a line each."""
        lines = []
        if self.tables is not None:
            lines.append(f"Tables: {', '.join(self.tables)}")
        lines += [f"Columns of {name}: {', '.join(names)}" for name, names in self.columns.items()]
        lines += [f"Rows in {name}: {count}" for name, count in self.counts.items()]
        return lines

    def about(self, query: str) -> list[str]:
        """Return what follows for a statement: which of its names do not exist."""
        if not (self.tables or self.columns or self.missing):
            return []
        used = _names(query)
        if used is None:
            return []
        lines = []
        known = None if self.tables is None else {name.lower() for name in self.tables}
        for table in used.tables:
            error = self.missing.get(table.lower())
            if error is not None:
                lines.append(f"There is no table {table}; the error was: {error}")
            elif known is not None and table.lower() not in known:
                lines.append(f"There is no table {table}")
        described = {name.lower(): names for name, names in self.columns.items()}
        for qualifier, column in used.columns:
            tables = [used.aliases[qualifier]] if qualifier in used.aliases else used.tables
            if qualifier and qualifier not in used.aliases:
                continue
            if not tables or any(table.lower() not in described for table in tables):
                continue
            there = {name.lower() for table in tables for name in described[table.lower()]}
            if column.lower() not in there | used.invented:
                lines.append(f"There is no column {column} in {', '.join(tables)}")
        return list(dict.fromkeys(lines))


@dataclass(frozen=True)
class _Names:
    """The names in a statement. `aliases` says which table each qualifier stands for, lower case;
    `columns` are (qualifier or "", name); `invented` names the statement itself makes.
    """

    tables: list[str]
    aliases: dict[str, str]
    columns: list[tuple[str, str]]
    invented: set[str]


def _rows(text: str) -> list[tuple[object, ...]] | None:
    """Return rows printed as a Python list of tuples of literals, else None."""
    try:
        rows = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    if not isinstance(rows, list) or not all(isinstance(row, tuple) for row in rows):
        return None
    return rows


def _names(query: str) -> _Names | None:
    """Return the names in one SELECT; None where they can't be told."""
    if len(query) > 2000 or not re.match(r"\s*(select|with)\b", query, re.IGNORECASE):
        return None
    import sqlglot
    from sqlglot import exp

    try:
        tree = sqlglot.parse_one(query, dialect="mysql")
    except (sqlglot.errors.SqlglotError, RecursionError):
        return None
    invented = {cte.alias_or_name.lower() for cte in tree.find_all(exp.CTE)}
    invented |= {alias.alias.lower() for alias in tree.find_all(exp.Alias)}
    # A table of a subquery may share an alias with one outside: then the name tells nothing.
    aliases: dict[str, str] = {}
    doubtful: set[str] = set()
    tables: dict[str, None] = {}
    for table in tree.find_all(exp.Table):
        if table.db:
            return None  # of another database, such as information_schema
        if not table.name or table.name.lower() in invented:
            continue
        tables[table.name] = None
        alias = table.alias_or_name.lower()
        if aliases.setdefault(alias, table.name) != table.name:
            doubtful.add(alias)
    columns = [
        (column.table.lower(), column.name)
        for column in tree.find_all(exp.Column)
        if column.name and not isinstance(column.this, exp.Star)
    ]
    kept = {alias: name for alias, name in aliases.items() if alias not in doubtful}
    return _Names(list(tables), kept, columns, invented)
