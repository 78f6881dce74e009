"""How things look at the terminal: marks, tables, observations, differences, one JSON document."""

from __future__ import annotations

import difflib
import json
import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.status import Status
from rich.table import Table
from rich.text import Text

from lwm_agents.digests import readable
from lwm_agents.errors import LwmError
from lwm_agents.shadow import NEEDS_ENGINE
from lwm_agents.shorten import shorten
from lwm_agents.values import MODE_IN_WORDS, Action, Mode, Observation, Source, Transition

# Most of what is printed comes from models, tools and files: no markup or emoji code in it counts.
out = Console(highlight=False, markup=False, emoji=False)
errors = Console(stderr=True, highlight=False, markup=False, emoji=False)

# A sign and a word for each source, so that nothing hangs on colour; the colours are from the
# Okabe-Ito palette, which people with any kind of colour blindness can tell apart.
MARKS: Mapping[Source, tuple[str, str]] = {
    "executed": ("■", "#D55E00"),
    "rehearsed": ("▣", "#009E73"),
    "recalled": ("◆", "#0072B2"),
    "imagined": ("≈", "#56B4E9"),
    "unanswered": ("?", "#E69F00"),
}
SHOWN_LINES = 12
SHOWN_CHARACTERS = 2_000


def fail(error: LwmError) -> None:
    """Print an error in one place and shape."""
    text = Text.assemble(("error: ", "bold #D55E00"), printable(str(error)))
    errors.print(text, soft_wrap=True)


def printable(text: str) -> str:
    """Return the text with everything a terminal would act on, or could not show, escaped."""
    return "".join(
        c if c in "\n\t" or (c.isprintable() and not "\ud800" <= c <= "\udfff") else ascii(c)[1:-1]
        for c in text
    )


def print_json(document: Any) -> None:
    """Print one JSON document to stdout."""
    try:
        text = json.dumps(document, indent=2, allow_nan=False)
    except RecursionError:
        text = readable(document)  # any depth, on one line
    except ValueError:
        text = json.dumps(_finite(document), indent=2)
    sys.stdout.write(text + "\n")


def _finite(value: Any) -> Any:
    """Return the value with infinities and NaN as texts: JSON has no numbers for them."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return value


def mark(source: Source, confidence: float | None = None) -> Text:
    """Return the sign and the word of a source, with the confidence where there is one."""
    sign, colour = MARKS[source]
    sure = "" if confidence is None else f" {confidence:.2f}"
    return Text(f"{sign} {source}{sure}", style=colour)


def mode_line(mode: Mode) -> Text:
    """Return the mode and, in words, what it does."""
    return Text.assemble((mode, "bold"), f": {MODE_IN_WORDS[mode]}")


def call_line(action: Action, limit: int) -> str:
    """Return an action in one line: the tool, then its arguments."""
    values = action.arguments.values()
    if len(action.arguments) == 1 and isinstance(next(iter(values)), str):
        shown = str(next(iter(values)))
    else:
        shown = " ".join(f"{k}={json.dumps(v)}" for k, v in action.arguments.items())
    line = printable(f"{action.tool}  {shown}").replace("\n", "⏎").replace("\t", " ")
    return line if len(line) <= limit else line[: limit - 1] + "…"


def observation_text(observation: Observation) -> Padding:
    """Return an observation, indented and shortened to what fits a screen."""
    whole = observation.text.replace(NEEDS_ENGINE, "no language model is set")
    text = printable(shorten(whole, SHOWN_CHARACTERS)).rstrip("\n")
    lines = text.split("\n") if text else ["(no output)"]
    if len(lines) > SHOWN_LINES:
        hidden = len(lines) - SHOWN_LINES + 1
        head = lines[: SHOWN_LINES // 2]
        lines = [*head, f"… {hidden} more lines …", *lines[len(head) + hidden :]]
    style = "#D55E00" if observation.is_error else "dim" if not text else ""
    return Padding(Text("\n".join(lines), style=style), (0, 0, 0, 4), expand=False)


def print_step(step: int, transition: Transition) -> None:
    """Print one step: its call, its source and confidence, what came back, how near it was."""
    observation = transition.observation
    label = mark(observation.source, observation.confidence)
    room = max(20, out.width - len(label.plain) - 8)
    line = Text(f"{step:>3} ").append_text(label).append("  ")
    line.append(call_line(transition.action, room), style="bold")
    out.print(line, overflow="ellipsis", no_wrap=True)
    out.print(observation_text(observation))
    if transition.prediction is not None and observation.source == "executed":
        print_difference(transition.prediction, observation, transition.fidelity)


def print_difference(predicted: Observation, happened: Observation, score: float | None) -> None:
    """Print how a prediction and what happened differ, by lines."""
    label = mark(predicted.source, predicted.confidence)
    near = "" if score is None else f", fidelity {score:.2f}"
    if predicted.text.strip() == happened.text.strip():
        out.print(Text("    ").append_text(label).append(f" the same{near}"))
        return
    out.print(Text("    ").append_text(label).append(f" differed{near}  (- imagined, + happened)"))
    for line in difference(predicted.text, happened.text):
        style = "#56B4E9" if line.startswith("-") else "#D55E00" if line.startswith("+") else "dim"
        out.print(Text("    " + line, style=style), overflow="ellipsis", no_wrap=True)


def difference(predicted: str, happened: str) -> list[str]:
    """Return the lines of a short unified diff, without its header."""
    before, after = (
        printable(shorten(text, SHOWN_CHARACTERS)).splitlines() for text in (predicted, happened)
    )
    lines = [
        line
        for line in difflib.unified_diff(before, after, lineterm="", n=1)
        if not line.startswith(("---", "+++", "@@"))
    ]
    if len(lines) > 2 * SHOWN_LINES:
        lines = [*lines[: 2 * SHOWN_LINES], f" … {len(lines) - 2 * SHOWN_LINES} more lines"]
    return lines


def table(*columns: str, right: tuple[str, ...] = (), fold: tuple[str, ...] = ()) -> Table:
    """Return an empty table in our one style."""
    made = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        made.add_column(
            column,
            justify="right" if column in right else "left",
            overflow="fold" if column in fold else "ellipsis",
            no_wrap=column not in fold,
            min_width=min(24, max(len(column), 4)) if column in fold else None,
        )
    return made


@contextmanager
def waiting(words: str) -> Iterator[Status]:
    """Show a spinner on stderr while something takes longer than a moment."""
    with errors.status(Text(words), spinner="dots") as status:
        yield status


def broken(line: object, number: int) -> None:
    """Name a broken line of a file; the first ten of a run are named, the others counted."""
    if number <= 10:
        errors.print(f"skipped {line}")
    elif number == 11:
        errors.print("skipped more lines; the end says how many")
