"""The header of a GGUF file: enough to refuse a wrong or cut file before llama.cpp sees it.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import BinaryIO

from lwm_agents.errors import Misuse

# Kind of a metadata value -> struct code; 8 is a text, 9 an array.
_SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
_TEXT, _ARRAY = 8, 9

# Kind of a tensor -> (elements in a block, bytes of a block), for the kinds met in published files.
_BLOCKS = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34),
    10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 30: (1, 2),
}  # fmt: skip


@dataclass(frozen=True)
class Header:
    """What a GGUF file says of itself. `size` is the bytes the file must have at least."""

    architecture: str
    name: str
    trained_context: int | None
    size: int


class _Cut(Exception):
    """The file ends inside its header, or says something no header can say."""


def read_header(path: Path) -> Header:
    """Return the header of a GGUF file.

    Raises Misuse where the path is no readable file, no GGUF of version 2 or 3, or cut short.
    """
    if not path.is_file():
        raise Misuse(f"no model file at {path}; `lwm model list` shows those you have")
    try:
        with path.open("rb") as file:
            magic = file.read(4)
            if magic != b"GGUF":
                raise Misuse(f"{path} is no GGUF file (it begins with {magic!r})")
            actual = path.stat().st_size
            header = _Reader(file, actual).header()
    except _Cut:
        raise Misuse(f"{path} is cut short or damaged inside its header; pull it again") from None
    except OSError as error:
        raise Misuse(f"can't read {path}: {error.strerror}") from None
    if actual < header.size:
        raise Misuse(
            f"{path} is cut short: {actual:,} of at least {header.size:,} bytes; pull it again"
        )
    return header


class _Reader:
    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._size = size

    def header(self) -> Header:
        version, tensors, entries = self._unpack("IQQ")
        if version not in (2, 3):
            raise _Cut
        said: dict[str, object] = {}
        for _ in range(entries):
            key = self._text()
            said[key] = self._value(self._unpack("I")[0])
        ends = [self._tensor_end() for _ in range(tensors)]
        align = said.get("general.alignment", 32)
        if not isinstance(align, int) or align < 1:
            raise _Cut
        start = -(-self._file.tell() // align) * align
        kind = str(said.get("general.architecture", "unknown"))
        trained = said.get(f"{kind}.context_length")
        return Header(
            architecture=kind,
            name=str(said.get("general.name", "")),
            trained_context=trained if isinstance(trained, int) else None,
            size=start + max(ends, default=0),
        )

    def _tensor_end(self) -> int:
        self._text()
        (dimensions,) = self._unpack("I")
        if dimensions > 8:
            raise _Cut
        shape = self._unpack("Q" * dimensions)
        kind, offset = self._unpack("IQ")
        elements, size = _BLOCKS.get(kind, (1, 0))
        return int(offset) + prod(shape) // elements * size

    def _value(self, kind: int) -> object:
        if kind == _TEXT:
            return self._text()
        if kind in _SCALARS:
            return self._unpack(_SCALARS[kind])[0]
        if kind != _ARRAY:
            raise _Cut
        inner, count = self._unpack("IQ")
        if inner in _SCALARS:
            self._skip(count * struct.calcsize(_SCALARS[inner]))
            return None
        skip: Callable[[], object] = self._skip_text if inner == _TEXT else self._nested
        for _ in range(count):
            skip()
        return None

    def _nested(self) -> object:
        raise _Cut  # arrays of arrays exist on paper only

    def _text(self) -> str:
        (length,) = self._unpack("Q")
        return self._read(length).decode("utf-8", "replace")

    def _skip_text(self) -> None:
        self._skip(self._unpack("Q")[0])

    def _unpack(self, code: str) -> tuple[int, ...]:
        return struct.unpack("<" + code, self._read(struct.calcsize("<" + code)))

    def _skip(self, length: int) -> None:
        if self._file.tell() + length > self._size:
            raise _Cut
        self._file.seek(length, 1)

    def _read(self, length: int) -> bytes:
        if length > self._size:
            raise _Cut
        found = self._file.read(length)
        if len(found) < length:
            raise _Cut
        return found
