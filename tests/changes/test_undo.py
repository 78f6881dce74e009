"""Taking a commit back, and throwing a session away."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from copies import copy_of, picture, session_folder

from lwm_agents.changes.commit import commit
from lwm_agents.changes.journal import running
from lwm_agents.changes.undo import discard, recover, undo
from lwm_agents.errors import ChangesError, Conflict

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="uses POSIX modes and links")

TREE = "mkdir -p d gone; echo a > a; echo b > d/b; echo g > gone/g; echo m > mode"
SCRIPT = "echo more >> a; mkdir new; echo n > new/n; rm -r gone; chmod 600 mode; echo c >> d/b"


@pytest.fixture
def committed(tmp_path: Path) -> Path:
    real = tmp_path / "real"
    real.mkdir()
    subprocess.run(["bash", "-ec", TREE], cwd=real, check=True)
    copied = copy_of(real, tmp_path / "copy")
    subprocess.run(["bash", "-ec", SCRIPT], cwd=tmp_path / "copy", check=True)
    commit(copied, folder=session_folder(tmp_path / "folder"))
    return tmp_path


@pytest.mark.parametrize(
    ("since", "path"),
    [
        ("echo later >> a", "a"),
        ("echo x > new/x", "new/x"),
        ("mkdir gone", "gone"),
        ("chmod 644 mode", "mode"),
        ("rm d/b", "d/b"),
        ("rm -r new", "new/n"),
        ("mv new other; ln -s other new", "new"),
        ("chmod 700 new", "new"),
    ],
)
def test_what_changed_since_is_refused(committed: Path, since: str, path: str) -> None:
    subprocess.run(["bash", "-ec", since], cwd=committed / "real", check=True)
    before = picture(committed / "real", inodes=True)
    with pytest.raises(Conflict) as caught:
        undo(str(committed / "folder"))
    assert str(committed / "real" / path) in caught.value.paths
    assert picture(committed / "real", inodes=True) == before


def test_what_lies_beside_stays(committed: Path) -> None:
    (committed / "real" / "d" / "later").write_text("later")
    undo(str(committed / "folder"))
    assert (committed / "real" / "d" / "later").read_text() == "later"
    assert (committed / "real" / "d" / "b").read_text() == "b\n"


def test_an_undo_is_done_once(committed: Path) -> None:
    undo(str(committed / "folder"))
    with pytest.raises(ChangesError, match="no commit to undo"):
        undo(str(committed / "folder"))
    assert recover(str(committed / "folder")) is None


def test_a_discard_keeps_what_was_committed(committed: Path) -> None:
    before = picture(committed / "real", inodes=True)
    discard(str(committed / "folder"))
    assert sorted(os.listdir(committed)) == ["copy", "real"]
    assert picture(committed / "real", inodes=True) == before


def test_a_discard_removes_whatever_modes_depths_and_links_there_are(tmp_path: Path) -> None:
    folder = Path(session_folder(tmp_path / "folder"))
    (tmp_path / "precious").write_text("precious")
    script = (
        "mkdir -p work/work upper; ln -s ../../precious upper/l; echo x > upper/x; mkdir -p e/f"
    )
    subprocess.run(
        ["bash", "-ec", script + "; chmod 0 work/work upper/x e/f e"], cwd=folder, check=True
    )
    deep = os.open(folder, os.O_RDONLY)
    name = "deep" * 20
    for _ in range(80):  # longer than any path may be
        os.mkdir(name, dir_fd=deep)
        below = os.open(name, os.O_RDONLY, dir_fd=deep)
        os.close(deep)
        deep = below
    os.close(deep)
    discard(str(folder))
    assert not folder.exists()
    assert (tmp_path / "precious").read_text() == "precious"
    discard(str(folder))  # once more is harmless


def test_a_session_that_runs_is_not_discarded(tmp_path: Path) -> None:
    folder = session_folder(tmp_path / "folder")
    lock = running(folder)
    with pytest.raises(ChangesError, match="still runs"):
        discard(folder)
    with pytest.raises(ChangesError, match="still runs"):
        running(folder)
    lock.release()
    discard(folder)
    assert not os.path.exists(folder)


def test_what_was_cut_short_is_neither_discarded_nor_undone(committed: Path) -> None:
    journal = committed / "folder" / "commit.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-1]))  # as if killed just before the last line
    after = picture(committed / "real")
    for refused in (discard, undo):
        with pytest.raises(ChangesError, match="recover"):
            refused(str(committed / "folder"))
    assert recover(str(committed / "folder")) == "committed"
    assert picture(committed / "real") == after
    undo(str(committed / "folder"))
    assert (committed / "real" / "a").read_text() == "a\n"


def test_a_line_cut_short_does_not_count(committed: Path) -> None:
    journal = committed / "folder" / "commit.jsonl"
    journal.write_bytes(journal.read_bytes()[:-2])
    assert recover(str(committed / "folder")) == "committed"
