import asyncio
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lwm_agents.errors import EngineUnreachable, Misuse
from lwm_agents.evaluation import (
    Draw,
    DrawnStep,
    StepResult,
    draw_steps,
    evaluate,
    read_examples,
    steps_of,
    summarise,
)
from lwm_agents.interchange import read_trajectories
from lwm_agents.testing import ScriptedWorld
from lwm_agents.values import Action, Observation, Trajectory
from lwm_agents.worlds.base import World

SAMPLES = Path(__file__).parent / "samples"
BASH = SAMPLES / "intercode-bash.jsonl"
SQL = SAMPLES / "intercode-sql.jsonl"
TAU = SAMPLES / "tau-airline.jsonl"
FILES = [BASH, SQL, TAU]


def recorded(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def places(draw: Draw) -> list[tuple[str, int]]:
    return [(step.history.session, step.transition.step) for step in draw.steps]


def perfect(draw: Draw) -> World:
    """Return a world that knows what happened, found by the history it is shown."""
    happened = {(s.history.session, len(s.history.transitions)): s.transition for s in draw.steps}

    def answer(action: Action, history: Trajectory) -> Observation:
        transition = happened[history.session, len(history.transitions)]
        assert action == transition.action
        return transition.observation.model_copy(update={"source": "imagined", "confidence": 1.0})

    return ScriptedWorld(answer)


def always(world: World) -> Callable[[Trajectory], World]:
    return lambda _history: world


def write(path: Path, *trajectories: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in trajectories))
    return path


def plain(id_: str, *observations: str, **more: Any) -> dict[str, Any]:
    steps = [
        {"tool": "t", "arguments": {"n": n}, "observation": text, "is_error": False}
        for n, text in enumerate(observations)
    ]
    return {"id": id_, "dataset": "own", "task": f"task of {id_}", "steps": steps} | more


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_steps_are_drawn_as_the_baselines_drew_them(file: Path) -> None:
    pairs = [
        (trajectory["id"], number)
        for trajectory in recorded(file)
        for number, step in enumerate(trajectory["steps"], 1)
        if len(step["observation"]) <= 600
    ]
    random.Random(7).shuffle(pairs)
    assert places(draw_steps([file], limit=5, seed=7, max_observation=600)) == pairs[:5]


def test_what_is_drawn_from_a_file_does_not_hang_on_the_others() -> None:
    alone = [places(draw_steps([file], limit=4, seed=3)) for file in FILES]
    together = places(draw_steps(FILES, limit=4, seed=3))
    assert together == alone[0] + alone[1] + alone[2]
    assert places(draw_steps(FILES, limit=4, seed=4)) != together


def test_without_limits_every_step_is_drawn_once() -> None:
    drawn = places(draw_steps(FILES))
    assert len(drawn) == len(set(drawn))
    assert len(drawn) == sum(len(t["steps"]) for file in FILES for t in recorded(file))


def test_only_longer_observations_are_dropped(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", plain("x", "123", "1234", "12345"))
    drawn = draw_steps([file], max_observation=4)
    assert sorted(step.transition.observation.text for step in drawn.steps) == ["123", "1234"]


def test_the_history_is_the_recorded_one_up_to_the_step() -> None:
    whole = {item.session: item for item in read_trajectories(TAU) if isinstance(item, Trajectory)}
    for step in draw_steps([TAU]).steps:
        source = whole[step.history.session]
        before = step.transition.step - 1
        assert step.history.transitions == source.transitions[:before]
        assert step.transition == source.transitions[before]
        assert (step.history.task, step.history.tools) == (source.task, source.tools)


def test_what_was_only_predicted_is_no_measure(tmp_path: Path) -> None:
    one = plain("x", "real", "made up", "copied")
    one["steps"][1]["source"] = "imagined"
    one["steps"][2]["source"] = "rehearsed"
    drawn = draw_steps([write(tmp_path / "a.jsonl", one)])
    assert sorted(s.transition.observation.text for s in drawn.steps) == ["copied", "real"]


def test_the_steps_of_one_trajectory_in_order(tmp_path: Path) -> None:
    one = plain("x", "real", "made up", "copied")
    one["steps"][1]["source"] = "imagined"
    (trajectory,) = read_trajectories(write(tmp_path / "a.jsonl", one))
    assert isinstance(trajectory, Trajectory)
    steps = steps_of(trajectory)
    assert [step.transition.step for step in steps] == [1, 3]
    assert [len(step.history.transitions) for step in steps] == [0, 2]


async def test_a_perfect_world_scores_one() -> None:
    draw = draw_steps(FILES, limit=6, seed=1)
    report = await evaluate(always(perfect(draw)), draw)
    assert list(report.datasets) == ["intercode-bash", "intercode-sql", "tau-airline"]
    for score in report.datasets.values():
        assert (score.n, score.exact, score.similarity, score.fidelity) == (6, 1, 1, 1)
        assert score.unanswered == 0
        assert score.error_agreement == 1
        assert score.seconds_per_step >= 0
    assert report.stopped_by is None
    assert [result.step for result in report.results] == list(draw.steps)


@pytest.mark.parametrize(
    "answer", [None, Observation(text="cannot say", source="unanswered", is_error=True)]
)
async def test_a_world_that_can_not_say_scores_nothing(answer: Observation | None) -> None:
    draw = draw_steps([SQL])
    report = await evaluate(always(ScriptedWorld(lambda _action, _history: answer)), draw)
    score = report.datasets["intercode-sql"]
    assert score.unanswered == score.n == len(draw.steps)
    assert (score.exact, score.error_agreement, score.similarity, score.fidelity) == (0, 0, 0, 0)


async def test_the_means_by_hand(tmp_path: Path) -> None:
    one = plain("x", "yes", "no", "no")
    one["steps"][1]["is_error"] = None
    one["steps"][2]["is_error"] = True
    draw = draw_steps([write(tmp_path / "a.jsonl", one)])
    report = await evaluate(always(ScriptedWorld("no")), draw)
    score = report.datasets["own"]
    assert score.n == 3
    assert score.exact == pytest.approx(2 / 3)
    assert (score.error_agreement, score.error_known) == (0.5, 2)
    assert score.similarity == pytest.approx(2 / 3)
    assert score.fidelity == pytest.approx((0 + 1 + 0.2) / 3)
    assert score.unanswered == 0


async def test_error_agreement_is_none_where_no_recording_says(tmp_path: Path) -> None:
    one = plain("x", "yes")
    one["steps"][0]["is_error"] = None
    report = await evaluate(
        always(ScriptedWorld("yes")), draw_steps([write(tmp_path / "a.jsonl", one)])
    )
    assert report.datasets["own"].error_agreement is None
    assert report.datasets["own"].error_known == 0


async def test_a_dataset_without_a_name_goes_by_its_file(tmp_path: Path) -> None:
    file = write(tmp_path / "mine.jsonl", plain("x", "yes", dataset=None))
    report = await evaluate(always(ScriptedWorld("yes")), draw_steps([file]))
    assert list(report.datasets) == ["mine"]


async def test_the_world_is_asked_for_with_the_history() -> None:
    draw = draw_steps([BASH], limit=4, seed=2)
    asked: list[Trajectory] = []

    def world_for(history: Trajectory) -> World:
        asked.append(history)
        return ScriptedWorld("")

    await evaluate(world_for, draw)
    assert asked == [step.history for step in draw.steps]


class Crowd:
    """A world that waits until as many as wanted are asking at once."""

    def __init__(self, wanted: int) -> None:
        self.barrier = asyncio.Barrier(wanted)
        self.now = self.most = 0

    async def step(self, action: Action, trajectory: Trajectory) -> Observation | None:
        del action, trajectory
        self.now += 1
        self.most = max(self.most, self.now)
        await self.barrier.wait()
        self.now -= 1
        return None


async def test_as_many_as_allowed_are_asked_at_once() -> None:
    crowd = Crowd(4)
    draw = draw_steps([TAU], limit=8)
    assert len(draw.steps) == 8
    report = await evaluate(always(crowd), draw, concurrency=4)
    assert crowd.most == 4
    assert report.datasets["tau-airline"].n == 8


class Failing:
    """A world whose nth answer fails, with the others still under way."""

    def __init__(self, nth: int, problem: Exception) -> None:
        self.nth = nth
        self.problem = problem
        self.asked = 0

    async def step(self, action: Action, trajectory: Trajectory) -> Observation | None:
        del action, trajectory
        self.asked += 1
        if self.asked == self.nth:
            raise self.problem
        await asyncio.sleep(0)
        return Observation(text="x", source="imagined")


async def test_an_engine_that_fails_ends_it_with_what_was_done() -> None:
    draw = draw_steps([TAU])
    world = Failing(5, EngineUnreachable("no answer at http://127.0.0.1:1"))
    report = await evaluate(always(world), draw, concurrency=2)
    assert isinstance(report.stopped_by, EngineUnreachable)
    assert world.asked < len(draw.steps) == report.drawn
    assert len(report.results) == world.asked - 1, "what was under way is not thrown away"
    assert report.datasets["tau-airline"].n == len(report.results)


async def test_an_engine_that_fails_at_once_leaves_an_empty_report() -> None:
    report = await evaluate(always(Failing(1, EngineUnreachable("gone"))), draw_steps([TAU]))
    assert report.datasets == {}
    assert report.stopped_by is not None


async def test_misuse_is_raised() -> None:
    with pytest.raises(Misuse, match="no such prompt"):
        await evaluate(always(Failing(2, Misuse("no such prompt"))), draw_steps([TAU]))


async def test_progress_is_told_after_each_step() -> None:
    told: list[StepResult] = []
    draw = draw_steps([SQL], limit=3)
    report = await evaluate(always(ScriptedWorld("[]")), draw, progress=told.append)
    assert tuple(told) == report.results
    assert summarise(result.row() for result in told[:2])["intercode-sql"].n == 2


async def test_broken_lines_are_counted_once_with_their_place(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", plain("x", "yes"))
    file.write_text("{broken\n" + file.read_text() + "[]\n")
    report = await evaluate(always(ScriptedWorld("yes")), draw_steps([file]))
    assert [line.line for line in report.broken] == [1, 3]
    assert report.datasets["own"].n == 1


async def test_nothing_to_draw_is_an_empty_report(tmp_path: Path) -> None:
    draw = draw_steps([write(tmp_path / "a.jsonl", plain("x", "long"))], max_observation=3)
    assert draw.steps == ()
    assert (await evaluate(always(ScriptedWorld("")), draw)).datasets == {}


def test_numbers_that_make_no_sense_are_refused() -> None:
    with pytest.raises(Misuse, match="0 is not"):
        draw_steps([BASH], limit=0)
    with pytest.raises(Misuse, match="-1 is not"):
        draw_steps([BASH], max_observation=-1)
    with pytest.raises(Misuse, match="absent"):
        draw_steps([SAMPLES / "absent.jsonl"])


def test_examples_never_come_from_what_is_evaluated(tmp_path: Path) -> None:
    file = write(
        tmp_path / "a.jsonl",
        plain("evaluated", "1"),
        plain("again", "2", task="task of evaluated"),
        plain("elsewhere", "3", task="task of evaluated", env="another"),
        plain("other", "4"),
        plain("taskless", "5", task=""),
        plain("taskless too", "6", task=""),
    )
    steps = draw_steps([file]).steps

    def kept(*evaluated: str) -> list[str]:
        drawn: list[DrawnStep] = [step for step in steps if step.history.session in evaluated]
        examples = read_examples([file], evaluated=drawn)
        assert len(examples.trajectories) + examples.left_out == 6
        return [trajectory.session for trajectory in examples.trajectories]

    assert kept("evaluated") == ["elsewhere", "other", "taskless", "taskless too"]
    assert kept("taskless") == ["evaluated", "again", "elsewhere", "other", "taskless too"]
    assert len(kept()) == 6
