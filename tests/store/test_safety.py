"""What the log survives: kills, other processes, full and read-only disks, damaged files."""

import os
import random
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lwm_agents.errors import (
    Misuse,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreTooNew,
)
from lwm_agents.store import SessionRecord, Store
from lwm_agents.store.connection import Connection
from lwm_agents.store.schema import MIGRATIONS, migrate
from lwm_agents.values import Action, Observation, Signals, Transition

MADE = """
from lwm_agents.gate.approvals import Approval
from lwm_agents.store import SessionRecord, Store
from lwm_agents.values import Action, Observation, Transition

def made(session, step, text="hello world"):
    action = Action(tool="shell", arguments={"command": "echo"})
    seen = Observation(text=text, source="executed")
    return Transition(session=session, step=step, action=action, observation=seen)
"""

WRITER = (
    MADE
    + """
import random, sys, uuid
store = Store(sys.argv[1])
drawn = random.Random(int(sys.argv[2]))
session = store.create_session(SessionRecord()).id
print("session", session, flush=True)
step = 0
while True:
    kind = drawn.randrange(10)
    if kind == 0:
        name = uuid.uuid4().hex
        action = Action(tool="shell", arguments={"n": step})
        approval = Approval(id=name, digest="d", decided_by="j", decided_at=0, expires_at=9e9)
        store.approve(session, action, approval)
        print("approval", name, flush=True)
        print("started", store.start(session, step + 1, action, approval_id=name), flush=True)
    elif kind == 1:
        store.append_many(made(session, step + n, "y" * 20_000) for n in (1, 2, 3))
        step += 3
        print("step", session, step, flush=True)
    else:
        step += 1
        store.append(made(session, step, str(drawn.random()) * drawn.randrange(200)))
        print("step", session, step, flush=True)
"""
)

CROWD = (
    MADE
    + """
import sys
with Store(sys.argv[1]) as store:
    for number in range(5):
        session = store.create_session(SessionRecord()).id
        for step in range(1, 21):
            store.append(made(session, step))
        store.append_many(made(session, step) for step in range(21, 41))
        assert len(store.trajectory(session).transitions) == 40
        assert store.search("hello", limit=3)
        store.sessions(limit=5)
"""
)

FULL = (
    MADE
    + """
import resource, sys
from lwm_agents.errors import StoreFull
with Store(sys.argv[1]) as store:
    store.create_session(SessionRecord(id="s"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, resource.RLIM_INFINITY))
    step = 0
    try:
        while True:
            store.append(made("s", step + 1, f"{step} " * 2000))
            step += 1
    except StoreFull as problem:
        print(step, problem)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    store.append(made("s", step + 1, "there is room again"))
"""
)

# Root may write anything, so this gives it up after the imports.
READ_ONLY = (
    MADE
    + """
import os, sys, tempfile
from pathlib import Path
from lwm_agents.errors import StoreReadOnly
folder = Path(tempfile.mkdtemp())
with Store(folder / "lwm.db") as store:
    store.create_session(SessionRecord(id="s"))
    store.append(made("s", 1))
for path in [folder, *folder.iterdir()]:
    path.chmod(0o555)
if os.geteuid() == 0:
    os.setresuid(65534, 65534, 65534)
attempts = {
    "new file": lambda: Store(folder / "other.db"),
    "new folder": lambda: Store(folder / "sub" / "other.db"),
}
def write():
    with Store(folder / "lwm.db") as store:
        store.append(made("s", 2))
attempts["old file"] = write
for name, attempt in attempts.items():
    try:
        attempt()
    except StoreReadOnly as problem:
        assert str(folder) in str(problem), problem
        print(name, "read-only")
"""
)


def run(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", script, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def made(session: str, step: int, text: str = "hello world") -> Transition:
    action = Action(tool="shell", arguments={"command": "echo"})
    seen = Observation(text=text, source="executed")
    return Transition(session=session, step=step, action=action, observation=seen)


def filled(path: Path, sessions: int = 3, steps: int = 40) -> Path:
    with Store(path) as store:
        for number in range(sessions):
            store.create_session(SessionRecord(id=f"s{number}"))
            store.append_many(
                made(f"s{number}", step, f"word{step} " * 50) for step in range(1, steps + 1)
            )
    return path


def check(path: Path) -> str:
    connection = sqlite3.connect(path)
    try:
        return str(connection.execute("PRAGMA integrity_check").fetchone()[0])
    finally:
        connection.close()


def kill_and_look(path: Path, seed: int) -> None:
    """Kill a writer without warning, then look for all that it said was written."""
    drawn = random.Random(seed)
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), str(seed)], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    said = [writer.stdout.readline().split()]
    time.sleep(drawn.uniform(0.01, 0.8))
    writer.send_signal(signal.SIGKILL)
    said += [
        line.split() for line in writer.stdout.read().splitlines(keepends=True) if line[-1] == "\n"
    ]
    writer.stdout.close()
    writer.wait()
    session = said[0][1]
    assert check(path) == "ok"
    with Store(path) as store:
        steps = [transition.step for transition in store.trajectory(session).transitions]
        last = max((int(line[2]) for line in said if line[0] == "step"), default=0)
        assert steps == list(range(1, len(steps) + 1))
        assert len(steps) >= last
        assert {line[1] for line in said if line[0] == "approval"} <= {
            one.id for one in store.approvals(session)
        }
        assert {line[1] for line in said if line[0] == "started"} <= {
            one.id for one in store.in_doubt(session)
        }
        assert store.verify(session).ok
        assert len(store.search("shell", limit=10**6)) == store.count()


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is for POSIX systems")
def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    for seed in range(6):
        kill_and_look(tmp_path / "lwm.db", seed)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is for POSIX systems")
def test_what_was_acknowledged_survives_many_kills(tmp_path: Path) -> None:
    for seed in range(1000, 1300):
        kill_and_look(tmp_path / "lwm.db", seed)


def test_eight_processes_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "lwm.db"
    # All of them find no file and want to make it.
    writers = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", CROWD, str(path)],
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(8)
    ]
    for writer in writers:
        assert writer.communicate(timeout=300)[1] == ""
        assert writer.returncode == 0
    assert check(path) == "ok"
    with Store(path) as store:
        assert store.count() == 8 * 5 * 40
        assert all(store.verify(one.record.id).ok for one in store.sessions())


def test_only_the_owner_can_read_the_files(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "lwm.db"
    before = os.umask(0)
    try:
        with Store(path) as store:
            store.create_session(SessionRecord(id="s"))
            modes = {one.name: stat.S_IMODE(one.stat().st_mode) for one in path.parent.iterdir()}
    finally:
        os.umask(before)
    assert modes == {"lwm.db": 0o600, "lwm.db-wal": 0o600, "lwm.db-shm": 0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_file_that_may_grow_no_more_is_full_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lwm.db"
    done = run(FULL, path)
    assert done.returncode == 0, done.stderr
    written, _, said = done.stdout.partition(" ")
    assert str(path) in said
    assert "make room" in said
    assert check(path) == "ok"
    with Store(path) as store:
        assert len(store.trajectory("s").transitions) == int(written) + 1
        assert int(written) > 10
        assert store.verify("s").ok


def test_a_full_database_is_full(tmp_path: Path) -> None:
    with Store(filled(tmp_path / "lwm.db")) as store:
        assert store.database.conn is not None
        pages = store.database.conn.execute("PRAGMA page_count").fetchone()[0]
        store.database.conn.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreFull, match=r"lwm\.db"):
            store.append_many(made("s0", step, "z" * 9000) for step in range(41, 60))
        assert len(store.trajectory("s0").transitions) == 40
        store.database.conn.execute("PRAGMA max_page_count = 100000")
        store.append(made("s0", 41))
        assert store.verify("s0").ok


@pytest.mark.skipif(sys.platform == "win32", reason="the modes of files are for POSIX systems")
def test_read_only_files_and_folders() -> None:
    done = run(READ_ONLY)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "new file read-only",
        "new folder read-only",
        "old file read-only",
    ]


def test_a_folder_is_no_log(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"is a folder; name a file in it"):
        Store(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="can't create the log"):
        Store(tmp_path / "file" / "lwm.db")


@pytest.mark.parametrize(
    "data", [b"hello\n" * 500, os.urandom(9000), b"SQLite format 3\0" + b"x" * 9000]
)
def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "lwm.db"
    path.write_bytes(data)
    with pytest.raises(StoreCorrupt, match=r"lwm\.db is no sound log.*--store"):
        Store(path)
    assert path.read_bytes() == data
    assert [one.name for one in tmp_path.iterdir()] == ["lwm.db"]


def test_somebody_elses_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE orders (id)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreCorrupt, match="no log of lwm-agents; it was left as it is"):
        Store(path)
    assert path.read_bytes() == before


def test_an_empty_file_becomes_a_log(tmp_path: Path) -> None:
    path = tmp_path / "lwm.db"
    path.touch()
    with Store(path) as store:
        assert store.count() == 0


def test_a_newer_log_is_left_alone(tmp_path: Path) -> None:
    path = filled(tmp_path / "lwm.db")
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreTooNew, match=r"pip install -U lwm-agents"):
        Store(path)
    assert path.read_bytes() == before


def use(path: Path) -> None:
    """Do everything with a log whose file may be damaged."""
    with Store(path, patience=1) as store:
        for summary in store.sessions():
            store.trajectory(summary.record.id)
            store.verify(summary.record.id)
        store.search("word7")
        store.append(made("s1", 1000))
        store.approvals()
        store.in_doubt()
        store.delete("s0")


@pytest.mark.parametrize("seed", range(30))
def test_a_damaged_file_works_or_says_that_it_is_corrupt(tmp_path: Path, seed: int) -> None:
    whole = filled(tmp_path / "whole.db")
    drawn = random.Random(seed)
    data = bytearray(whole.read_bytes())
    if seed % 3 == 0:
        del data[drawn.randrange(200, len(data)) :]
    elif seed % 3 == 1:
        page = drawn.randrange(len(data) // 4096) * 4096
        data[page : page + 4096] = drawn.randbytes(4096)
    else:
        for _ in range(200):
            data[drawn.randrange(100, len(data))] ^= 1 << drawn.randrange(8)
    path = tmp_path / "damaged.db"
    path.write_bytes(data)
    said = ""
    try:
        use(path)
    except (StoreCorrupt, Misuse) as problem:
        said = str(problem)
    # Misuse: a session or its order was lost in a way that SQLite can't see.
    assert not said or any(words in said for words in ("damaged.db", "no session", "has step"))


def test_most_damage_is_found(tmp_path: Path) -> None:
    whole = filled(tmp_path / "whole.db")
    found = 0
    for seed in range(30):
        data = bytearray(whole.read_bytes())
        page = random.Random(seed).randrange(len(data) // 4096) * 4096
        data[page : page + 4096] = random.Random(seed).randbytes(4096)
        path = tmp_path / f"{seed}.db"
        path.write_bytes(data)
        try:
            use(path)
        except (StoreCorrupt, Misuse):
            found += 1
    assert found > 20


def test_a_lock_that_is_never_given_back(tmp_path: Path) -> None:
    path = filled(tmp_path / "lwm.db")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        with Store(path, patience=0.1) as store:
            with pytest.raises(StoreBusy, match=r"another process keeps the log .*lwm\.db locked"):
                store.append(made("s0", 41))
            assert store.count() == 120
            other.execute("COMMIT")
            store.append(made("s0", 41))
    finally:
        other.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_store_is_not_carried_into_a_forked_process(tmp_path: Path) -> None:
    script = (
        MADE
        + """
import os, sys
from lwm_agents.errors import Misuse
store = Store(sys.argv[1])
store.create_session(SessionRecord(id="s"))
child = os.fork()
if child == 0:
    try:
        store.append(made("s", 1))
    except Misuse as problem:
        with Store(sys.argv[1]) as own:
            own.append(made("s", 1, str(problem)))
        os._exit(0)
    os._exit(1)
assert os.waitpid(child, 0)[1] == 0
print(store.trajectory("s").transitions[0].observation.text)
store.close()
"""
    )
    done = run(script, tmp_path / "lwm.db")
    assert done.stdout == "a store can't be used after a fork; open one in each process\n", (
        done.stderr
    )


def test_a_migration_that_fails_changes_nothing_and_can_be_run_again(tmp_path: Path) -> None:
    path = filled(tmp_path / "lwm.db")
    connection = sqlite3.connect(path, isolation_level=None)

    def second(database: object) -> None:
        connection.execute("ALTER TABLE sessions ADD COLUMN added TEXT")
        raise sqlite3.OperationalError("on purpose")

    def repaired(database: object) -> None:
        connection.execute("ALTER TABLE sessions ADD COLUMN added TEXT")

    steps: list[Callable[..., None]] = [*MIGRATIONS, second]
    with pytest.raises(sqlite3.OperationalError, match="on purpose"):
        migrate(connection, steps)
    with Store(path) as store:
        assert "added" not in store.database["sessions"].columns_dict
        assert store.verify("s0").ok
    migrate(connection, [*MIGRATIONS, repaired])
    migrate(connection, [*MIGRATIONS, second])
    assert connection.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS) + 1,)
    assert connection.execute("SELECT count(added), count(*) FROM sessions").fetchone() == (0, 3)
    connection.close()


def test_a_log_from_before_there_were_signals_goes_on_and_stays_sound(tmp_path: Path) -> None:
    path = filled(tmp_path / "lwm.db")
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("ALTER TABLE transitions DROP COLUMN signals")
    connection.execute("PRAGMA user_version = 1")
    connection.close()
    with Store(path) as store:
        assert store.verify("s0").ok
        last = store.trajectory("s0").transitions[-1]
        seen = last.observation.model_copy(update={"signals": Signals(nearness=0.5)})
        store.append(last.model_copy(update={"step": last.step + 1, "observation": seen}))
        assert store.verify("s0").ok
        assert store.trajectory("s0").transitions[-1].observation == seen


def test_what_fails_inside_a_transaction_is_rolled_back(tmp_path: Path) -> None:
    connection = Connection(filled(tmp_path / "lwm.db"))

    def fail() -> None:
        with connection.write(durable=True) as lent:
            lent.execute("DELETE FROM transitions")
            raise KeyError("anything")

    with pytest.raises(KeyError):
        fail()
    with connection.read() as lent:
        assert lent.execute("SELECT count(*) FROM transitions").fetchone() == (120,)
        assert lent.execute("PRAGMA synchronous").fetchone() == (1,)
    connection.close()


def test_a_log_moved_elsewhere_is_the_same_log(tmp_path: Path) -> None:
    path = filled(tmp_path / "a b#?%.db")
    moved = tmp_path / "ü.db"
    shutil.move(path, moved)
    with Store(moved) as store:
        assert store.count() == 120


def test_errors_of_the_store_are_told_apart() -> None:
    kinds = (StoreFull, StoreReadOnly, StoreCorrupt, StoreTooNew, StoreBusy)
    assert all(issubclass(kind, StoreError) for kind in kinds)
