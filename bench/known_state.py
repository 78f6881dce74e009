"""What our templates, the known state and the computed answers do for a model on recorded steps.

    python bench/known_state.py --model MODEL.gguf FILE... [--seed 7] [--limit 60]

Three worlds predict the same steps, each from the recorded history before it (teacher-forced):
`bare` a one-line prompt and the last four turns; `templates` our prompts, whole history; `known`
the same with known state, computed answers and pinned reads, as LanguageWorld does by default.
Prints a table, and ratios to `bare`. A prompt that two worlds share is answered once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path

from lwm_agents.engines.embedded import EmbeddedEngine
from lwm_agents.evaluation import DatasetScore, StepResult, draw_steps, evaluate
from lwm_agents.prompts.outcome import looks_like_error
from lwm_agents.values import (
    Action,
    Completion,
    Json,
    Message,
    Messages,
    Observation,
    Sampling,
    Trajectory,
)
from lwm_agents.worlds.base import World
from lwm_agents.worlds.language import LanguageWorld


class Remembering:
    """An engine that answers the same prompt once, so that worlds which share prompts cost less."""

    def __init__(self, engine: EmbeddedEngine) -> None:
        self._engine = engine
        self._answers: dict[tuple[Message, ...] | str, Completion] = {}
        self.asked = 0
        self.name, self.context, self.local = engine.name, engine.context, engine.local
        self.prefills = engine.prefills

    async def complete(
        self, messages: Messages, *, sampling: Sampling, schema: dict[str, Json] | None = None
    ) -> Completion:
        """Answer from memory, or ask."""
        self.asked += 1
        key = json.dumps([message.model_dump() for message in messages])
        if key not in self._answers:
            self._answers[key] = await self._engine.complete(
                messages, sampling=sampling, schema=schema
            )
        return self._answers[key]

    async def close(self) -> None:
        """Unload the model."""
        await self._engine.close()


class Bare:
    """The plainest language world: what anybody would write first."""

    def __init__(self, engine: Remembering) -> None:
        self._engine = engine

    async def step(self, action: Action, trajectory: Trajectory) -> Observation | None:
        """Ask with the last four turns, and take the answer as it comes."""
        messages = [
            Message(
                role="system",
                content="You are the environment. Output the tool's raw output and nothing else.",
            )
        ]
        for past in trajectory.transitions[-4:]:
            messages.append(Message(role="user", content=_call(past.action)))
            messages.append(Message(role="assistant", content=past.observation.text))
        messages.append(Message(role="user", content=_call(action)))
        completion = await self._engine.complete(messages, sampling=Sampling(max_tokens=256))
        return Observation(
            text=completion.text,
            source="imagined",
            is_error=looks_like_error(completion.text, action, None),
        )


def _call(action: Action) -> str:
    return f"{action.tool} {json.dumps(action.arguments, ensure_ascii=False)}"


async def measure(arguments: argparse.Namespace) -> dict[str, Mapping[str, DatasetScore]]:
    """Return each world's scores by dataset."""
    engine = Remembering(EmbeddedEngine(arguments.model, context=arguments.context, slots=1))
    draw = draw_steps(
        arguments.files,
        limit=arguments.limit,
        seed=arguments.seed,
        max_observation=arguments.max_observation,
    )
    worlds: dict[str, World] = {
        "bare": Bare(engine),
        "templates": LanguageWorld(engine, max_tokens=256, known_state=False, pin=False),
        "known": LanguageWorld(engine, max_tokens=256),
    }
    scores: dict[str, Mapping[str, DatasetScore]] = {}
    wanted = arguments.worlds or list(worlds)
    try:
        for name in wanted:
            before = engine.asked

            def note(result: StepResult, name: str = name) -> None:
                if arguments.log:
                    with arguments.log.open("a") as log:
                        print(json.dumps(_line(name, result)), file=log)

            world = worlds[name]

            def world_for(_: Trajectory, world: World = world) -> World:
                return world

            report = await evaluate(world_for, draw, progress=note)
            if report.stopped_by is not None:
                raise report.stopped_by
            scores[name] = report.datasets
            print(f"{name}: {engine.asked - before} of {len(draw.steps)} asked", file=sys.stderr)
    finally:
        await engine.close()
    return scores


def _line(world: str, result: StepResult) -> dict[str, Json]:
    step = result.step
    return {
        "world": world,
        "dataset": step.history.dataset,
        "session": step.history.session,
        "step": len(step.history.transitions) + 1,
        "action": step.transition.action.model_dump(),
        "happened": step.transition.observation.text,
        "predicted": None if result.predicted is None else result.predicted.text,
        "confidence": None if result.predicted is None else result.predicted.confidence,
        "exact": result.fidelity.exact,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--model", required=True, type=Path)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--limit", type=int, default=60)
    parser.add_argument("--max-observation", type=int, default=600)
    parser.add_argument("--context", type=int, default=8192)
    parser.add_argument("--worlds", nargs="*", default=None)
    parser.add_argument("--log", type=Path, help="append each prediction as a line of JSON")
    scores = asyncio.run(measure(parser.parse_args()))
    print("| dataset | world | n | exact | similarity | errors agree | s a step |")
    print("|---|---|---|---|---|---|---|")
    for dataset in next(iter(scores.values())):
        for world, by_dataset in scores.items():
            score = by_dataset[dataset]
            agree = "-" if score.error_agreement is None else f"{score.error_agreement:.2f}"
            print(
                f"| {dataset} | {world} | {score.n} | {score.exact:.2f} | {score.similarity:.2f} "
                f"| {agree} | {score.seconds_per_step:.1f} |"
            )
    if {"bare", "known"} <= scores.keys():
        for dataset, bare in scores["bare"].items():
            known = scores["known"][dataset]
            print(
                f"{dataset}: known / bare = {known.exact / max(bare.exact, 1e-9):.2f} exact, "
                f"{known.similarity / max(bare.similarity, 1e-9):.2f} similarity"
            )


if __name__ == "__main__":
    main()
