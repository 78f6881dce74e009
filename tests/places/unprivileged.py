"""Run a Python program as a user without rights, however the interpreter lies in root's home."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

UID = 61234
"""A user that no file here belongs to."""

_AS_USER = r"""
set -e
# What the interpreter needs may lie beneath folders that only root may enter: in a mount namespace
# of its own, such folders are covered by open ones that hold nothing but the way down.
for path in "$@"; do
  [ "$path" = -- ] && break
  top=$path
  closed=
  while [ "$top" != / ]; do
    case $(stat -c %a "$top") in *[1357]) ;; *) closed=$top;; esac
    top=$(dirname "$top")
  done
  if [ -n "$closed" ]; then
    kept=$(mktemp -d)
    mount --bind "$path" "$kept"
    mount -t tmpfs -o mode=755 tmpfs "$closed"
    mkdir -p "$path"
    mount --move "$kept" "$path" 2>/dev/null || mount --bind "$kept" "$path"
  fi
done
while [ "$1" != -- ]; do shift; done
shift
exec setpriv --reuid "$UID_" --regid "$UID_" --clear-groups "$@"
"""


def run_as_user(
    arguments: list[str], folder: Path, *, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments as UID; `folder` becomes that user's own, and its home."""
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, UID, UID, follow_symlinks=False)
    needed = sorted({os.path.realpath(sys.base_prefix), os.path.realpath(sys.prefix)})
    return subprocess.run(
        [
            *("unshare", "-m", "bash", "-c", _AS_USER, "as-user"),
            *(*needed, "--", sys.executable, *arguments),
        ],
        env={
            **os.environ,
            "UID_": str(UID),
            "HOME": str(folder),
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "PYTHONDONTWRITEBYTECODE": "1",
            **(environment or {}),
        },
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )
