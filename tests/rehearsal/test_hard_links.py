"""Files with several names, changed through one of them, are after a commit what they are for real.

Only root's copies keep such files one file (overlayfs' index).
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lwm_agents.places.copies import why_no_namespaces
from lwm_agents.places.copy import CopyPlace
from lwm_agents.rehearsed import Rehearsed

pytestmark = [
    pytest.mark.skipif(
        not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root has such copies"
    ),
    pytest.mark.skipif(
        sys.platform == "linux" and why_no_namespaces() is not None,
        reason="this system lets us make no namespaces",
    ),
]


def make(root: Path) -> None:
    """One file of the names a, b and d/f, and another one."""
    (root / "d").mkdir(parents=True)
    (root / "a").write_text("x\n")
    os.link(root / "a", root / "b")
    os.link(root / "a", root / "d/f")
    (root / "d/g").write_text("g")


def seen(root: Path) -> dict[str, tuple[str, frozenset[str]]]:
    """Return the content of each file, and all its names."""
    files = {str(path.relative_to(root)): path for path in root.rglob("*") if path.is_file()}
    return {
        name: (path.read_text(), frozenset(n for n, other in files.items() if path.samefile(other)))
        for name, path in files.items()
    }


@pytest.mark.parametrize(
    "command",
    [
        "mv a c",
        "mv d e",
        "ln a c; mv d e",
        "ln a c; echo more >> c",
        "sed -i s/x/y/ a",
        "mv -f d/g a; echo t >> b",
        "rm a; mv d/f f",
        "mv d e; echo more >> e/f",
        "echo more >> a; rm a",
        "echo more >> a; mv d/g a",
        "echo more >> a; rm -r d",
        "rm a b; echo more >> d/f; ln d/f a",
    ],
)
def test_a_commit_changes_every_name(tmp_path: Path, command: str) -> None:
    root = tmp_path / "root"
    make(root)
    rehearsed = Rehearsed(str(root), None, tmp_path / "sessions" / "one")
    copy = rehearsed.begin()
    assert isinstance(copy, CopyPlace)
    asyncio.run(copy.bash(command, timeout=60))
    rehearsed.end()
    rehearsed.commit(rehearsed.diff())
    committed = seen(root)
    shutil.rmtree(root)
    make(root)
    subprocess.run(["bash", "-c", command], cwd=root, check=True)
    assert committed == seen(root)
