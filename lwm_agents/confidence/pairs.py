"""Logged pairs: what was known before of a prediction, and how near it came."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lwm_agents.confidence.calibrator import GUESSED, signals_of
from lwm_agents.errors import Misuse
from lwm_agents.store import Store
from lwm_agents.values import Signals, Source

RIGHT = 0.9
"""A prediction is right where its fidelity is at least this. What is exact after masking has 1."""


class Pair(BaseModel):
    """One prediction and how it turned out: a line that `lwm fidelity --out` writes.

    `id` names the trajectory within its `dataset`. `confidence` is what was said then. Fields of
    the line that calibration does not need are ignored.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    dataset: str = ""
    id: str
    step: int = 0
    tool: str
    domain: str | None = None
    source: Source = "imagined"
    confidence: float | None = Field(default=None, ge=0, le=1)
    signals: Signals = Signals()
    fidelity: float = Field(ge=0, le=1)
    engine: str | None = None
    prompts: str | None = None

    @property
    def right(self) -> bool:
        """Whether the prediction was right."""
        return self.fidelity >= RIGHT

    @property
    def trajectory(self) -> tuple[str, str]:
        """What may not be parted between calibrating and testing."""
        return self.dataset, self.id


def read_pairs(file: str | Path) -> list[Pair]:
    """Read the pairs of a JSONL file, without those that no world answered.

    A last line without its end, as a run that was killed leaves it, is left out too. Raises Misuse
    where the file can't be read or a line is no such row.
    """
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise Misuse(f"can't read {file}: {problem}") from problem
    lines = text.split("\n")[:-1]
    return _usable(_parsed(file, number, line) for number, line in enumerate(lines, 1) if line)


def pairs_of(store: Store) -> list[Pair]:
    """Return the pairs of a log: what was predicted and executed too, oldest first.

    The dataset of each is the engine that predicted it, its trajectory the session.
    """
    return _usable(
        Pair(
            dataset=one.engine or "",
            id=one.session,
            step=one.step,
            tool=one.action.tool,
            source=one.prediction.source,
            confidence=one.prediction.confidence,
            signals=one.prediction.signals or Signals(),
            fidelity=one.fidelity,
            engine=one.engine,
        )
        for one in store.compared()
        if one.prediction is not None and one.fidelity is not None
    )


def folds(pairs: Sequence[Pair], seed: int, parts: int) -> Iterator[tuple[list[int], list[int]]]:
    """Yield for each of the parts which pairs are outside it and which in it, by index.

    Whole trajectories are dealt out, shuffled by seed, so none is ever on both sides.
    """
    names = sorted({pair.trajectory for pair in pairs})
    random.Random(seed).shuffle(names)
    part_of = {name: index % parts for index, name in enumerate(names)}
    where = [part_of[pair.trajectory] for pair in pairs]
    for part in range(min(parts, len(names))):
        yield (
            [index for index, own in enumerate(where) if own != part],
            [index for index, own in enumerate(where) if own == part],
        )


def _parsed(file: str | Path, number: int, line: str) -> Pair:
    try:
        return Pair.model_validate_json(line)
    except ValidationError as problem:
        first = problem.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        said = f"{where}: {first['msg']}" if where else first["msg"]
        raise Misuse(f"{file}, line {number}: no row of `lwm fidelity --out` ({said})") from problem


def _usable(pairs: Iterable[Pair]) -> list[Pair]:
    return [
        pair.model_copy(update={"signals": signals_of(pair.signals, pair.confidence)})
        for pair in pairs
        if pair.source in GUESSED
    ]
