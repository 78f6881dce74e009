"""A set of changes as plain text, in the form of `git diff`."""

from __future__ import annotations

from collections.abc import Iterator

from lwm_agents.changes.change import Change, Changes, DatabaseChange, RowChange, State
from lwm_agents.values import Json

_WIDEST = 80
"""Characters of one value of a row that are shown."""

_OCTAL = {"file": 0o100000, "directory": 0o040000, "link": 0o120000, "other": 0o010000}


def lines(changes: Changes) -> Iterator[str]:
    """Yield the lines for all changes, those elsewhere after a heading."""
    for change in changes.inside:
        yield from _change(change)
    if changes.elsewhere:
        yield "Elsewhere, not committed unless named:"
        for change in changes.elsewhere:
            yield from _change(change)


def _change(change: Change) -> Iterator[str]:
    name = quoted(change.path)
    before = quoted(change.renamed_from) if change.renamed_from is not None else name
    yield f"diff a/{before.lstrip('/')} b/{name.lstrip('/')}"
    old, new = change.old, change.new
    if change.kind == "added" and new is not None:
        yield f"new {new.type} mode {_mode(new)}"
    elif change.kind == "deleted" and old is not None:
        yield f"deleted {old.type} mode {_mode(old)}"
    elif change.kind == "renamed":
        yield f"rename from {before}"
        yield f"rename to {name}"
    if old is not None and new is not None:
        yield from _metadata(old, new)
    elif new is not None:
        yield from _details(new)
    if change.note is not None:
        yield change.note
    if change.text is not None:
        yield from map(quoted, change.text.removesuffix("\n").split("\n"))
    if change.database is not None:
        yield from _database(change.database)


def _metadata(old: State, new: State) -> Iterator[str]:
    if (old.type, old.mode) != (new.type, new.mode):
        yield f"old mode {_mode(old)}"
        yield f"new mode {_mode(new)}"
    for label, one, other in (
        ("owner", f"{old.owner}:{old.group}", f"{new.owner}:{new.group}"),
        ("link", old.target, new.target),
    ):
        if one != other:
            yield f"old {label} {_or_none(one)}"
            yield f"new {label} {_or_none(other)}"
    if old.links != new.links:
        yield f"hard links {' '.join(quoted(link) for link in new.links) or 'none'}"
    for name in sorted(old.xattrs.keys() | new.xattrs.keys()):
        one, other = old.xattrs.get(name), new.xattrs.get(name)
        if one is not None and one != other:
            yield f"-{name}={quoted(one)}"
        if other is not None and one != other:
            yield f"+{name}={quoted(other)}"
    if (
        old.modified_ns != new.modified_ns
        and old.model_copy(update={"modified_ns": new.modified_ns}) == new
    ):
        yield "only the time of the last change differs"


def _details(new: State) -> Iterator[str]:
    if new.target is not None:
        yield f"link to {quoted(new.target)}"
    if new.links:
        yield f"hard links {' '.join(quoted(link) for link in new.links)}"
    for name, value in sorted(new.xattrs.items()):
        yield f"+{name}={quoted(value)}"


def _database(database: DatabaseChange) -> Iterator[str]:
    for sign, statements in (("-", database.schema_removed), ("+", database.schema_added)):
        for statement in statements:
            yield from (f"{sign}{line}" for line in statement.splitlines())
    for table in database.tables:
        counts = f"{table.added} added, {table.removed} removed, {table.changed} changed"
        yield f"@@ table {quoted(table.name)}: {counts} @@"
        if table.columns:
            yield f" {' | '.join(quoted(column) for column in table.columns)}"
        for row in table.rows:
            yield from _row(row)
        left = table.added + table.removed + table.changed - len(table.rows)
        if left and table.columns:
            yield f" … and {left:,} more"


def _row(row: RowChange) -> Iterator[str]:
    for sign, values in (("-", row.old), ("+", row.new)):
        if values is not None:
            yield f"{sign}{' | '.join(_cell(value) for value in values)}"


def _cell(value: Json) -> str:
    text = "NULL" if value is None else quoted(str(value))
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"


def _mode(state: State) -> str:
    return f"{_OCTAL[state.type] | state.mode:06o}"


def _or_none(text: str | None) -> str:
    return "none" if text is None else quoted(text)


def quoted(text: str) -> str:
    """Return text on one line: what would break the line or steer a terminal is escaped."""
    if text.isprintable():
        return text
    return "".join(
        letter
        if letter.isprintable() or letter == "\t"
        else letter.encode("unicode_escape").decode()
        for letter in text
    )
