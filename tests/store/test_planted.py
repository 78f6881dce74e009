"""Secrets planted in every field that is logged: none may be anywhere in the files."""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from planted import SECRETS

from lwm_agents.gate.approvals import Approval
from lwm_agents.redaction import redact_action
from lwm_agents.store import JudgementRecord, RolloutRecord, SessionRecord, Store
from lwm_agents.tools.terminal import screen_text
from lwm_agents.values import Action, Observation, ToolSpec, Trajectory, Transition


def plant(store: Store, number: int, text: str) -> None:
    session = f"s{number}"
    store.create_session(
        SessionRecord(
            id=session, task=text, root=text, database=text, engine=text, environment=text,
            dataset=text, licence=text, domain=text, meta={text: [text]},
        )
    )  # fmt: skip
    tool = ToolSpec(
        name=text,
        description=text,
        input_schema={"default": text},
        output_schema={text: text},
        source_code=text,
    )
    pinned = store.pin(tool, session)
    action = Action(tool=text, arguments={"command": text, "deep": [{"x": text}], text: 1})
    approval = Approval(
        id=session, digest="d" * 64, decided_by=text, decided_at=1.0, expires_at=2e9
    )
    store.approve(session, action, approval)
    started = store.start(session, 1, action, approval_id=session)
    seen = Observation(
        text=text,
        source="executed",
        structured={"out": text},
        raw=b"\xff\n" + text.encode() + b"\n\xfe",
    )
    transition = Transition(
        session=session,
        step=1,
        action=action,
        observation=seen,
        prediction=seen.model_copy(update={"source": "imagined"}),
        tool_hash=tool.hash,
        engine=text,
    )
    store.append(transition, started_id=started)
    store.append_many([transition.model_copy(update={"step": 2})])
    store.judge(JudgementRecord(session=session, judge=text, score=1.0, details={"why": text}))
    store.add_rollout(RolloutRecord(session=session, policy=text, world=text, details=text))
    store.import_trajectories([
        Trajectory(session=f"imported {number}", task=text, tools=(tool,), dataset=text,
                   transitions=(transition,))
    ])  # fmt: skip
    assert store.tool(pinned) is not None
    assert store.trajectory(session).transitions[0].tool_hash == pinned


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a log that is still open, so that its -wal and -shm files are there."""
    folder = tmp_path_factory.mktemp("planted")
    texts = [text for _, text in SECRETS.values()]
    with Store(folder / "lwm.db") as store:
        for number, text in enumerate(texts):
            plant(store, number, text)
        plant(store, len(texts), "\n".join(texts) * 3)  # Large enough to be stored apart.
        assert store.database["blobs"].count > len(texts)
        yield folder


def needles() -> dict[str, bytes]:
    """The secrets as they would stand in the file: whole, and each long line of a key."""
    found: dict[str, bytes] = {}
    for name, (secret, _) in SECRETS.items():
        for number, line in enumerate(secret.split("\n")):
            if "PRIVATE KEY" not in line and len(line) >= 6:
                found[f"{name} {number}"] = line.encode()
    return found


def test_no_planted_secret_is_in_the_files(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()}
    assert names == {"lwm.db", "lwm.db-wal", "lwm.db-shm"}
    written = b"".join(path.read_bytes() for path in folder.iterdir())
    assert written.count(b"[redacted:") > 1000
    assert [name for name, secret in needles().items() if secret in written] == []


def test_no_planted_secret_is_in_any_value(folder: Path) -> None:
    # The index splits words, and pages split rows: so look at the values as well.
    connection = sqlite3.connect(folder / "lwm.db")
    tables = [
        row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")
    ]
    values: list[Any] = []
    for table in tables:
        values += [value for row in connection.execute(f"SELECT * FROM {table}") for value in row]
    connection.execute("CREATE VIRTUAL TABLE temp.terms USING fts5vocab(main, search, row)")
    terms = {row[0] for row in connection.execute("SELECT term FROM terms")}
    connection.close()
    everything = b"\n".join(
        value if isinstance(value, bytes) else str(value).encode() for value in values
    )
    for name, secret in needles().items():
        assert secret not in everything, name
        assert secret.decode().lower() not in terms, name


def test_digests_are_of_what_is_logged() -> None:
    action = Action(tool="login", arguments={"password": "hunter2"})
    with Store(":memory:") as store:
        store.create_session(SessionRecord(id="s"))
        approval = Approval(
            id="a", digest=action.digest, decided_by="j", decided_at=1.0, expires_at=2e9
        )
        store.approve("s", action, approval)
        started = store.start("s", 1, action, approval_id="a")
        seen = Observation(text="ok", source="executed")
        store.append(
            Transition(session="s", step=1, action=action, observation=seen), started_id=started
        )
        logged = redact_action(action).digest
        rows = [
            *store.database["transitions"].rows,
            *store.database["approvals"].rows,
            *store.database["started"].rows,
        ]
        assert [row["action_digest"] for row in rows] == [logged] * 3
        assert store.approvals()[0].digest is None
        assert action.digest not in json.dumps(rows, default=str)
        assert store.trajectory("s").transitions[0].action.digest == logged


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"ghp_a1B2\x1b[0mc3D4" + b"e5" * 14, "[redacted:github-token]"),
        (b"ghp_a1B2x\x08c3D4" + b"e5" * 14, "[redacted:github-token]"),
        (b"password=hunter\r\x1b[15C2\n", "password=[redacted:password]\n"),
    ],
)
def test_raw_bytes_that_draw_a_secret_become_what_is_shown(raw: bytes, text: str) -> None:
    for filler in (b"", b"line\n" * 20_000):  # The second is too long to be drawn again.
        seen = Observation(
            text=screen_text(filler + raw), source="executed", raw=filler + raw, structured=None
        )
        step = Transition(
            session="s", step=1, action=Action(tool="shell", arguments={}), observation=seen,
            prediction=seen,
        )  # fmt: skip
        with Store(":memory:") as store:
            store.create_session(SessionRecord(id="s"))
            store.append(step)
            (logged,) = store.trajectory("s").transitions
            blobs = [row["data"] for row in store.database["blobs"].rows]
        for one in (logged.observation, logged.prediction):
            assert one is not None
            assert one.text == filler.decode() + text
            assert one.raw == one.text.encode()
        assert not any(b"e5e5" in blob or b"hunter" in blob for blob in blobs)


def test_raw_bytes_without_a_secret_stay() -> None:
    raw = b" 50%\r100%\n\x1b[31mdone\x1b[0m \xff\n"
    seen = Observation(text=screen_text(raw), source="executed", raw=raw)
    with Store(":memory:") as store:
        store.create_session(SessionRecord(id="s"))
        store.append(
            Transition(session="s", step=1, action=Action(tool="t", arguments={}), observation=seen)
        )
        assert store.trajectory("s").transitions[0].observation.raw == raw
