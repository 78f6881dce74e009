"""What a diff shows of real files, and how."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from copies import copy_of

from lwm_agents.changes.change import Change, Changes
from lwm_agents.changes.diff import diff

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="uses POSIX modes and links")


def changed(base: Path, before: str, after: str, **words: str) -> Changes:
    real, copy = base / "real", base / "copy"
    if not real.exists():
        real.mkdir()
    subprocess.run(["bash", "-ec", before], cwd=real, check=True)
    copied = copy_of(real, copy, **words)
    subprocess.run(["bash", "-ec", after], cwd=copy, check=True)
    return diff(copied)


def one(changes: Changes) -> Change:
    (change,) = changes.inside
    return change


def test_nothing_changed(tmp_path: Path) -> None:
    changes = changed(tmp_path, "echo a > a", "touch -r a .ref; mv .ref .gone; rm .gone; cat a")
    assert changes.inside == ()
    assert changes.summary == "nothing changed"


def test_a_diff_reads_without_a_trace(tmp_path: Path) -> None:
    real = tmp_path / "real"
    (real / "d").mkdir(parents=True)
    (real / "d" / "a").write_text("a\n")
    copied = copy_of(real, tmp_path / "copy")
    (tmp_path / "copy" / "d" / "a").write_text("b\n")
    for path in (real, real / "d", real / "d" / "a"):  # old enough for the system to move it
        os.utime(path, ns=(1, path.stat().st_mtime_ns))
    assert diff(copied).inside
    assert {path.stat().st_atime_ns for path in (real, real / "d", real / "d" / "a")} == {1}


def test_a_copied_up_but_equal_file_is_no_change(tmp_path: Path) -> None:
    assert changed(tmp_path, "echo a > a", "cp -p a b; mv b a").inside == ()


def test_text_is_a_unified_diff(tmp_path: Path) -> None:
    change = one(changed(tmp_path, "printf '1\\n2\\n3\\n' > a", "printf '1\\ntwo\\n3' > a"))
    assert (change.path, change.kind, change.type) == ("a", "modified", "file")
    assert change.text == (
        "--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n 1\n-2\n-3\n+two\n+3\n\\ No newline at end of file\n"
    )


@pytest.mark.skipif(
    not any(Path(p, "patch").exists() for p in os.get_exec_path()), reason="no patch"
)
def test_patch_can_apply_what_is_shown(tmp_path: Path) -> None:
    before = "seq 1 50 > a; printf 'x\\fy\\r\\nz\\n' > b; mkdir d; echo gone > d/gone; touch d/x"
    changes = changed(
        tmp_path, before, "sed -i 's/^7$/seven/' a; echo w >> b; rm d/gone; echo n > n"
    )
    text = "".join(change.text or "" for change in changes.inside)
    subprocess.run(["patch", "-p1", "--binary"], cwd=tmp_path / "real", input=text, text=True,
                   check=True, capture_output=True)  # fmt: skip
    done = subprocess.run(["diff", "-r", tmp_path / "real", tmp_path / "copy"], check=False)
    assert done.returncode == 0


def test_binary_files_by_size_and_digest(tmp_path: Path) -> None:
    change = one(changed(tmp_path, "printf 'a\\0' > a", "printf 'b\\0c' > a"))
    assert change.text is None
    assert change.note is not None
    assert change.note.startswith("binary: 2 bytes, SHA-256 ")
    assert change.new is not None
    assert change.new.sha256 is not None
    assert change.new.sha256 in change.note


def test_large_files_by_size_and_digest(tmp_path: Path) -> None:
    change = one(changed(tmp_path, "true", "yes | head -c 2000000 > a"))
    assert change.text is None
    assert change.note is not None
    assert change.note.startswith("2,000,000 bytes, SHA-256 ")


def test_metadata_links_and_kinds(tmp_path: Path) -> None:
    changes = changed(
        tmp_path,
        "echo a > mode; ln -s x link; mkdir gone; echo h > h; echo t > time; mkdir d",
        "chmod 600 mode; ln -sfn y link; rmdir gone; ln h hard; touch -d 2001-01-01 time; "
        "mkfifo p; mkdir new; touch d",
    )
    seen = {change.path: change for change in changes.inside}
    kinds = {path: (change.kind, change.type) for path, change in seen.items()}
    assert kinds == {
        "mode": ("modified", "file"),
        "link": ("modified", "link"),
        "gone": ("deleted", "directory"),
        "hard": ("added", "file"),
        "time": ("modified", "file"),
        "p": ("added", "other"),
        "new": ("added", "directory"),
    }
    mode, link, hard = seen["mode"], seen["link"], seen["hard"]
    assert [state and state.mode for state in (mode.old, mode.new)] == [0o644, 0o600]
    assert [state and state.target for state in (link.old, link.new)] == ["x", "y"]
    assert hard.new is not None
    assert hard.new.links == ("h",)
    rendered = changes.render()
    assert "old mode 100644\nnew mode 100600" in rendered
    assert "old link x\nnew link y" in rendered
    assert "hard links h" in rendered
    assert "deleted directory mode 040755" in rendered
    assert "only the time of the last change differs" in rendered
    assert changes.summary == (
        "2 files changed, 1 added, 1 folder added, 1 folder deleted, 1 link changed, 1 other added"
    )


def test_a_rename_where_it_is_certain(tmp_path: Path) -> None:
    changes = changed(
        tmp_path,
        "echo a > a; echo same > b; cp -p b c; echo t > t; touch -d 2001-01-01 t",
        "mv a moved; mv b x; mv c y; rm t; echo t > touched",
    )
    renamed = {one.path: one.renamed_from for one in changes.inside if one.kind == "renamed"}
    assert renamed == {"moved": "a"}
    kinds = sorted((one.path, one.kind) for one in changes.inside if one.kind != "renamed")
    assert kinds == [
        ("b", "deleted"), ("c", "deleted"), ("t", "deleted"), ("touched", "added"),
        ("x", "added"), ("y", "added"),
    ]  # fmt: skip
    assert "rename from a\nrename to moved" in changes.render()


def test_names_that_are_not_utf_8_survive_json(tmp_path: Path) -> None:
    changes = changed(tmp_path, "true", "printf q > $'\\377a\\nb'; ln -s $'\\376' l")
    file, link = sorted(changes.inside, key=lambda change: change.type)
    assert file.path == "\\xffa\nb"
    assert link.new is not None
    assert link.new.target == "\\xfe"
    assert Changes.model_validate_json(changes.model_dump_json()) == changes
    assert json.loads(changes.model_dump_json())["inside"]
    assert "b/\\xffa\\nb\n" in changes.render()


def test_what_steers_a_terminal_is_escaped(tmp_path: Path) -> None:
    rendered = changed(tmp_path, "true", "printf '\\033[2Jgone\\tkept\\n' > a").render()
    assert "\033" not in rendered
    assert "+\\x1b[2Jgone\tkept" in rendered


def test_extended_attributes(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (real / "a").touch()
    try:
        os.setxattr(real / "a", "user.old", b"1")
    except (OSError, AttributeError):
        pytest.skip("no extended attributes on this file system")
    copied = copy_of(real, tmp_path / "copy")
    os.removexattr(tmp_path / "copy" / "a", "user.old")
    os.setxattr(tmp_path / "copy" / "a", "user.new", b"\xff")
    changes = diff(copied)
    change = one(changes)
    assert change.old is not None
    assert change.new is not None
    assert (change.old.xattrs, change.new.xattrs) == ({"user.old": "1"}, {"user.new": "\\xff"})
    assert "+user.new=\\xff\n-user.old=1" in changes.render()


def test_elsewhere_is_apart_and_absolute(tmp_path: Path) -> None:
    changes = changed(
        tmp_path, "mkdir root", "echo a > root/a; echo b > b", root="root", database="db"
    )
    assert [change.path for change in changes.inside] == ["a"]
    assert [change.path for change in changes.elsewhere] == [str(tmp_path / "real" / "b")]
    assert changes.summary == "1 file added; elsewhere: 1 file added"
    assert "Elsewhere, not committed unless named:\n" in changes.render()


def test_the_digest_is_of_what_is_shown(tmp_path: Path) -> None:
    changes = changed(tmp_path, "true", "echo a > a")
    assert changes.digest == Changes.model_validate_json(changes.model_dump_json()).digest
    assert changes.digest != changes.model_copy(update={"inside": ()}).digest


# Databases.


def rows_of(base: Path, before: list[str], after: list[str], *, open_: bool = False) -> Changes:
    real, copy = base / "real", base / "copy"
    real.mkdir()
    with closing(sqlite3.connect(real / "x.db")) as connection, connection:
        for statement in before:
            connection.execute(statement)
    copied = copy_of(real, copy)
    listed = sorted(os.listdir(real))
    with closing(sqlite3.connect(copy / "x.db", isolation_level=None)) as connection:
        for statement in after:
            connection.execute(statement)
        if open_:
            return diff(copied)
    changes = diff(copied)
    assert sorted(os.listdir(real)) == listed, "the real database was opened"
    return changes


ORDERS = "CREATE TABLE orders (id INTEGER PRIMARY KEY, what, price)"


def test_rows_by_their_primary_key(tmp_path: Path) -> None:
    changes = rows_of(
        tmp_path,
        [ORDERS, "INSERT INTO orders VALUES (1,'a',1),(2,'b',2),(3,'c',3)"],
        ["INSERT INTO orders VALUES (4,'d',NULL),(5,x'00ff',5)", "DELETE FROM orders WHERE id=1",
         "UPDATE orders SET price=2.0 WHERE id=2"],
    )  # fmt: skip
    database = one(changes).database
    assert database is not None
    (table,) = database.tables
    assert (table.name, table.added, table.removed, table.changed) == ("orders", 2, 1, 1)
    assert table.columns == ("id", "what", "price")
    seen = [(row.key, row.old, row.new) for row in table.rows]
    assert seen == [
        ((1,), (1, "a", 1), None),
        ((4,), None, (4, "d", None)),
        ((5,), None, (5, "x'00ff'", 5)),
        ((2,), (2, "b", 2), (2, "b", 2.0)),
    ]
    assert changes.summary == (
        "1 file changed, 2 rows added in orders, 1 row changed in orders, 1 row removed in orders"
    )
    assert "@@ table orders: 2 added, 1 removed, 1 changed @@\n id | what | price\n-1 | a | 1" in (
        changes.render()
    )


def test_new_gone_and_altered_tables(tmp_path: Path) -> None:
    changes = rows_of(
        tmp_path,
        [ORDERS, "CREATE TABLE gone (x)", "INSERT INTO gone VALUES (1)",
         "CREATE TABLE w (k PRIMARY KEY, v) WITHOUT ROWID", "INSERT INTO w VALUES ('k', 1)",
         "CREATE INDEX i ON orders(what)", "INSERT INTO orders VALUES (1, 2, 3)"],
        ["DROP TABLE gone", "CREATE TABLE new (y)", "INSERT INTO new VALUES (2),(3)",
         "UPDATE w SET v = 2", "ALTER TABLE orders ADD COLUMN more"],
    )  # fmt: skip
    database = one(changes).database
    assert database is not None
    counts = {one.name: (one.added, one.removed, one.changed) for one in database.tables}
    assert counts == {"gone": (0, 1, 0), "new": (2, 0, 0), "w": (0, 0, 1), "orders": (1, 1, 0)}
    assert database.schema_removed == (ORDERS, "CREATE TABLE gone (x)")
    assert "CREATE TABLE new (y)" in database.schema_added
    assert {one.name: one.columns for one in database.tables}["orders"] is None


def test_rows_that_are_only_in_the_journal_yet(tmp_path: Path) -> None:
    before = ["PRAGMA journal_mode = wal", ORDERS]
    changes = rows_of(tmp_path, before, ["INSERT INTO orders VALUES (1,'a',1)"], open_=True)
    seen = {change.path: change for change in changes.inside}
    assert "x.db" not in seen
    database = seen["x.db-wal"].database
    assert database is not None
    assert [(one.name, one.added) for one in database.tables] == [("orders", 1)]


def test_what_only_begins_like_a_database_is_binary(tmp_path: Path) -> None:
    make = "printf 'SQLite format 3\\0' > a; head -c 2000 /dev/urandom >> a"
    change = one(changed(tmp_path, make, make))
    assert change.database is None
    assert change.note is not None
    assert "can't be compared" in change.note


def test_many_rows_are_counted_and_the_first_shown(tmp_path: Path) -> None:
    count = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 20000)"
    changes = rows_of(tmp_path, [ORDERS], [f"INSERT INTO orders {count} SELECT i, i, i FROM n"])
    database = one(changes).database
    assert database is not None
    assert (database.tables[0].added, len(database.tables[0].rows)) == (20_000, 20)
    assert " … and 19,980 more" in changes.render()


def test_a_name_cannot_forge_lines_of_a_diff(tmp_path: Path) -> None:
    changes = changed(tmp_path, "", "echo x > $'z\\n+safe\\n1 file changed'")
    said = changes.render().splitlines()
    assert r"+++ b/z\n+safe\n1 file changed" in said
    assert [line for line in said if line.startswith(("+safe", "1 file changed"))] == []
