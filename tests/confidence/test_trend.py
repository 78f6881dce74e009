import random

import pytest

from lwm_agents.confidence import Drift, drift
from lwm_agents.confidence.trend import (
    LEVEL,
    Scored,
    change,
    rolling,
    runs_of,
    sparkline,
)
from lwm_agents.store import SessionRecord, Store
from lwm_agents.values import Action, Observation, Transition


def series(
    seed: int, n: int, dropped_at: int | None = None, *, spread: float = 0.0, per: int = 5
) -> list[list[float]]:
    """Return sessions of `per` fidelities about 0.8, and about 0.5 from a call on.

    `spread` is how much sessions differ among themselves.
    """
    rng = random.Random(seed)
    runs: list[list[float]] = []
    for index in range(n):
        if index % per == 0:
            own = rng.gauss(0, spread)
            runs.append([])
        mean = 0.8 + own - (0.3 if dropped_at is not None and index >= dropped_at else 0)
        runs[-1].append(min(1.0, max(0.0, rng.gauss(mean, 0.25))))
    return runs


def warned(runs: list[list[float]]) -> bool:
    found = change(runs)
    return found is not None and found.p <= LEVEL


@pytest.mark.parametrize("spread", [0.0, 0.15])
def test_it_does_not_cry_wolf(spread: float) -> None:
    alarms = sum(warned(series(seed, 120, spread=spread)) for seed in range(60))
    assert alarms <= 3


def test_a_drop_of_three_tenths_is_seen_within_thirty_calls() -> None:
    seen = [warned(series(seed, 130, 100)) for seed in range(20)]
    assert sum(seen) >= 18


@pytest.mark.slow
@pytest.mark.parametrize(("spread", "per"), [(0.0, 1), (0.0, 10), (0.15, 10), (0.15, 25)])
def test_false_alarms_are_as_rare_as_promised(spread: float, per: int) -> None:
    alarms = sum(warned(series(seed, 300, spread=spread, per=per)) for seed in range(400))
    assert alarms / 400 <= 0.05


def test_where_it_dropped_is_found() -> None:
    found = change(series(1, 200, 150))
    assert found is not None
    assert 140 <= found.index <= 160
    assert found.before == pytest.approx(0.8, abs=0.1)
    assert found.after == pytest.approx(0.5, abs=0.1)


def test_a_rise_is_no_drop() -> None:
    risen = [[1.0 - value for value in run] for run in series(1, 200, 150)]
    found = change(risen)
    assert found is not None
    assert found.p > 0.5


def test_a_few_calls_say_nothing() -> None:
    assert change([[1.0]] * 30) is None
    level = change([[1.0]] * 60)
    assert level is not None
    assert level.p > 0.9


def test_sessions_are_shuffled_whole_and_very_long_ones_in_runs() -> None:
    calls = [Scored(session="long", step=n, at=n, fidelity=1) for n in range(1, 71)]
    calls += [Scored(session="short", step=n, at=30.5 + n, fidelity=1) for n in range(1, 31)]
    found = [(run[0].session, len(run)) for run in runs_of(sorted(calls, key=lambda c: c.at))]
    assert found == [("long", 20), ("long", 20), ("short", 30), ("long", 20), ("long", 10)]


def test_rolling_mean_and_sparkline() -> None:
    assert rolling([1, 0, 0, 1, 1], 2) == [1, 0.5, 0, 0.5, 1]
    assert sparkline([0, 0.5, 1]) == "▁▅█"
    assert sparkline([0.0] * 50 + [1.0] * 50, 4) == "▁▁██"
    assert sparkline([]) == ""


def logged(store: Store, tool: str, values: list[list[float]], engine: str | None = None) -> None:
    for number, run in enumerate(values):
        name = store.create_session(SessionRecord(id=f"{tool}{number}{engine}")).id
        store.append_many(
            Transition(
                session=name,
                step=step,
                action=Action(tool=tool),
                observation=Observation(text="x", source="executed"),
                prediction=Observation(text="y", source="imagined", confidence=0.5),
                fidelity=value,
                started_at=number * 100.0 + step,
                engine=engine,
            )
            for step, value in enumerate(run, 1)
        )


def test_drift_in_a_log_names_the_tool_and_where_it_began() -> None:
    with Store(":memory:") as store:
        logged(store, "shell", series(1, 140, 100), "m.gguf")
        logged(store, "a", series(2, 140))
        logged(store, "new", series(3, 10))
        found = {one.tool: one for one in drift(store)}
        assert list(found) == ["shell", "a", "new"]
        shell = found["shell"]
        assert shell.warned
        assert (shell.n, shell.engine, len(shell.rolling)) == (140, "m.gguf", 140)
        assert shell.session in {f"shell{number}m.gguf" for number in range(19, 22)}
        assert shell.since is not None
        assert 1900 <= shell.since < 2200
        assert not found["a"].warned
        assert found["a"].p is not None
        assert (found["new"].warned, found["new"].p, found["new"].n) == (False, None, 10)
        assert [one.tool for one in drift(store, "a")] == ["a"]


def test_another_engine_is_another_series() -> None:
    with Store(":memory:") as store:
        logged(store, "shell", [[0.9] * 5] * 12, "large.gguf")
        logged(store, "shell", [[0.2] * 5] * 12, "small.gguf")
        found = drift(store)
        assert {(one.engine, one.warned) for one in found} == {
            ("large.gguf", False), ("small.gguf", False)}  # fmt: skip


def test_the_more_tools_are_looked_at_the_more_it_takes() -> None:
    with Store(":memory:") as store:
        logged(store, "a", series(1, 140, 100))
        alone: list[Drift] = drift(store)
        logged(store, "b", series(2, 140))
        both = {one.tool: one for one in drift(store)}
    assert both["a"].p == pytest.approx(2 * (alone[0].p or 0))
