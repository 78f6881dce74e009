"""The options that several commands share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lwm_agents.config import load_config
from lwm_agents.errors import Misuse

if TYPE_CHECKING:
    from lwm_agents.store import Store

EngineOption = Annotated[
    str | None,
    typer.Option(
        "--engine",
        "-e",
        envvar="LWM_ENGINE",
        help="A server's URL, a .gguf file, langchain:PROVIDER:MODEL, or a pulled model's id.",
        show_default=False,
    ),
]
StoreOption = Annotated[
    Path | None,
    typer.Option("--store", envvar="LWM_STORE", help="The log. Default: in your data directory."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
PromptsOption = Annotated[
    Path | None,
    typer.Option(help="A folder of Qwen-AgentWorld's prompt files, used as they are."),
]
SeedOption = Annotated[int | None, typer.Option(help="Seed of the language world.")]


def open_store(store: Path | None, *, make: bool = False) -> Store:
    """Open the log that was named, or the one of the config, or the user's.

    Raises Misuse where the one named is not there, unless it is to be made.
    """
    from lwm_agents.store import Store

    named = store or load_config(Path.cwd(), os.environ).store
    if named is not None and not make and not named.exists():
        raise Misuse(f"there is no log at {named}; `lwm dry-run` and `lwm run` make one")
    return Store(named)


def chosen_engine(engine: str | None) -> str | None:
    """Return the engine that was named, or the one of the config, or None."""
    return engine or load_config(Path.cwd(), os.environ).engine
