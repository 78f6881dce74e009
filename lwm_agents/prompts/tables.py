"""Tables whose every row the history establishes, replayed in a private SQLite database.

Only tables that the history itself created are there, so counts, sums and order come out exact. The
database is kept as the bytes of an image and opened in memory for each statement, by the same code
that the real tools run; the session's own database is never opened.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from lwm_agents.places.sqlite import Rows, SqlError, leading_verbs, quoted, read_rows, write_rows
from lwm_agents.prompts.statements import Statement, folded, statement_of
from lwm_agents.tools.database import render
from lwm_agents.values import Json

_LARGEST = 4 << 20
"""Bytes of the image; a larger one is given up."""
_LONGEST = 50_000
"""Characters of a statement that is run again."""
_REPLAY_SECONDS = 0.1
"""How long a replayed statement may take; a hostile one must not hold up every later step."""

# What differs from run to run, or shows more than the known tables.
_UNSURE = re.compile(
    r"\b(now|localtime|current_\w+|random\w*|changes|total_changes|last_insert_rowid|sqlite_\w+"
    r"|pragma\w*|virtual|dbstat|load_extension|explain|analyze|temp|temporary|generate_series)\b"
    r"|\b(date|time|datetime|julianday|unixepoch)\s*\(\s*\)|\bstrftime\s*\(\s*'[^']*'\s*\)",
    re.IGNORECASE,
)
# Errors that hang on the statement and on tables that are known, whatever else there is.
_SURE_ERRORS = re.compile(
    r"no such column|ambiguous column name|UNIQUE constraint failed|NOT NULL constraint failed"
    r"|CHECK constraint failed|near |incomplete input|datatype mismatch|misuse of aggregate"
    r"|table \S+ (?:has|already exists)|\d+ values for \d+ columns"
)
# Errors that the parser gives before it looks at any name.
_SYNTAX_ERRORS = re.compile(r"near |incomplete input|unrecognized token")


@dataclass(frozen=True)
class TableFacts:
    """A known table: its columns, how many rows, and the first rows as text."""

    name: str
    columns: tuple[str, ...]
    count: int
    rows: str


@dataclass
class Tables:
    """The known tables. `image` is their database; `absent` names that certainly stand for nothing.

    `listed`: the names of all tables, views and indexes, once a schema showed them. `alive`: the
    database exists. `untriggered`: it has no triggers but those in the image.
    """

    image: bytes = b""
    absent: set[str] = field(default_factory=set)
    listed: set[str] | None = None
    alive: bool = False
    untriggered: bool = False

    def reset(self) -> None:
        """Take in that anything may have changed."""
        self.image, self.absent, self.listed, self.untriggered = b"", set(), None, False

    def copy(self) -> Tables:
        """Return tables that can change without changing these."""
        listed = None if self.listed is None else set(self.listed)
        return Tables(self.image, set(self.absent), listed, self.alive, self.untriggered)

    def answer(self, query: str, parameters: Json, *, writes: bool) -> Rows | str | None:
        """Return what a statement gives, or its error message; None where that is not certain.

        A writing statement changes these tables.
        """
        if not self.alive or not _sure(query, parameters):
            return None
        verb = (leading_verbs(query) or [""])[0]
        if writes and verb in {"SELECT", "VALUES", "WITH", "PRAGMA", "REINDEX"}:
            return None
        statement = statement_of(query)
        if statement is not None and self._follows(statement, writes):
            return self._replay(query, parameters, writes)
        if verb in {"CREATE", "DROP", "ALTER"}:
            return None
        wrong = self.copy()._replay(query, parameters, writes)
        return wrong if isinstance(wrong, str) and _SYNTAX_ERRORS.match(wrong) else None

    def _follows(self, statement: Statement, writes: bool) -> bool:
        """Return whether what a statement does hangs on what is known alone."""
        name, kind = statement.name, statement.kind
        known = self._objects()
        there = name in known
        if statement.verb == "CREATE":
            if kind in {"INDEX", "TRIGGER"}:
                return known.get(name) == kind
            return there or self._certainly_absent(name)
        if statement.verb == "DROP":
            if kind in {"INDEX", "TRIGGER"}:
                return known.get(name) == kind
            return there or self._certainly_absent(name)
        if statement.verb == "ALTER":
            # Renaming and dropping read every view and trigger that there is.
            return there and (statement.action == "ADD" or self._whole(known))
        if name:
            return there or self._certainly_absent(name)
        return not writes

    def absorb(self, query: str, parameters: Json, observed: str | None, failed: bool) -> None:
        """Take in a writing statement that ran.

        `observed` is what it printed, None where that was itself only imagined.
        """
        self.alive = self.alive or not failed
        statement = statement_of(query)
        if statement is None or not _sure(query, parameters):
            self._absorb_unclear(statement, failed)
            return
        known = self._objects()
        there = statement.name in known
        if statement.verb == "CREATE" and not there:
            if statement.kind in {"TABLE", "VIEW"}:
                doubtful = failed or statement.careful
                if doubtful and not self._certainly_absent(statement.name):
                    self._maybe(statement.name)  # it may have been there before, with rows
                    return
            elif statement.careful and not failed and not self._whole(known):
                self.reset()  # one of that name may have been there, on another table
                return
        if statement.verb == "DROP" and not there:
            if not failed:
                self._note(statement)
            return
        if statement.name and statement.verb not in {"CREATE", "DROP"} and not there:
            if not failed:
                self._wrote_unknown(statement)
            return
        if statement.verb in {"SELECT", "VALUES"}:
            return
        rows = self._replay(query, parameters, writes=True)
        if isinstance(rows, Rows):
            same = observed is None or observed.strip() == render(rows).strip()
            if failed or not same:
                self.reset()  # what happened differs from what had to: something else is there
        elif not failed:
            if statement.verb == "CREATE" and statement.kind in {"TABLE", "VIEW"} and not there:
                self._maybe(statement.name)
            else:
                self.reset()

    def _absorb_unclear(self, statement: Statement | None, failed: bool) -> None:
        """Take in a statement that can't be run again here."""
        if statement is None or statement.verb != "CREATE":
            if not failed:
                self.reset()
            return
        if statement.kind in {"TABLE", "VIEW"} and statement.name not in self._objects():
            self._maybe(statement.name)
        elif not failed:
            self.reset()

    def _maybe(self, name: str) -> None:
        """Take in that something of this name may be there, with any content."""
        self.absent.discard(name)
        if self.listed is not None:
            self.listed.add(name)

    def _wrote_unknown(self, statement: Statement) -> None:
        """Take in a change of a table that is not known: its triggers may write to any other."""
        if statement.verb == "ALTER" or self._certainly_absent(statement.name):
            self.reset()
        elif not self.untriggered:
            self.image = b""

    def _replay(self, query: str, parameters: Json, writes: bool) -> Rows | str | None:
        """Run a statement on the known tables: its rows, its error where sure, or None."""
        parameters = () if parameters is None else parameters
        with closing(self._open()) as connection:
            stopped = threading.Event()
            try:
                if not writes:
                    return read_rows(
                        connection, query, parameters, stopped, time_limit=_REPLAY_SECONDS
                    )
                rows = write_rows(
                    connection, query, parameters, stopped, time_limit=_REPLAY_SECONDS
                )
            except (SqlError, sqlite3.Error) as error:
                return self._sure_error(str(error))
            image = connection.serialize()
        if len(image) > _LARGEST:
            return None
        self.image = image
        statement = statement_of(query)
        if statement is not None:
            self._note(statement)
        return rows

    def saw_schema(self, names: Sequence[str], text: str = "", *, whole: bool = True) -> None:
        """Take in the names of all tables and views, and the statements that made them.

        `whole`: they are all that there is.
        """
        self.alive = True
        listed = {folded(name) for name in names}
        known = self._objects()
        if not {name for name, kind in known.items() if kind in {"TABLE", "VIEW"}} <= listed:
            self.reset()
        self.absent -= listed
        if not whole:
            self.listed, self.untriggered = None, False
            return
        made = [statement_of(part) for part in text.split(";\n")]
        self.listed = listed | {one.name for one in made if one is not None}
        self.untriggered = "trigger" not in text.lower()

    def names(self) -> list[str]:
        """Return the names of the known tables, in the order they were made."""
        if not self.image:
            return []
        with closing(self._open()) as connection:
            found = connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' "
                "AND substr(name, 1, 7) != 'sqlite_'"
            ).fetchall()
        return [name for (name,) in found]

    def facts(self, rows: int = 20) -> list[TableFacts]:
        """Return what is known of each table, with at most so many rows."""
        names = self.names()
        if not names:
            return []
        found = []
        with closing(self._open()) as connection:
            for name in names:
                count = connection.execute(f"SELECT count(*) FROM {quoted(name)}").fetchone()[0]
                cursor = connection.execute(f"SELECT * FROM {quoted(name)} LIMIT {int(rows)}")
                columns = tuple(column[0] for column in cursor.description)
                shown = render(Rows(columns, tuple(cursor.fetchall()), count))
                found.append(TableFacts(name, columns, count, shown))
        return found

    def _objects(self) -> dict[str, str]:
        """Return the kind of each known name: TABLE, VIEW, INDEX or TRIGGER.

        A trigger may share a table's name; the table's counts.
        """
        if not self.image:
            return {}
        with closing(self._open()) as connection:
            found = connection.execute(
                "SELECT name, upper(type) FROM sqlite_master ORDER BY type = 'trigger' DESC"
            ).fetchall()
        return {folded(name): kind for name, kind in found}

    def _whole(self, known: Mapping[str, str]) -> bool:
        """Return whether the known tables are all that the database has, and so its triggers."""
        return self.listed is not None and self.listed <= set(known)

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        if self.image:
            connection.deserialize(self.image)
        return connection

    def _certainly_absent(self, name: str) -> bool:
        name = folded(name)
        return name in self.absent or (self.listed is not None and name not in self.listed)

    def _sure_error(self, message: str) -> str | None:
        if _SURE_ERRORS.match(message):
            return message
        missing = re.fullmatch(r"no such table: (\w+)", message)
        return message if missing and self._certainly_absent(missing[1]) else None

    def _note(self, statement: Statement) -> None:
        """Take in which name a statement that worked has brought or taken."""
        if statement.verb == "CREATE":
            self._maybe(statement.name)
        elif statement.verb == "DROP" and statement.kind in {"TABLE", "VIEW"}:
            self.absent.add(statement.name)
            if self.listed is not None:
                self.listed.discard(statement.name)
        elif statement.verb == "ALTER":
            self.absent, self.listed = set(), None  # a name may have gone and another come


def _sure(query: str, parameters: Json) -> bool:
    if len(query) > _LONGEST:
        return False
    verbs = leading_verbs(query)
    if not verbs or (len(verbs) > 1 and verbs[0] != "CREATE"):
        return False
    values: Sequence[Json] = ()
    if isinstance(parameters, Mapping):
        values = list(parameters.values())
    elif isinstance(parameters, list):
        values = parameters
    if any(isinstance(value, str) and _UNSURE.search(value) for value in values):
        return False
    return not _UNSURE.search(query)
