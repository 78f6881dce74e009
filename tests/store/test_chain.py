import hashlib
import json
import sqlite3
from pathlib import Path

import pytest

from lwm_agents.store import SessionRecord, Store
from lwm_agents.store.rows import BLOB_COLUMNS, CHAINED
from lwm_agents.values import Action, Observation, Signals, Transition


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "lwm.db"
    with Store(path) as store:
        for name in ("s", "other"):
            store.create_session(SessionRecord(id=name, task="t"))
            for step in range(1, 6):
                store.append(
                    Transition(
                        session=name,
                        step=step,
                        action=Action(tool="shell", arguments={"n": step}),
                        observation=Observation(
                            text="long " * 5000 if step == 3 else f"out \udcff{step}",
                            source="executed",
                            raw=b"\xff" if step == 4 else None,
                            signals=Signals(nearness=0.5) if step == 5 else None,
                        ),
                        reward=1,
                        started_at=-0.0,
                        fidelity=0.5,
                    )
                )
    return path


def change(path: Path, statement: str) -> str | None:
    """Change the file behind the store's back; return what verify says of session s."""
    connection = sqlite3.connect(path)
    assert connection.execute(statement).rowcount > 0
    connection.commit()
    connection.close()
    with Store(path) as store:
        assert store.verify("other").ok
        found = store.verify("s")
        assert found.ok == (found.problem is None)
        return found.problem


def test_an_untouched_session_is_sound(path: Path) -> None:
    with Store(path) as store:
        found = store.verify("s")
        assert (found.ok, found.transitions, found.session) == (True, 5, "s")


@pytest.mark.parametrize("column", [name for name in CHAINED if name not in ("session", "step")])
def test_a_change_of_any_column_is_found(path: Path, column: str) -> None:
    statement = f"UPDATE transitions SET {column} = 'x' WHERE session = 's' AND step = 2"
    assert change(path, statement) == "step 2 was changed"


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("DELETE FROM transitions WHERE session='s' AND step=2", "step 3 does not follow"),
        ("DELETE FROM transitions WHERE session='s' AND step=1", "step 2 does not follow"),
        ("UPDATE transitions SET step=9 WHERE session='s' AND step=2", "step 3 does not follow"),
        ("UPDATE transitions SET hash='x' WHERE session='s' AND step=2", "step 2 was changed"),
        ("UPDATE sessions SET task='x' WHERE id='s'", "the session's own row was changed"),
        ("UPDATE blobs SET data=X'00' WHERE length(data) = 1", "step 4 was changed"),
        ("UPDATE blobs SET data=CAST('x' AS TEXT) WHERE length(data) > 1", "step 3 was changed"),
        ("DELETE FROM blobs WHERE length(data) > 1", "step 3 was changed"),
    ],
)
def test_other_changes_are_found(path: Path, statement: str, problem: str) -> None:
    connection = sqlite3.connect(path)
    # The other session has the same blobs, and must stay sound for `change`.
    connection.execute("UPDATE transitions SET session='gone' WHERE session='other'")
    connection.execute("DELETE FROM transitions WHERE session='gone'")
    connection.commit()
    connection.close()
    assert problem in (change(path, statement) or "")


def test_the_hash_can_be_computed_without_this_package(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.row_factory = sqlite3.Row
    rows = connection.execute(
        "SELECT * FROM transitions WHERE session='s' ORDER BY step"
    ).fetchall()
    connection.close()
    for row in rows:
        values = [row["previous_hash"]]
        for name in CHAINED if row["signals"] is not None else CHAINED[:-1]:
            value = row[name]
            values.append(
                value.decode("utf-8", "surrogatepass") if isinstance(value, bytes) else value
            )
        text = json.dumps(values, separators=(",", ":"))
        assert hashlib.sha256(text.encode()).hexdigest() == row["hash"]


def test_the_chain_covers_every_column() -> None:
    with Store(":memory:") as store:
        columns = set(store.database["transitions"].columns_dict)
    assert columns == {*CHAINED, "id", "previous_hash", "hash"}
    assert {"text_blob", "raw_blob"} <= set(BLOB_COLUMNS)
