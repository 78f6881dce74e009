"""Diff and commit of what was done in real overlay mounts, as root and as an ordinary user."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from copies import picture
from overlay_driver import NOBODY, jsonable

from lwm_agents.changes.undo import discard, undo

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="overlayfs is Linux's")

DRIVER = Path(__file__).with_name("overlay_driver.py")

TREE = """
mkdir -p a/b/c gone/deep renamed; echo one > a/1; echo two > a/b/2; ln -s 1 a/link
echo x > gone/deep/x; echo y > gone/y; echo same > same; echo in > renamed/in; echo k > kept
printf 'x\\0y' > bin; chmod 640 a/b/2; echo q > was-file; mkdir was-folder; echo z > was-folder/z
mkdir refilled; echo old > refilled/old; truncate -s 1M sparse
touch -d 2020-01-01 a/1 same kept a
"""

SCRIPT = """
echo changed >> a/1; echo three > a/b/3; rm -r gone; mv renamed moved; touch -d 2020-01-01 same
rm was-file; mkdir was-file; echo f > was-file/f; rm -r was-folder; echo g > was-folder
rm -r refilled; mkdir refilled; echo new > refilled/new; mv a/b/2 a/b/two; chmod 700 a/b/c
ln -s ../x a/l; mkfifo p; ln kept kept2; printf q > $'\\377name'; printf z | dd of=sparse bs=1 \
seek=500000 conv=notrunc status=none; echo t > temporary; rm temporary
"""


@pytest.fixture
def base() -> Iterator[Path]:
    # Not below pytest's own folder: an ordinary user can't get in there.
    path = Path(tempfile.mkdtemp(prefix="lwm-overlay-"))
    path.chmod(0o755)
    yield path
    subprocess.run(["chmod", "-R", "u+rwx", str(path)], check=False)
    shutil.rmtree(path, ignore_errors=True)


def rehearse(base: Path, how: str, script: str, *words: str, tree: str = TREE) -> dict[str, Any]:
    real = base / "real"
    real.mkdir()
    subprocess.run(["bash", "-ec", tree], cwd=real, check=True)
    (base / "script").write_text(script)
    command = [sys.executable, str(DRIVER), how, str(base), *words]
    if how == "user" and os.geteuid() == 0:
        subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", str(base)], check=True)
    elif how != "user" and os.geteuid() != 0:
        pytest.skip("only root may mount overlays without a user namespace")
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode == 77:
        pytest.skip(f"no overlay mounts here: {done.stdout}")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def kinds(found: dict[str, Any]) -> dict[str, str]:
    return {one["path"]: one["kind"] for one in found["changes"]["inside"]}


# `same` was touched to the time it had: nothing has changed.
EXPECTED = {
    "a/1": "modified", "a/b/3": "added", "a/b/c": "modified", "a/b/two": "renamed",
    "a/l": "added", "gone": "deleted", "gone/deep": "deleted", "gone/deep/x": "deleted",
    "gone/y": "deleted", "kept2": "added", "moved": "added", "moved/in": "renamed", "p": "added",
    "refilled/new": "added", "refilled/old": "deleted", "renamed": "deleted",
    "sparse": "modified", "was-file": "modified", "was-file/f": "added", "was-folder": "modified",
    "was-folder/z": "deleted", "\\xffname": "added",
}  # fmt: skip


@pytest.mark.parametrize("how", ["whole", "root"])
def test_the_real_tree_becomes_what_the_copy_is_and_an_undo_gives_it_back(
    base: Path, how: str
) -> None:
    found = rehearse(base, how, SCRIPT, "commit")
    assert kinds(found) == EXPECTED
    assert [one for one in found["changes"]["elsewhere"] if str(base) in one["path"]] == []
    assert found["real"] == found["copy"]
    undo(str(base / "folder"))
    assert jsonable(picture(base / "real")) == found["before"]
    discard(str(base / "folder"))
    assert not (base / "folder").exists()


def test_an_ordinary_users_commit_makes_what_the_script_makes(base: Path) -> None:
    # There a real folder can't be renamed in one step: `mv` copies it.
    script = SCRIPT.replace("mv renamed moved", "mkdir moved; mv renamed/in moved; rmdir renamed")
    script += "mkdir closed; echo s > closed/s; chmod 200 closed/s; chmod 0 closed; chmod 500 a\n"
    found = rehearse(base, "user", script, "commit")
    more = {"a": "modified", "closed": "added", "closed/s": "added"}
    assert kinds(found) == EXPECTED | more
    direct = base / "direct"
    direct.mkdir()
    subprocess.run(["bash", "-ec", TREE + script], cwd=direct, check=True)
    if os.geteuid() == 0:
        subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", str(direct)], check=True)
        assert without_times(picture(base / "real")) == without_times(picture(direct))


def without_times(seen: dict[str, tuple[object, ...]]) -> dict[str, tuple[object, ...]]:
    return {path: (*values[:3], *values[4:]) for path, values in seen.items()}


def test_a_name_that_shares_a_changed_file_is_found_wherever_it_is_below_the_root(
    base: Path,
) -> None:
    tree = "mkdir far; echo one > a; ln a far/b"
    found = rehearse(base, "root", "echo two >> a", "commit", tree=tree)
    assert kinds(found) == {"a": "modified", "far/b": "modified"}
    real = base / "real"
    assert (real / "far/b").read_text() == "one\ntwo\n"
    assert (real / "far/b").stat().st_ino == (real / "a").stat().st_ino


def test_what_lies_elsewhere_is_shown_apart(base: Path) -> None:
    found = rehearse(base, "whole", "echo x > ../beside; echo y > inside", tree="true")
    assert kinds(found) == {"inside": "added"}
    ours = [one["path"] for one in found["changes"]["elsewhere"] if str(base) in one["path"]]
    assert ours == [str(base / "beside")]
