"""JSON of any depth, with integers of any size: two texts, their inverse, and SHA-256 digests.

Canonical here means: object keys sorted by code point, no blanks, ASCII only (every other
character as a \\u escape, so lone surrogates survive), numbers as Python writes them. `1` and `1.0`
differ: a digest that binds an approval must never call two calls the same. NaN and the infinities
are written as Python and JavaScript spell them (`NaN`, `Infinity`, `-Infinity`), outside the JSON
standard, because a log must give back what it was given.

The json module does the work. Where it gives up (nesting deeper than the interpreter's stack,
integers longer than its digit limit) the slower functions below take over.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, cast

# Without its own check json meets a cycle as a RecursionError, and the slow encoder names it.
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), check_circular=False)
_READABLE = json.JSONEncoder(ensure_ascii=False, check_circular=False)
_DECODER = json.JSONDecoder()

_read_string: Callable[[str, int], tuple[str, int]] = json.decoder.scanstring  # type: ignore[attr-defined]
"""The json module's own reader of a string, from after its opening quote."""

_INTEGER_DIGITS = 600
"""Integers up to this many digits are always within the interpreter's limit (640 at least)."""

_BLANKS = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"(-?(?:0|[1-9][0-9]*))(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_CONSTANTS: dict[str, Any] = {
    "null": None,
    "true": True,
    "false": False,
    "NaN": float("nan"),
    "Infinity": float("inf"),
    "-Infinity": float("-inf"),
}
_CONSTANT = re.compile("|".join(_CONSTANTS))


def canonical(value: Any) -> str:
    """Return the canonical JSON text of a value.

    Raises TypeError for what JSON can't say, keys that are not text included, and ValueError for a
    value that contains itself.
    """
    return _encode(value, _CANONICAL)


def readable(value: Any) -> str:
    """Return JSON text that keeps the order of keys and writes characters as they are.

    Lone surrogates stay lone surrogates. Raises as `canonical` does.
    """
    return _encode(value, _READABLE)


def parse(text: str) -> Any:
    """Return the value of a JSON text of any depth. Raises ValueError for what is not JSON."""
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError:
        raise
    except (RecursionError, ValueError):
        return _parse_deep(text)


def digest_of(value: Any) -> str:
    """Return the SHA-256 of a value's canonical JSON, in hex."""
    return hashlib.sha256(canonical(value).encode("ascii")).hexdigest()


def _encode(value: Any, encoder: json.JSONEncoder) -> str:
    try:
        text = encoder.encode(value)
    except (RecursionError, ValueError):
        return _encode_deep(value, encoder)
    if isinstance(value, dict | list | tuple):
        _refuse_other_keys(value)
    return text


def _refuse_other_keys(value: Any) -> None:
    """Raise TypeError where a key is not text: json would write 1 and "1" alike.

    Runs after json has found the value free of cycles.
    """
    pending = [value]
    while pending:
        container = pending.pop()
        if isinstance(container, dict):
            for key, child in container.items():
                if not isinstance(key, str):
                    raise TypeError(f"a JSON object's keys are text, not {type(key).__name__}")
                if isinstance(child, dict | list | tuple):
                    pending.append(child)
        else:
            for child in container:
                if isinstance(child, dict | list | tuple):
                    pending.append(child)


def _encode_deep(value: Any, encoder: json.JSONEncoder) -> str:
    pieces: list[str] = []
    frames: list[tuple[int, Iterator[Any], bool]] = []
    open_now: set[int] = set()
    current = value
    while True:
        if isinstance(current, dict | list | tuple):
            if id(current) in open_now:
                raise ValueError("Circular reference detected")
            open_now.add(id(current))
            is_object = isinstance(current, dict)
            children: Any = current
            if isinstance(current, dict):
                if not all(isinstance(key, str) for key in current):
                    raise TypeError("a JSON object's keys are text")
                children = sorted(current.items()) if encoder.sort_keys else current.items()
                # Sorting pairs never compares two values: equal keys can't be in one dict.
            pieces.append("{" if is_object else "[")
            frames.append((id(current), iter(children), is_object))
            separator = ""
        else:
            pieces.append(_scalar(current, encoder))
            separator = encoder.item_separator
        while frames:
            identity, items, is_object = frames[-1]
            try:
                item = next(items)
            except StopIteration:
                pieces.append("}" if is_object else "]")
                open_now.remove(identity)
                frames.pop()
                separator = encoder.item_separator
                continue
            pieces.append(separator)
            if is_object:
                key, current = item
                pieces.append(encoder.encode(key) + encoder.key_separator)
            else:
                current = item
            break
        else:
            return "".join(pieces)


def _scalar(value: Any, encoder: json.JSONEncoder) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"-{_decimal(-value)}" if value < 0 else _decimal(int(value))
    return encoder.encode(value)


def _decimal(number: int) -> str:
    """Return the digits of a non-negative integer of any length.

    The interpreter refuses to write long ones at once, so they are halved.
    """
    digits = number.bit_length() * 30103 // 100000
    if digits < _INTEGER_DIGITS:
        return str(number)
    half = digits // 2
    high, low = divmod(number, 10**half)
    return _decimal(high) + _decimal(low).zfill(half)


def _integer(digits: str) -> int:
    """Return the integer that a text of any number of digits names: the inverse of `_decimal`."""
    if digits.startswith("-"):
        return -_integer(digits[1:])
    if len(digits) < _INTEGER_DIGITS:
        return int(digits)
    half = len(digits) // 2
    shift = cast(int, 10 ** (len(digits) - half))
    return _integer(digits[:half]) * shift + _integer(digits[half:])


def _parse_deep(text: str) -> Any:
    """Parse without recursion. `frames` holds the containers that are open, outermost first."""
    frames: list[tuple[Any, str]] = []
    position = _skip(text, 0)
    while True:
        opening = text[position : position + 1]
        if opening in ("[", "{"):
            container: Any = [] if opening == "[" else {}
            position = _skip(text, position + 1)
            if text[position : position + 1] == ("]" if opening == "[" else "}"):
                value, position = container, position + 1
            else:
                key, position = ("", position) if opening == "[" else _key(text, position)
                frames.append((container, key))
                continue
        else:
            value, position = _parse_scalar(text, position)
        while frames:
            container, key = frames[-1]
            if isinstance(container, list):
                container.append(value)
            else:
                container[key] = value
            position = _skip(text, position)
            after = text[position : position + 1]
            if after == ",":
                position = _skip(text, position + 1)
                if isinstance(container, dict):
                    key, position = _key(text, position)
                    frames[-1] = (container, key)
                break
            if after != ("]" if isinstance(container, list) else "}"):
                raise json.JSONDecodeError("Expecting ',' delimiter", text, position)
            value, position = container, position + 1
            frames.pop()
        else:
            position = _skip(text, position)
            if position != len(text):
                raise json.JSONDecodeError("Extra data", text, position)
            return value


def _skip(text: str, position: int) -> int:
    match = _BLANKS.match(text, position)
    return match.end() if match else position


def _key(text: str, position: int) -> tuple[str, int]:
    """Read an object's key and its colon; return the key and where its value begins."""
    if text[position : position + 1] != '"':
        raise json.JSONDecodeError("Expecting property name in double quotes", text, position)
    key, position = _read_string(text, position + 1)
    position = _skip(text, position)
    if text[position : position + 1] != ":":
        raise json.JSONDecodeError("Expecting ':' delimiter", text, position)
    return key, _skip(text, position + 1)


def _parse_scalar(text: str, position: int) -> tuple[Any, int]:
    if text[position : position + 1] == '"':
        return _read_string(text, position + 1)
    if constant := _CONSTANT.match(text, position):
        return _CONSTANTS[constant.group()], constant.end()
    number = _NUMBER.match(text, position)
    if number is None:
        raise json.JSONDecodeError("Expecting value", text, position)
    whole, fraction, exponent = number.groups(default="")
    if fraction or exponent:
        return float(number.group()), number.end()
    return _integer(whole), number.end()


def leaves(value: Any) -> Iterator[str]:
    """Yield every text and number in a JSON value of any depth, in order."""
    pending = [value]
    while pending:
        current = pending.pop()
        if isinstance(current, str):
            yield current
        elif isinstance(current, dict):
            pending.extend(reversed(current.values()))
        elif isinstance(current, list | tuple):
            pending.extend(reversed(current))
        elif isinstance(current, float) or (isinstance(current, int) and abs(current) < 10**18):
            yield str(current)
