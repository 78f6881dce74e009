"""`lwm diff|commit|discard|undo`: what becomes of the changes that a dry run made in its copy."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

import typer
from rich.text import Text

from lwm_agents.changes.change import Changes
from lwm_agents.cli import output
from lwm_agents.cli.log import SessionArgument
from lwm_agents.cli.options import JsonOption, StoreOption, open_store
from lwm_agents.cli.plans import AllowedEffect, approver_of
from lwm_agents.committing import Commit, said_of
from lwm_agents.errors import Misuse
from lwm_agents.gate.approvals import ApprovalRequest, Approver, YesApprover
from lwm_agents.rehearsed import Rehearsed

_STYLES = {"+": "#009E73", "-": "#D55E00", "@": "dim"}


def diff(
    session: SessionArgument,
    stat: Annotated[bool, typer.Option("--stat", help="Only the summary.")] = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Show what a dry run would change: files, modes, links, rows."""
    with open_store(store) as log:
        record = log.session(session)
        with output.waiting("looking at what changed"):
            rehearsed = Rehearsed.of(log, record.id)
            changes, unsaid = rehearsed.diff(), rehearsed.unsaid()
    if json:
        document = {**changes.model_dump(mode="json"), "summary": changes.summary, "unsaid": unsaid}
        output.print_json({"session": record.id, **document})
        return
    if unsaid:
        output.out.print(Text(output.printable(said_of(unsaid)), style="#D55E00"), soft_wrap=True)
    print_changes(changes, stat=stat)


def commit(
    session: SessionArgument,
    elsewhere: Annotated[
        list[str] | None,
        typer.Option(help="A path outside the root, or a folder, to commit too."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Approve writes unasked.")] = False,
    allow: Annotated[
        list[AllowedEffect] | None,
        typer.Option(help="With --yes, approve this effect too: destroy, unknown."),
    ] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Make a dry run's changes REAL, after showing them and asking."""
    with open_store(store) as log:
        record = log.session(session)
        rehearsed = Rehearsed.of(log, record.id)
        with output.waiting("looking at what changed"):
            changes = rehearsed.diff()
        if not changes.inside and not elsewhere:
            raise Misuse(f"nothing to commit in {record.id}: {changes.summary}")
        work = Commit(log, record.id, rehearsed, changes, elsewhere=elsewhere or ())
        approver = approver_of(yes, allow or [])
        _check_askable(approver, work.request)
        paths = asyncio.run(work.perform(approver))
    if json:
        summary = work.chosen.summary
        output.print_json({"session": record.id, "committed": paths, "summary": summary})
    else:
        output.out.print(f"committed: {work.chosen.summary}", soft_wrap=True)
        output.out.print(f"take it back: lwm undo {record.id}", soft_wrap=True)


def _check_askable(approver: Approver, request: ApprovalRequest) -> None:
    """Say beforehand what is missing where nobody can be asked. Raises Misuse."""
    if isinstance(approver, YesApprover):
        if not request.effects <= approver.allowed_effects:
            missing = sorted(request.effects - approver.allowed_effects)
            needed = " ".join(f"--allow {effect}" for effect in missing)
            why = {"destroy": "it deletes", "unknown": "a command was not rehearsed to its end"}
            reasons = ", and ".join(why.get(effect, effect) for effect in missing)
            raise Misuse(f"{reasons} (see `lwm diff`): --yes needs {needed} beside it")
    elif not sys.stdin.isatty():
        raise Misuse("nobody can be asked here: look at it with `lwm diff`, then give --yes")


def discard(session: SessionArgument, store: StoreOption = None, json: JsonOption = False) -> None:
    """Throw away what a dry run changed in its copy; its log stays."""
    with open_store(store) as log:
        record = log.session(session)
        Rehearsed.of(log, record.id).discard()
    if json:
        output.print_json({"session": record.id, "discarded": True})
    else:
        output.out.print(f"discarded what {record.id} would have changed")


def undo(session: SessionArgument, store: StoreOption = None, json: JsonOption = False) -> None:
    """Take a commit back: give every path what it was before. Ends one that a crash cut short."""
    with open_store(store) as log:
        record = log.session(session)
        rehearsed = Rehearsed.of(log, record.id)
        ended = rehearsed.recover()
        paths = [] if ended == "undone" else rehearsed.undo()
    if json:
        output.print_json({"session": record.id, "undone": paths, "recovered": ended})
    elif ended == "undone":
        output.out.print("a commit that was cut short has been taken back")
    else:
        output.out.print(f"undone: {len(paths)} paths are what they were before the commit")


def print_changes(changes: Changes, *, stat: bool = False) -> None:
    """Print changes as a coloured diff with the summary last."""
    if not stat and (changes.inside or changes.elsewhere):
        for line in changes.render().removesuffix(changes.summary + "\n").splitlines():
            style = _STYLES.get(line[:1], "bold" if line.startswith("diff ") else "")
            output.out.print(Text(output.printable(line), style=style), soft_wrap=True)
    output.out.print(Text(changes.summary, style="bold"), soft_wrap=True)
