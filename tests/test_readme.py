"""What the README shows is run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lwm_agents.plans import plan_from

README = (Path(__file__).parents[1] / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("code", blocks("python"))
def test_its_python_runs(code: str, tmp_path: Path) -> None:
    environment = {**os.environ, "LWM_STORE": str(tmp_path / "log.db"), "LWM_CONFIG": os.devnull}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_its_plan_is_one(tmp_path: Path) -> None:
    (text,) = blocks("json")
    assert plan_from(json.loads(text), base=tmp_path).steps


def test_its_commands_exist() -> None:
    commands = re.findall(
        r"^lwm ([\w-]+(?: \w+(?= ))?)(.*)$", "\n".join(blocks("sh")), re.MULTILINE
    )
    assert len(commands) >= 10
    for command, rest in commands:
        words = command.split()[:2] if command.startswith("model") else command.split()[:1]
        done = subprocess.run(
            [sys.executable, "-c", "from lwm_agents.cli import main; main()", *words, "--help"],
            capture_output=True, text=True, timeout=60, check=False,
            env={**os.environ, "COLUMNS": "200"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        for option in re.findall(r"--[\w-]+", rest.partition("#")[0]):
            assert option in done.stdout, f"lwm {command} has no {option}"


def test_its_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (Path(__file__).parents[1] / target).exists(), target
