"""`lwm model`: get and list language models."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from lwm_agents.cli import output
from lwm_agents.cli.options import JsonOption
from lwm_agents.models import ModelFile, list_models, pull

models = typer.Typer(help="Get and list language models (GGUF files).", no_args_is_help=True)


@models.command("list")
def list_(json: JsonOption = False) -> None:
    """List the models on this machine."""
    found = list_models()
    if json:
        output.print_json({"models": [_document(model) for model in found]})
        return
    if not found:
        output.out.print("no model yet; get one, for example:")
        output.out.print("  lwm model pull Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF")
        return
    table = output.table("model", "size", "path", right=("size",), fold=("path",))
    for model in found:
        table.add_row(model.id, f"{model.size / 1e6:,.0f} MB", str(model.path))
    output.out.print(table)


@models.command("pull")
def pull_(
    model: Annotated[str, typer.Argument(help="ORG/NAME or ORG/NAME:QUANT on Hugging Face.")],
    json: JsonOption = False,
) -> None:
    """Get a model from the Hugging Face hub; an interrupted download goes on where it stopped."""
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=output.errors,
    )
    with bar:
        task = bar.add_task(model, total=None)
        got = pull(
            model, progress=lambda done, total: bar.update(task, completed=done, total=total)
        )
    if json:
        output.print_json(_document(got))
    else:
        output.out.print(f"{got.id} is at {got.path}", soft_wrap=True)
        output.out.print(f"use it with --engine {got.id}")


def _document(model: ModelFile) -> dict[str, object]:
    return {"id": model.id, "quant": model.quant, "size": model.size, "path": str(model.path)}
