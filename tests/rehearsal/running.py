"""Runs the comparison of rehearsed and real as some user, and says why each difference is there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from unprivileged import run_as_user

DRIVER = str(Path(__file__).with_name("equal_driver.py"))

LATER = "follows from an earlier one"
LINK_COUNT = "overlayfs counts no links of a folder in both layers, and its attributes take blocks"
_OTHERS = "only the user's own name is known in the copy"
_CROSS = "a folder that is in the lower layer can't be renamed without redirect_dir"
_HARD = "without an index hard links split, and inodes change, where a file is copied up"


def compare_as(user: str, folder: Path, calls: int, seed: int) -> dict[str, Any]:
    """Compare in an empty folder, as "self" or as "user", one without rights; see the driver."""
    arguments = [DRIVER, str(folder), str(calls), str(seed)]
    if user == "user":
        done = run_as_user(arguments, folder)
    else:
        path = os.pathsep.join(one for one in sys.path if one)
        done = subprocess.run(
            [sys.executable, *arguments],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def reason(difference: dict[str, Any], *, user: bool) -> str | None:
    """Return why a rehearsal differs, where that is known. `user`: without the rights of root."""
    rehearsed, real = difference["rehearsed"], difference["real"]
    if rehearsed.startswith("(cannot say: "):
        return str(rehearsed)
    if _without_link_counts(rehearsed) == _without_link_counts(real):
        return LINK_COUNT
    if user:
        if "cross-device link" in rehearsed:
            return _CROSS
        if "Invalid argument" in rehearsed and "Operation not permitted" in real:
            return _OTHERS  # chown to a user that is not there
            return _OTHERS
        if re.search(r"\bln\b|link|hard|clone", json.dumps(difference["arguments"])):
            return _HARD
    return None if difference["first"] else LATER


def _without_link_counts(text: str) -> str:
    """Leave out what `ls -l` says of folders' links, and the width of that column."""
    text = re.sub(r"^total \d+", "total", text, flags=re.MULTILINE)
    text = re.sub(r"^(d\S{9,10}) +\d+ ", r"\1 ", text, flags=re.MULTILINE)
    return re.sub(r"^([-lcbps]\S{9,10}) +(\d+) ", r"\1 \2 ", text, flags=re.MULTILINE)
