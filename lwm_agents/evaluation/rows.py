"""One line of JSON for each predicted step: what `lwm fidelity --out` writes and goes on from."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from pydantic import ValidationError

from lwm_agents.errors import Misuse
from lwm_agents.values import Signals, Source, Value


class Row(Value):
    """One prediction, what happened, and how near it came.

    `id` names the trajectory in its `dataset`, `step` counts from 1. `predicted` is None where
    nothing was said; `fidelity`, `exact`, `similarity` and `error_agreement` are those of
    `lwm_agents.scores`. `seconds` is how long the world took. `world` and `engine` say what
    predicted.
    """

    dataset: str
    id: str
    step: int
    tool: str
    domain: str | None = None
    predicted: str | None
    happened: str
    source: Source
    confidence: float | None
    signals: Signals = Signals()
    fidelity: float
    exact: bool
    similarity: float
    error_agreement: bool | None
    seconds: float
    world: str = ""
    engine: str | None = None

    @property
    def key(self) -> tuple[str, str, int]:
        """What no two steps of an evaluation share."""
        return self.dataset, self.id, self.step


class RowFile:
    """A file of rows, each written out as it comes, so that a run that was killed can go on."""

    def __init__(self, path: str | Path, *, resume: bool) -> None:
        """Open it for writing: empty, or after the rows that it holds where it resumes.

        A last line that was cut off is thrown away. Raises Misuse where the file can't be opened
        or holds anything else.
        """
        self.path = Path(path)
        try:
            kept = b"".join(_whole_lines(self.path)) if resume and self.path.exists() else b""
            self.rows = tuple(_rows(kept, self.path))
            self._file: IO[bytes] = open(self.path, "r+b" if kept else "wb")  # noqa: SIM115
            self._file.truncate(len(kept))
            self._file.seek(len(kept))
        except OSError as problem:
            raise Misuse(f"can't write {self.path}: {problem.strerror}") from problem

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def append(self, row: Row) -> None:
        """Write a row, all of it, before the next step is predicted."""
        self._file.write(row.model_dump_json(exclude_none=False).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def _whole_lines(path: Path) -> Iterator[bytes]:
    with open(path, "rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield line


def _rows(text: bytes, path: Path) -> Iterator[Row]:
    for number, line in enumerate(text.splitlines(), 1):
        try:
            yield Row.model_validate_json(line)
        except ValidationError as problem:
            first = problem.errors(include_url=False, include_input=False)[0]
            raise Misuse(
                f"{path}:{number} is no row of `lwm fidelity`: {first['loc']}: {first['msg']}"
            ) from problem
