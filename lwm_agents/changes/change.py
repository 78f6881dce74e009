"""What a session would change, as values to show, to approve and to keep."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from lwm_agents.changes.compare import Type
from lwm_agents.digests import digest_of
from lwm_agents.values import Json, Value

Kind = Literal["added", "modified", "deleted", "renamed"]


class State(Value):
    """A path in one of the two worlds. `mode` holds the permission bits, `size` is in bytes.

    `sha256` is that of a file's content (None: not to be read), `target` is where a link points,
    `links` are the other names of the same file, `xattrs` its extended attributes as text, bytes
    that are not UTF-8 with backslashes.
    """

    type: Type
    mode: int
    owner: int
    group: int
    size: int
    modified_ns: int
    sha256: str | None = None
    target: str | None = None
    links: tuple[str, ...] = ()
    xattrs: dict[str, str] = Field(default_factory=dict)


class RowChange(Value):
    """One row of a table. `key` names it; `old` and `new` hold all columns, or None."""

    key: tuple[Json, ...]
    old: tuple[Json, ...] | None
    new: tuple[Json, ...] | None


class TableChange(Value):
    """How the rows of one table differ. `rows` are the first ones; the counts are of all.

    `columns` names them; None where the table itself became another one, and rows are not matched.
    """

    name: str
    added: int = 0
    removed: int = 0
    changed: int = 0
    columns: tuple[str, ...] | None = None
    rows: tuple[RowChange, ...] = ()


class DatabaseChange(Value):
    """How two SQLite files differ: tables by rows, the schema by its statements."""

    tables: tuple[TableChange, ...] = ()
    schema_removed: tuple[str, ...] = ()
    schema_added: tuple[str, ...] = ()


class Change(Value):
    """One path that would change: relative to the root, absolute elsewhere.

    Names that are not UTF-8 are shown with backslashes. `text` is a unified diff (None: see
    `note`, which says why in words). `renamed_from` is set where `kind` is renamed.
    """

    path: str
    kind: Kind
    type: Type
    old: State | None = None
    new: State | None = None
    renamed_from: str | None = None
    text: str | None = None
    database: DatabaseChange | None = None
    note: str | None = None


class Changes(Value):
    """What a session would change: under its root (and its database), and elsewhere.

    What is elsewhere is committed only where it is named.
    """

    root: str
    inside: tuple[Change, ...] = ()
    elsewhere: tuple[Change, ...] = ()

    @property
    def digest(self) -> str:
        """SHA-256 of all of it, for an approval to be bound to."""
        return digest_of(self.model_dump(mode="json"))

    @property
    def summary(self) -> str:
        """One line: '3 files changed, 1 deleted, 2 rows added in orders'."""
        parts = [_counted(self.inside)] if self.inside else []
        if self.elsewhere:
            parts.append(f"elsewhere: {_counted(self.elsewhere)}")
        return "; ".join(parts) or "nothing changed"

    def render(self) -> str:
        """Return everything as plain text, in the form of `git diff`, the summary last."""
        from lwm_agents.changes.render import lines

        return "\n".join([*lines(self), self.summary]) + "\n"


def _counted(changes: tuple[Change, ...]) -> str:
    words = {"modified": "changed", "added": "added", "deleted": "deleted", "renamed": "renamed"}
    parts: list[str] = []
    for types, singular, plural in (
        (("file",), "file", "files"),
        (("directory",), "folder", "folders"),
        (("link",), "link", "links"),
        (("other",), "other", "others"),
    ):
        kinds = Counter(one.kind for one in changes if one.type in types)
        for kind, word in words.items():
            if count := kinds[kind]:  # type: ignore[index]
                # Files are what it is mostly about; they are named once.
                named = singular == "file" and bool(parts)
                noun = "" if named else f" {singular if count == 1 else plural}"
                parts.append(f"{count:,}{noun} {word}")
    return ", ".join([*parts, *_rows(changes)])


def _rows(changes: tuple[Change, ...]) -> Iterator[str]:
    for change in changes:
        for table in change.database.tables if change.database else ():
            for count, word in (
                (table.added, "added"),
                (table.changed, "changed"),
                (table.removed, "removed"),
            ):
                if count:
                    yield f"{count:,} {'row' if count == 1 else 'rows'} {word} in {table.name}"


def shown(path: str) -> str:
    """Return a path as text any JSON can hold: bytes that are not UTF-8 with backslashes."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return os.fsencode(path).decode("utf-8", "backslashreplace")
    return path


def state_of(
    type_: Type,
    state: os.stat_result,
    *,
    sha256: str | None = None,
    target: str | None = None,
    links: tuple[str, ...] = (),
    xattrs: dict[str, bytes] | None = None,
) -> State:
    """Return the value for a path's state. Not checked again: it comes from the system."""
    return State.model_construct(
        type=type_,
        mode=stat.S_IMODE(state.st_mode),
        owner=state.st_uid,
        group=state.st_gid,
        size=state.st_size if type_ != "directory" else 0,
        modified_ns=state.st_mtime_ns,
        sha256=sha256,
        target=shown(target) if target is not None else None,
        links=tuple(shown(link) for link in links),
        xattrs={
            shown(name): value.decode("utf-8", "backslashreplace")
            for name, value in (xattrs or {}).items()
        },
    )
