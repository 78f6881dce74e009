"""What the log costs, against its limits: python bench/store.py [--rows N] [--keep FOLDER]

One line a figure: what was measured, its limit, and the ratio (at most 1.00 is within the limit).
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from lwm_agents.store import SessionRecord, Store
from lwm_agents.values import Action, Observation, Transition

STEPS = 100
"""Transitions in one session of the large log."""

WORDS = """
    error file warning build test connection server timeout user table select index module path
    config branch commit merge python package version install output value result total line
    directory permission denied found missing created updated deleted running started finished
""".split()  # noqa: SIM905 - a list of words reads better as one


def main() -> None:
    """Measure everything and print it."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rows", type=int, default=1_000_000, help="rows of the large log")
    arguments.add_argument("--keep", type=Path, help="make the large log here and keep it")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        single(Path(folder) / "single.db")
        batch(Path(folder) / "batch.db")
        large((given.keep or Path(folder)) / "large.db", given.rows)


def single(path: Path) -> None:
    """The median of appends that each return once the row would survive the end of the process."""
    drawn = random.Random(1)
    with Store(path) as store:
        session = store.create_session(SessionRecord(mode="dry-run"))
        times = []
        for step in range(1, 2001):
            transition = made(drawn, session.id, step)
            began = time.perf_counter()
            store.append(transition)
            times.append((time.perf_counter() - began) * 1000)
    report("one acknowledged append, median", statistics.median(times), 0.5, "ms")
    print(f"  (95th of 100: {statistics.quantiles(times, n=100)[94]:.3f} ms)")


def batch(path: Path) -> None:
    """Batches with redaction and search index: seconds for 8,000 transitions."""
    drawn = random.Random(2)
    with Store(path) as store:
        session = store.create_session(SessionRecord(mode="dry-run"))
        transitions = [made(drawn, session.id, step) for step in range(1, 40_001)]
        began = time.perf_counter()
        for start in range(0, len(transitions), 2000):
            store.append_many(transitions[start : start + 2000])
        seconds = time.perf_counter() - began
    report("8,000 transitions in batches", 8000 * seconds / len(transitions), 1.0, "s")
    print(f"  ({len(transitions) / seconds:,.0f} a second)")


def large(path: Path, count: int) -> None:
    """Reading one session, and searching, in a log of many rows."""
    with Store(path) as store:
        if store.count() < count:
            fill(store, count)
        names = [summary.record.id for summary in store.sessions(limit=200)]
        drawn = random.Random(3)
        report(
            f"show, {count:,} rows", worst(lambda: store.trajectory(drawn.choice(names))), 50, "ms"
        )
        report("the 50 newest sessions", worst(lambda: store.sessions(limit=50)), 50, "ms")
        for text in ("error", "error file", "error warning build timeout", "wordnobodywrote",
                     "/srv/app/module7/file12.py", "7f3a file",
                     # Both in half of all rows, and never in one: the worst there is.
                     "grep name", "shell sql_query"):  # fmt: skip
            taken = worst(lambda text=text: store.search(text))  # type: ignore[misc]
            report(f"search {text!r}", taken, 50, "ms")


def fill(store: Store, count: int) -> None:
    """Append sessions of STEPS transitions until there are `count` transitions."""
    drawn = random.Random(4)
    began = time.perf_counter()
    for first in range(0, count // STEPS, 50):
        names = [
            store.create_session(SessionRecord(mode="dry-run", created_at=1e9 + number)).id
            for number in range(first, min(first + 50, count // STEPS))
        ]
        store.append_many(made(drawn, name, n) for name in names for n in range(1, STEPS + 1))
    print(f"  ({count:,} rows made in {time.perf_counter() - began:.0f} s)")


def made(drawn: random.Random, session: str, step: int) -> Transition:
    """A transition like those of shells and databases: an observation of about 300 characters."""
    module, number = drawn.randrange(50), drawn.randrange(200)
    shell = drawn.random() < 0.5
    if shell:
        folder = f"/srv/app/module{module}"
        arguments = {"command": f"ls -la {folder} | grep {drawn.choice(WORDS)}"}
        lines = [
            f"-rw-r--r-- 1 app app {drawn.randrange(99999)} Nov 29 16:53 "
            f"{folder}/file{number + n}.py"
            for n in range(4)
        ]
    else:
        arguments = {"query": f"SELECT id, name FROM {drawn.choice(WORDS)}s WHERE id > {number}"}
        lines = [
            f"| {number + n} | {' '.join(drawn.choices(WORDS, k=5))} | {drawn.random():.4f} |"
            for n in range(5)
        ]
    lines.append(f"{' '.join(drawn.choices(WORDS, k=6))} {drawn.randrange(65536):04x}")
    return Transition(
        session=session,
        step=step,
        action=Action(tool="shell" if shell else "sql_query", arguments=arguments),
        observation=Observation(
            text="\n".join(lines),
            source=drawn.choice(("executed", "imagined")),
            structured={"exit_code": 0} if shell else None,
            confidence=0.5,
        ),
        effect="read",
        started_at=1.7e9 + step,
        latency_ms=12.5,
        engine="model.gguf",
    )


def worst(call: Callable[[], object], times: int = 20) -> float:
    """Return the slowest of some calls, in milliseconds, after one to warm up."""
    call()
    return max(elapsed(call) for _ in range(times))


def elapsed(call: Callable[[], object]) -> float:
    """Return how long a call takes, in milliseconds."""
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1000


def report(what: str, measured: float, limit: float, unit: str) -> None:
    """Print a figure, its limit and the ratio of the two."""
    print(f"{what:40} {measured:9.3f} {unit:3} limit {limit:6g} ratio {measured / limit:6.2f}")


if __name__ == "__main__":
    main()
