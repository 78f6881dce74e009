"""`lwm demo`: the whole loop on a scratch directory and database that it makes itself."""

from __future__ import annotations

import hashlib
import sqlite3
import tempfile
from pathlib import Path

import typer
from rich.text import Text

from lwm_agents.changes.change import Changes
from lwm_agents.cli import output
from lwm_agents.cli.changes import print_changes
from lwm_agents.cli.options import (
    EngineOption,
    JsonOption,
    StoreOption,
    chosen_engine,
    open_store,
)
from lwm_agents.cli.plans import Performance, perform
from lwm_agents.errors import LwmError, Misuse
from lwm_agents.plans import Plan, plan_from
from lwm_agents.rehearsed import Rehearsed
from lwm_agents.values import Json

STEPS: list[dict[str, Json]] = [
    {"tool": "list_directory", "arguments": {"path": "."}},
    {"tool": "shell", "arguments": {"command": "cat notes.txt"}},
    {"tool": "write_file", "arguments": {"path": "todo.txt", "content": "buy milk\npay rent\n"}},
    {"tool": "shell", "arguments": {"command": "wc -l todo.txt"}},
    {"tool": "sql_query", "arguments": {"query": "SELECT * FROM orders WHERE paid = 0"}},
    {"tool": "sql_execute", "arguments": {"query": "DELETE FROM orders WHERE paid = 0"}},
    {"tool": "shell", "arguments": {"command": "rm -rf build"}},
    {"tool": "list_directory", "arguments": {"path": "."}},
]


def make_scratch(folder: Path) -> Plan:
    """Fill an empty folder with a few files and a database, and return a plan for it."""
    (folder / "notes.txt").write_text("Ship on Friday.\nAsk Ada about the invoices.\n")
    (folder / "build").mkdir()
    (folder / "build" / "app.o").write_bytes(b"\x7fELF")
    database = sqlite3.connect(folder / "shop.db")
    with database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT, paid INTEGER)")
        database.executemany(
            "INSERT INTO orders (item, paid) VALUES (?, ?)",
            [("lamp", 1), ("desk", 0), ("chair", 0)],
        )
    database.close()
    document = {
        "task": "Clean up: write a to-do list, drop unpaid orders, remove the build folder.",
        "root": str(folder),
        "database": "sqlite:///shop.db",
        "steps": STEPS,
    }
    return plan_from(document, base=folder)


def state_of(folder: Path) -> str:
    """Return a digest of every name and byte under a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        digest.update(str(path.relative_to(folder)).encode() + b"\0")
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()


def demo(engine: EngineOption = None, store: StoreOption = None, json: JsonOption = False) -> None:
    """Dry-run a plan on a scratch folder, show what it would change, then execute and compare."""
    engine = chosen_engine(engine)
    with tempfile.TemporaryDirectory(prefix="lwm-demo-") as name:
        folder = Path(name).resolve()
        plan = make_scratch(folder)
        before = state_of(folder)
        _say("1. A dry run: what would this plan do?\n", json)
        dry = perform(plan, "dry-run", engine=engine, store=store, quiet=json)
        unchanged = state_of(folder) == before
        words = "nothing changed" if unchanged else "SOMETHING CHANGED: please report this"
        _say(f"\nThe scratch folder and its database were watched: {words}.", json)
        _say("\n2. What it would change (lwm diff):\n", json)
        changes = _changes(store, dry)
        if changes is not None and not json:
            print_changes(changes)
        # With a model, what is compared is what the model alone foresees.
        by = "a rehearsal" if engine is None else "what the language model alone foresees"
        _say(f"\n3. The same plan, executed and compared with {by}:\n", json)
        real = perform(
            plan, "compare", engine=engine, store=store, quiet=json, rehearsal=engine is None
        )
        if json:
            documents = {"dry-run": dry.document(), "compare": real.document()}
            found = None if changes is None else changes.model_dump(mode="json")
            output.print_json({"unchanged": unchanged, "changes": found, **documents})
        else:
            scores = [s["fidelity"] for s in real.steps if s["fidelity"] is not None]
            if scores:
                mean = sum(scores) / len(scores)
                output.out.print(f"\nMean fidelity of {len(scores)} steps: {mean:.2f}")
            words = f"Every step is in the log: lwm show {dry.session} · lwm show {real.session}"
            output.out.print("\n" + words, soft_wrap=True)
        for done in (dry, real):
            if done.error is not None:
                output.fail(LwmError(done.error))
                raise typer.Exit(done.exit_code)


def _changes(store: Path | None, dry: Performance) -> Changes | None:
    """Return what the dry run would change, and throw it away: its folder is about to go."""
    with open_store(store) as log:
        try:
            rehearsed = Rehearsed.of(log, dry.session)
        except Misuse:  # nothing was rehearsed
            return None
        changes = rehearsed.diff()
        rehearsed.discard()
        return changes


def _say(text: str, json: bool) -> None:
    if not json:
        style = "bold" if text.strip()[:1].isdigit() else ""
        output.out.print(Text(text, style=style))
