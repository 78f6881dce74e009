"""`lwm sessions|show|search|import|export`: what the log holds."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.prompt import Confirm
from rich.text import Text

from lwm_agents.cli import output
from lwm_agents.cli.documents import step_document
from lwm_agents.cli.options import JsonOption, StoreOption, open_store
from lwm_agents.errors import Misuse
from lwm_agents.interchange import BrokenLine, read_trajectories, write_trajectories
from lwm_agents.rehearsed import discard_if_any
from lwm_agents.store import SessionSummary, StartedRecord
from lwm_agents.values import Trajectory

sessions = typer.Typer(help="List the sessions of the log, newest first.")
SessionArgument = Annotated[str, typer.Argument(help="A session's id, or the start of it.")]


@sessions.callback(invoke_without_command=True)
def list_(
    context: typer.Context,
    limit: Annotated[int, typer.Option(min=1, help="How many.")] = 20,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """List the sessions of the log, newest first."""
    if context.invoked_subcommand is not None:
        return
    with open_store(store) as log:
        found = log.sessions(limit=limit)
        in_doubt = log.in_doubt()
    if json:
        documents = [{**s.record.model_dump(), "transitions": s.transitions} for s in found]
        output.print_json({"sessions": documents, "in_doubt": [r.model_dump() for r in in_doubt]})
        return
    if not found:
        output.out.print("the log is empty: `lwm demo` or `lwm dry-run PLAN.json` begins it")
        return
    table = output.table(
        "session", "began", "mode", "steps", "task or root", right=("steps",), fold=("session",)
    )
    for session in found:
        table.add_row(*_session_row(session))
    output.out.print(table)
    _print_in_doubt(in_doubt)


def _session_row(session: SessionSummary) -> tuple[str, ...]:
    record = session.record
    began = time.strftime("%Y-%m-%d %H:%M", time.localtime(record.created_at))
    what = record.mode or record.dataset or record.kind
    about = output.printable(record.task or record.root or "").replace("\n", " ")
    return record.id, began, what, f"{session.transitions:,}", about


def _print_in_doubt(in_doubt: list[StartedRecord]) -> None:
    for started in in_doubt:
        output.out.print(
            Text.assemble(
                ("\nin doubt: ", "bold #D55E00"),
                f"{started.session} step {started.step}: {started.tool} was started and has not "
                "finished. If nothing is running it now, it may have run: look before you run it "
                "again.",
            )
        )


@sessions.command("delete")
def delete(
    session: Annotated[list[str], typer.Argument(help="Ids, or the start of them.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Delete whole sessions from the log; only a tombstone says that they were there."""
    with open_store(store) as log:
        ids = [log.session(name).id for name in session]
        if not yes:
            if not sys.stdin.isatty():
                raise Misuse("--yes is needed where nobody can be asked")
            question = f"Delete {', '.join(ids)} for good?"
            if not Confirm.ask(question, console=output.errors, default=False):
                raise typer.Exit(1)
        with output.waiting("rewriting the log without them"):
            for name in ids:
                discard_if_any(log, name)
            tombstones = log.delete(*ids)
    if json:
        output.print_json({"deleted": [tombstone.model_dump() for tombstone in tombstones]})
    else:
        for tombstone in tombstones:
            output.out.print(f"deleted {tombstone.session}, {tombstone.transitions:,} transitions")


def show(session: SessionArgument, store: StoreOption = None, json: JsonOption = False) -> None:
    """Show a session: every step with its source, what came back, and how near it was."""
    with open_store(store) as log:
        record = log.session(session)
        trajectory = log.trajectory(record.id)
        in_doubt = log.in_doubt(record.id)
    if json:
        output.print_json(
            {
                "session": record.id,
                "mode": record.mode,
                "record": record.model_dump(),
                "steps": [step_document(t.step, t) for t in trajectory.transitions],
                "unanswered": sum(
                    t.observation.source == "unanswered" for t in trajectory.transitions
                ),
                "in_doubt": [started.model_dump() for started in in_doubt],
            }
        )
        return
    heading = output.mode_line(record.mode) if record.mode else Text(record.dataset or "imported")
    output.out.print(Text(f"{record.id}  ").append_text(heading))
    for name in ("task", "root", "database", "engine"):
        if value := getattr(record, name):
            output.out.print(Text(f"{name} {output.printable(value)}", style="dim"))
    output.out.print()
    for transition in trajectory.transitions:
        output.print_step(transition.step, transition)
    _print_in_doubt(in_doubt)


def search(
    text: Annotated[str, typer.Argument(help="Words to look for in actions and observations.")],
    limit: Annotated[int, typer.Option(min=1, help="How many.")] = 20,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Find steps by the words of their action or observation."""
    with open_store(store) as log:
        hits = log.search(text, limit=limit)
    if json:
        output.print_json({"hits": [hit.model_dump() for hit in hits]})
        return
    if not hits:
        output.out.print("nothing found")
        return
    table = output.table("session", "step", "tool", "source", "text", right=("step",))
    for hit in hits:
        snippet = output.printable(hit.snippet).replace("\n", " ")
        table.add_row(hit.session, str(hit.step), hit.tool, output.mark(hit.source), snippet)
    output.out.print(table)


def import_(
    files: Annotated[list[Path], typer.Argument(help="Recorded trajectories.")],
    format_: Annotated[
        str, typer.Option("--format", "-f", help="Their format: plain (JSON lines).")
    ] = "plain",
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Import recorded trajectories into the log; broken lines are counted and named."""
    if format_ != "plain":
        raise Misuse(f"--format {format_}: the formats are: plain")
    broken: list[BrokenLine] = []

    def whole() -> Iterator[Trajectory]:
        for file in files:
            for item in read_trajectories(file):
                if isinstance(item, BrokenLine):
                    broken.append(item)
                    output.broken(item, len(broken))
                else:
                    yield item

    with open_store(store, make=True) as log, output.waiting("importing"):
        done = log.import_trajectories(whole())
    if json:
        output.print_json({**done.model_dump(), "broken_lines": [str(line) for line in broken]})
    else:
        output.out.print(
            f"imported {done.sessions:,} trajectories, {done.transitions:,} transitions; "
            f"{done.skipped:,} were there before; {len(broken):,} broken lines"
        )
    if broken:
        raise typer.Exit(1)


def export(
    file: Annotated[Path | None, typer.Argument(help="Where to (.jsonl, .jsonl.gz).")] = None,
    session: Annotated[
        list[str] | None, typer.Option(help="Only this session; may be given again.")
    ] = None,
    store: StoreOption = None,
) -> None:
    """Export the log as trajectories in the plain format, to a file or to stdout."""
    with open_store(store) as log:
        count = write_trajectories(
            file or sys.stdout.buffer, log.export(*dict.fromkeys(session or ()))
        )
    output.errors.print(f"exported {count:,} trajectories")
