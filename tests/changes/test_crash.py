"""kill -9 at random moments of a commit or an undo: finished or undone, never between."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="forks")

DRIVER = Path(__file__).with_name("crash_driver.py")


@pytest.mark.parametrize("what", ["commit", "undo"])
def test_a_killed_one_is_finished_or_undone(what: str) -> None:
    run(what, 20)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["commit", "undo"])
def test_200_killed_ones_are_finished_or_undone(what: str) -> None:
    outcomes = run(what, 200)
    assert any(name.endswith("undone") for name in outcomes)
    assert sum(outcomes.values()) == 200


def run(what: str, rounds: int) -> dict[str, int]:
    command = [sys.executable, str(DRIVER), what, str(rounds), str(rounds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    outcomes: dict[str, int] = json.loads(done.stdout)
    return outcomes
