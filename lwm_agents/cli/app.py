"""The commands and where they live."""

from __future__ import annotations

from typing import Annotated

import typer

from lwm_agents.cli import changes, confidence, demo, doctor, evaluate, log, models, plans

app = typer.Typer(
    name="lwm",
    help="Predict what an agent's tool calls would do, before they do it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"lwm-agents {version('lwm-agents')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    pass


app.command("demo")(demo.demo)
app.command("dry-run")(plans.dry_run)
app.command("run")(plans.run)
app.command("diff")(changes.diff)
app.command("commit")(changes.commit)
app.command("discard")(changes.discard)
app.command("undo")(changes.undo)
app.add_typer(log.sessions, name="sessions")
app.command("show")(log.show)
app.command("search")(log.search)
app.command("replay")(evaluate.replay)
app.command("import")(log.import_)
app.command("export")(log.export)
app.command("fidelity")(evaluate.fidelity)
app.command("calibrate")(confidence.calibrate)
app.command("drift")(confidence.drift)
app.add_typer(models.models, name="model")
app.command("doctor")(doctor.doctor)
