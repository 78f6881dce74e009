"""The options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
