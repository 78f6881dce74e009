"""Predicts drawn steps, several at once, and scores each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from lwm_agents.errors import EngineError, LwmError
from lwm_agents.evaluation.draws import Draw, DrawnStep
from lwm_agents.evaluation.rows import Row
from lwm_agents.evaluation.summary import DatasetScore, summarise
from lwm_agents.interchange import BrokenLine
from lwm_agents.scores import Fidelity, fidelity
from lwm_agents.values import Observation, Signals, Trajectory
from lwm_agents.worlds.base import World


@dataclass(frozen=True)
class StepResult:
    """What a world said about one step; `seconds` is how long it took to say so."""

    step: DrawnStep
    predicted: Observation | None
    fidelity: Fidelity
    seconds: float

    def row(self, *, world: str = "", engine: str | None = None) -> Row:
        """Return it as a line of `lwm fidelity --out`."""
        history, happened, seen = self.step.history, self.step.transition, self.predicted
        spec = history.tool(happened.action.tool)
        return Row(
            dataset=history.dataset or "",
            id=history.session,
            step=happened.step,
            tool=happened.action.tool,
            domain=history.domain if spec is None else spec.domain,
            predicted=None if seen is None else seen.text,
            happened=happened.observation.text,
            source="unanswered" if seen is None else seen.source,
            confidence=None if seen is None else seen.confidence,
            signals=(seen.signals if seen else None) or Signals(),
            fidelity=self.fidelity.score,
            exact=self.fidelity.exact,
            similarity=self.fidelity.similarity,
            error_agreement=self.fidelity.error_agreement,
            seconds=self.seconds,
            world=world,
            engine=engine,
        )


@dataclass(frozen=True)
class Report:
    """What an evaluation found. `stopped_by` is the engine's failure that ended it early."""

    datasets: Mapping[str, DatasetScore]
    results: tuple[StepResult, ...]
    drawn: int
    broken: tuple[BrokenLine, ...] = ()
    stopped_by: EngineError | None = None


WorldFactory = Callable[[Trajectory], World]
"""Gives the world that predicts the step after this history; it may give the same one each time."""


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
    scores = summarise(result.row() for result in results)
    return Report(scores, results, len(draw.steps), draw.broken, run.failure)


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
    happened = step.transition
    begun = time.perf_counter()
    predicted = await world_for(step.history).step(happened.action, step.history)
    seconds = time.perf_counter() - begun
    near = fidelity(predicted, happened.observation, happened.action)
    return StepResult(step, predicted, near, seconds)
