"""What a commit does to real files, and what it refuses."""

from __future__ import annotations

import os
import socket
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from copies import PlainCopied, copy_of, picture, session_folder

from lwm_agents.changes import steps
from lwm_agents.changes.commit import commit
from lwm_agents.changes.diff import diff
from lwm_agents.changes.undo import recover, undo
from lwm_agents.errors import ChangesError, CommitFailed, Conflict

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="uses POSIX modes and links")


class Scene:
    """A real root beside its copy, and the session's folder."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.real = base / "real"
        self.copy = base / "copy"
        self.real.mkdir()
        self.folder = session_folder(base / "folder")
        self.copied: PlainCopied

    def begin(self, script: str, *, root: str | None = None, database: str | None = None) -> None:
        bash(self.real, script)
        named = str(self.real / database) if database else None
        self.copied = copy_of(self.real, self.copy, root=root, database=named)

    def rehearse(self, script: str) -> None:
        bash(self.copy, script)

    def commit(self, *elsewhere: str) -> list[str]:
        names = [str(self.real / name) for name in elsewhere]
        return commit(self.copied, folder=self.folder, elsewhere=names)


def bash(where: Path, script: str) -> None:
    subprocess.run(["bash", "-ec", script], cwd=where, check=True)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


BEFORE = """
mkdir -p a/b/c d gone/deep; echo one > a/1; echo two > a/b/2; ln -s 1 a/link; ln a/1 a/hard
echo x > d/x; mkfifo d/pipe; truncate -s 3M sparse; printf 'x\\0y' > bin; chmod 600 a/b/2
chmod 2750 a/b; echo q > was-file; mkdir was-folder; echo z > was-folder/z; echo s > gone/deep/s
"""

AFTER = """
echo changed > a/1; echo three > a/b/3; rm -r d gone; mv a/b/2 a/b/two; chmod 700 a/b/c
mkdir d2; ln -s ../x d2/link; ln -s nowhere d2/dangling; mkfifo d2/pipe; ln bin bin2
touch -h -d 2001-02-03 a/link; printf z | dd of=sparse bs=1 seek=2000000 conv=notrunc status=none
rm was-file; mkdir was-file; echo f > was-file/f; rm -r was-folder; echo g > was-folder
chmod 4711 bin; printf q > $'\\377name'; touch -d 2002-03-04 a; : > empty; truncate -s 2M hole
"""


@pytest.mark.parametrize("system_lacks", [(), ("exchange",), ("exchange", "_link")])
def test_the_real_tree_becomes_what_the_copy_is_and_an_undo_gives_it_back(
    scene: Scene, system_lacks: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in system_lacks:  # as on file systems that can't exchange names, or have one only
        monkeypatch.setattr(steps, name, lambda *_: False)
    scene.begin(BEFORE)
    before = picture(scene.real, inodes=True)
    scene.rehearse(AFTER)
    paths = scene.commit()
    assert str(scene.real / "a/1") in paths
    assert picture(scene.real) == picture(scene.copy)
    undone = undo(scene.folder)
    assert str(scene.real / "a/1") in undone
    assert picture(scene.real, inodes=True) == before


def test_holes_stay_holes(scene: Scene) -> None:
    scene.begin("true")
    scene.rehearse("truncate -s 8M f; printf z | dd of=f bs=1 seek=5M conv=notrunc status=none")
    if (scene.copy / "f").stat().st_blocks * 512 > 1 << 20:
        pytest.skip("no sparse files on this file system")
    scene.commit()
    assert (scene.real / "f").stat().st_blocks * 512 < 1 << 20
    assert (scene.real / "f").read_bytes() == (scene.copy / "f").read_bytes()


def test_extended_attributes_are_kept(scene: Scene) -> None:
    scene.begin("echo a > a; echo b > b; echo c > c; chmod 444 c; mkdir d")
    try:
        os.setxattr(scene.copy / "a", "user.kind", b"\xff new")
    except (OSError, AttributeError):
        pytest.skip("no extended attributes on this file system")
    for name in ("b", "d"):
        os.setxattr(scene.copy / name, "user.kind", b"b")
    scene.rehearse("echo more >> b; echo n > new")
    os.setxattr(scene.copy / "new", "user.kind", b"n")
    before = picture(scene.real)
    scene.commit()
    assert picture(scene.real) == picture(scene.copy)
    undo(scene.folder)
    assert picture(scene.real) == before


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="changes owners")
def test_owners_are_kept(scene: Scene) -> None:
    scene.begin("echo a > a; echo b > b; mkdir d; ln -s a link")
    scene.rehearse("chown 12:34 a d; chown -h 12:34 link; echo b > b; chown 5:6 b; chmod 4755 b")
    scene.commit()
    assert picture(scene.real) == picture(scene.copy)


def test_only_a_mode_changes_without_the_file_being_copied(scene: Scene) -> None:
    scene.begin("echo a > a")
    inode = (scene.real / "a").stat().st_ino
    scene.rehearse("chmod 600 a")
    scene.commit()
    state = (scene.real / "a").stat()
    assert (state.st_ino, stat.S_IMODE(state.st_mode)) == (inode, 0o600)


def test_a_new_hard_link_is_one_to_the_real_file(scene: Scene) -> None:
    scene.begin("echo a > a; echo a > b; touch -r a b")
    inode = (scene.real / "a").stat().st_ino
    scene.rehearse("ln a c; ln -f a b")
    scene.commit()
    assert {(scene.real / name).stat().st_ino for name in "abc"} == {inode}
    undo(scene.folder)
    assert (scene.real / "a").stat().st_nlink == 1


def test_a_link_that_the_session_broke_is_broken_though_the_bytes_are_the_same(
    scene: Scene,
) -> None:
    scene.begin("echo a > a; ln a b; touch -d @1 a")
    scene.rehearse("sed -i s/none/of/ a")
    scene.commit()
    assert [(scene.real / name).stat().st_nlink for name in "ab"] == [1, 1]
    undo(str(scene.folder))
    assert (scene.real / "a").samefile(scene.real / "b")


def test_nothing_to_commit_is_nothing_done(scene: Scene) -> None:
    scene.begin("echo a > a")
    assert scene.commit() == []
    with pytest.raises(ChangesError, match="no commit to undo"):
        undo(scene.folder)


# Conflicts.


@pytest.mark.parametrize(
    ("meanwhile", "path", "why"),
    [
        ("echo other >> d/f", "d/f", "it has changed"),
        ("chmod 600 d/f", "d/f", "it has changed"),
        ("echo x > d/sibling", "d/f", "its folder has changed"),
        ("chmod 700 d", "d/f", "its folder has changed"),
        ("rm d/f", "d/f", "its folder has changed"),
        ("rm d/f; ln -s ../other d/f", "d/f", "it has changed"),
        ("mv d e; ln -s e d", "d/f", "its folder is gone, or a link|its folder is a link"),
        ("rm -r d; ln -s ../outside d", "d/f", "its folder is a link"),
        ("rm -r d", "d/f", "its folder is gone"),
        ("rm -r d; touch d", "d/f", "its folder is a link or a file"),
    ],
)
def test_what_changed_meanwhile_is_refused(
    scene: Scene, meanwhile: str, path: str, why: str
) -> None:
    (scene.base / "outside").mkdir()
    (scene.base / "outside" / "f").write_text("precious")
    scene.begin("mkdir d; echo f > d/f; echo o > other")
    scene.rehearse("echo mine > d/f; echo also > other")
    bash(scene.real, meanwhile)
    before = picture(scene.real, inodes=True)
    with pytest.raises(Conflict, match=why) as caught:
        scene.commit()
    assert str(scene.real / path) in caught.value.paths
    assert picture(scene.real, inodes=True) == before
    assert (scene.base / "outside" / "f").read_text() == "precious"
    assert recover(scene.folder) is None


def test_a_new_name_that_somebody_else_took_is_refused(scene: Scene) -> None:
    scene.begin("mkdir d")
    scene.rehearse("echo mine > d/new")
    (scene.real / "d" / "new").write_text("theirs")
    with pytest.raises(Conflict):
        scene.commit()
    assert (scene.real / "d" / "new").read_text() == "theirs"


def test_what_changes_beside_the_touched_folders_does_not_matter(scene: Scene) -> None:
    scene.begin("mkdir d e; echo f > d/f")
    scene.rehearse("echo mine > d/f")
    bash(scene.real, "echo x > e/x")
    scene.commit()
    assert (scene.real / "d" / "f").read_text() == "mine\n"
    assert (scene.real / "e" / "x").exists()


def test_every_path_in_the_way_is_named(scene: Scene) -> None:
    scene.begin("mkdir a b; echo 1 > a/1; echo 2 > b/2")
    scene.rehearse("echo x > a/1; echo x > b/2")
    bash(scene.real, "echo y >> a/1; rm -r b")
    with pytest.raises(Conflict) as caught:
        scene.commit()
    assert set(caught.value.paths) == {str(scene.real / "a/1"), str(scene.real / "b/2")}


def test_a_socket_is_refused_and_named(scene: Scene) -> None:
    scene.begin("echo a > a")
    scene.rehearse("echo b > a")
    with closing(socket.socket(socket.AF_UNIX)) as server:
        here = os.open(scene.copy, os.O_RDONLY)
        server.bind(f"/proc/self/fd/{here}/s" if sys.platform == "linux" else str(scene.copy / "s"))
        os.close(here)
    with pytest.raises(Conflict, match="a socket or a device can't be committed") as caught:
        scene.commit()
    assert list(caught.value.paths) == [str(scene.real / "s")]
    assert (scene.real / "a").read_text() == "a\n"


def test_a_file_with_a_name_nobody_found_is_refused(scene: Scene) -> None:
    scene.begin("mkdir root; echo a > outside; ln outside root/inside", root="root")
    scene.rehearse("echo b >> root/inside")
    scene.copied.hide("outside")
    with pytest.raises(Conflict, match="another name"):
        scene.commit()


# What was shown is what is committed.


def test_what_was_shown_is_committed(scene: Scene) -> None:
    scene.begin("echo a > a; echo m > moved; echo x > x")
    scene.rehearse("echo b > a; mv moved away; rm x; mkdir d; echo n > d/n")
    changes = diff(scene.copied)
    commit(scene.copied, changes, folder=scene.folder)
    assert picture(scene.real) == picture(scene.copy)


@pytest.mark.parametrize(
    "more",
    ["echo later >> a", "echo x > later", "echo a > a; touch -r .before a", "chmod 600 a"],
)
def test_what_the_session_did_after_it_was_shown_is_refused(scene: Scene, more: str) -> None:
    scene.begin("echo a > a; touch -d 2020-01-01 a; touch -d 2021-01-01 .before")
    scene.rehearse("echo b > a")
    changes = diff(scene.copied)
    scene.rehearse(more)
    with pytest.raises(Conflict, match="the session has changed it|no longer"):
        commit(scene.copied, changes, folder=scene.folder)
    assert (scene.real / "a").read_text() == "a\n"


def test_other_bytes_with_the_size_and_time_that_were_shown_are_refused(scene: Scene) -> None:
    scene.begin("echo a > a")
    scene.rehearse("echo b > a; touch -d 2020-01-01 a")
    changes = diff(scene.copied)
    scene.rehearse("echo c > a; touch -d 2020-01-01 a")
    with pytest.raises(Conflict, match="since it was shown"):
        commit(scene.copied, changes, folder=scene.folder)
    assert (scene.real / "a").read_text() == "a\n"
    assert recover(scene.folder) is None


# Elsewhere.


def test_elsewhere_is_committed_only_where_it_is_named(scene: Scene) -> None:
    scene.begin(
        "mkdir root other; echo a > root/a; echo o > other/o; echo p > other/p", root="root"
    )
    scene.rehearse(
        "echo b > root/a; echo x > other/o; mkdir -p new/deep; echo n > new/deep/n; rm other/p"
    )
    scene.commit("other/o", "new/deep/n")
    assert (scene.real / "root/a").read_text() == "b\n"
    assert (scene.real / "other/o").read_text() == "x\n"
    assert (scene.real / "new/deep/n").read_text() == "n\n"
    assert (scene.real / "other/p").read_text() == "p\n"
    undo(scene.folder)
    assert sorted(os.listdir(scene.real)) == ["other", "root"]


def test_without_a_name_nothing_elsewhere_is_touched(scene: Scene) -> None:
    scene.begin("mkdir root; echo o > o", root="root")
    scene.rehearse("echo x > o; echo y > root/y; ln o root/linked")
    scene.commit()
    assert (scene.real / "o").read_text() == "o\n"
    assert (scene.real / "root/y").exists()


def test_the_sessions_database_is_inside_wherever_it_lies(scene: Scene) -> None:
    scene.begin("mkdir root; : > shop.db", root="root", database="shop.db")
    with closing(sqlite3.connect(scene.copy / "shop.db")) as connection:
        connection.execute("CREATE TABLE orders (id)")
    scene.commit()
    assert (scene.real / "shop.db").read_bytes() == (scene.copy / "shop.db").read_bytes()


# Databases.


HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
for statement in sys.argv[2:]:
    connection.execute(statement).fetchall()
print("holds", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(
    "statements",
    [
        ["BEGIN IMMEDIATE"],
        ["BEGIN", "SELECT * FROM t"],
        ["PRAGMA journal_mode"],
        pytest.param(
            ["SELECT * FROM t"],
            marks=pytest.mark.skipif(sys.platform != "linux", reason="found by a lease"),
        ),
    ],
)
@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_a_database_in_use_is_refused(scene: Scene, statements: list[str], journal: str) -> None:
    with closing(sqlite3.connect(scene.real / "x.db")) as connection:
        connection.execute(f"PRAGMA journal_mode = {journal}")
        connection.execute("CREATE TABLE t (x)")
    scene.begin("true")
    with closing(sqlite3.connect(scene.copy / "x.db")) as connection, connection:
        connection.execute("INSERT INTO t VALUES (1)")
    before = (scene.real / "x.db").read_bytes()
    command = [sys.executable, "-c", HOLDER, str(scene.real / "x.db"), *statements]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdin is not None
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == b"holds\n"
        with pytest.raises(Conflict):
            scene.commit()
        assert (scene.real / "x.db").read_bytes() == before
    finally:
        holder.stdin.close()
        holder.stdout.close()
        holder.wait()


def test_a_database_nobody_uses_is_committed(scene: Scene) -> None:
    with closing(sqlite3.connect(scene.real / "x.db")) as connection:
        connection.execute("CREATE TABLE t (x)")
    scene.begin("true")
    with closing(sqlite3.connect(scene.copy / "x.db")) as connection, connection:
        connection.execute("INSERT INTO t VALUES (1)")
    scene.commit()
    with closing(sqlite3.connect(scene.real / "x.db")) as connection:
        assert connection.execute("SELECT * FROM t").fetchall() == [(1,)]


# Failures.


def test_a_second_commit_is_refused(scene: Scene) -> None:
    scene.begin("echo a > a")
    scene.rehearse("echo b > a")
    scene.commit()
    with pytest.raises(ChangesError, match="committed already"):
        scene.commit()


FULL = """
import os, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from copies import copy_of, picture
from lwm_agents.changes import steps
from lwm_agents.changes.commit import commit
from lwm_agents.changes.undo import recover
from lwm_agents.errors import CommitFailed
base, room = Path(sys.argv[2]), int(sys.argv[3])
real = base / "small" / "real"
real.mkdir()
for number in range(20):
    (real / str(number)).write_bytes(b"x" * 1000)
copied = copy_of(real, base / "copy")
for number in range(20):
    (base / "copy" / str(number)).write_bytes(b"y" * 20_000)
os.mkdir(base / "folder")
folder = base / "folder" if sys.argv[4] == "apart" else base / "small" / "folder"
folder.mkdir(exist_ok=True)
before = picture(real)
state = os.statvfs(real)
(base / "small" / "ballast").write_bytes(b"z" * max(0, state.f_bavail * state.f_frsize - room))
try:
    commit(copied, folder=str(folder))
except CommitFailed as error:
    assert "No space left on device" in str(error), error
    assert picture(real) == before
    assert recover(str(folder)) is None
    assert os.listdir(folder) in ([], ["commit.lock"]), os.listdir(folder)
    assert sorted(os.listdir(base / "small")) == sorted({"real", "ballast", *(
        ["folder"] if folder.parent.name == "small" else [])}), os.listdir(base / "small")
    print("refused")
else:
    print("committed")
"""


@pytest.mark.parametrize("where", ["apart", "within"])
@pytest.mark.parametrize("room", [0, 8_000, 200_000])
def test_a_full_disk_leaves_everything_as_it_was(tmp_path: Path, room: int, where: str) -> None:
    (tmp_path / "small").mkdir()
    script = 'mount -t tmpfs -o size=2M none "$1" || exit 77; shift; exec "$@"'
    here = str(Path(__file__).parent)
    command = ["unshare", "-m", "bash", "-c", script, "bash", str(tmp_path / "small")]
    if not hasattr(os, "geteuid") or os.geteuid() != 0 or sys.platform != "linux":
        pytest.skip("mounts a small file system, which takes root on Linux")
    command += [sys.executable, "-c", FULL, here, str(tmp_path), str(room), where]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if "unshare" in done.stderr or done.returncode == 77:
        pytest.skip(f"no mounts here: {done.stderr}")
    assert (done.returncode, done.stdout) == (0, "refused\n"), done.stderr


def test_a_disk_that_fails_is_a_clear_error(scene: Scene) -> None:
    scene.begin("echo a > a")
    scene.rehearse("echo bigger > a")
    scene.copied.break_("a")
    with pytest.raises(CommitFailed, match="nothing was changed"):
        scene.commit()
    assert (scene.real / "a").read_text() == "a\n"
    assert recover(scene.folder) is None
