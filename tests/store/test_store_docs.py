"""What docs/store.md shows must run."""

import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from lwm_agents.store import SessionRecord, Store
from lwm_agents.store.records import Kind
from lwm_agents.values import Action, Observation, Transition

TEXT = (Path(__file__).parents[2] / "docs" / "store.md").read_text(encoding="utf-8")
QUERIES = re.findall(r"```sql\n(.*?)```", TEXT, re.S)
SCRIPTS = re.findall(r"```python\n(.*?)```", TEXT, re.S)
KIND: Kind = "run"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "lwm.db"
    action = Action(tool="shell", arguments={"command": "cat /etc/shadow"})
    seen = Observation(text="permission denied", source="executed")
    with Store(path) as store:
        store.create_session(SessionRecord(id="f00d", kind=KIND, task="look"))
        store.append(
            Transition(
                session="f00d",
                step=1,
                action=action,
                observation=seen,
                prediction=seen.model_copy(update={"source": "imagined", "text": "root:x"}),
                fidelity=0.25,
            )
        )
        store.start("f00d", 2, action)
    return path


@pytest.mark.parametrize("query", QUERIES)
def test_a_shown_query_runs_and_all_but_approvals_find_something(path: Path, query: str) -> None:
    connection = sqlite3.connect(path)
    found = connection.execute(query).fetchall()
    connection.close()
    assert bool(found) == ("FROM approvals" not in query)


def test_the_shown_python_runs(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(path.parent)
    for script in SCRIPTS:
        scope: dict[str, Any] = {}
        exec(compile(script, "docs/store.md", "exec"), scope)
    said = capsys.readouterr().out
    assert said.splitlines() == ["f00d None 1", "f00d 1 permission denied", "look 1"]


def test_something_is_shown() -> None:
    assert len(QUERIES) >= 7
    assert len(SCRIPTS) == 1
