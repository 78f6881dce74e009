"""The session's own work per call, log included: at most 2 ms (the world is scripted).

Run as: python bench/session.py [CALLS]
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

from lwm_agents import Action, Session
from lwm_agents.testing import ScriptedEngine, ScriptedWorld

LIMIT_MS = 2.0
ACTIONS = [
    Action(tool="shell", arguments={"command": "grep -rn TODO src | head -20"}),
    Action(tool="write_file", arguments={"path": "src/app.py", "content": "print(1)\n" * 40}),
    Action(tool="sql_query", arguments={"query": "SELECT id, item FROM orders WHERE paid = 0"}),
    Action(tool="read_file", arguments={"path": "README.md"}),
]


async def measure(calls: int, folder: Path, *, imagining: bool) -> float:
    """Return the median milliseconds of one call; `imagining` adds prompt and parse."""
    engine = ScriptedEngine(lambda _: "ok\n") if imagining else None
    world = None if imagining else ScriptedWorld("some output\n" * 10)
    store = folder / f"log-{imagining}.db"
    times = []
    async with Session.open(
        "dry-run",
        root=folder,
        database="sqlite:///x.db",
        store=store,
        world=world,
        engine=engine,
    ) as session:
        for number in range(calls):
            action = ACTIONS[number % len(ACTIONS)]
            begun = time.perf_counter()
            await session.step(action)
            times.append((time.perf_counter() - begun) * 1000)
    return statistics.median(times)


def main() -> None:
    """Print each figure and its ratio to the limit."""
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    with tempfile.TemporaryDirectory() as name:
        for imagining, what in (
            (False, "scripted world"),
            (True, "language world, scripted engine"),
        ):
            found = asyncio.run(measure(calls, Path(name), imagining=imagining))
            print(f"{what}: {found:.2f} ms a call, {found / LIMIT_MS:.2f} of the limit of 2 ms")


if __name__ == "__main__":
    main()
