"""Sessions: what each mode makes of a call, and what the log says of it afterwards."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from lwm_agents import Action, Observation, Session, Store, ToolSpec, Trajectory
from lwm_agents.errors import ConfigError, EngineUnreachable, Misuse, PromiseError, StoreError
from lwm_agents.gate.approvals import Approval, ApprovalRequest, CallbackApprover, YesApprover
from lwm_agents.places.copies import why_no_namespaces
from lwm_agents.testing import ScriptedEngine, ScriptedWorld
from lwm_agents.values import MODE_IN_WORDS, Mode, Usage

EVERYTHING = YesApprover({"read", "write", "destroy", "external", "unknown"})
COPIES = why_no_namespaces() is None
COPY = pytest.mark.skipif(not COPIES, reason="this system lets us make no namespaces")

REAL: tuple[Mode, ...] = ("gated", "compare", "live")


@pytest.fixture(autouse=True)
def _no_config(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LWM_CONFIG", os.devnull)
    monkeypatch.delenv("LWM_ENGINE", raising=False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    (folder / "notes.txt").write_text("a note\n")
    database = sqlite3.connect(folder / "shop.db")
    with database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT)")
        database.execute("INSERT INTO orders VALUES (1, 'lamp')")
    database.close()
    return folder


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "log.db")


def opened(mode: Mode, root: Path, store: Store, **options: Any) -> Session:
    return Session.open(mode, root=root, database="sqlite:///shop.db", store=store, **options)


async def test_a_dry_run_imagines_and_logs(root: Path, store: Store) -> None:
    engine = ScriptedEngine(["<predicted_observation>removed</predicted_observation>"])
    options: dict[str, Any] = {"engine": engine, "task": "clean up", "rehearsal": False}
    async with opened("dry-run", root, store, **options) as session:
        seen = await session.call("shell", command="rm -v notes.txt")
    assert (seen.source, seen.text.strip()) == ("imagined", "removed")
    assert seen.confidence is not None
    assert (root / "notes.txt").exists()
    logged = store.trajectory(session.id)
    assert logged.task == "clean up"
    assert [t.observation for t in logged.transitions] == [seen]
    assert logged.transitions[0].engine == "scripted"
    assert logged.transitions[0].usage == Usage()
    assert logged.transitions[0].effect == "destroy"
    assert store.verify(session.id).ok


async def test_without_an_engine_a_call_is_unanswered(root: Path, store: Store) -> None:
    async with opened("dry-run", root, store, rehearsal=False) as session:
        seen = await session.call("read_file", path="notes.txt")
    assert (seen.source, seen.is_error) == ("unanswered", True)
    assert "lwm model pull" in seen.text
    assert "a note" not in seen.text


async def test_a_world_that_cannot_say_leaves_it_unanswered(root: Path, store: Store) -> None:
    world = ScriptedWorld(lambda action, trajectory: None)
    async with opened("dry-run", root, store, world=world) as session:
        seen = await session.call("shell", command="ls")
    assert (seen.source, seen.is_error) == ("unanswered", True)


async def test_an_engine_that_fails_is_no_observation(root: Path, store: Store) -> None:
    engine = ScriptedEngine([EngineUnreachable("nobody there"), "fine"])
    async with opened("dry-run", root, store, engine=engine, rehearsal=False) as session:
        with pytest.raises(EngineUnreachable):
            await session.call("shell", command="ls")
        assert session.trajectory.transitions == ()
        assert (await session.call("shell", command="ls")).source == "imagined"
    assert len(store.trajectory(session.id).transitions) == 1


async def test_a_predicting_world_cannot_claim_to_have_executed(root: Path, store: Store) -> None:
    liar = ScriptedWorld(lambda a, t: Observation(text="done", source="executed"))
    async with opened("dry-run", root, store, world=liar) as session:
        with pytest.raises(PromiseError):
            await session.call("shell", command="ls")
    assert store.trajectory(session.id).transitions == ()


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("read_file", {}, "path"),
        ("read_file", {"path": 7}, "path"),
        ("read_file", {"path": "../outside"}, "outside"),
        ("sql_query", {"query": "DELETE FROM orders"}, "only reads"),
        ("shell", {"command": "ls", "colour": True}, "colour"),
    ],
)
@pytest.mark.parametrize("mode", ["dry-run", *REAL])
async def test_what_a_tool_refuses_it_refuses_in_every_mode(
    root: Path, store: Store, mode: Mode, tool: str, arguments: dict[str, Any], said: str
) -> None:
    engine = ScriptedEngine(lambda messages: "made up")
    async with opened(mode, root, store, engine=engine, approver=EVERYTHING) as session:
        seen = await session.step(Action(tool=tool, arguments=arguments))
    assert seen.is_error
    assert said in seen.text
    assert seen.source == ("rehearsed" if mode == "dry-run" else "executed")


async def test_an_unknown_tool_is_unanswered(root: Path, store: Store) -> None:
    engine = ScriptedEngine(lambda messages: "made up")
    async with opened("live", root, store, engine=engine) as session:
        seen = await session.call("format_disk", path="/")
    assert (seen.source, seen.is_error) == ("unanswered", True)
    assert "format_disk" in seen.text
    assert "read_file" in seen.text
    assert engine.requests == []


@pytest.mark.parametrize("rehearsal", [True, False])
async def test_gated_reads_and_asks_about_the_rest(
    root: Path, store: Store, rehearsal: bool
) -> None:
    asked: list[ApprovalRequest] = []

    def answer(request: ApprovalRequest) -> bool:
        asked.append(request)
        return request.tool == "write_file"

    engine = ScriptedEngine(lambda messages: "predicted")
    approver = CallbackApprover(answer)
    options: dict[str, Any] = {"engine": engine, "approver": approver, "rehearsal": rehearsal}
    async with opened("gated", root, store, **options) as session:
        read = await session.call("read_file", path="notes.txt")
        assert (read.source, read.text) == ("executed", "a note\n")
        assert asked == []
        wrote = await session.call("write_file", path="new.txt", content="x")
        assert wrote.source == "executed"
        reads = [
            await session.call("shell", command="cat notes.txt new.txt"),
            await session.call("sql_query", query="SELECT * FROM orders"),
        ]
        refused = await session.call("shell", command="rm new.txt")
    assert (root / "new.txt").read_text() == "x"
    assert asked[0].prediction is not None
    if rehearsal and COPIES:
        assert [request.tool for request in asked] == ["write_file", "shell"]
        assert asked[0].prediction.source == "rehearsed"
        assert asked[0].difference is not None
        assert "+++ b/new.txt" in asked[0].difference
        assert [seen.source for seen in reads] == ["rehearsed", "rehearsed"]
        assert reads[0].text == "a note\nx"
    else:
        assert [request.tool for request in asked] == ["write_file", "shell", "sql_query", "shell"]
        assert asked[0].prediction.source == "imagined"
        assert {seen.source for seen in reads} == {"unanswered"}
    assert (refused.source, refused.is_error) == ("unanswered", True)
    assert "nobody approved it" in refused.text
    steps = store.trajectory(session.id).transitions
    assert steps[1].prediction is not None
    assert steps[1].fidelity is not None
    assert steps[4].fidelity is None  # nothing happened to compare with
    assert [a.tool for a in store.approvals(session.id)] == ["write_file"]
    assert store.in_doubt() == []
    assert not (root.parent / "sessions" / session.id / "copy.json").exists()


@COPY
async def test_a_gated_read_changes_nothing_and_keeps_the_directory(
    root: Path, store: Store
) -> None:
    (root / "below").mkdir()
    before = (root / "shop.db").stat()
    async with opened("gated", root, store) as session:
        await session.call("shell", command="cd below && pwd")
        seen = await session.call("shell", command="pwd; ls ..")
        assert seen.text == f"{root}/below\nbelow\nnotes.txt\nshop.db\n"
        assert (await session.call("sql_schema")).source == "rehearsed"
    assert (root / "shop.db").stat() == before
    assert sorted(os.listdir(root)) == ["below", "notes.txt", "shop.db"]


@COPY
async def test_a_gated_read_of_the_network_is_asked_for(root: Path, store: Store) -> None:
    asked: list[str] = []

    def answer(request: ApprovalRequest) -> bool:
        asked.append(request.tool)
        return False

    async with opened("gated", root, store, approver=CallbackApprover(answer)) as session:
        seen = await session.call("shell", command="cat < /dev/tcp/127.0.0.1/9")
    assert (seen.source, asked) == ("unanswered", ["shell"])


@COPY
async def test_what_was_shown_must_still_hold_when_it_runs(root: Path, store: Store) -> None:
    def answer(request: ApprovalRequest) -> bool:
        assert request.difference is not None
        assert "-a note" in request.difference
        (root / "notes.txt").write_text("another note, worth more\n")
        return True

    async with opened("gated", root, store, approver=CallbackApprover(answer)) as session:
        seen = await session.call("delete_file", path="notes.txt")
    assert seen.source == "unanswered"
    assert "no longer what would change" in seen.text
    assert (root / "notes.txt").read_text() == "another note, worth more\n"


@COPY
async def test_compare_rehearses_only_where_it_may_delay(root: Path, store: Store) -> None:
    async with opened("compare", root, store) as session:
        await session.call("shell", command="cat notes.txt")
    async with opened("compare", root, store, rehearsal=True) as rehearsing:
        await rehearsing.call("shell", command="echo more >> notes.txt; cat notes.txt")
    assert store.trajectory(session.id).transitions[0].prediction is None
    step = store.trajectory(rehearsing.id).transitions[0]
    assert step.prediction is not None
    assert (step.prediction.source, step.fidelity) == ("rehearsed", 1.0)
    assert step.observation.text == "a note\nmore\n"


async def test_nobody_to_ask_means_no(root: Path, store: Store) -> None:
    async with opened("gated", root, store) as session:
        seen = await session.call("delete_file", path="notes.txt")
    assert seen.source == "unanswered"
    assert (root / "notes.txt").exists()


async def test_yes_does_not_cover_what_cannot_be_undone(root: Path, store: Store) -> None:
    async with opened("gated", root, store, approver=YesApprover()) as session:
        for tool, arguments in [
            ("delete_file", {"path": "notes.txt"}),
            ("shell", {"command": "rm notes.txt"}),
            ("shell", {"command": "curl http://127.0.0.1:9/"}),
            ("shell", {"command": "./unknown-script"}),
        ]:
            seen = await session.step(Action(tool=tool, arguments=dict(arguments)))
            assert seen.source == "unanswered"
        assert (await session.call("write_file", path="a", content="b")).source == "executed"
    assert (root / "notes.txt").exists()


class Replayer:
    """Answers every request with the first approval it gave."""

    def __init__(self) -> None:
        self.kept: Approval | None = None

    async def decide(self, request: ApprovalRequest) -> Approval | None:
        if self.kept is None:
            self.kept = await EVERYTHING.decide(request)
        return self.kept


async def test_an_approval_fits_one_action_once(root: Path, store: Store) -> None:
    approver = Replayer()
    async with opened("gated", root, store, approver=approver) as session:
        first = await session.call("write_file", path="pay.txt", content="82000")
        other = await session.call("write_file", path="pay.txt", content="820000")
        again = await session.call("write_file", path="pay.txt", content="82000")
    assert first.source == "executed"
    assert other.source == again.source == "unanswered"
    assert (root / "pay.txt").read_text() == "82000"


async def test_what_runs_is_what_was_shown(root: Path, store: Store) -> None:
    """The caller changes a list while the approver is looking at it."""
    paid = [1, "lamp"]
    shown: list[Any] = []

    async def decide(request: ApprovalRequest) -> bool:
        shown.append(list(request.arguments["parameters"]))
        paid[0] = 82_000
        request.arguments["parameters"][1] = "yacht"
        return True

    query = "INSERT INTO orders (id, item) VALUES (?, ?)"
    (root / "shop.db").unlink()
    database = sqlite3.connect(root / "shop.db")
    with database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT)")
    async with opened("gated", root, store, approver=CallbackApprover(decide)) as session:
        seen = await session.call("sql_execute", query=query, parameters=paid)
    rows = database.execute("SELECT * FROM orders").fetchall()
    database.close()
    assert shown == [[1, "lamp"]]
    # The approver changed its own copy, so it approved something else: nothing ran.
    assert (seen.source, rows) == ("unanswered", [])


async def test_a_caller_cannot_change_a_call_that_was_approved(root: Path, store: Store) -> None:
    paid = [7, "lamp"]

    def decide(request: ApprovalRequest) -> bool:
        paid[1] = "yacht"
        return True

    query = "INSERT INTO orders (id, item) VALUES (?, ?)"
    async with opened("gated", root, store, approver=CallbackApprover(decide)) as session:
        assert not (await session.call("sql_execute", query=query, parameters=paid)).is_error
    database = sqlite3.connect(root / "shop.db")
    assert ("lamp",) in database.execute("SELECT item FROM orders WHERE id = 7").fetchall()
    database.close()


async def test_a_session_that_has_ended_answers_nothing(root: Path, store: Store) -> None:
    async with opened("live", root, store) as session:
        await session.call("list_directory", path=".")
    with pytest.raises(Misuse, match="ended"):
        await session.call("shell", command="touch after")
    assert not (root / "after").exists()
    assert len(session.trajectory.transitions) == 1


async def test_a_broken_world_does_not_lose_what_was_executed(root: Path, store: Store) -> None:
    def broken(action: Action, trajectory: Trajectory) -> Observation:
        raise ValueError("a bug")

    async with opened("compare", root, store, world=ScriptedWorld(broken)) as session:
        seen = await session.call("shell", command="touch made")
    assert seen.source == "executed"
    assert store.in_doubt() == []
    assert store.trajectory(session.id).transitions[0].prediction is None


async def test_arguments_that_are_no_json_are_misuse(root: Path, store: Store) -> None:
    async with opened("live", root, store) as session:
        with pytest.raises(Misuse, match="JSON"):
            await session.call("shell", command={1, 2})


async def test_an_approval_in_the_store_is_used_once(root: Path, store: Store) -> None:
    async with opened("gated", root, store, approver=EVERYTHING) as session:
        await session.call("write_file", path="a", content="b")
    approval = store.approvals(session.id)[0]
    action = Action(tool="write_file", arguments={"path": "a", "content": "b"})
    with pytest.raises(Misuse):
        store.start(session.id, 2, action, approval_id=approval.id)


async def test_compare_executes_and_scores(root: Path, store: Store) -> None:
    engine = ScriptedEngine(["a note\n", EngineUnreachable("gone"), "wrong"])

    async with opened("compare", root, store, engine=engine) as session:
        read = "python3 -c 'print(open(\"notes.txt\").read())'"
        for command in (read, "date +%Y | tr 0-9 a-j", "seq 3 | shuf -n 1"):
            assert (await session.call("shell", command=command)).source == "executed"
    first, second, third = store.trajectory(session.id).transitions
    assert first.prediction is not None
    assert first.fidelity == pytest.approx(1.0)
    assert second.prediction is None  # the engine failed; the real call did not
    assert second.fidelity is None
    assert third.prediction is not None
    assert third.fidelity is not None
    assert third.fidelity < 0.5


async def test_compare_never_shows_the_answer_to_the_prediction(root: Path, store: Store) -> None:
    engine = ScriptedEngine(lambda messages: "guess")
    async with opened("compare", root, store, engine=engine) as session:
        await session.call("shell", command="cat notes.txt")
    assert all("a note" not in message.content for message in engine.requests[0])


async def test_a_prediction_does_not_delay_the_real_call(root: Path, store: Store) -> None:
    """The engine waits for a file that only the real call makes."""

    class Waiting(ScriptedWorld):
        async def step(self, action: Action, trajectory: Trajectory) -> Observation | None:
            while not (root / "made").exists():
                await asyncio.sleep(0.01)
            return await super().step(action, trajectory)

    async with opened("compare", root, store, world=Waiting("x")) as session:
        seen = await asyncio.wait_for(session.call("shell", command="touch made"), 20)
    assert seen.source == "executed"


async def test_policy_denies_what_it_does_not_name(root: Path, store: Store) -> None:
    policy = root.parent / "policy.toml"
    policy.write_text('[[allow]]\ntool = "read_file"\npath = "*.txt"\n')
    async with opened("live", root, store, policy=policy) as session:
        assert (await session.call("read_file", path="notes.txt")).source == "executed"
        seen = await session.call("write_file", path="new.txt", content="x")
    assert seen.source == "unanswered"
    assert "denied" in seen.text
    assert not (root / "new.txt").exists()


async def test_caps_bound_a_session(root: Path, store: Store) -> None:
    policy = root.parent / "policy.toml"
    policy.write_text('[caps]\ncalls = 2\n[[allow]]\ntool = "*"\n')
    async with opened("live", root, store, policy=policy) as session:
        sources = [(await session.call("list_directory", path=".")).source for _ in range(3)]
    assert sources == ["executed", "executed", "unanswered"]


async def test_a_project_cannot_loosen(root: Path, store: Store) -> None:
    (root / "lwm.toml").write_text('policy = "policy.toml"\n')
    (root / "policy.toml").write_text('[[allow]]\ntool = "*"\n')
    async with opened("gated", root, store) as session:
        seen = await session.call("shell", command="touch loose")
    assert seen.source == "unanswered"
    (root / "lwm.toml").write_text('engine = "http://evil.example/v1"\n')
    with pytest.raises(ConfigError, match="engine"):
        async with opened("dry-run", root, store):
            pass


async def test_the_config_says_the_mode_where_the_caller_does_not(
    root: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Session.open(root=root, store=store) as session:
        assert session.mode == "dry-run"
    config = root.parent / "config.toml"
    config.write_text('mode = "live"\n')
    monkeypatch.setenv("LWM_CONFIG", str(config))
    async with Session.open(root=root, store=store) as session:
        assert session.mode == "live"
    (root / "lwm.toml").write_text('mode = "gated"\n')
    async with Session.open(root=root, store=store) as session:
        assert session.mode == "gated"


async def test_a_python_function_is_imagined_in_a_dry_run(root: Path, store: Store) -> None:
    ran: list[str] = []

    def send_mail(to: str) -> str:
        """Send a mail."""
        ran.append(to)
        return f"sent to {to}"

    engine = ScriptedEngine(["sent to ada"])
    async with opened("dry-run", root, store, engine=engine, tools=[send_mail]) as session:
        assert (await session.call("send_mail", to="ada")).source == "imagined"
    assert ran == []
    # A tool's own source code helps the model.
    assert "ran.append(to)" in engine.requests[0][0].content
    async with opened("live", root, store, tools=[send_mail]) as session:
        assert (await session.call("send_mail", to="ada")).text == "sent to ada"
    assert ran == ["ada"]


async def test_a_tool_known_by_its_spec_is_never_executed(root: Path, store: Store) -> None:
    spec = ToolSpec(name="launch", description="Launch it.")
    async with opened("live", root, store, tools=[spec], approver=EVERYTHING) as session:
        seen = await session.call("launch")
    assert (seen.source, seen.is_error) == ("unanswered", True)


async def test_two_tools_of_one_name_are_a_mistake(root: Path, store: Store) -> None:
    with pytest.raises(Misuse, match="read_file"):
        async with opened("dry-run", root, store, tools=[ToolSpec(name="read_file")]):
            pass


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"root": "/no/such/folder"}, "no directory"),
        ({"database": "oracle://x"}, "oracle"),
        ({"engine": "nonsense"}, "engine"),
        ({"engine": "/no/such/model.gguf"}, "model.gguf"),
        ({"policy": "/no/such/policy.toml"}, "policy.toml"),
        ({"prompts": "/no/such/prompts", "engine": ScriptedEngine([])}, "prompts"),
    ],
)
async def test_misuse_says_what_is_wrong(
    root: Path, store: Store, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(Misuse, match=said):
        async with Session.open("dry-run", **{"root": root, "store": store, **options}):
            pass


async def test_an_unknown_mode_is_refused_at_once() -> None:
    with pytest.raises(Misuse, match="shadow"):
        Session.open("shadow")  # type: ignore[arg-type]
    session = Session.open("dry-run")
    with pytest.raises(Misuse, match="async with"):
        await session.call("shell", command="ls")


async def test_calls_at_once_are_answered_in_turn(root: Path, store: Store) -> None:
    async with opened("live", root, store) as session:
        await asyncio.gather(
            *(session.call("shell", command=f"echo {i} >> order; cat order") for i in range(20))
        )
    steps = store.trajectory(session.id).transitions
    assert [step.step for step in steps] == list(range(1, 21))
    assert steps[-1].observation.text.split() == [str(i) for i in range(20)]


async def test_many_sessions_at_once(root: Path, store: Store) -> None:
    async def one(number: int) -> str:
        engine = ScriptedEngine(lambda messages: f"answer {number}")
        async with opened("dry-run", root, store, engine=engine, rehearsal=False) as session:
            for _ in range(5):
                seen = await session.call("shell", command="whoami")
                assert f"answer {number}" in seen.text
        return session.id

    ids = await asyncio.gather(*(one(number) for number in range(50)))
    assert len(set(ids)) == 50
    assert all(len(store.trajectory(name).transitions) == 5 for name in ids)


async def test_an_execution_that_cannot_be_logged_is_an_error(root: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "closed.db")
    async with opened("live", root, store) as session:
        store.close()
        with pytest.raises((StoreError, Misuse)):
            await session.call("write_file", path="new.txt", content="x")
    # The row that says it was started comes first, so nothing ran.
    assert not (root / "new.txt").exists()


CRASH = """
import asyncio, sys
from lwm_agents import Session
from lwm_agents.gate.approvals import YesApprover
async def main():
    approver = YesApprover({"read", "write", "destroy", "external", "unknown"})
    where = {"root": sys.argv[1], "store": sys.argv[2]}
    async with Session.open("gated", approver=approver, rehearsal=False, **where) as s:
        print(s.id, flush=True)
        await s.call("shell", command="echo once >> ran; sleep 60")
asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="kills a process as POSIX does")
def test_a_crash_leaves_the_call_in_doubt(root: Path, tmp_path: Path) -> None:
    log = tmp_path / "crash.db"
    process = subprocess.Popen(
        [sys.executable, "-c", CRASH, str(root), str(log)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process, process.stdout:
        session = process.stdout.readline().strip()
        deadline = time.monotonic() + 30
        while not (root / "ran").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
    with Store(log) as store:
        (started,) = store.in_doubt()
        assert (started.session, started.tool) == (session, "shell")
        assert store.trajectory(session).transitions == ()
        # Its approval is spent: nothing can run on it again.
        with pytest.raises(Misuse):
            store.start(
                session,
                1,
                Action(tool=started.tool, arguments=started.arguments),
                approval_id=started.approval_id,
            )


def test_every_mode_says_in_words_what_it_does() -> None:
    assert set(MODE_IN_WORDS) == {"dry-run", "gated", "compare", "live"}
    assert "EXECUTED" in MODE_IN_WORDS["compare"]


def test_the_sync_twin(root: Path, tmp_path: Path) -> None:
    from lwm_agents.sync import Session as SyncSession

    engine = ScriptedEngine(["hello"])
    store = Store(tmp_path / "sync.db")
    with SyncSession.open("dry-run", root=root, engine=engine, store=store) as session:
        assert session.mode == "dry-run"
        session.call("write_file", path="made.txt", content="x")
        assert session.diff().summary == "1 file added"
        assert [*session.commit(EVERYTHING)] == [str(root), str(root / "made.txt")]
        assert (root / "made.txt").read_text() == "x"
        session.undo()
        assert not (root / "made.txt").exists()
        session.discard()
        assert session.call("read_file", path="made.txt").is_error
        assert len(session.trajectory.transitions) == 3  # the commit as well
    assert len(store.trajectory(session.id).transitions) == 3
    with pytest.raises(Misuse), SyncSession.open("dry-run", root="/no/such/folder"):
        pass
    store.close()
