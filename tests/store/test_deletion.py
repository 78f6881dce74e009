import sqlite3
from pathlib import Path

import pytest

from lwm_agents.errors import Misuse, StoreBusy
from lwm_agents.gate.approvals import Approval
from lwm_agents.store import JudgementRecord, RolloutRecord, SessionRecord, Store
from lwm_agents.values import Action, Observation, ToolSpec, Transition


def fill(store: Store, session: str, word: str, shared: str = "") -> None:
    """Put the word everywhere a session can hold one."""
    store.create_session(SessionRecord(id=session, task=word, meta={"a": word}))
    store.pin(ToolSpec(name="shell", description=word), session)
    action = Action(tool="shell", arguments={"command": f"echo {word}", "long": word * 3000})
    approval = Approval(id=session, digest="d", decided_by=word, decided_at=1.0, expires_at=2e9)
    store.approve(session, action, approval)
    started = store.start(session, 1, action, approval_id=session)
    store.append(
        Transition(
            session=session,
            step=1,
            action=action,
            observation=Observation(
                text=word * 3000, source="executed", structured=[word], raw=word.encode() + b"\xff"
            ),
            prediction=Observation(text=word, source="imagined"),
            engine=word,
        ),
        started_id=started,
    )
    store.append_many(
        Transition(
            session=session,
            step=step,
            action=Action(tool="shell", arguments={"command": word}),
            observation=Observation(text=shared + f"{word} {step}", source="executed"),
        )
        for step in range(2, 200)
    )
    store.judge(JudgementRecord(session=session, judge="j", score=1, details=word))
    store.add_rollout(RolloutRecord(session=session, policy=word, world="w"))


def all_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())


def test_nothing_of_a_deleted_session_is_left_in_the_file(tmp_path: Path) -> None:
    with Store(tmp_path / "lwm.db") as store:
        fill(store, "keep", "evergreen")
        fill(store, "gone", "quicksilver")
        assert b"quicksilver" in all_bytes(tmp_path)
        (stone,) = store.delete("go")
        assert (stone.session, stone.transitions) == ("gone", 199)
        assert store.tombstones() == [stone]
        assert b"quicksilver" not in all_bytes(tmp_path)
        assert b"evergreen" in all_bytes(tmp_path)
        assert store.search("quicksilver") == []
        terms = "CREATE VIRTUAL TABLE temp.terms USING fts5vocab(main, search, row)"
        connection = store.database.conn
        assert connection is not None
        connection.execute(terms)
        found = {row[0] for row in connection.execute("SELECT term FROM terms")}
        assert "evergreen" in found
        assert not [term for term in found if "quicksilver" in term]
        assert len(store.search("evergreen", limit=1000)) == 199
        assert len(store.trajectory("keep").transitions) == 199
        assert store.verify("keep").ok
        with pytest.raises(Misuse, match="was deleted on"):
            store.trajectory("gone")
        for table in ("approvals", "started", "judgements", "rollouts", "session_tools", "tools"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (1,)
    assert b"quicksilver" not in all_bytes(tmp_path)


def test_what_another_session_uses_stays(tmp_path: Path) -> None:
    large = "the same large output " * 1000
    tool = ToolSpec(name="shared")
    with Store(tmp_path / "lwm.db") as store:
        for name in ("a", "b"):
            store.create_session(SessionRecord(id=name))
            store.pin(tool, name)
            action = Action(tool="shared", arguments={})
            seen = Observation(text=large, source="executed")
            store.append(Transition(session=name, step=1, action=action, observation=seen))
        store.pin(ToolSpec(name="pinned, no session"))
        store.delete("a")
        assert store.trajectory("b").transitions[0].observation.text == large
        assert store.trajectory("b").tools == (tool,)
        assert store.verify("b").ok
        assert store.database["tools"].count == 2
        store.delete("b")
        assert store.database["blobs"].count == 0
        assert store.database["tools"].count == 1


def test_several_sessions_at_once_or_none(tmp_path: Path) -> None:
    with Store(tmp_path / "lwm.db") as store:
        for name in ("a", "b", "c"):
            store.create_session(SessionRecord(id=name))
        with pytest.raises(Misuse, match="no session"):
            store.delete("a", "nix")
        assert len(store.sessions()) == 3
        assert [stone.session for stone in store.delete("a", "b")] == ["a", "b"]
        assert [one.record.id for one in store.sessions()] == ["c"]
        # A deleted id can be used again, for a recording that is imported once more.
        store.create_session(SessionRecord(id="a"))
        assert store.session("a").id == "a"


def test_a_reader_of_the_old_text_is_named_as_the_obstacle(tmp_path: Path) -> None:
    path = tmp_path / "lwm.db"
    with Store(path, patience=0.2) as store:
        fill(store, "gone", "quicksilver")
        fill(store, "next", "mercury")
        reader = sqlite3.connect(path, isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM transitions").fetchone()
        with pytest.raises(StoreBusy, match="still reads the old text"):
            store.delete("gone")
        assert [one.record.id for one in store.sessions()] == ["next"]
        reader.close()
        store.delete("next")
        assert b"quicksilver" not in all_bytes(tmp_path)
