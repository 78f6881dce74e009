"""`lwm fidelity` and `lwm replay`: how near a world's predictions come to what happened."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from enum import StrEnum
from functools import partial
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
from lwm_agents.evaluation import (
    DatasetScore,
    Draw,
    Examples,
    Report,
    Row,
    RowFile,
    StepResult,
    WorldFactory,
    draw_steps,
    evaluate,
    read_examples,
    steps_of,
    summarise,
)
from lwm_agents.prompts.catalog import Prompts
from lwm_agents.retrieval import Recordings
from lwm_agents.values import Trajectory
from lwm_agents.worlds.base import World
from lwm_agents.worlds.cascade import Cascade
from lwm_agents.worlds.language import LanguageWorld
from lwm_agents.worlds.nearest import NearestWorld
from lwm_agents.worlds.recall import RecallWorld
from lwm_agents.worlds.second_sample import TEMPERATURE, SecondSample

FilesArgument = Annotated[
    list[Path], typer.Argument(help="Recorded trajectories (.jsonl, .jsonl.gz).")
]


class WorldName(StrEnum):
    """The worlds that `lwm fidelity` measures. None of them executes or rehearses anything."""

    LANGUAGE = "language"
    RECALL = "recall"
    NEAREST = "nearest"
    DEFAULT = "default"

    @property
    def asks_model(self) -> bool:
        """Whether it needs an engine."""
        return self in {WorldName.LANGUAGE, WorldName.DEFAULT}


ConcurrencyOption = Annotated[int, typer.Option(min=1, help="Steps predicted at once.")]


def fidelity(
    files: FilesArgument,
    world: Annotated[
        WorldName,
        typer.Option(
            help="language: the model alone. recall: only what was observed for the same state "
            "and action. nearest: copies, no model. default: recall, copies, and the model."
        ),
    ] = WorldName.DEFAULT,
    engine: EngineOption = None,
    examples: Annotated[
        list[Path] | None,
        typer.Option(help="Trajectories to learn from; never of a task that is drawn."),
    ] = None,
    split_examples: Annotated[
        bool, typer.Option("--split-examples", help="Learn from the FILES' other tasks too.")
    ] = False,
    limit: Annotated[int | None, typer.Option(help="Steps to draw from each file.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the draw of steps.")] = 0,
    max_observation: Annotated[
        int | None, typer.Option(help="Leave out observations longer than this many characters.")
    ] = None,
    concurrency: ConcurrencyOption = 1,
    max_tokens: Annotated[int, typer.Option(min=1, help="Longest answer, in tokens.")] = 1024,
    second_sample: Annotated[
        bool,
        typer.Option("--second-sample", help="Ask the model twice; how far it agrees is a signal."),
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Write each step as a line of JSON to this file.")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Go on with what --out wrote, and write the rest to it.")
    ] = None,
    prompts: PromptsOption = None,
    json: JsonOption = False,
) -> None:
    """Predict recorded steps from their recorded history, and score the predictions."""
    if out is not None and resume is not None:
        raise Misuse("--resume goes on writing to its own file: leave --out away")
    draw = draw_steps(files, limit=limit, seed=seed, max_observation=max_observation)
    for number, line in enumerate(draw.broken, 1):
        output.broken(line, number)
    if not draw.steps:
        raise Misuse(
            f"no step to predict in {', '.join(map(str, files))}: {len(draw.broken)} broken lines, "
            "and nothing else that fits"
        )
    known = read_examples(
        [*(examples or ()), *(files if split_examples else ())], evaluated=draw.steps
    )
    model = _required(engine) if world.asks_model else None
    templates = Prompts.own() if prompts is None else Prompts.from_folder(prompts)
    world_for = _worlds(world, known, model, templates, max_tokens, second_sample=second_sample)
    rows: list[Row] = []
    with ExitStack() as stack:
        file = None
        if (path := resume or out) is not None:
            file = stack.enter_context(RowFile(path, resume=resume is not None))
            rows += file.rows
        name = None if model is None else model.name
        _check_same_run(rows, world, name)
        done = {row.key for row in rows}
        rest = Draw(tuple(step for step in draw.steps if step.key not in done), draw.broken)

        def note(result: StepResult) -> None:
            row = result.row(world=world.value, engine=name)
            rows.append(row)
            if file is not None:
                file.append(row)

        report = asyncio.run(_evaluate(rest, model, world_for, concurrency, note))
    drawn = {step.key for step in draw.steps}
    scores = summarise(row for row in rows if row.key in drawn)
    document = {
        "world": world.value,
        "engine": name,
        "seed": seed,
        "limit": limit,
        "max_observation": max_observation,
        "examples": {"trajectories": len(known.trajectories), "left_out": known.left_out},
        "datasets": {name: score.model_dump() for name, score in scores.items()},
        "broken_lines": [str(line) for line in (*draw.broken, *known.broken)],
    }
    if json:
        output.print_json(document)
    else:
        _print_scores(scores)
    _stop_if_failed(report, len(rows), len(draw.steps))


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
    model = _required(engine)
    templates = Prompts.own() if prompts is None else Prompts.from_folder(prompts)
    worlds = _worlds(WorldName.LANGUAGE, Examples(()), model, templates, seed=seed or 0)
    report = asyncio.run(_evaluate(Draw(steps), model, worlds, concurrency))
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
        _print_scores(report.datasets)
    _stop_if_failed(report, len(report.results), report.drawn)


def _worlds(
    world: WorldName,
    known: Examples,
    model: Engine | None,
    prompts: Prompts,
    max_tokens: int = 1024,
    seed: int = 0,
    second_sample: bool = False,
) -> WorldFactory:
    """Return what makes the world of each step."""
    recall = RecallWorld(known.trajectories)
    recordings = Recordings(known.trajectories)
    nearest = NearestWorld(recordings)

    def world_for(_history: Trajectory) -> World:
        if model is None:
            return recall if world is WorldName.RECALL else nearest
        # A new world a step: pinned answers of one prediction must not leak into another.
        asked = partial(
            LanguageWorld,
            model,
            prompts=prompts,
            max_tokens=max_tokens,
            examples=recordings.examples,
        )
        language: World = asked(seed=seed, nearest=nearest if world is WorldName.DEFAULT else None)
        if second_sample:
            again = asked(seed=seed + 1, temperature=TEMPERATURE, pin=False)
            language = SecondSample(language, again)
        return Cascade(recall, language) if world is WorldName.DEFAULT else language

    return world_for


def _check_same_run(rows: Sequence[Row], world: WorldName, engine: str | None) -> None:
    for row in rows:
        if (row.world, row.engine) != (world.value, engine):
            raise Misuse(
                f"these rows are of another run (--world {row.world}, engine {row.engine}): "
                "go on with the same, or write to another file"
            )


async def _evaluate(
    draw: Draw,
    model: Engine | None,
    world_for: WorldFactory,
    concurrency: int,
    note: Callable[[StepResult], None] | None = None,
) -> Report:
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=output.errors,
        transient=True,
    )

    def advance(result: StepResult) -> None:
        if note is not None:
            note(result)
        bar.advance(task)

    try:
        with bar:
            task = bar.add_task("predicting", total=len(draw.steps))
            return await evaluate(world_for, draw, concurrency=concurrency, progress=advance)
    finally:
        if model is not None:
            await model.close()


def _required(engine: str | None) -> Engine:
    chosen = chosen_engine(engine)
    if chosen is None:
        raise Misuse(
            "no language model is set: name one with --engine or LWM_ENGINE, or get one with "
            "`lwm model pull Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF`"
        )
    return engine_from(chosen)


def _print_scores(scores: Mapping[str, DatasetScore]) -> None:
    numbers = ("n", "exact", "errors", "similarity", "fidelity", "unanswered", "s/step")
    table = output.table("dataset", *numbers, right=numbers)
    for name, score in scores.items():
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


def _stop_if_failed(report: Report, done_steps: int, drawn: int) -> None:
    if report.stopped_by is not None:
        done = f"after {done_steps} of {drawn} steps"
        output.errors.print(f"stopped {done}", style="bold")
        raise report.stopped_by
