"""Shows what a session would change, path by path."""

from __future__ import annotations

import difflib
import io
import os
import stat
from collections.abc import Callable

from lwm_agents.changes.change import Change, Changes, DatabaseChange, State, shown, state_of
from lwm_agents.changes.compare import Difference, compare, is_inside, type_of
from lwm_agents.changes.content import sha256
from lwm_agents.changes.copied import Copied
from lwm_agents.changes.databases import NotComparable, database_change, is_sqlite
from lwm_agents.changes.render import quoted
from lwm_agents.changes.tree import Tree, is_below

LARGEST_TEXT = 1024 * 1024
"""The largest file whose lines are compared, in bytes."""

ALL_TEXT = 32 * 1024 * 1024
"""Bytes of text that are kept for all changes together; later ones show sizes and SHA-256."""

_Open = Callable[[str], int]


def diff(copied: Copied) -> Changes:
    """Return what the session would change, its root's changes apart from those elsewhere.

    Contents are read in pieces: memory grows with what is shown, not with what lies on disk.
    Raises OSError.
    """
    real = Tree()
    try:
        differences = [one for one in compare(copied, real) if not one.time_of_folder]
        describer = _Describer(copied, real, differences)
        changes = [(one.path, describer.change(one)) for one in differences]
    finally:
        real.close()
    changes = _renamed(changes)
    return Changes(
        root=shown(copied.root),
        inside=tuple(change for path, change in changes if is_inside(path, copied)),
        elsewhere=tuple(change for path, change in changes if not is_inside(path, copied)),
    )


class _Describer:
    def __init__(self, copied: Copied, real: Tree, differences: list[Difference]) -> None:
        self._copied = copied
        self._real = real
        self._paths = {one.path for one in differences}
        self._text_left = ALL_TEXT

    def change(self, one: Difference) -> Change:
        """Describe one difference in full."""
        path = one.path
        old = self._state(one, one.old, self._real.open, self._real.readlink)
        new = self._state(one, one.new, self._copied.open, self._copied.readlink)
        present = new or old
        assert present is not None
        text, database, note = self._content(one, old, new)
        return Change(
            path=shown(_relative(path, self._copied.root)),
            kind="modified" if old and new else "added" if new else "deleted",
            type=present.type,
            old=old,
            new=new,
            text=text,
            database=database,
            note=note,
        )

    def _state(
        self,
        one: Difference,
        state: os.stat_result | None,
        opener: _Open,
        readlink: Callable[[str], str],
    ) -> State | None:
        if state is None:
            return None
        kind = type_of(state)
        is_new = state is one.new
        others = tuple(path for path in one.group if path != one.path) if is_new else ()
        return state_of(
            kind,
            state,
            sha256=_hash(opener, one.path) if kind == "file" else None,
            target=readlink(one.path) if kind == "link" else None,
            links=tuple(_relative(path, self._copied.root) for path in others),
            xattrs=(self._copied if is_new else self._real).xattrs(one.path),
        )

    def _content(
        self, one: Difference, old: State | None, new: State | None
    ) -> tuple[str | None, DatabaseChange | None, str | None]:
        """Return the unified diff, the rows, and in words why there is neither."""
        if one.same_bytes or not any(state and state.type == "file" for state in (old, new)):
            return None, None, None
        database = self._database_of(one.path)
        if database is not None:
            try:
                return None, self._rows(database), None
            except NotComparable as why:
                return None, None, f"{_sizes(old, new)}; {why}"
        size = max(state.size for state in (old, new) if state and state.type == "file")
        if size > min(LARGEST_TEXT, self._text_left):
            return None, None, _sizes(old, new)
        before = self._lines(one.path, old, self._real.open)
        after = self._lines(one.path, new, self._copied.open)
        if before is None or after is None:
            return None, None, f"binary: {_sizes(old, new)}"
        name = quoted(shown(_relative(one.path, self._copied.root))).lstrip("/")
        text = _unified(before, after, f"a/{name}" if old else None, f"b/{name}" if new else None)
        self._text_left -= len(text)
        return text, None, None

    def _database_of(self, path: str) -> str | None:
        """Return the path of the database this is, or whose journal it is and stands for it."""
        for end in ("-wal", "-journal"):
            base = path.removesuffix(end)
            if base != path and base not in self._paths and self._is_database(base):
                return base
        return path if self._is_database(path) else None

    def _is_database(self, path: str) -> bool:
        for opener in (self._copied_file, self._real_file):
            fd = opener(path)
            if fd is not None:
                try:
                    if is_sqlite(fd):
                        return True
                finally:
                    os.close(fd)
        return False

    def _rows(self, path: str) -> DatabaseChange:
        return database_change(path, self._real_file, self._copied_file)

    def _real_file(self, path: str) -> int | None:
        return _open_file(path, self._real.lstat, self._real.open)

    def _copied_file(self, path: str) -> int | None:
        return _open_file(path, self._copied.lstat, self._copied.open)

    def _lines(self, path: str, state: State | None, opener: _Open) -> list[str] | None:
        """Return a file's lines; None: it is not text."""
        if state is None or state.type != "file":
            return []
        try:
            fd = opener(path)
        except PermissionError:
            return None
        with open(fd, "rb") as file:
            data = file.read()
        if b"\0" in data:
            return None
        try:
            # Only a line feed ends a line here; `splitlines` would know ten others.
            return io.StringIO(data.decode(), newline="\n").readlines()
        except UnicodeDecodeError:
            return None


def _open_file(
    path: str, lstat: Callable[[str], os.stat_result | None], opener: _Open
) -> int | None:
    state = lstat(path)
    if state is None or not stat.S_ISREG(state.st_mode):
        return None
    try:
        return opener(path)
    except PermissionError:
        return None


def _hash(opener: _Open, path: str) -> str | None:
    try:
        fd = opener(path)
    except PermissionError:
        return None
    try:
        return sha256(fd)
    finally:
        os.close(fd)


def _sizes(old: State | None, new: State | None) -> str:
    return " → ".join(
        f"{state.size:,} bytes, SHA-256 {state.sha256 or 'not to be read'}"
        for state in (old, new)
        if state is not None and state.type == "file"
    )


def _unified(before: list[str], after: list[str], old: str | None, new: str | None) -> str:
    lines = difflib.unified_diff(before, after, old or "/dev/null", new or "/dev/null")
    return "".join(
        line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines
    )


def _relative(path: str, root: str) -> str:
    if path == root:
        return "."
    return path[len(root.rstrip("/")) + 1 :] if is_below(path, root) else path


def _renamed(changes: list[tuple[str, Change]]) -> list[tuple[str, Change]]:
    """Join a deleted and an added file into a renamed one, where it is certain.

    Certain means: the same bytes, mode, owner and time of last change to the nanosecond, and no
    other file on either side that could be meant.
    """
    gone: dict[tuple[object, ...], list[str]] = {}
    come: dict[tuple[object, ...], list[str]] = {}
    by_path = dict(changes)
    for path, change in changes:
        state = change.old if change.kind == "deleted" else change.new
        if change.kind in ("deleted", "added") and change.type == "file" and state and state.size:
            key = (state.sha256, state.mode, state.owner, state.group, state.modified_ns)
            (gone if change.kind == "deleted" else come).setdefault(key, []).append(path)
    for same, targets in come.items():
        sources = gone.get(same, [])
        if len(sources) == len(targets) == 1 and same[0] is not None:
            source = by_path.pop(sources[0])
            by_path[targets[0]] = by_path[targets[0]].model_copy(
                update={
                    "kind": "renamed",
                    "renamed_from": source.path,
                    "old": source.old,
                    "text": None,
                    "note": None,
                    "database": None,
                }
            )
    return [(path, by_path[path]) for path, _ in changes if path in by_path]
