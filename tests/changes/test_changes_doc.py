"""What docs/changes.md shows must run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from copies import copy_of, session_folder

TEXT = (Path(__file__).parents[2] / "docs" / "changes.md").read_text(encoding="utf-8")


@pytest.mark.skipif(sys.platform == "win32", reason="uses cp")
def test_its_python_runs_in_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (real / "a").write_text("a\n")
    copied = copy_of(real, tmp_path / "copy")
    subprocess.run(["bash", "-ec", "echo b > a; echo n > new"], cwd=tmp_path / "copy", check=True)
    scope = {"copied": copied, "folder": session_folder(tmp_path / "folder")}
    for script in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL):
        exec(compile(script, "docs/changes.md", "exec"), scope)
    assert "1 file changed, 1 added" in capsys.readouterr().out
    assert (real / "a").read_text() == "a\n"
    assert not (tmp_path / "folder").exists()
