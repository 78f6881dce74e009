"""Reading the header of GGUF files: sound, cut, damaged and none at all."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from gguf_files import gguf

from lwm_agents.engines.gguf import read_header
from lwm_agents.errors import Misuse


def write(folder: Path, content: bytes) -> Path:
    path = folder / "model.gguf"
    path.write_bytes(content)
    return path


def test_a_sound_file(tmp_path: Path) -> None:
    content = gguf(context=4096)
    header = read_header(write(tmp_path, content))
    assert (header.architecture, header.trained_context) == ("llama", 4096)
    assert header.size == len(content)


def test_every_way_to_cut_it_is_noticed(tmp_path: Path) -> None:
    content = gguf()
    for length in range(len(content)):
        with pytest.raises(Misuse, match=r"cut short|no GGUF file"):
            read_header(write(tmp_path, content[:length]))


def test_a_quantised_tensor_counts_its_blocks(tmp_path: Path) -> None:
    assert read_header(write(tmp_path, gguf(kind=8, data=68))).size == len(gguf(kind=8, data=68))
    with pytest.raises(Misuse, match=r"cut short: .* of at least"):
        read_header(write(tmp_path, gguf(kind=8, data=67)))


@pytest.mark.parametrize("content", [b"", b"GGU", b"PK\x03\x04zip", b"<html>", b"FUGG" + bytes(64)])
def test_what_is_no_gguf(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(Misuse, match="no GGUF file"):
        read_header(write(tmp_path, content))


def test_what_is_no_file(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.gguf", tmp_path):
        with pytest.raises(Misuse, match="no model file at"):
            read_header(path)


@pytest.mark.parametrize("version", [0, 1, 4, 2**31])
def test_versions_nobody_writes(tmp_path: Path, version: int) -> None:
    with pytest.raises(Misuse, match="damaged"):
        read_header(write(tmp_path, gguf(version=version)))


def test_damage_is_an_error_of_ours_or_goes_unnoticed(tmp_path: Path) -> None:
    sound, draw, noticed = gguf(), random.Random(7), 0
    for _ in range(2000):
        content = bytearray(sound)
        for _ in range(draw.randint(1, 4)):
            content[draw.randrange(len(content))] = draw.randrange(256)
        try:
            read_header(write(tmp_path, bytes(content)))
        except Misuse:
            noticed += 1
    assert noticed > 500
