"""`lwm calibrate` and `lwm drift`, run as a user runs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "confidence"))

from known_truth import drawn

from lwm_agents.confidence import Calibrator
from lwm_agents.store import SessionRecord, Store
from lwm_agents.values import Action, Observation, Transition

Lwm = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def lwm(tmp_path: Path) -> Lwm:
    def run(*arguments: str, before: str = "") -> subprocess.CompletedProcess[str]:
        code = f"import sys\n{before}\nfrom lwm_agents.cli import main; main()"
        return subprocess.run(
            [sys.executable, "-c", code, *arguments],
            env={k: v for k, v in os.environ.items() if not k.startswith("LWM_")}
            | {
                "LWM_STORE": str(tmp_path / "log.db"),
                "LWM_CONFIG": os.devnull,
                "COLUMNS": "80",
                "NO_COLOR": "1",
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            cwd=tmp_path,
            check=False,
        )

    return run


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    pairs = [*drawn(200, 1), *drawn(30, 1, "a_tool_with_a_long_name_indeed")]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(pair.model_dump_json() + "\n" for pair in pairs))
    return file


def test_calibrate_reports_and_writes(lwm: Lwm, rows: Path, tmp_path: Path) -> None:
    done = lwm("calibrate", str(rows), "--out", "c.json", "--picture", "r.png")
    assert done.returncode == 0, done.stderr
    assert "on trajectories not" in done.stdout
    assert "a_tool_with_a_long_name_i…   30" in done.stdout
    assert "said" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    made = Calibrator.load(tmp_path / "c.json")
    assert (made.engine, made.n, set(made.tools)) == ("m.gguf", 230, {"shell"})
    assert (tmp_path / "r.png").stat().st_size > 10_000


def test_calibrate_prints_one_document(lwm: Lwm, rows: Path) -> None:
    done = lwm("calibrate", str(rows), "--json")
    document = json.loads(done.stdout)
    assert document["after"]["ece"] < document["before"]["ece"]
    assert document["after"]["n"] == 230
    assert document["maps"]["tools"]["shell"] in ("logistic", "isotonic")


def test_misuse_names_the_fix(lwm: Lwm, rows: Path, tmp_path: Path) -> None:
    Store(tmp_path / "log.db").close()
    empty = lwm("calibrate")
    assert (empty.returncode, "lwm fidelity --out" in empty.stderr) == (2, True)
    missing = lwm("calibrate", str(rows), before="sys.modules['sklearn'] = None")
    assert missing.returncode == 2
    assert "pip install 'lwm-agents[calibration]'" in missing.stderr
    unknown = lwm("calibrate", str(rows), "--engine", "other")
    assert (unknown.returncode, "m.gguf" in unknown.stderr) == (2, True)


def test_drift_warns_of_a_drop(lwm: Lwm, tmp_path: Path) -> None:
    with Store(tmp_path / "log.db") as store:
        for number in range(20):
            store.create_session(SessionRecord(id=f"s{number}"))
            store.append_many(
                Transition(
                    session=f"s{number}",
                    step=step,
                    action=Action(tool="shell"),
                    observation=Observation(text="x", source="executed"),
                    prediction=Observation(text="x", source="imagined"),
                    fidelity=0.9 if number < 15 else 0.4 + step / 100,
                    started_at=1.7e9 + number * 60 + step,
                )
                for step in range(1, 6)
            )
    done = lwm("drift")
    assert done.returncode == 0, done.stderr
    assert "warning: shell dropped from 0.90 to 0.43" in done.stdout
    assert "step 1 of session s15" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    (found,) = json.loads(lwm("drift", "--json", "--tool", "shell").stdout)["tools"]
    assert (found["n"], found["warned"], found["session"]) == (100, True, "s15")
    nothing = lwm("drift", "--tool", "other")
    assert "nothing by 'other' was predicted" in nothing.stdout
