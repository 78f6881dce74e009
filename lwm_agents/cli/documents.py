"""The JSON documents that several commands print."""

from __future__ import annotations

from typing import Any

from lwm_agents.values import Transition


def step_document(number: int, transition: Transition) -> dict[str, Any]:
    """Return one step as `lwm dry-run`, `lwm run` and `lwm show` print it."""
    observation = transition.observation
    return {
        "step": number,
        "tool": transition.action.tool,
        "arguments": transition.action.arguments,
        "effect": transition.effect,
        "source": observation.source,
        "confidence": observation.confidence,
        "is_error": observation.is_error,
        "observation": observation.text,
        "structured": observation.structured,
        "latency_ms": round(transition.latency_ms, 3),
        "fidelity": transition.fidelity,
    }
