"""Canonical JSON of any depth, and SHA-256 digests of it.

Canonical here means: object keys sorted by code point, no blanks, ASCII only (every other
character as a \\u escape, so lone surrogates survive), numbers as Python writes them. `1` and `1.0`
differ: a digest that binds an approval must never call two calls the same.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any


def canonical(value: Any) -> str:
    """Return the canonical JSON text of a value. Raises TypeError for what JSON can't say."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest_of(value: Any) -> str:
    """Return the SHA-256 of a value's canonical JSON, in hex."""
    return hashlib.sha256(canonical(value).encode("ascii")).hexdigest()
