"""What is evaluated and what may be looked up meanwhile: steps drawn from recorded trajectories."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lwm_agents.errors import Misuse
from lwm_agents.interchange import BrokenLine, read_trajectories
from lwm_agents.values import Source, Trajectory, Transition

HAPPENED: tuple[Source, ...] = ("executed", "rehearsed")
"""The sources of observations that a prediction can be measured against."""


@dataclass(frozen=True)
class DrawnStep:
    """One recorded transition to predict, and the trajectory up to it."""

    history: Trajectory
    transition: Transition

    @property
    def key(self) -> tuple[str, str, int]:
        """Its dataset, trajectory and step: what no two drawn steps share."""
        return self.history.dataset or "", self.history.session, self.transition.step


@dataclass(frozen=True)
class Draw:
    """The steps to predict, in the order drawn, and the lines that could not be read."""

    steps: tuple[DrawnStep, ...]
    broken: tuple[BrokenLine, ...] = ()


@dataclass(frozen=True)
class Examples:
    """Recorded trajectories a world may look up, apart from what is evaluated.

    `left_out` counts those that were left out because they, or another run of their task in the
    same environment, are being evaluated.
    """

    trajectories: tuple[Trajectory, ...]
    left_out: int = 0
    broken: tuple[BrokenLine, ...] = ()


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
