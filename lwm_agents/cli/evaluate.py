"""`lwm fidelity` and `lwm replay`: how near a world's predictions come to what happened."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from lwm_agents.cli import output
from lwm_agents.cli.options import (
    EngineOption,
    JsonOption,
    PromptsOption,
    SeedOption,
    StoreOption,
    chosen_engine,
    open_store,
)
from lwm_agents.engines import engine_from
from lwm_agents.engines.base import Engine
from lwm_agents.errors import Misuse
from lwm_agents.evaluation import Draw, Report, draw_steps, evaluate, steps_of
from lwm_agents.prompts.catalog import Prompts
from lwm_agents.values import Trajectory
from lwm_agents.worlds.base import World
from lwm_agents.worlds.language import LanguageWorld

FilesArgument = Annotated[
    list[Path], typer.Argument(help="Recorded trajectories (.jsonl, .jsonl.gz).")
]
ConcurrencyOption = Annotated[int, typer.Option(min=1, help="Steps predicted at once.")]


def fidelity(
    files: FilesArgument,
    engine: EngineOption = None,
    limit: Annotated[int | None, typer.Option(help="Steps to draw from each file.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the draw of steps.")] = 0,
    max_observation: Annotated[
        int | None, typer.Option(help="Leave out observations longer than this many characters.")
    ] = None,
    concurrency: ConcurrencyOption = 1,
    prompts: PromptsOption = None,
    json: JsonOption = False,
) -> None:
    """Predict recorded steps from their recorded history, and score the predictions."""
    draw = draw_steps(files, limit=limit, seed=seed, max_observation=max_observation)
    for number, line in enumerate(draw.broken, 1):
        output.broken(line, number)
    if not draw.steps:
        raise Misuse(
            f"no step to predict in {', '.join(map(str, files))}: {len(draw.broken)} broken lines, "
            "and nothing else that fits"
        )
    report = asyncio.run(_evaluate(draw, engine, prompts, concurrency))
    document = {
        "datasets": {name: score.model_dump() for name, score in report.datasets.items()},
        "broken_lines": [str(line) for line in report.broken],
    }
    if json:
        output.print_json(document)
    else:
        _print_scores(report)
    _stop_if_failed(report)


def replay(
    session: Annotated[str, typer.Argument(help="A session of the log (its id, or a prefix).")],
    engine: EngineOption = None,
    seed: SeedOption = 0,
    concurrency: ConcurrencyOption = 1,
    prompts: PromptsOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Predict a logged session again, with any engine, and compare with what happened."""
    with open_store(store) as log:
        trajectory = log.trajectory(log.session(session).id)
    steps = steps_of(trajectory)
    if not steps:
        raise Misuse(
            f"nothing in session {trajectory.session} was executed, so there is nothing to compare "
            "with; replay a session that `lwm run` made"
        )
    report = asyncio.run(_evaluate(Draw(steps), engine, prompts, concurrency, seed or 0))
    results = sorted(report.results, key=lambda result: result.step.transition.step)
    if json:
        document = {
            "session": trajectory.session,
            "steps": [
                {
                    "step": result.step.transition.step,
                    "tool": result.step.transition.action.tool,
                    "predicted": None if result.predicted is None else result.predicted.text,
                    "happened": result.step.transition.observation.text,
                    "fidelity": result.fidelity.score,
                }
                for result in results
            ],
        }
        output.print_json(document)
    else:
        for result in results:
            happened = result.step.transition
            shown = happened.model_copy(
                update={"prediction": result.predicted, "fidelity": result.fidelity.score}
            )
            output.print_step(happened.step, shown)
        _print_scores(report)
    _stop_if_failed(report)


async def _evaluate(
    draw: Draw, engine: str | None, prompts: Path | None, concurrency: int, seed: int = 0
) -> Report:
    model = _required(engine)
    templates = Prompts.own() if prompts is None else Prompts.from_folder(prompts)

    def world_for(_history: Trajectory) -> World:
        # A new world a step: pinned answers of one prediction must not leak into another.
        return LanguageWorld(model, seed=seed, prompts=templates)

    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=output.errors,
        transient=True,
    )
    try:
        with bar:
            task = bar.add_task("predicting", total=len(draw.steps))
            return await evaluate(
                world_for, draw, concurrency=concurrency, progress=lambda _: bar.advance(task)
            )
    finally:
        await model.close()


def _required(engine: str | None) -> Engine:
    chosen = chosen_engine(engine)
    if chosen is None:
        raise Misuse(
            "no language model is set: name one with --engine or LWM_ENGINE, or get one with "
            "`lwm model pull Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF`"
        )
    return engine_from(chosen)


def _print_scores(report: Report) -> None:
    numbers = ("n", "exact", "errors", "similarity", "fidelity", "unanswered", "s/step")
    table = output.table("dataset", *numbers, right=numbers)
    for name, score in report.datasets.items():
        agreement = score.error_agreement
        table.add_row(
            name or "(no name)",
            str(score.n),
            f"{score.exact:.2f}",
            "–" if agreement is None else f"{agreement:.2f}",
            f"{score.similarity:.2f}",
            f"{score.fidelity:.2f}",
            str(score.unanswered),
            f"{score.seconds_per_step:.1f}",
        )
    output.out.print(table)


def _stop_if_failed(report: Report) -> None:
    if report.stopped_by is not None:
        done = f"after {len(report.results)} of {report.drawn} steps"
        output.errors.print(f"stopped {done}", style="bold")
        raise report.stopped_by
