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

from lwm_agents.tools.database import render
from lwm_agents.tools.sqlite import Rows, SqlError, leading_verbs, read_rows, write_rows
from lwm_agents.values import Json

_LARGEST = 4 << 20
"""Bytes of the image; a larger one is given up."""
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
_NEW = re.compile(
    r"\s*create\s+(?:unique\s+)?(?P<kind>table|view|index|trigger)\s+"
    r"(?P<careful>if\s+not\s+exists\s+)?[\"'`\[]?(?P<name>\w+)",
    re.IGNORECASE,
)
_GONE = re.compile(
    r"\s*drop\s+(?:table|view)\s+(?:if\s+exists\s+)?[\"'`\[]?(?P<name>\w+)", re.IGNORECASE
)


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

    `listed`: all names there are, once a schema showed them. `alive`: the database exists.
    """

    image: bytes = b""
    absent: set[str] = field(default_factory=set)
    listed: set[str] | None = None
    alive: bool = False

    def reset(self) -> None:
        """Take in that anything may have changed."""
        self.image, self.absent, self.listed = b"", set(), None

    def copy(self) -> Tables:
        """Return tables that can change without changing these."""
        return Tables(self.image, set(self.absent), self.listed and set(self.listed), self.alive)

    def answer(self, query: str, parameters: Json, *, writes: bool) -> Rows | str | None:
        """Return what a statement gives, or its error message; None where that is not certain.

        A writing statement changes these tables.
        """
        if not self.alive or not _sure(query, parameters):
            return None
        verb = (leading_verbs(query) or [""])[0]
        if writes and verb in {"SELECT", "VALUES", "WITH", "PRAGMA", "REINDEX"}:
            return None
        new = _NEW.match(query)
        if new and not self._has(new["name"]):
            sure_kind = new["kind"].lower() in {"table", "view"}
            if not (sure_kind and self._certainly_absent(new["name"])):
                return None
        return self._replay(query, parameters, writes)

    def absorb(self, query: str, parameters: Json, observed: str | None, failed: bool) -> None:
        """Take in a writing statement that ran.

        `observed` is what it printed, None where that was itself only imagined.
        """
        self.alive = self.alive or not failed
        if not _sure(query, parameters):
            if not failed and not self._touches_nothing_known(query):
                self.reset()
            return
        new, gone = _NEW.match(query), _GONE.match(query)
        unknown = new is not None and not self._has(new["name"])
        if new and unknown and new["careful"] and not self._certainly_absent(new["name"]):
            return  # it may have been there before, with rows
        if gone and not self._has(gone["name"]):
            if not failed:
                self._note(query)
            return
        rows = self._replay(query, parameters, writes=True)
        if isinstance(rows, Rows):
            same = observed is None or observed.strip() == render(rows).strip()
            if failed or not same:
                self.reset()  # what happened differs from what had to: something else is there
        elif not failed and not self._touches_nothing_known(query):
            self.reset()

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
        self._note(query)
        return rows

    def saw_schema(self, names: Sequence[str]) -> None:
        """Take in the names of all tables and views."""
        self.alive = True
        self.listed = {name.lower() for name in names}
        if self.listed != self.listed | {name.lower() for name in self.names()}:
            self.reset()

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
        found = []
        for name in self.names():
            quoted = '"' + name.replace('"', '""') + '"'
            with closing(self._open()) as connection:
                count = connection.execute(f"SELECT count(*) FROM {quoted}").fetchone()[0]
                cursor = connection.execute(f"SELECT * FROM {quoted} LIMIT {int(rows)}")
                columns = tuple(column[0] for column in cursor.description)
                shown = render(Rows(columns, tuple(cursor.fetchall()), count))
            found.append(TableFacts(name, columns, count, shown))
        return found

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        if self.image:
            connection.deserialize(self.image)
        return connection

    def _has(self, name: str) -> bool:
        return name.lower() in (known.lower() for known in self.names())

    def _certainly_absent(self, name: str) -> bool:
        name = name.lower()
        return name in self.absent or (self.listed is not None and name not in self.listed)

    def _sure_error(self, message: str) -> str | None:
        if _SURE_ERRORS.match(message):
            return message
        missing = re.fullmatch(r"no such table: (\w+)", message)
        return message if missing and self._certainly_absent(missing[1]) else None

    def _note(self, query: str) -> None:
        if new := _NEW.match(query):
            self.absent.discard(new["name"].lower())
            if self.listed is not None:
                self.listed.add(new["name"].lower())
        elif gone := _GONE.match(query):
            self.absent.add(gone["name"].lower())
            if self.listed is not None:
                self.listed.discard(gone["name"].lower())
        elif (leading_verbs(query) or [""])[0] == "ALTER":
            self.absent, self.listed = set(), None  # a name may have gone and another come

    def _touches_nothing_known(self, query: str) -> bool:
        """Return whether no known table is so much as named, so none can have changed."""
        words = {word.lower() for word in re.findall(r"\w+", query)}
        return not any(name.lower() in words for name in self.names())


def _sure(query: str, parameters: Json) -> bool:
    verbs = leading_verbs(query)
    if len(query) > 100_000 or not verbs or (len(verbs) > 1 and verbs[0] != "CREATE"):
        return False
    values: Sequence[Json] = ()
    if isinstance(parameters, Mapping):
        values = list(parameters.values())
    elif isinstance(parameters, list):
        values = parameters
    if any(isinstance(value, str) and _UNSURE.search(value) for value in values):
        return False
    return not _UNSURE.search(query)
