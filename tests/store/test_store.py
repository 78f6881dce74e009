import json
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lwm_agents.digests import canonical
from lwm_agents.errors import Misuse, StoreError
from lwm_agents.gate.approvals import Approval
from lwm_agents.interchange import plain_from_trajectory, read_trajectories, trajectory_from_plain
from lwm_agents.store import (
    JudgementRecord,
    RolloutRecord,
    SessionRecord,
    Store,
    default_path,
)
from lwm_agents.values import (
    Action,
    Observation,
    Signals,
    ToolSpec,
    Trajectory,
    Transition,
    Usage,
)

SAMPLES = Path(__file__).parent.parent / "samples"
SIGNALS = Signals(logprob=-0.25, least=-1.5, nearness=0.5, agreement=1.0, cut=True, length=5)


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with Store(tmp_path / "lwm.db") as opened:
        yield opened


def made(session: str, step: int = 1, text: str = "hello", **fields: Any) -> Transition:
    defaults: dict[str, Any] = {
        "action": Action(tool="shell", arguments={"command": "echo hello"}),
        "observation": Observation(text=text, source="executed"),
    }
    return Transition(session=session, step=step, **defaults | fields)


def test_everything_comes_back(store: Store) -> None:
    record = SessionRecord(
        id="abc",
        mode="compare",
        task="tidy up",
        root="/srv",
        database="sqlite:///x.db",
        engine="m.gguf",
        environment="box",
        domain="terminal",
        meta={"b": 1, "a": [None]},
    )
    assert store.create_session(record) == record
    tools = (
        ToolSpec(name="shell", description="run"),
        ToolSpec(name="x", source_code="def x(): ..."),
    )
    for tool in tools:
        assert store.pin(tool, "abc") == tool.hash
    transition = Transition(
        session="abc",
        step=1,
        action=Action(tool="shell", arguments={"z": 1, "a": {"y": [1.5, None, True]}}),
        observation=Observation(
            text="out",
            source="executed",
            is_error=True,
            structured={"rows": [[1, "é"]]},
            signals=SIGNALS,
        ),
        effect="write",
        tool_hash=tools[0].hash,
        started_at=1700000000.25,
        latency_ms=12.5,
        prediction=Observation(
            text="guess",
            source="imagined",
            confidence=0.5,
            raw=b"\xff",
            structured=[1],
            signals=SIGNALS,
        ),
        fidelity=0.75,
        reward=-1.0,
        engine="m.gguf",
        usage=Usage(prompt=10, cached=5, completion=3),
    )
    store.append(transition)
    assert store.session("abc") == record
    assert store.trajectory("ab") == Trajectory(
        session="abc",
        task="tidy up",
        tools=tools,
        transitions=(transition,),
        environment="box",
        domain="terminal",
    )
    arguments = store.trajectory("abc").transitions[0].action.arguments
    assert list(arguments) == ["z", "a"]
    assert store.tool(tools[1].hash) == tools[1]
    assert store.tool("?") is None
    assert store.verify("abc").ok
    assert store.count() == 1


texts = st.text(st.characters(exclude_categories=()))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
observations = st.builds(
    Observation,
    text=texts,
    source=st.sampled_from(["executed", "rehearsed", "recalled", "imagined", "unanswered"]),
    is_error=st.just(False),
    error_known=st.booleans(),
    structured=json_values,
    confidence=st.none() | st.floats(0, 1),
    raw=st.none() | st.binary(),
)


@settings(max_examples=150, deadline=None)
@given(
    tool=texts,
    arguments=st.dictionaries(texts, json_values, max_size=4),
    observation=observations,
    prediction=st.none() | observations,
    reward=st.none() | st.floats(allow_nan=False),
)
def test_any_value_comes_back(
    tool: str,
    arguments: dict[str, Any],
    observation: Observation,
    prediction: Observation | None,
    reward: float | None,
) -> None:
    with Store(":memory:") as store:
        store.create_session(SessionRecord(id="s"))
        transition = made(
            "s",
            action=Action(tool=tool, arguments=arguments),
            observation=observation,
            prediction=prediction,
            reward=reward,
        )
        store.append(transition)
        back = store.trajectory("s").transitions[0]
        # Names and shapes that random text hits by chance are what redaction is tested for.
        assert back.observation.raw == observation.raw
        assert back == transition
        assert store.verify("s").ok


ODD_TEXTS = {
    "empty": "",
    "nul": "a\0b",
    "surrogate": "a\udcff\ud800b",
    "long": "x" * 16_385,
    "long surrogate": "\udcff" * 20_000,
    "long wide": "é" * 16_385,
    "emoji": "\U0001f600",
    "line ends": "a\r\nb\rc\n",
}


@pytest.mark.parametrize("name", ODD_TEXTS)
def test_odd_texts_come_back_wherever_they_stand(store: Store, name: str) -> None:
    text = ODD_TEXTS[name]
    store.create_session(SessionRecord(id="s", task=text, meta={text: text}))
    tool = ToolSpec(name=text, description=text)
    store.pin(tool, "s")
    transition = made(
        "s",
        action=Action(tool=text, arguments={text: text, "k": text}),
        observation=Observation(text=text, source="executed", structured=text, raw=b"\0\xff" * 9),
        prediction=Observation(text=text, source="imagined", structured={text: text}),
    )
    store.append(transition)
    store.append(made("s", 2, text))
    back = store.trajectory("s")
    assert back.transitions == (transition, made("s", 2, text))
    assert back.tools == (tool,)
    assert (back.task, store.session("s").meta) == (text, {text: text})
    assert store.verify("s").ok
    store.delete("s")


def test_deep_json_comes_back(store: Store) -> None:
    deep: Any = 1
    for _ in range(10_000):
        deep = {"in": [deep]}
    store.create_session(SessionRecord(id="s"))
    store.append(
        made(
            "s",
            action=Action(tool="t", arguments={"a": deep}),
            observation=Observation(text="", source="executed", structured=deep),
            prediction=Observation(text="", source="imagined", structured=deep),
        )
    )
    back = store.trajectory("s").transitions[0]
    expected = canonical(deep)
    assert canonical(back.action.arguments["a"]) == expected
    assert canonical(back.observation.structured) == expected
    assert back.prediction is not None
    assert canonical(back.prediction.structured) == expected


def test_numbers_json_is_not_made_for_come_back(store: Store) -> None:
    store.create_session(SessionRecord(id="s"))
    odd = {"big": 10**5000, "inf": float("inf"), "nan": float("nan"), "neg": -0.0}
    store.append(made("s", action=Action(tool="t", arguments=odd)))
    back = store.trajectory("s").transitions[0].action.arguments
    assert canonical(back) == canonical(odd)


def test_what_json_cannot_say_is_refused_and_leaves_nothing(store: Store) -> None:
    store.create_session(SessionRecord(id="s"))
    for bad in ({"a": {1: 2}}, {"a": {1, 2}}, {"a": b"x"}):
        with pytest.raises(TypeError):
            store.append(made("s", action=Action(tool="t", arguments=bad)))
    assert store.count() == 0


def test_a_hundred_megabytes_come_back(store: Store) -> None:
    text = "0123456789abcdef ls -la /srv/app\n" * (100_000_000 // 33)
    store.create_session(SessionRecord(id="s"))
    store.append(made("s", 1, text))
    assert store.trajectory("s").transitions[0].observation.text == text


def test_the_same_large_output_is_stored_once(store: Store, tmp_path: Path) -> None:
    text = "0123456789abcdef ls -la /srv/app\n" * 100_000
    store.create_session(SessionRecord(id="s"))
    store.append_many(made("s", step, text) for step in range(1, 6))
    assert {one.observation.text for one in store.trajectory("s").transitions} == {text}
    store.close()
    assert (tmp_path / "lwm.db").stat().st_size < 1.5 * len(text)


def test_steps_must_follow_one_another(store: Store) -> None:
    store.create_session(SessionRecord(id="s"))
    store.append(made("s", 2))
    for step in (1, 2):
        with pytest.raises(Misuse, match="already has step 2"):
            store.append(made("s", step))
    store.append(made("s", 5))
    assert [t.step for t in store.trajectory("s").transitions] == [2, 5]
    with pytest.raises(Misuse, match="no session 'other'"):
        store.append(made("other"))


def test_a_batch_is_all_or_nothing(store: Store) -> None:
    store.create_session(SessionRecord(id="s"))
    store.create_session(SessionRecord(id="t"))
    with pytest.raises(Misuse):
        store.append_many([made("s", 1), made("t", 1), made("s", 1)])
    assert store.count() == 0
    assert store.append_many(made(s, n) for n in range(1, 4) for s in ("s", "t")) == 6
    assert store.append_many([]) == 0
    assert store.verify("s").ok
    assert store.verify("t").ok
    assert store.search("hello", limit=100)


def test_sessions_are_listed_newest_first(store: Store) -> None:
    for number in range(5):
        kind: Any = "imported" if number % 2 else "run"
        store.create_session(
            SessionRecord(id=f"s{number}", created_at=100.0 + number, kind=kind, dataset=kind)
        )
    store.append_many([made("s2", 1, started_at=5.0), made("s2", 2, started_at=7.0)])
    assert [one.record.id for one in store.sessions()] == ["s4", "s3", "s2", "s1", "s0"]
    assert [one.record.id for one in store.sessions(limit=2, kind="run")] == ["s4", "s2"]
    assert [one.record.id for one in store.sessions(dataset="imported")] == ["s3", "s1"]
    summary = store.sessions()[2]
    assert (summary.transitions, summary.last_at) == (2, 7.0)


def test_a_session_is_found_by_the_beginning_of_its_id(store: Store) -> None:
    for name in ("abc1", "abd2", "ab%", "x_y"):
        store.create_session(SessionRecord(id=name))
    assert store.session("abc").id == "abc1"
    assert store.session("ab%").id == "ab%"
    with pytest.raises(Misuse, match="more than one session begins with 'ab': "):
        store.session("ab")
    for unknown in ("", "zz", "%", "x%", "_"):
        with pytest.raises(Misuse, match="lwm sessions"):
            store.session(unknown)
    with pytest.raises(Misuse, match="already a session abc1"):
        store.create_session(SessionRecord(id="abc1"))


def approval(name: str = "a1", *, expires_at: float = 2e9) -> Approval:
    return Approval(
        id=name, digest="d" * 64, decided_by="joe", decided_at=1.0, expires_at=expires_at
    )


def test_an_approval_fits_one_action_once(store: Store) -> None:
    store.create_session(SessionRecord(id="s"))
    store.create_session(SessionRecord(id="other"))
    action = Action(tool="shell", arguments={"command": "rm x"})
    store.approve("s", action, approval(), effect="destroy")
    with pytest.raises(Misuse, match="logged already"):
        store.approve("s", action, approval())
    with pytest.raises(Misuse, match="of another action"):
        store.start("s", 1, Action(tool="shell", arguments={"command": "rm y"}), approval_id="a1")
    with pytest.raises(Misuse, match="no approval a1 in session other"):
        store.start("other", 1, action, approval_id="a1")
    started = store.start("s", 1, action, approval_id="a1")
    with pytest.raises(Misuse, match="used already"):
        store.start("s", 2, action, approval_id="a1")
    store.approve("s", action, approval("late", expires_at=2.0))
    with pytest.raises(Misuse, match="expired"):
        store.start("s", 2, action, approval_id="late")
    store.approve("s", action, approval("no"), approved=False)
    with pytest.raises(Misuse, match="refusal"):
        store.start("s", 2, action, approval_id="no")
    with pytest.raises(Misuse, match="no approval nix"):
        store.start("s", 2, action, approval_id="nix")
    assert [one.id for one in store.in_doubt()] == [started]
    logged = store.approvals("s")
    assert {(one.id, one.decision, one.effect) for one in logged} == {
        ("a1", "approved", "destroy"),
        ("late", "approved", "unknown"),
        ("no", "denied", "unknown"),
    }
    assert {one.digest for one in logged} == {"d" * 64}
    with pytest.raises(Misuse, match="no session 'nix'"):
        store.approve("nix", action, approval("n"))
    with pytest.raises(Misuse, match="no session 'nix'"):
        store.start("nix", 1, action)


def test_what_was_started_is_in_doubt_until_its_transition(store: Store) -> None:
    for name in ("s", "t"):
        store.create_session(SessionRecord(id=name))
    action = Action(tool="shell", arguments={"command": "make \udcff"})
    first = store.start("s", 1, action)
    second = store.start("t", 1, action)
    assert {one.id for one in store.in_doubt()} == {first, second}
    (doubt,) = store.in_doubt("s")
    assert (doubt.tool, doubt.arguments, doubt.step) == ("shell", action.arguments, 1)
    assert doubt.action_digest == action.digest
    with pytest.raises(Misuse, match="nothing was started"):
        store.append(made("s"), started_id=second)
    with pytest.raises(Misuse, match="nothing was started"):
        store.append(made("s"), started_id="nix")
    store.append(made("s", action=action), started_id=first)
    with pytest.raises(Misuse, match="has its transition already"):
        store.append(made("s", 2, action=action), started_id=first)
    assert [one.id for one in store.in_doubt()] == [second]


def test_judgements_and_rollouts(store: Store) -> None:
    store.create_session(SessionRecord(id="s"))
    judgement = JudgementRecord(session="s", step=1, judge="gpt", score=0.5, details={"why": ["x"]})
    rollout = RolloutRecord(session="s", policy="p", world="w", reward=1.0)
    store.judge(judgement)
    store.add_rollout(rollout)
    assert store.judgements() == [judgement] == store.judgements("s")
    assert store.rollouts("s") == [rollout]
    with pytest.raises(Misuse, match="logged already"):
        store.judge(judgement)
    with pytest.raises(Misuse, match="no session"):
        store.judge(JudgementRecord(session="t", judge="g", score=1))


@pytest.mark.parametrize("name", ["intercode-bash", "intercode-sql", "tau-airline"])
def test_recorded_trajectories_come_out_as_they_went_in(store: Store, name: str) -> None:
    lines = (SAMPLES / f"{name}.jsonl").read_text().splitlines()
    plain = [json.loads(line) for line in lines]
    given = [
        one for one in read_trajectories(SAMPLES / f"{name}.jsonl") if isinstance(one, Trajectory)
    ]
    assert len(given) == len(plain)
    done = store.import_trajectories(given)
    assert (done.sessions, done.skipped) == (len(given), 0)
    assert done.transitions == store.count() == sum(len(one["steps"]) for one in plain)
    assert list(store.export()) == given
    assert [plain_from_trajectory(one) for one in store.export(dataset=name)] == [
        plain_from_trajectory(trajectory_from_plain(one)) for one in plain
    ]
    assert list(store.export(given[1].session)) == [given[1]]
    again = store.import_trajectories(given)
    assert (again.sessions, again.transitions, again.skipped) == (0, 0, len(given))
    assert all(store.verify(one.session).ok for one in given)
    assert store.sessions()[0].record.kind == "imported"


def test_an_imported_name_that_is_taken_gets_its_dataset_in_front(store: Store) -> None:
    store.create_session(SessionRecord(id="1"))
    store.create_session(SessionRecord(id="2", dataset="old", kind="imported"))
    new = [Trajectory(session=name, dataset="new", transitions=(made(name),)) for name in "12"]
    assert store.import_trajectories(new).sessions == 2
    assert [one.transitions[0].session for one in store.export(dataset="new")] == ["new/1", "new/2"]
    assert store.import_trajectories(new).skipped == 2
    store.create_session(SessionRecord(id="3"))
    store.create_session(SessionRecord(id="new/3"))
    with pytest.raises(Misuse, match="both taken"):
        store.import_trajectories([Trajectory(session="3", dataset="new")])


def test_threads_share_a_store(store: Store) -> None:
    def write(name: str) -> None:
        store.create_session(SessionRecord(id=name))
        for step in range(1, 51):
            store.append(made(name, step))
            store.search("hello")

    threads = [threading.Thread(target=write, args=(f"s{number}",)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.count() == 300
    assert all(store.verify(f"s{number}").ok for number in range(6))


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = Store(tmp_path / "x.db")
    store.close()
    store.close()
    with pytest.raises(Misuse, match="closed"):
        store.count()


def test_the_default_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LWM_STORE", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_path().name == "lwm.db"
    assert default_path().parent.name == "lwm-agents"
    monkeypatch.setenv("LWM_STORE", str(tmp_path / "a" / "b.db"))
    with Store() as store:
        assert store.path == tmp_path / "a" / "b.db"
    assert (tmp_path / "a" / "b.db").exists()


def test_anyone_can_read_it_with_sqlite(store: Store, tmp_path: Path) -> None:
    store.create_session(SessionRecord(id="s", mode="dry-run", task="t"))
    store.append(made("s", 1, "é" * 20_000))
    connection = sqlite3.connect(tmp_path / "lwm.db")
    try:
        row = connection.execute("SELECT session, mode, tool, arguments, text FROM log").fetchone()
    finally:
        connection.close()
    assert row == ("s", "dry-run", "shell", '{"command": "echo hello"}', "é" * 20_000)
    assert [row["step"] for row in store.database["transitions"].rows] == [1]


def test_names_that_utf8_cannot_write_are_misuse_or_not_found(store: Store) -> None:
    for name in ("", "\ud800"):
        with pytest.raises(Misuse, match="can't be a session's id"):
            store.create_session(SessionRecord(id=name))
        with pytest.raises(Misuse, match="no session"):
            store.session(name)
        with pytest.raises(Misuse, match="no session"):
            store.append(made(name))
        with pytest.raises(Misuse, match="no session"):
            store.start(name, 1, Action(tool="t"))
    assert store.sessions(dataset="\ud800") == []
    given = Trajectory(session="\ud800", dataset="\udfff", transitions=(made("\ud800"),))
    assert store.import_trajectories([given]).sessions == 1
    assert store.import_trajectories([given]).skipped == 1
    (back,) = store.export(dataset="\udfff")
    assert (back.session, back.dataset) == ("?", "\udfff")
    store.judge(JudgementRecord(session="?", judge="\ud800", score=1.0, details="\ud800"))
    assert store.judgements()[0].judge == "\ud800"
    store.append(made("?", 2, tool_hash="\ud800"))
    assert store.trajectory("?").transitions[1].tool_hash == "\ud800"
    assert store.verify("?").ok


def test_a_value_that_sqlite_cannot_hold_is_too_large(store: Store) -> None:
    store.create_session(SessionRecord(id="s"))
    assert store.database.conn is not None
    store.database.conn.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1_000_000)
    with pytest.raises(StoreError, match="too large for the log"):
        store.append(made("s", 1, "x" * 2_000_000))
    assert store.count() == 0
    store.append(made("s", 1, "x"))
