"""A tree with everything that makes file tools differ, random calls on it, and what it holds."""

from __future__ import annotations

import hashlib
import os
import random
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from lwm_agents.places.plain_copy import PlainCopy
from lwm_agents.values import Json

NOBODY = 65534

FOLDERS = ["docs", "docs/sub", "a", "new", "group", "docs/sub/deep", "to-docs", "chain"]
FILES = ["x.txt", "a", "b", "ü", "caf\udce9", "new.txt"]
NAMES = ["a", "b", "docs", "sub", "ü", "caf\udce9", "x.txt", "new"]
LINKS = ["to-file", "to-docs", "chain", "absolute", "dangling", "loop", "out", "up", "to-closed"]
SPECIAL = ["closed", "fixed", "locked", "blind", "still", "sticky", "group", "setuid", "foreign"]
DATABASE = ["data/shop.db", "data/shop.db-wal", "data/shop.db-journal", "data/shop.db-shm"]


def build(root: Path, outside: Path, *, wal: bool = False) -> None:
    """Make the tree. As root, it belongs to nobody but for a few things."""
    for folder in ("docs/sub/deep", "a", "sticky", "group", "locked/kept", "blind/kept", "still",
                   "data"):  # fmt: skip
        (root / folder).mkdir(parents=True)
    for name in ("docs/x.txt", "docs/sub/a", "docs/sub/deep/b", "b", "a/x.txt", "locked/x.txt",
                 "blind/x.txt", "still/x.txt", "group/x.txt", "closed", "fixed", "setuid",
                 "foreign", "sticky/mine", "sticky/foreign"):  # fmt: skip
        (root / name).write_text(f"one two {name}\n")
    (root / "docs" / "caf\udce9").write_bytes(b"caf\xe9\x00 two")
    os.link(root / "b", root / "hard")
    os.mkfifo(root / "docs/pipe")
    with suppress(OSError):
        os.setxattr(root / "docs/x.txt", "user.origin", b"here")
    for name, target in (("to-file", "docs/x.txt"), ("to-docs", "docs"), ("chain", "to-docs/sub"),
                         ("absolute", str(root / "docs/sub")), ("dangling", "docs/new"),
                         ("loop", "loop"), ("out", str(outside)), ("docs/up", "../a/x.txt"),
                         ("to-closed", "closed"), ("a/to-data", "../data/shop.db")):  # fmt: skip
        (root / name).symlink_to(target)
    with closing(sqlite3.connect(root / "data/shop.db")) as connection:
        connection.execute(f"PRAGMA journal_mode={'wal' if wal else 'delete'}")
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, x)")
        connection.executemany("INSERT INTO t (x) VALUES (?)", [(n * "y",) for n in range(50)])
        connection.commit()
    if os.geteuid() == 0:
        for path in [root, *root.rglob("*")]:
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
        for name in ("foreign", "sticky/foreign", "sticky"):
            os.chown(root / name, 0, 0)
    for name, mode in (("closed", 0), ("fixed", 0o444), ("locked", 0), ("blind", 0o333),
                       ("still", 0o555), ("sticky", 0o1777), ("group", 0o2775),
                       ("setuid", 0o4755), ("foreign", 0o666)):  # fmt: skip
        (root / name).chmod(mode)


def calls(seed: int, count: int) -> Iterator[tuple[str, dict[str, Json]]]:
    """Yield random tool calls; `{root}` in a path stands for the root."""
    draw = random.Random(seed)

    def path(*, new: bool = False) -> str:
        kind = draw.random()
        if kind < 0.03 and not new:
            return draw.choice(DATABASE[:1] * 9 + DATABASE * 2 + ["data", "a/to-data"])
        if kind < 0.06:
            return draw.choice([".", "..", "../x", "out/x", "n" * 300, "b/x", "a/" + "m" * 256,
                                "new/" + "n" * 300 + "/x", "a\0b", "docs/pipe"])  # fmt: skip
        if kind < 0.2:
            return draw.choice(FOLDERS)
        if kind < 0.6:
            return draw.choice(["", "", *(f"{folder}/" for folder in FOLDERS)]) + draw.choice(FILES)
        first = draw.choice(NAMES * 3 + LINKS * 2 + SPECIAL + ["hard"])
        names = [first, *(draw.choice(NAMES) for _ in range(draw.choice([0, 0, 1, 1, 2, 3])))]
        if draw.random() < 0.05:
            names.insert(draw.randrange(1, len(names) + 1), "..")
        below = "/".join(names)
        return "{root}/" + below if draw.random() < 0.05 else below

    def text() -> str:
        return draw.choice(["", "one", "two three\n", "ü" * draw.randrange(9), "one two" * 999])

    for number in range(count):
        kind = draw.random()
        if kind < 0.26:
            yield "write_file", {"path": path(), "content": text()}
        elif kind < 0.33:
            old = draw.choice(["one", "two", "x", "three", "o", "e"])
            new = draw.choice(["uno", "", "one", "two"])
            yield "edit_file", {"path": path(), "old_text": old, "new_text": new}
        elif kind < 0.43:
            yield "read_file", {"path": path()}
        elif kind < 0.52:
            yield "list_directory", {"path": path()}
        elif kind < 0.64:
            yield "move_file", {"source": path(), "destination": path(new=True)}
        elif kind < 0.72:
            yield "delete_file", {"path": path()}
        elif kind < 0.75:
            pattern = draw.choice(["*", "*.txt", "sub/*", "**/a", "[ab]"])
            yield "search_files", {"path": draw.choice([".", path()]), "pattern": pattern}
        elif kind < 0.83:
            query = draw.choice(["SELECT count(*), sum(length(x)) FROM t", "SELECT * FROM t",
                                 "SELECT * FROM missing", "SELECT max(id) FROM t"])  # fmt: skip
            yield "sql_query", {"query": query}
        elif kind < 0.85:
            yield "sql_schema", {}
        elif kind < 0.87:
            yield (
                "sql_execute",
                {"query": "CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY, x)"},
            )
        elif kind < 0.88:
            yield "move_file", {"source": "a/x.txt", "destination": draw.choice(DATABASE)}
        elif kind < 0.89:
            yield "move_file", {"source": draw.choice(["b", "new", "a/b"]),
                                "destination": "data/shop.db"}  # fmt: skip
        else:
            query = draw.choice(["INSERT INTO t (x) VALUES (?)", "UPDATE t SET x = ? WHERE id = 1",
                                 "DELETE FROM t WHERE x = ?",
                                 "INSERT INTO missing VALUES (?)"])  # fmt: skip
            yield "sql_execute", {"query": query, "parameters": [f"{number}" * (number % 50)]}


View = dict[str, tuple[object, ...]]


def real_view(root: Path) -> View:
    """Return what is really below a root, by relative path."""
    return {
        os.path.relpath(path, root): _seen(path.lstat(), path) for path in [root, *root.rglob("*")]
    }


def copied_view(copy: PlainCopy, before: View) -> View:
    """Return what is below the root of a copy, going by what it says it touched."""
    view = dict(before)
    listed = list(copy.touched())
    assert len(set(listed)) == len(listed)
    for path in listed:
        name = os.path.relpath(path, copy.root)
        state = copy.lstat(path)
        assert os.path.dirname(path) in {copy.root, os.path.dirname(copy.root)} or (
            state is None or copy.lstat(os.path.dirname(path)) is not None
        )
        if state is None:
            view.pop(name, None)
        else:
            view[name] = _copied(copy, state, path)
    return view


def _copied(copy: PlainCopy, state: os.stat_result, path: str) -> tuple[object, ...]:
    content: object = None
    if stat.S_ISLNK(state.st_mode):
        content = copy.readlink(path).replace(copy.root, "{root}")
    elif stat.S_ISREG(state.st_mode):
        with os.fdopen(copy.open(path), "rb") as file:
            content = _digest(path, file.read())
    return state.st_mode, state.st_uid, state.st_gid, content, copy.xattrs(path)


def _seen(state: os.stat_result, path: Path) -> tuple[object, ...]:
    content: object = None
    attributes: dict[str, bytes] = {}
    if stat.S_ISLNK(state.st_mode):
        content = os.readlink(path)
        for above in path.parents:
            content = content.replace(f"{above}/docs/sub", "{root}/docs/sub")
    elif stat.S_ISREG(state.st_mode):
        content = _digest(str(path), path.read_bytes())
    with suppress(OSError):
        for name in os.listxattr(path, follow_symlinks=False):
            attributes[name] = os.getxattr(path, name, follow_symlinks=False)
    return state.st_mode, state.st_uid, state.st_gid, content, attributes


def _digest(path: str, content: bytes) -> str:
    # The log of a database and its index begin with random numbers.
    if path.endswith(("-wal", "-shm")):
        return "random"
    return hashlib.sha256(content).hexdigest()
