"""`lwm doctor`: what works on this machine, what does not, and how to put it right."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import typer

from lwm_agents.cli import output
from lwm_agents.cli.options import (
    EngineOption,
    JsonOption,
    StoreOption,
    chosen_engine,
    open_store,
)
from lwm_agents.errors import LwmError

State = Literal["ok", "missing", "broken"]
"""ok: works. missing: not there, and something is less useful for it. broken: to be put right."""

SIGNS: dict[State, str] = {"ok": "✓ ok", "missing": "– missing", "broken": "✗ broken"}
EXTRAS = {"langchain": "graphs", "sklearn": "calibration"}


@dataclass(frozen=True)
class Finding:
    """One thing looked at; `fix` is what to do about it."""

    what: str
    state: State
    said: str
    fix: str = ""


def doctor(
    engine: EngineOption = None, store: StoreOption = None, json: JsonOption = False
) -> None:
    """Check this machine: config, log, engine, shell, extras; with the fix for what is wrong."""
    findings = list(examine(engine, store))
    if json:
        output.print_json({"findings": [asdict(finding) for finding in findings]})
    else:
        table = output.table("", "what", "found", fold=("found",))
        for finding in findings:
            said = finding.said + (f"\n→ {finding.fix}" if finding.fix else "")
            table.add_row(SIGNS[finding.state], finding.what, output.printable(said))
        output.out.print(table)
    if any(finding.state == "broken" for finding in findings):
        raise typer.Exit(1)


def examine(engine: str | None, store: Path | None) -> Iterator[Finding]:
    """Look at one thing after another."""
    yield Finding("python", "ok", f"{platform.python_version()} on {sys.platform}")
    yield Finding("sqlite", "ok", sqlite3.sqlite_version)
    yield _guarded("config", _config, "correct the file it names")
    yield _guarded("log", lambda: _log(store), "name another log with --store or LWM_STORE")
    yield _guarded("engine", lambda: _engine(engine), "")
    bash = shutil.which("bash")
    if bash is None:
        yield Finding("bash", "missing", "the shell tool can't run", "install Bash")
    else:
        yield Finding("bash", "ok", bash)
    yield _guarded("rehearsal", lambda: _rehearsal(store), "")
    for module, extra in EXTRAS.items():
        if importlib.util.find_spec(module) is None:
            fix = f"pip install 'lwm-agents[{extra}]'"
            yield Finding(f"extra {extra}", "missing", f"{module} is not installed", fix)
        else:
            yield Finding(f"extra {extra}", "ok", f"{module} is installed")


def _guarded(what: str, look: Callable[[], Finding], fix: str) -> Finding:
    try:
        return look()
    except LwmError as problem:
        return Finding(what, "broken", str(problem), fix)


def _config() -> Finding:
    from lwm_agents.config import config_path, load_config

    load_config(Path.cwd(), os.environ)
    path = config_path(os.environ)
    return Finding("config", "ok", str(path) if path.exists() else f"none (would be {path})")


def _log(store: Path | None) -> Finding:
    with open_store(store, make=True) as log:
        return Finding("log", "ok", f"{log.path}, {log.count():,} transitions")


def _rehearsal(store: Path | None) -> Finding:
    from lwm_agents.places.advice import advice
    from lwm_agents.places.copies import why_no_namespaces
    from lwm_agents.rehearsed import session_folder

    with open_store(store, make=True) as log:
        folder = session_folder(log, "doctor").parent
    folder.mkdir(mode=0o700, exist_ok=True)
    reason = why_no_namespaces(folder)
    if reason is None:
        return Finding("rehearsal", "ok", "files, shell and SQLite run in a throw-away copy")
    said = f"files and SQLite only; commands can't be rehearsed: {reason}"
    return Finding("rehearsal", "missing", said, "; or ".join(advice(folder)))


def _engine(engine: str | None) -> Finding:
    import asyncio

    from lwm_agents.engines import engine_from
    from lwm_agents.values import Message, Sampling

    chosen = chosen_engine(engine)
    if chosen is None:
        fix = "lwm model pull Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF, then --engine or LWM_ENGINE"
        return Finding(
            "engine", "missing", "none is set: what can't be rehearsed is unanswered", fix
        )

    async def ask() -> str:
        made = engine_from(chosen)
        try:
            hello = [Message(role="user", content="Say ok.")]
            await made.complete(hello, sampling=Sampling(max_tokens=4))
            return f"{made.name} answers, {made.context:,} tokens of context"
        finally:
            await made.close()

    with output.waiting("asking the engine"):
        return Finding("engine", "ok", asyncio.run(ask()))
