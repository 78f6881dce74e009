"""Small GGUF files, written byte by byte."""

from __future__ import annotations

import struct


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def gguf(*, context: int = 1024, version: int = 3, data: int = 256, kind: int = 0) -> bytes:
    """Return a GGUF file with one tensor of 64 elements; `data` bytes of it are there."""
    entries = [
        text("general.architecture") + struct.pack("<I", 8) + text("llama"),
        text("llama.context_length") + struct.pack("<II", 4, context),
        text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("bc"),
        text("tokenizer.ggml.scores") + struct.pack("<IIQff", 9, 6, 2, 0.5, 1.5),
    ]
    tensor = text("output.weight") + struct.pack("<IQQIQ", 2, 32, 2, kind, 0)
    head = b"GGUF" + struct.pack("<IQQ", version, 1, len(entries)) + b"".join(entries) + tensor
    return head + bytes(-len(head) % 32) + bytes(data)
