"""Link counts of folders in a copy are those of the real file system, for `ls` and for `stat`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lwm_agents.places.copies import why_no_namespaces
from lwm_agents.places.copy import CopyPlace
from lwm_agents.places.place import RealPlace

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="namespaces are Linux's"),
    pytest.mark.skipif(
        sys.platform == "linux" and why_no_namespaces() is not None,
        reason="this system lets us make no namespaces",
    ),
]

CHANGE = "mkdir here/more here/less; rmdir here/less; touch here/file above"
LOOKS = (
    "stat -c '%n %h' . here here/sub here/more",
    "stat here | grep -o 'Blocks.*\\|Links.*'",
    "ls -ld here/ ./here/../here 'no such'; ls -l . here | grep -v :..:",
    "cd here; stat -c %h . ..; ls -lad . | cut -c1-12",
    "ls -lL way | head -1; stat -L -c %h way; stat -c %h way; cd way; stat -c %h .",
    "exec 3< here; stat -c %h /proc/self/fd/3/sub; stat -L -c %F /proc/self/cwd /dev/fd/3",
)


async def test_folders_show_the_links_that_they_have(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for name in ("here/sub", "there"):
        (root / name).mkdir(parents=True)
    (root / "way").symlink_to("here")
    copy = CopyPlace(root, None, tmp_path / "sessions" / "one")
    await copy.bash(CHANGE, timeout=60)
    rehearsed = []
    for look in LOOKS:
        copy.cwd = str(root)
        rehearsed.append((await copy.bash(look, timeout=60)).output)
    copy.close()
    real = RealPlace(root, None, "live")
    await real.bash(CHANGE, timeout=60)
    for look, seen in zip(LOOKS, rehearsed, strict=True):
        real.cwd = str(root)
        assert (await real.bash(look, timeout=60)).output == seen
    real.close()
