"""The tables, as numbered migrations. `PRAGMA user_version` is the number of the last one applied.

A migration is never changed once released: a new one is added at the end. The SQL keeps its
comments in the database, so `sqlite3 lwm.db .schema` explains itself.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlite_utils import Database

APPLICATION_ID = 0x4C574D41
"""What marks a SQLite file as ours ("LWMA"), in its header."""

Migration = Callable[["Database"], None]

_TABLES = (
    """CREATE TABLE sessions (
  id          TEXT PRIMARY KEY,
  kind        TEXT NOT NULL,     -- run | imported
  mode        TEXT,              -- dry-run | gated | compare | live
  task        TEXT NOT NULL,
  root        TEXT,
  database    TEXT,
  engine      TEXT,
  environment TEXT,
  dataset     TEXT,
  licence     TEXT,
  domain      TEXT,
  created_at  REAL NOT NULL,     -- seconds since the epoch
  meta        TEXT,              -- JSON
  hash        TEXT NOT NULL      -- where the chain of its transitions begins
)""",
    "CREATE INDEX sessions_by_time ON sessions (created_at)",
    "CREATE INDEX sessions_by_dataset ON sessions (dataset) WHERE dataset IS NOT NULL",
    """CREATE TABLE transitions (
  id              INTEGER PRIMARY KEY,
  session         TEXT NOT NULL,
  step            INTEGER NOT NULL,  -- counts from 1
  tool            TEXT NOT NULL,
  arguments       TEXT,              -- JSON; NULL: in blobs under arguments_blob
  arguments_blob  TEXT,
  action_digest   TEXT NOT NULL,     -- SHA-256 of tool and arguments as they stand here
  tool_hash       TEXT,
  source          TEXT NOT NULL,     -- executed | rehearsed | recalled | imagined | unanswered
  confidence      REAL,              -- 0..1
  is_error        INTEGER,           -- NULL: the recording does not say
  text            TEXT,              -- what the agent reads; NULL: in blobs under text_blob
  text_blob       TEXT,
  structured      TEXT,              -- JSON: what a program reads
  structured_blob TEXT,
  raw_blob        TEXT,              -- the bytes, where text is not their exact UTF-8 decoding
  effect          TEXT NOT NULL,     -- read | write | destroy | external | unknown
  started_at      REAL NOT NULL,     -- seconds since the epoch
  latency_ms      REAL NOT NULL,
  prediction      TEXT,              -- JSON: what a world said where the action was executed too
  prediction_blob TEXT,
  fidelity        REAL,              -- 0..1: how near the prediction came
  reward          REAL,
  engine          TEXT,
  usage           TEXT,              -- JSON: tokens
  started_id      TEXT,              -- the row of started that this answers
  previous_hash   TEXT NOT NULL,
  hash            TEXT NOT NULL,     -- SHA-256 over previous_hash and all columns above it but id
  UNIQUE (session, step)
)""",
    "CREATE UNIQUE INDEX transitions_by_started ON transitions (started_id)"
    " WHERE started_id IS NOT NULL",
    """CREATE TABLE blobs (
  sha256 TEXT PRIMARY KEY,       -- of data
  data   BLOB NOT NULL           -- text as UTF-8, lone surrogates as three bytes
)""",
    """CREATE TABLE tools (
  digest        TEXT PRIMARY KEY,  -- of the whole spec
  hash          TEXT NOT NULL,     -- of what the tool promises; transitions.tool_hash
  name          TEXT NOT NULL,
  spec          TEXT NOT NULL,     -- JSON
  first_seen_at REAL NOT NULL
)""",
    "CREATE INDEX tools_by_hash ON tools (hash)",
    """CREATE TABLE session_tools (
  session  TEXT NOT NULL,
  position INTEGER NOT NULL,
  digest   TEXT NOT NULL,
  PRIMARY KEY (session, position)
) WITHOUT ROWID""",
    """CREATE TABLE approvals (
  id            TEXT PRIMARY KEY,
  session       TEXT NOT NULL,
  digest        TEXT,              -- of all that was approved; NULL: the action holds a secret
  action_digest TEXT NOT NULL,
  tool          TEXT NOT NULL,
  effect        TEXT NOT NULL,
  decision      TEXT NOT NULL,     -- approved | denied
  decided_by    TEXT NOT NULL,
  created_at    REAL NOT NULL,
  expires_at    REAL NOT NULL
)""",
    """CREATE TABLE started (
  id            TEXT PRIMARY KEY,
  session       TEXT NOT NULL,
  step          INTEGER NOT NULL,
  tool          TEXT NOT NULL,
  arguments     TEXT NOT NULL,     -- JSON
  action_digest TEXT NOT NULL,
  approval_id   TEXT UNIQUE,       -- an approval is used once
  created_at    REAL NOT NULL
)""",
    "CREATE INDEX started_by_session ON started (session)",
    """CREATE TABLE judgements (
  id         TEXT PRIMARY KEY,
  session    TEXT NOT NULL,
  step       INTEGER,              -- NULL: of the whole session
  judge      TEXT NOT NULL,
  score      REAL NOT NULL,        -- 0..1
  details    TEXT,                 -- JSON
  created_at REAL NOT NULL
)""",
    "CREATE INDEX judgements_by_session ON judgements (session)",
    """CREATE TABLE rollouts (
  id         TEXT PRIMARY KEY,
  session    TEXT NOT NULL,
  policy     TEXT NOT NULL,
  world      TEXT NOT NULL,
  reward     REAL,
  details    TEXT,                 -- JSON
  created_at REAL NOT NULL
)""",
    "CREATE INDEX rollouts_by_session ON rollouts (session)",
    """CREATE TABLE tombstones (
  session     TEXT NOT NULL,
  deleted_at  REAL NOT NULL,
  transitions INTEGER NOT NULL,
  last_hash   TEXT NOT NULL
)""",
    # rowid is transitions.id. Without a copy of the text, which would double the file, and without
    # the places of words: a quarter of the size, and two common words are met twice as fast.
    "CREATE VIRTUAL TABLE search USING fts5 (action, observation, content='', detail=none)",
    # What most people ask for, with large values brought back from blobs.
    """CREATE VIEW log AS
SELECT t.session, t.step, s.mode, s.task, t.tool,
       coalesce(t.arguments, CAST(a.data AS TEXT)) AS arguments,
       t.source, t.confidence, t.is_error,
       coalesce(t.text, CAST(b.data AS TEXT)) AS text,
       t.effect, datetime(t.started_at, 'unixepoch') AS started, t.latency_ms, t.fidelity
FROM transitions t
JOIN sessions s ON s.id = t.session
LEFT JOIN blobs a ON a.sha256 = t.arguments_blob
LEFT JOIN blobs b ON b.sha256 = t.text_blob""",
)


def _first(database: Database) -> None:
    for statement in _TABLES:
        database.execute(statement)


def _signals(database: Database) -> None:
    database.execute(
        "ALTER TABLE transitions ADD COLUMN"
        " signals TEXT /* JSON: what the confidence was made from; hashed last, if not NULL */"
    )


MIGRATIONS: tuple[Migration, ...] = (_first, _signals)


def migrate(connection: sqlite3.Connection, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Bring an open database to the newest version, each migration in its own transaction.

    May raise sqlite3.Error, "busy" included; what was applied until then stays applied.
    """
    # The library takes a quarter of a second to import, so only where there is work for it.
    from sqlite_utils import Database

    database = Database(connection, recursive_triggers=False, execute_plugins=False)
    for number, migration in enumerate(migrations, 1):
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Another process may have been here while we waited for the lock.
            if version_of(connection) < number:
                migration(database)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {number}")
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")


def version_of(connection: sqlite3.Connection) -> int:
    """Return the number of the last migration applied."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])
