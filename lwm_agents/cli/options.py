"""The options that several commands share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lwm_agents.config import load_config

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


def open_store(store: Path | None) -> Store:
    """Open the log that was named, or the one of the config, or the user's."""
    from lwm_agents.store import Store

    return Store(store or load_config(Path.cwd(), os.environ).store)


def chosen_engine(engine: str | None) -> str | None:
    """Return the engine that was named, or the one of the config, or None."""
    return engine or load_config(Path.cwd(), os.environ).engine
