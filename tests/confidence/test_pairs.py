import json
from pathlib import Path
from typing import Any

import pytest

from lwm_agents.confidence import pairs_of, read_pairs
from lwm_agents.errors import Misuse
from lwm_agents.store import SessionRecord, Store
from lwm_agents.values import Action, Observation, Signals, Transition

ROW: dict[str, Any] = {
    "dataset": "d",
    "id": "t1",
    "step": 3,
    "tool": "shell",
    "domain": "terminal",
    "source": "imagined",
    "confidence": 0.5,
    "signals": {"logprob": -0.1, "least": -0.5, "nearness": None, "computed": False, "length": 7},
    "exact": False,
    "fidelity": 0.95,
    "predicted": "a",
    "happened": "b",
    "is_error_predicted": False,
    "is_error_happened": None,
}


def write(file: Path, *rows: dict[str, Any], end: str = "\n") -> Path:
    file.write_text("\n".join(map(json.dumps, rows)) + end)
    return file


def test_a_row_is_read_with_what_was_said(tmp_path: Path) -> None:
    (pair,) = read_pairs(write(tmp_path / "r.jsonl", ROW))
    assert pair.right
    assert pair.trajectory == ("d", "t1")
    assert pair.signals == Signals(logprob=-0.1, least=-0.5, length=7, stated=0.5)


def test_what_was_said_before_calibration_counts(tmp_path: Path) -> None:
    row = ROW | {"signals": {"stated": 0.9}, "confidence": 0.2}
    (pair,) = read_pairs(write(tmp_path / "r.jsonl", row))
    assert (pair.confidence, pair.signals.stated) == (0.2, 0.9)


def test_what_no_world_guessed_is_left_out(tmp_path: Path) -> None:
    sources = ("imagined", "recalled", "rehearsed", "unanswered", "executed")
    rows = [ROW | {"source": source} for source in sources]
    found = read_pairs(write(tmp_path / "r.jsonl", *rows))
    assert [pair.source for pair in found] == ["imagined", "recalled"]


def test_a_last_line_that_was_cut_is_left_out(tmp_path: Path) -> None:
    file = write(tmp_path / "r.jsonl", ROW)
    file.write_text(file.read_text() + json.dumps(ROW)[:40])
    assert len(read_pairs(file)) == 1


def test_a_line_that_is_no_row_is_named(tmp_path: Path) -> None:
    file = write(tmp_path / "r.jsonl", ROW, ROW | {"fidelity": 3})
    with pytest.raises(Misuse, match=r"r\.jsonl, line 2.*fidelity"):
        read_pairs(file)
    with pytest.raises(Misuse, match="nowhere"):
        read_pairs(tmp_path / "nowhere")


def test_the_log_gives_what_was_predicted_and_executed() -> None:
    seen = Observation(text="x", source="executed")
    signals = Signals(nearness=0.5)
    guess = Observation(text="y", source="imagined", confidence=0.3, signals=signals)
    rehearsed = Observation(text="y", source="rehearsed")
    with Store(":memory:") as store:
        store.create_session(SessionRecord(id="s"))
        made = [
            (guess, 0.2, "shell"), (None, None, "shell"), (rehearsed, 1.0, "shell"),
            (guess, 0.9, "other"),
        ]  # fmt: skip
        for step, (prediction, fidelity, tool) in enumerate(made, 1):
            store.append(
                Transition(
                    session="s",
                    step=step,
                    action=Action(tool=tool),
                    observation=seen,
                    prediction=prediction,
                    fidelity=fidelity,
                    started_at=100.0 - step,
                    engine="m.gguf",
                )
            )
        found = pairs_of(store)
        assert [(one.step, one.tool, one.fidelity) for one in found] == [
            (4, "other", 0.9), (1, "shell", 0.2)]  # fmt: skip
        assert found[0].signals == Signals(nearness=0.5, stated=0.3)
        assert [one.step for one in store.compared("shell")] == [3, 1]
