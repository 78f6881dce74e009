"""Transitions as rows: redacted, with large values set apart as blobs, each chained to the last."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lwm_agents.digests import parse, readable
from lwm_agents.redaction import redact, redact_action, redact_bytes, redact_json, suspicious
from lwm_agents.store.search import indexed, indexed_action
from lwm_agents.tools.terminal import screen_text
from lwm_agents.values import Action, Json, Observation, Signals, Transition, Usage

INLINE = 16_384
"""Texts longer than this many characters are stored apart, once for all rows that hold them."""

CHAINED = (
    "session", "step", "tool", "arguments", "arguments_blob", "action_digest", "tool_hash",
    "source", "confidence", "is_error", "text", "text_blob", "structured", "structured_blob",
    "raw_blob", "effect", "started_at", "latency_ms", "prediction", "prediction_blob", "fidelity",
    "reward", "engine", "usage", "started_id", "signals",
)  # fmt: skip
"""The columns that a row's hash covers, in this order; `signals` where it is not NULL."""

COLUMNS = ("id", *CHAINED, "previous_hash", "hash")
BLOB_COLUMNS = tuple(name for name in CHAINED if name.endswith("_blob"))

INSERT = f"INSERT INTO transitions ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"
INSERT_BLOB = "INSERT OR IGNORE INTO blobs (sha256, data) VALUES (?, ?)"
INSERT_SEARCH = "INSERT INTO search (rowid, action, observation) VALUES (?, ?, ?)"

_MOVES = re.compile(rb"[\x08\x1b\x9b]|\r(?!\n)")
_SCREEN = 65_536
"""Bytes of raw output, at most, of which it is asked what a screen would show."""

_CHAIN = json.JSONEncoder(separators=(",", ":"), check_circular=False)


@dataclass(slots=True)
class Prepared:
    """A transition ready to be written: `values` in the order of CHAINED."""

    session: str
    step: int
    values: list[Any]
    words: tuple[str, str]
    blobs: list[tuple[str, bytes]] = field(default_factory=list)


def prepare(
    transition: Transition,
    started_id: str | None = None,
    renamed: Mapping[str, str] | None = None,
) -> Prepared:
    """Redact a transition and lay it out as a row.

    `renamed` says under which hash a tool was pinned whose spec held a secret. Raises TypeError
    where arguments or structured content are no JSON.
    """
    action, seen, predicted = transition.action, transition.observation, transition.prediction
    raw = _redacted_raw(seen)
    engine = transition.engine
    arguments = readable(action.arguments)
    structured = None if seen.structured is None else readable(seen.structured)
    # One look at all short texts together: nearly always there is nothing to redact.
    texts = [action.tool, arguments, seen.text, structured or "", engine or ""]
    if suspicious("\n".join(texts)):
        action = redact_action(action)
        arguments = readable(action.arguments)
        seen = _redacted(seen, raw)
        engine = engine and redact(engine)
        structured = None if seen.structured is None else readable(seen.structured)
    prediction = (
        None
        if predicted is None
        else _prediction_text(_redacted(predicted, _redacted_raw(predicted)))
    )
    blobs: list[tuple[str, bytes]] = []

    def apart(text: str | None) -> tuple[str | bytes | None, str | None]:
        if text is None or len(text) <= INLINE:
            return storable(text), None
        return None, _blob(_bytes(text), blobs)

    tool_hash = transition.tool_hash
    if renamed and tool_hash is not None:
        tool_hash = renamed.get(tool_hash, tool_hash)
    values = [
        transition.session,
        transition.step,
        storable(action.tool),
        *apart(arguments),
        action.digest,
        storable(tool_hash),
        seen.source,
        _real(seen.confidence),
        int(seen.is_error) if seen.error_known else None,
        *apart(seen.text),
        *apart(structured),
        None if raw is None else _blob(raw, blobs),
        transition.effect,
        _real(transition.started_at),
        _real(transition.latency_ms),
        *apart(prediction),
        _real(transition.fidelity),
        _real(transition.reward),
        storable(engine),
        None if transition.usage is None else readable(transition.usage.model_dump()),
        started_id,
        None if seen.signals is None else readable(seen.signals.model_dump(exclude_defaults=True)),
    ]
    words = (indexed_action(action.tool, action.arguments), indexed(seen.text))
    return Prepared(transition.session, transition.step, values, words, blobs)


def covered(values: Sequence[Any]) -> Sequence[Any]:
    """Return what a transition's hash covers of the values in the order of CHAINED.

    Without its signals where it has none: logs were chained before there were any.
    """
    return values[:-1] if values[-1] is None else values


def chain(previous: str, values: Sequence[Any]) -> str:
    """Return the hash of a row: SHA-256 of the JSON array of the hash before it and its values.

    ASCII, no blanks; a text stored as bytes, because it has no UTF-8 form, counts as that text.
    """
    plain = [text_of(value) if isinstance(value, bytes) else value for value in values]
    return hashlib.sha256(_CHAIN.encode([previous, *plain]).encode("ascii")).hexdigest()


def restore(row: Mapping[str, Any], blob: Callable[[str], bytes]) -> Transition:
    """Return the transition of a row. `blob` gives the bytes of a blob by its hash.

    Raises ValueError where the row does not hold one.
    """

    def value(name: str) -> str | None:
        digest = row[f"{name}_blob"]
        stored = row[name] if digest is None else blob(digest)
        return None if stored is None else text_of(stored)

    arguments, structured, prediction = value("arguments"), value("structured"), value("prediction")
    raw = row["raw_blob"]
    return Transition(
        session=row["session"],
        step=row["step"],
        action=Action(tool=text_of(row["tool"]), arguments=parse(arguments or "")),
        observation=Observation(
            text=value("text") or "",
            source=row["source"],
            is_error=bool(row["is_error"]),
            error_known=row["is_error"] is not None,
            structured=None if structured is None else parse(structured),
            confidence=row["confidence"],
            raw=None if raw is None else blob(raw),
            signals=None if row["signals"] is None else Signals(**parse(row["signals"])),
        ),
        effect=row["effect"],
        tool_hash=None if row["tool_hash"] is None else text_of(row["tool_hash"]),
        started_at=row["started_at"],
        latency_ms=row["latency_ms"],
        prediction=None if prediction is None else _predicted(parse(prediction)),
        fidelity=row["fidelity"],
        reward=row["reward"],
        engine=None if row["engine"] is None else text_of(row["engine"]),
        usage=None if row["usage"] is None else Usage(**parse(row["usage"])),
    )


def storable(text: str | None) -> str | bytes | None:
    """Return what SQLite can hold of a text: text, or bytes where it has lone surrogates."""
    if text is None or text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return _bytes(text)
    return text


def text_of(stored: str | bytes) -> str:
    """Return the text that `storable`, or a blob, holds. Raises ValueError where it is none."""
    return stored if isinstance(stored, str) else stored.decode("utf-8", "surrogatepass")


def digest_of_bytes(data: bytes) -> str:
    """Return the name of a blob: the SHA-256 of its bytes, in hex."""
    return hashlib.sha256(data).hexdigest()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _blob(data: bytes, blobs: list[tuple[str, bytes]]) -> str:
    digest = digest_of_bytes(data)
    blobs.append((digest, data))
    return digest


def _real(number: float | None) -> float | None:
    """Return what SQLite gives back of a number: no NaN, no negative zero, no integer."""
    return None if number is None or number != number else float(number) + 0.0


def _redacted(seen: Observation, raw: bytes | None) -> Observation:
    return seen.model_copy(
        update={
            "text": redact(seen.text),
            "structured": redact_json(seen.structured),
            "raw": raw,
        }
    )


def _redacted_raw(seen: Observation) -> bytes | None:
    """Return raw bytes without secrets; where they draw one, what is shown instead of them."""
    if seen.raw is None:
        return None
    if not _MOVES.search(seen.raw):
        return redact_bytes(seen.raw)
    # Backspaces and cursor movement can stand in the midst of a secret.
    text = redact(seen.text)
    if text != seen.text:
        return _bytes(text)
    raw = redact_bytes(seen.raw)
    shown = screen_text(raw) if len(raw) <= _SCREEN else ""
    without = redact(shown)
    return raw if without == shown else _bytes(without)


def _prediction_text(predicted: Observation) -> str:
    fields: dict[str, Json] = {
        name: getattr(predicted, name)
        for name in ("text", "source", "is_error", "error_known", "structured", "confidence")
    }
    if predicted.raw is not None:
        fields["raw"] = base64.b64encode(predicted.raw).decode("ascii")
    if predicted.signals is not None:
        fields["signals"] = predicted.signals.model_dump(exclude_defaults=True)
    return readable(fields)


def _predicted(fields: dict[str, Any]) -> Observation:
    raw = fields.pop("raw", None)
    return Observation(**fields, raw=None if raw is None else base64.b64decode(raw))
