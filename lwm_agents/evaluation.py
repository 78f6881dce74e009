"""How well a world predicts recorded trajectories: draw steps, predict each, compare.

Each step is predicted from the *recorded* history before it (teacher-forced), never from earlier
predictions. Nothing is executed.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lwm_agents.errors import EngineError, LwmError, Misuse
from lwm_agents.interchange import BrokenLine, read_trajectories
from lwm_agents.scores import Fidelity, fidelity
from lwm_agents.values import Observation, Source, Trajectory, Transition, Value
from lwm_agents.worlds.base import World


@dataclass(frozen=True)
class DrawnStep:
    """One recorded transition to predict, and the trajectory up to it."""

    history: Trajectory
    transition: Transition


@dataclass(frozen=True)
class Draw:
    """The steps to predict, in the order drawn, and the lines that could not be read."""

    steps: tuple[DrawnStep, ...]
    broken: tuple[BrokenLine, ...] = ()


@dataclass(frozen=True)
class StepResult:
    """What a world said about one step; `seconds` is how long it took to say so."""

    step: DrawnStep
    predicted: Observation | None
    fidelity: Fidelity
    seconds: float


class DatasetScore(Value):
    """Means over the `n` steps of a dataset; `unanswered` counts steps, each scoring 0.

    `error_agreement` is over the `error_known` steps whose recording says whether they failed, and
    None where none says. `seconds_per_step` is the mean time of one answer, not divided by how
    many were asked for at once.
    """

    n: int
    exact: float
    error_agreement: float | None
    error_known: int
    similarity: float
    fidelity: float
    unanswered: int
    seconds_per_step: float


@dataclass(frozen=True)
class Report:
    """What an evaluation found. `stopped_by` is the engine's failure that ended it early."""

    datasets: Mapping[str, DatasetScore]
    results: tuple[StepResult, ...]
    drawn: int
    broken: tuple[BrokenLine, ...] = ()
    stopped_by: EngineError | None = None


@dataclass(frozen=True)
class Examples:
    """Recorded trajectories a world may look up, apart from what is evaluated.

    `left_out` counts those that were left out because they, or another run of their task in the
    same environment, are being evaluated.
    """

    trajectories: tuple[Trajectory, ...]
    left_out: int = 0
    broken: tuple[BrokenLine, ...] = ()


HAPPENED: tuple[Source, ...] = ("executed", "rehearsed")
"""The sources of observations that a prediction can be measured against."""

WorldFactory = Callable[[Trajectory], World]
"""Gives the world that predicts the step after this history; it may give the same one each time."""


def steps_of(trajectory: Trajectory) -> tuple[DrawnStep, ...]:
    """Return each step of a trajectory that a prediction can be measured against, in order."""
    return tuple(
        DrawnStep(
            trajectory.model_copy(update={"transitions": trajectory.transitions[:before]}),
            trajectory.transitions[before],
        )
        for before in _measurable(trajectory)
    )


def draw_steps(
    files: Sequence[str | Path],
    *,
    limit: int | None = None,
    seed: int = 0,
    max_observation: int | None = None,
) -> Draw:
    """Draw the steps to predict from each file.

    In each file on its own: steps whose observation is longer than `max_observation` characters
    are dropped, the (trajectory, step) pairs that remain are shuffled, from file order, with
    `random.Random(seed)`, and the first `limit` are taken. So what is drawn from one file does not
    hang on which others are named. Steps that were only predicted when recorded are no measure and
    dropped too. A file is read twice; memory holds what was drawn.

    Raises Misuse where a file can't be opened, or a number makes no sense.
    """
    if limit is not None and limit < 1:
        raise Misuse(f"the limit is a number of steps, at least 1: {limit} is not")
    if max_observation is not None and max_observation < 0:
        raise Misuse(f"the longest observation is a number of characters: {max_observation} is not")
    steps: list[DrawnStep] = []
    broken: list[BrokenLine] = []
    for file in files:
        pairs = [
            (number, index)
            for number, trajectory in enumerate(_trajectories(file, broken))
            for index, before in enumerate(_measurable(trajectory))
            if max_observation is None
            or len(trajectory.transitions[before].observation.text) <= max_observation
        ]
        random.Random(seed).shuffle(pairs)
        steps += _steps_of(file, pairs[:limit])
    return Draw(tuple(steps), tuple(broken))


def read_examples(files: Sequence[str | Path], *, evaluated: Iterable[DrawnStep]) -> Examples:
    """Read the trajectories a world may look up while these steps are evaluated."""
    steps = list(evaluated)
    ids = {(step.history.dataset, step.history.session) for step in steps}
    tasks = {_task_of(step.history) for step in steps if step.history.task}
    broken: list[BrokenLine] = []
    kept: list[Trajectory] = []
    left_out = 0
    for file in files:
        for trajectory in _trajectories(file, broken):
            same = (trajectory.dataset, trajectory.session) in ids or _task_of(trajectory) in tasks
            if same:
                left_out += 1
            else:
                kept.append(trajectory)
    return Examples(tuple(kept), left_out, tuple(broken))


async def evaluate(
    world_for: WorldFactory,
    draw: Draw,
    *,
    concurrency: int = 1,
    progress: Callable[[StepResult], None] | None = None,
) -> Report:
    """Predict each drawn step and score it; at most `concurrency` at once.

    `progress` is called after each step. An EngineError ends the evaluation: no further step is
    begun, and the report holds what was done and the error. Any other LwmError is raised.
    """
    run = _Run(iter(draw.steps), world_for, progress)
    async with asyncio.TaskGroup() as group:
        for _ in range(max(1, concurrency)):
            group.create_task(run.work())
    if run.failure is not None and not isinstance(run.failure, EngineError):
        raise run.failure
    results = tuple(run.results)
    return Report(summarise(results), results, len(draw.steps), draw.broken, run.failure)


def summarise(results: Iterable[StepResult]) -> dict[str, DatasetScore]:
    """Return the score of each dataset, by name, sorted.

    A dataset that does not say its name goes by the name of its file.
    """
    by_dataset: dict[str, list[StepResult]] = {}
    for result in results:
        by_dataset.setdefault(result.step.history.dataset or "", []).append(result)
    return {name: _score(by_dataset[name]) for name in sorted(by_dataset)}


@dataclass
class _Run:
    """What the workers of one evaluation share."""

    steps: Iterator[DrawnStep]
    world_for: WorldFactory
    progress: Callable[[StepResult], None] | None
    results: list[StepResult] = field(default_factory=list)
    failure: LwmError | None = None

    async def work(self) -> None:
        while self.failure is None and (step := next(self.steps, None)) is not None:
            try:
                result = await _predict(self.world_for, step)
            except LwmError as problem:
                self.failure = self.failure or problem
                return
            self.results.append(result)
            if self.progress is not None:
                self.progress(result)


async def _predict(world_for: WorldFactory, step: DrawnStep) -> StepResult:
    begun = time.perf_counter()
    predicted = await world_for(step.history).step(step.transition.action, step.history)
    seconds = time.perf_counter() - begun
    happened = step.transition
    near = fidelity(predicted, happened.observation, happened.action)
    return StepResult(step, predicted, near, seconds)


def _measurable(trajectory: Trajectory) -> list[int]:
    """Return where in a trajectory the steps are whose observation was not itself predicted."""
    transitions = enumerate(trajectory.transitions)
    return [index for index, one in transitions if one.observation.source in HAPPENED]


def _trajectories(file: str | Path, broken: list[BrokenLine]) -> Iterator[Trajectory]:
    for item in read_trajectories(file):
        if isinstance(item, BrokenLine):
            broken.append(item)
        elif item.dataset is None:
            yield item.model_copy(update={"dataset": Path(file).name.split(".")[0]})
        else:
            yield item


def _steps_of(file: str | Path, pairs: Sequence[tuple[int, int]]) -> list[DrawnStep]:
    wanted = {number for number, _ in pairs}
    found = {
        number: trajectory
        for number, trajectory in enumerate(_trajectories(file, []))
        if number in wanted
    }
    steps = {number: steps_of(trajectory) for number, trajectory in found.items()}
    return [steps[number][index] for number, index in pairs]


def _task_of(trajectory: Trajectory) -> tuple[str | None, str | None, str]:
    return trajectory.dataset, trajectory.environment, trajectory.task


def _score(results: Sequence[StepResult]) -> DatasetScore:
    found = [result.fidelity for result in results]
    agreements = [one.error_agreement for one in found if one.error_agreement is not None]
    silent = [r for r in results if r.predicted is None or r.predicted.source == "unanswered"]
    return DatasetScore(
        n=len(results),
        exact=_mean(one.exact for one in found),
        error_agreement=_mean(agreements) if agreements else None,
        error_known=len(agreements),
        similarity=_mean(one.similarity for one in found),
        fidelity=_mean(one.score for one in found),
        unanswered=len(silent),
        seconds_per_step=_mean(result.seconds for result in results),
    )


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return sum(numbers) / len(numbers)
