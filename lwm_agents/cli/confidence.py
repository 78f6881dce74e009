"""`lwm calibrate` and `lwm drift`: how far to trust predictions, and whether that has changed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lwm_agents.cli import output
from lwm_agents.cli.options import JsonOption, StoreOption, open_store
from lwm_agents.errors import Misuse

if TYPE_CHECKING:
    from lwm_agents.confidence import Calibrator, Drift, Pair, Reliability
    from lwm_agents.confidence.reliability import ToolReliability

_NAME = 26

PictureOption = Annotated[
    Path | None, typer.Option(help="Draw it to this .png or .svg file.", show_default=False)
]


def calibrate(
    rows: Annotated[
        list[Path] | None,
        typer.Argument(help="What `lwm fidelity --out` wrote. Default: the log's own pairs."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the calibration to this JSON file.")
    ] = None,
    engine: Annotated[
        str | None, typer.Option(help="Use this engine's pairs only, and name it in the file.")
    ] = None,
    prompts: Annotated[str, typer.Option(help="Name the prompts in the file.")] = "",
    picture: PictureOption = None,
    seed: Annotated[int, typer.Option(help="Seed of the split into trajectories.")] = 0,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Calibrate confidence on logged pairs, and test it on trajectories not used for that."""
    from lwm_agents.confidence import fit, held_out, measure, report

    pairs, named = _of_engine(_pairs(rows, store), engine)
    calibrator = fit(pairs, seed, engine=named, prompts=prompts)
    before, after = report(pairs), measure(pairs, held_out(pairs, seed))
    if out is not None:
        _save(calibrator, out)
    if picture is not None:
        from lwm_agents.confidence.pictures import draw_reliability

        draw_reliability(after, picture)
    if json:
        output.print_json(_document(calibrator, before, after, out))
    else:
        _print(calibrator, before, after)
        if out is not None:
            output.out.print(f"wrote {out}", soft_wrap=True)


def drift(
    tool: Annotated[str | None, typer.Option(help="This tool only.")] = None,
    picture: PictureOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Show each tool's fidelity over time, and warn where it has dropped."""
    from lwm_agents.confidence.trend import drift as look

    with open_store(store) as log:
        found = look(log, tool)
    if picture is not None:
        from lwm_agents.confidence.pictures import draw_drift

        draw_drift(found, picture)
    if json:
        output.print_json({"tools": [one.model_dump() for one in found]})
    elif found:
        _print_drift(found)
    else:
        which = "" if tool is None else f" by {tool!r}"
        output.out.print(f"nothing{which} was predicted and executed yet: see `lwm run --mode`")


def _pairs(rows: list[Path] | None, store: Path | None) -> list[Pair]:
    from lwm_agents.confidence import pairs_of, read_pairs

    if rows:
        return [pair for file in rows for pair in read_pairs(file)]
    with open_store(store) as log:
        return pairs_of(log)


def _of_engine(pairs: list[Pair], engine: str | None) -> tuple[list[Pair], str]:
    """Return the pairs to use and the engine's name: what signals mean hangs on the engine."""
    names = sorted({pair.engine for pair in pairs if pair.engine})
    if engine is not None:
        own = [pair for pair in pairs if pair.engine in (engine, None)]
        if pairs and not own:
            raise Misuse(f"no pair is of engine {engine!r}; there are {', '.join(names)}")
        return own, engine
    if len(names) > 1:
        raise Misuse(f"the pairs are of several engines: name one with --engine: {names}")
    return pairs, names[0] if names else ""


def _save(calibrator: Calibrator, out: Path) -> None:
    try:
        calibrator.save(out)
    except OSError as problem:
        raise Misuse(f"can't write {out}: {problem.strerror}") from problem


def _document(
    calibrator: Calibrator, before: Reliability, after: Reliability, out: Path | None
) -> dict[str, Any]:
    return {
        "engine": calibrator.engine,
        "prompts": calibrator.prompts,
        "maps": {
            "tools": {name: one.kind for name, one in calibrator.tools.items()},
            "domains": {name: one.kind for name, one in calibrator.domains.items()},
        },
        "before": before.model_dump(),
        "after": after.model_dump(),
        "out": None if out is None else str(out),
    }


def _print(calibrator: Calibrator, before: Reliability, after: Reliability) -> None:
    numbers = ("n", "right", "said", "error", "Brier", "AUROC")
    table = output.table("tool", *numbers, "by", right=numbers)
    for name, one in after.tools.items():
        table.add_row(_name(name), *_figures(one), _map_of(calibrator, name))
    table.add_row("all", *_figures(after), "")
    output.out.print(table)
    output.out.print(
        f"\ncalibration error {before.ece:.3f} before, {after.ece:.3f} after, on trajectories not\n"
        f"used to calibrate ({after.trajectories:,} in all; {after.ece_width:.3f} by bins of equal "
        f"width).\nWith as many pairs, true confidences would have {after.chance:.3f} by chance."
    )


def _figures(one: Reliability | ToolReliability) -> tuple[str, ...]:
    return (
        str(one.n),
        f"{one.right:.2f}",
        f"{one.confidence:.2f}",
        f"{one.ece:.3f}",
        f"{one.brier:.3f}",
        "–" if one.auroc is None else f"{one.auroc:.2f}",
    )


def _map_of(calibrator: Calibrator, tool: str) -> str:
    if tool in calibrator.tools:
        return calibrator.tools[tool].kind
    domain = calibrator.domain_of.get(tool, "")
    return "domain" if domain in calibrator.domains else "prior"


def _name(tool: str) -> str:
    """Return a tool's name as it fits beside the figures: those are never cut."""
    shown = output.printable(tool).replace("\n", " ")
    return shown if len(shown) <= _NAME else shown[: _NAME - 1] + "…"


def _print_drift(found: list[Drift]) -> None:
    from lwm_agents.confidence.trend import WINDOW, sparkline

    table = output.table(
        "tool", "calls", "mean", "now", "over time", right=("calls", "mean", "now")
    )
    for one in found:
        table.add_row(
            _name(one.tool),
            str(one.n),
            f"{one.mean:.2f}",
            f"{one.rolling[-1]:.2f}",
            sparkline(one.rolling),
        )
    output.out.print(table)
    output.out.print(f"now: the last {WINDOW} calls", style="dim")
    for one in found:
        if one.warned and one.since is not None and one.before is not None:
            when = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.since))
            by = f" (predicted by {one.engine})" if one.engine else ""
            output.out.print(
                f"\nwarning: {output.printable(one.tool)} dropped from {one.before:.2f} to "
                f"{one.after:.2f}{output.printable(by)}\nsince {when}, step {one.step} of session "
                f"{one.session} (p = {one.p:.2g}): its environment may have\nchanged; old examples "
                "and calibrations may mislead"
            )
