"""Pictures of calibration and drift, PNG or SVG by the file's name, with matplotlib.

Colours are from the Okabe-Ito palette, which people with any kind of colour blindness can tell
apart. The ground is transparent and everything on it readable on white and on black.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lwm_agents.confidence.reliability import Bin, Reliability
from lwm_agents.confidence.trend import WINDOW, Drift
from lwm_agents.errors import Misuse

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INK = "#808080"
_FAINT = "#80808055"
_BLUE = "#0081C7"
_ORANGE = "#D55E00"


def draw_reliability(found: Reliability, file: str | Path, *, title: str = "") -> None:
    """Draw a reliability diagram: share right over confidence, and below how often each is said.

    Points are the bins of equal mass, with 95 % Wilson intervals; the dashed line is perfect.
    Raises Misuse where matplotlib is missing or the file can't be written.
    """
    figure = _figure(4.8, 5.8)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3.2, 1])
    _style(above)
    _style(below)
    above.plot([0, 1], [0, 1], color=_INK, linestyle=(0, (4, 3)), linewidth=1)
    for one in found.bins:
        low, high = wilson(one.right * one.n, one.n)
        above.plot([one.confidence] * 2, [low, high], color=_BLUE, linewidth=1.6, alpha=0.7)
    said = [one.confidence for one in found.bins]
    was = [one.right for one in found.bins]
    above.plot(said, was, color=_BLUE, marker="o", markersize=5.5, linewidth=1.6)
    above.set_xlim(-0.02, 1.02)
    above.set_ylim(-0.02, 1.02)
    above.set_ylabel("share right")
    figures = [f"calibration error {found.ece:.3f}", f"by chance {found.chance:.3f}"]
    figures += [f"Brier {found.brier:.3f}"]
    figures += [] if found.auroc is None else [f"AUROC {found.auroc:.3f}"]
    above.text(0.03, 0.97, "\n".join(figures), color=_INK, va="top", fontsize=9)
    above.set_title(title or f"{found.n:,} predictions", color=_INK, fontsize=10)
    _histogram(below, found.bins_width)
    below.set_xlabel("confidence")
    _save(figure, file)


def draw_drift(found: Sequence[Drift], file: str | Path) -> None:
    """Draw the rolling fidelity of each tool, one above the other, and where it dropped.

    Raises Misuse where there is nothing to draw, matplotlib is missing, or the file can't be
    written.
    """
    if not found:
        raise Misuse("there is no fidelity to draw: nothing was predicted and executed yet")
    figure = _figure(6.4, 0.7 + 1.5 * len(found))
    for axes, one in zip(figure.subplots(len(found), 1, squeeze=False)[:, 0], found, strict=True):
        _style(axes)
        colour = _ORANGE if one.warned else _BLUE
        numbers = range(one.n - len(one.rolling) + 1, one.n + 1)
        axes.plot(numbers, one.rolling, color=colour, linewidth=1.6)
        axes.set_ylim(-0.02, 1.02)
        name = f"{one.tool}, {one.engine}" if one.engine else one.tool
        if one.warned and one.index is not None and one.before is not None:
            at = numbers[one.index]
            axes.axvline(at, color=_INK, linestyle=(0, (4, 3)), linewidth=1)
            name += f": dropped from {one.before:.2f} to {one.after:.2f}"
        axes.set_title(name, color=_INK, fontsize=10, loc="left")
        axes.set_ylabel("fidelity")
    axes.set_xlabel(f"call (mean of the last {WINDOW})")
    _save(figure, file)


def wilson(right: float, n: int, z: float = 1.96) -> tuple[float, float]:
    """Return the interval in which a share lies, 95 % by default (Wilson 1927)."""
    share, square = right / n, z * z
    middle = (share + square / (2 * n)) / (1 + square / n)
    half = z / (1 + square / n) * (share * (1 - share) / n + square / (4 * n * n)) ** 0.5
    return middle - half, middle + half


def _histogram(axes: Axes, bins: Sequence[Bin]) -> None:
    for one in bins:
        left = min(9, int(one.low * 10)) / 10
        axes.bar(left + 0.05, one.n, width=0.09, color=_BLUE, alpha=0.75)
    axes.set_ylabel("predictions")


def _figure(width: float, height: float) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError as problem:
        raise Misuse("drawing needs matplotlib: pip install 'lwm-agents[calibration]'") from problem
    return Figure(figsize=(width, height), layout="constrained")


def _style(axes: Axes) -> None:
    axes.patch.set_alpha(0)
    axes.tick_params(colors=_INK, labelsize=8.5)
    axes.grid(color=_FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_color(_INK)
        spine.set_visible(side in ("left", "bottom"))
    axes.xaxis.label.set_color(_INK)
    axes.yaxis.label.set_color(_INK)


def _save(figure: Figure, file: str | Path) -> None:
    import matplotlib

    kind = Path(file).suffix.lower()
    if kind not in (".png", ".svg"):
        raise Misuse(f"a picture is a .png or an .svg file: {file} is neither")
    # The same picture is the same bytes.
    metadata = {"Date": None} if kind == ".svg" else {"Software": None}
    with matplotlib.rc_context({"svg.hashsalt": "lwm-agents"}):
        try:
            figure.savefig(file, transparent=True, dpi=160, metadata=metadata)
        except OSError as problem:
            raise Misuse(f"can't write {file}: {problem.strerror}") from problem
