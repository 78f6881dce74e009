"""The means over predicted steps, by dataset and by tool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from lwm_agents.confidence.pairs import RIGHT
from lwm_agents.confidence.reliability import auroc, brier, calibration_error, mass_bins
from lwm_agents.evaluation.rows import Row
from lwm_agents.values import Value


class ToolScore(Value):
    """Means over the `n` steps of one tool."""

    n: int
    exact: float
    similarity: float
    fidelity: float


class Calibration(Value):
    """How far the confidence of the `n` answers that had one can be trusted.

    `ece`, `brier` and `auroc` as `lwm_agents.confidence.reliability` has them; right is a fidelity
    of RIGHT at least. `auroc` is None where all were right or all wrong.
    """

    n: int
    confidence: float
    right: float
    ece: float
    brier: float
    auroc: float | None


class DatasetScore(Value):
    """Means over the `n` steps of a dataset; `unanswered` counts steps, each scoring 0.

    `error_agreement` is over the `error_known` steps whose recording says whether they failed, and
    None where none says. `seconds_per_step` is the mean time of one answer, not divided by how
    many were asked for at once. `sources` counts the steps by the source of their answer.
    """

    n: int
    exact: float
    error_agreement: float | None
    error_known: int
    similarity: float
    fidelity: float
    unanswered: int
    seconds_per_step: float
    sources: dict[str, int]
    tools: dict[str, ToolScore]
    calibration: Calibration | None


def summarise(rows: Iterable[Row]) -> dict[str, DatasetScore]:
    """Return the score of each dataset, by name, sorted."""
    by_dataset: dict[str, list[Row]] = {}
    for row in rows:
        by_dataset.setdefault(row.dataset, []).append(row)
    return {name: _score(by_dataset[name]) for name in sorted(by_dataset)}


def _score(rows: Sequence[Row]) -> DatasetScore:
    agreements = [row.error_agreement for row in rows if row.error_agreement is not None]
    by_tool: dict[str, list[Row]] = {}
    for row in rows:
        by_tool.setdefault(row.tool, []).append(row)
    return DatasetScore(
        n=len(rows),
        exact=_mean(row.exact for row in rows),
        error_agreement=_mean(agreements) if agreements else None,
        error_known=len(agreements),
        similarity=_mean(row.similarity for row in rows),
        fidelity=_mean(row.fidelity for row in rows),
        unanswered=sum(row.source == "unanswered" for row in rows),
        seconds_per_step=_mean(row.seconds for row in rows),
        sources=dict(sorted(Counter(row.source for row in rows).items())),
        tools={name: _tool(by_tool[name]) for name in sorted(by_tool)},
        calibration=_calibration(rows),
    )


def _tool(rows: Sequence[Row]) -> ToolScore:
    return ToolScore(
        n=len(rows),
        exact=_mean(row.exact for row in rows),
        similarity=_mean(row.similarity for row in rows),
        fidelity=_mean(row.fidelity for row in rows),
    )


def _calibration(rows: Sequence[Row]) -> Calibration | None:
    said = [(row.confidence, row.fidelity >= RIGHT) for row in rows if row.confidence is not None]
    if not said:
        return None
    confidences, right = [one for one, _ in said], [one for _, one in said]
    return Calibration(
        n=len(said),
        confidence=_mean(confidences),
        right=_mean(right),
        ece=calibration_error(mass_bins(confidences, right)),
        brier=brier(confidences, right),
        auroc=auroc(confidences, right),
    )


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return sum(numbers) / len(numbers)
