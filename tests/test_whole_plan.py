"""The main job on real input, through a real language model: a plan in, labelled answers out."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import watcher

from lwm_agents import Action, Session, Store
from lwm_agents.engines.embedded import EmbeddedEngine
from lwm_agents.values import Json

pytestmark = pytest.mark.model


def local_calls(count: int, seed: int) -> Iterator[Action]:
    """Yield calls as an agent makes them at work: most look around, some change something."""
    rng = random.Random(seed)
    shell = ["ls -la", "cat notes.txt", "wc -l *.txt", "git status", "python3 app.py",
             "make test", "grep -rn TODO .", "df -h /", "ps aux | head -3", "uname -a",
             "pip list | head", "find . -name '*.py'", "head -2 app.py", "date", "rm -rf build",
             "mkdir -p out && ls", "echo hello > out.txt", "sort notes.txt | uniq -c",
             "du -sh .", "node --version"]  # fmt: skip
    queries = ["SELECT * FROM orders", "SELECT count(*) FROM orders WHERE paid = 0",
               "SELECT item, sum(price) FROM orders GROUP BY item",
               "SELECT max(id) FROM orders"]  # fmt: skip
    names = ["notes.txt", "app.py", "README.md", "src/main.py", "missing.txt", "data.csv"]
    for _ in range(count):
        choice = rng.random()
        tool: str
        arguments: dict[str, Json]
        if choice < 0.5:
            tool, arguments = "shell", {"command": rng.choice(shell)}
        elif choice < 0.65:
            tool, arguments = "read_file", {"path": rng.choice(names)}
        elif choice < 0.75:
            tool, arguments = "sql_query", {"query": rng.choice(queries)}
        elif choice < 0.8:
            tool, arguments = "sql_schema", {}
        elif choice < 0.88:
            tool, arguments = "list_directory", {"path": rng.choice([".", "src"])}
        elif choice < 0.95:
            tool, arguments = "write_file", {"path": rng.choice(names), "content": "a line\n"}
        else:
            tool, arguments = "delete_file", {"path": rng.choice(names)}
        yield Action(tool=tool, arguments=arguments)


@pytest.fixture
async def engine(model_path: Path) -> AsyncIterator[EmbeddedEngine]:
    made = EmbeddedEngine(model_path)
    yield made
    await made.close()


async def check_answered(engine: EmbeddedEngine, folder: Path, count: int, seed: int) -> None:
    """A dry run of this many calls: at least nine in ten are answered, nothing changes."""
    root = folder / "root"
    root.mkdir()
    (root / "notes.txt").write_text("one\ntwo\n")
    database = sqlite3.connect(root / "shop.db")
    with database:
        database.execute("CREATE TABLE orders (id INTEGER, item TEXT, price REAL, paid INTEGER)")
    database.close()
    before = watcher.tree(root)
    with Store(folder / "log.db") as store:
        # Short sessions, as agents have them; within one the model sees what it said before.
        calls = list(local_calls(count, seed))
        for start in range(0, count, 20):
            async with Session.open(
                "dry-run",
                root=root,
                database="sqlite:///shop.db",
                engine=engine,
                store=store,
                rehearsal=False,  # else the model would be asked for nothing of this
            ) as session:
                for action in calls[start : start + 20]:
                    await session.step(action)
        seen = [
            transition.observation
            for summary in store.sessions()
            for transition in store.trajectory(summary.record.id).transitions
        ]
    assert watcher.tree(root) == before
    assert len(seen) == count
    assert {observation.source for observation in seen} <= {"imagined", "unanswered"}
    answered = [observation for observation in seen if observation.source == "imagined"]
    assert len(answered) >= 0.9 * count
    assert all(observation.confidence is not None for observation in answered)


async def test_a_plan_of_twenty_steps(engine: EmbeddedEngine, tmp_path: Path) -> None:
    await check_answered(engine, tmp_path, count=20, seed=3)


@pytest.mark.slow
async def test_a_hundred_local_calls(engine: EmbeddedEngine, tmp_path: Path) -> None:
    await check_answered(engine, tmp_path, count=100, seed=4)
