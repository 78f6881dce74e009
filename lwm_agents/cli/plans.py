"""`lwm dry-run` and `lwm run`: perform a plan in a mode."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.text import Text

from lwm_agents.cli import output
from lwm_agents.cli.documents import step_document
from lwm_agents.cli.options import EngineOption, JsonOption, PromptsOption, SeedOption, StoreOption
from lwm_agents.errors import EngineError, LwmError, Misuse
from lwm_agents.gate.approvals import Approver, YesApprover
from lwm_agents.gate.terminal import TerminalApprover
from lwm_agents.plans import Plan, load_plan
from lwm_agents.session import Session
from lwm_agents.values import Mode

PlanArgument = Annotated[Path, typer.Argument(help="The plan, a JSON file.", show_default=False)]
RootOption = Annotated[Path | None, typer.Option(help="Where the tools act; else the plan says.")]
PolicyOption = Annotated[Path | None, typer.Option(help="A policy file of yours (TOML).")]


class AllowedEffect(StrEnum):
    """What `--allow` can name."""

    destroy = "destroy"
    external = "external"
    unknown = "unknown"


def dry_run(
    plan: PlanArgument,
    root: RootOption = None,
    engine: EngineOption = None,
    policy: PolicyOption = None,
    prompts: PromptsOption = None,
    seed: SeedOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Run a plan in a throw-away world: nothing real happens."""
    result = perform(
        load_plan(plan, root=root),
        "dry-run",
        engine=engine,
        policy=policy,
        prompts=prompts,
        seed=seed,
        store=store,
        quiet=json,
        keep_going=True,
    )
    finish(result, json)


def run(
    plan: PlanArgument,
    mode: Annotated[
        Literal["gated", "compare", "live"],
        typer.Option(
            help="gated: predict, ask, execute. compare: EXECUTE and predict. live: EXECUTE."
        ),
    ] = "gated",
    root: RootOption = None,
    engine: EngineOption = None,
    policy: PolicyOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Approve reads and writes unasked.")] = False,
    allow: Annotated[
        list[AllowedEffect] | None,
        typer.Option(help="With --yes, approve this effect too: destroy, external, unknown."),
    ] = None,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Go on after a step that failed.")
    ] = False,
    prompts: PromptsOption = None,
    seed: SeedOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Run a plan for real, with every step predicted, asked for, or compared."""
    result = perform(
        load_plan(plan, root=root),
        mode,
        engine=engine,
        policy=policy,
        approver=_approver(yes, allow or []),
        prompts=prompts,
        seed=seed,
        store=store,
        quiet=json,
        keep_going=keep_going,
    )
    finish(result, json)


def _approver(yes: bool, allow: Sequence[AllowedEffect]) -> Approver:
    if allow and not yes:
        raise Misuse("--allow widens --yes: give both, or neither to be asked at the terminal")
    if yes:
        return YesApprover({"read", "write", *(effect.value for effect in allow)})
    return TerminalApprover(output.errors)


def finish(result: dict[str, Any], json: bool) -> None:
    """Print the result of a plan and leave with its exit code."""
    if json:
        output.print_json({k: v for k, v in result.items() if k != "failed"})
    elif result["error"] is None:
        output.out.print(f"\nlogged: lwm show {result['session']}")
    if result["error"] is not None:
        output.fail(LwmError(result["error"]))
    if result["failed"]:
        raise typer.Exit(1)


def perform(
    plan: Plan, mode: Mode, *, quiet: bool = False, keep_going: bool = True, **options: Any
) -> dict[str, Any]:
    """Answer every step of a plan in a session, print them unless quiet, and return the result.

    The result is the JSON document of `lwm dry-run` and `lwm run`, with `error` (why it ended
    early, or None) and `failed` (whether to leave with exit code 1).
    """
    return asyncio.run(_perform(plan, mode, quiet, keep_going, options))


async def _perform(
    plan: Plan, mode: Mode, quiet: bool, keep_going: bool, options: dict[str, Any]
) -> dict[str, Any]:
    steps: list[dict[str, Any]] = []
    error = None
    stopped = False
    async with Session.open(
        mode, root=plan.root, database=plan.database, task=plan.task, **options
    ) as session:
        if not quiet:
            output.out.print(output.mode_line(mode))
            output.out.print(Text(f"root {plan.root}\n", style="dim"), overflow="fold")
        for number, step in enumerate(plan.steps, 1):
            try:
                with output.waiting(
                    f"step {number} of {len(plan.steps)}: {output.call_line(step, 50)}"
                ):
                    await session.step(step)
            except EngineError as failure:
                error = f"step {number}: {failure}"
                break
            transition = session.trajectory.transitions[-1]
            steps.append(step_document(number, transition))
            if not quiet:
                output.print_step(number, transition)
            if transition.observation.is_error and not keep_going:
                stopped = number < len(plan.steps)
                break
    unanswered = sum(step["source"] == "unanswered" for step in steps)
    if stopped and not quiet:
        output.out.print(
            f"\nstopped after step {len(steps)} of {len(plan.steps)}; --keep-going goes on"
        )
    failed = error is not None or stopped or unanswered > 0
    return {
        "session": session.id,
        "mode": mode,
        "steps": steps,
        "unanswered": unanswered,
        "error": error,
        "failed": failed,
    }
