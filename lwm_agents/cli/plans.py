"""`lwm dry-run` and `lwm run`: perform a plan in a mode."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.status import Status
from rich.text import Text

from lwm_agents.cli import output
from lwm_agents.cli.documents import step_document
from lwm_agents.cli.options import EngineOption, JsonOption, PromptsOption, SeedOption, StoreOption
from lwm_agents.errors import LwmError, Misuse
from lwm_agents.gate.approvals import (
    Approval,
    ApprovalRequest,
    Approver,
    NoApprover,
    YesApprover,
)
from lwm_agents.gate.terminal import TerminalApprover
from lwm_agents.plans import Plan, load_plan
from lwm_agents.session import Session
from lwm_agents.shadow import NO_ENGINE, lacks_engine
from lwm_agents.values import Mode

PlanArgument = Annotated[Path, typer.Argument(help="The plan, a JSON file.", show_default=False)]
RootOption = Annotated[Path | None, typer.Option(help="Where the tools act; else the plan says.")]
PolicyOption = Annotated[Path | None, typer.Option(help="A policy file of yours (TOML).")]


class AllowedEffect(StrEnum):
    """What `--allow` can name."""

    destroy = "destroy"
    external = "external"
    unknown = "unknown"


RehearsalOption = Annotated[
    bool | None,
    typer.Option(
        "--rehearsal/--no-rehearsal",
        help="Predict files, shell and SQLite by running them in a throw-away copy. The default, "
        "but in compare, where the real call waits for it.",
        show_default=False,
    ),
]


def dry_run(
    plan: PlanArgument,
    root: RootOption = None,
    engine: EngineOption = None,
    policy: PolicyOption = None,
    rehearsal: RehearsalOption = True,
    prompts: PromptsOption = None,
    seed: SeedOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Predict every step of a plan: nothing real happens."""
    done = perform(
        load_plan(plan, root=root),
        "dry-run",
        engine=engine,
        rehearsal=rehearsal,
        policy=policy,
        prompts=prompts,
        seed=seed,
        store=store,
        quiet=json,
        keep_going=True,
    )
    finish(done, json)


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
    rehearsal: RehearsalOption = None,
    prompts: PromptsOption = None,
    seed: SeedOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Run a plan for real, with every step predicted, asked for, or compared."""
    done = perform(
        load_plan(plan, root=root),
        mode,
        engine=engine,
        rehearsal=rehearsal,
        policy=policy,
        approver=approver_of(yes, allow or []),
        prompts=prompts,
        seed=seed,
        store=store,
        quiet=json,
        keep_going=keep_going,
    )
    finish(done, json)


def approver_of(yes: bool, allow: Sequence[AllowedEffect]) -> Approver:
    """Return who says yes: --yes to what it may, else whoever sits at the terminal."""
    if allow and not yes:
        raise Misuse("--allow widens --yes: give both, or neither to be asked at the terminal")
    if yes:
        return YesApprover({"read", "write", *(effect.value for effect in allow)})
    return TerminalApprover(output.errors)


class Pausing:
    """Stops the spinner while somebody is asked, or it would draw over the question."""

    def __init__(self, approver: Approver) -> None:
        self._approver = approver
        self.status: Status | None = None

    async def decide(self, request: ApprovalRequest) -> Approval | None:
        """Ask with the spinner stopped."""
        if self.status is not None:
            self.status.stop()
        try:
            return await self._approver.decide(request)
        finally:
            if self.status is not None:
                self.status.start()


@dataclass
class Performance:
    """How far a plan has come, and how it ended."""

    mode: Mode
    session: str = ""
    steps: list[dict[str, Any]] = field(default_factory=list)
    error: str | None = None
    exit_code: int = 0

    def document(self) -> dict[str, Any]:
        """Return the JSON document of `lwm dry-run` and `lwm run`."""
        return {
            "session": self.session,
            "mode": self.mode,
            "steps": self.steps,
            "unanswered": sum(step["source"] == "unanswered" for step in self.steps),
            "error": self.error,
        }


def finish(done: Performance, json: bool) -> None:
    """Print how a plan ended and leave with its exit code."""
    if json:
        output.print_json(done.document())
    elif done.session:
        output.out.print(f"\nlogged: lwm show {done.session}", soft_wrap=True)
    if not json and any(lacks_engine(step["observation"]) for step in done.steps):
        output.out.print("\n" + NO_ENGINE, soft_wrap=True)
    if done.error is not None:
        output.fail(LwmError(done.error))
    if done.exit_code:
        raise typer.Exit(done.exit_code)


def perform(
    plan: Plan, mode: Mode, *, quiet: bool = False, keep_going: bool = True, **options: Any
) -> Performance:
    """Answer every step of a plan in a session, and print them unless quiet.

    What ends it early, Ctrl-C included, is in the result, with the steps that were done.
    """
    done = Performance(mode)
    try:
        asyncio.run(_perform(plan, done, quiet, keep_going, options))
    except KeyboardInterrupt:
        number = len(done.steps) + 1
        done.error = f"stopped by Ctrl-C in step {number} of {len(plan.steps)}" + (
            "" if mode == "dry-run" else "; what that step began may have had an effect"
        )
        done.exit_code = 130
    except LwmError as failure:
        if not done.session:
            raise
        done.error = f"step {len(done.steps) + 1}: {failure}"
        done.exit_code = 2 if isinstance(failure, Misuse) else 1
    return done


async def _perform(
    plan: Plan, done: Performance, quiet: bool, keep_going: bool, options: dict[str, Any]
) -> None:
    pausing = Pausing(options.pop("approver", None) or NoApprover())
    async with Session.open(
        done.mode,
        root=plan.root,
        database=plan.database,
        task=plan.task,
        approver=pausing,
        **options,
    ) as session:
        done.session = session.id
        if not quiet:
            output.out.print(output.mode_line(done.mode))
            output.out.print(Text(f"root {plan.root}\n", style="dim"), overflow="fold")
        for number, step in enumerate(plan.steps, 1):
            words = f"step {number} of {len(plan.steps)}: {output.call_line(step, 50)}"
            with output.waiting(words) as pausing.status:
                seen = await session.step(step)
            transition = session.trajectory.transitions[-1]
            done.steps.append(step_document(number, transition))
            if not quiet:
                output.print_step(number, transition)
            # In a dry run an error is part of the answer; no answer is a failure of the dry run.
            if seen.source == "unanswered" or (seen.is_error and done.mode != "dry-run"):
                done.exit_code = 1
                if not keep_going and number < len(plan.steps):
                    if not quiet:
                        left = f"step {number} of {len(plan.steps)}; --keep-going goes on"
                        output.out.print(f"\nstopped after {left}")
                    return
