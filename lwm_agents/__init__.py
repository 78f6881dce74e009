"""Predict what an agent's tool calls would do, before they do it.

    async with Session.open(mode="dry-run", root=".", engine="model.gguf") as session:
        seen = await session.call("shell", command="make clean")
        print(seen.source, seen.confidence, seen.text)

Names load when first used, so importing this package is quick.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as typing's own, without the time that importing it takes
if TYPE_CHECKING:
    from typing import Any

    from lwm_agents.engines import engine_from as engine_from
    from lwm_agents.engines.base import Engine as Engine
    from lwm_agents.scores import Fidelity as Fidelity
    from lwm_agents.scores import fidelity as fidelity
    from lwm_agents.session import Session as Session
    from lwm_agents.store import Store as Store
    from lwm_agents.values import Action as Action
    from lwm_agents.values import Observation as Observation
    from lwm_agents.values import ToolSpec as ToolSpec
    from lwm_agents.values import Trajectory as Trajectory
    from lwm_agents.values import Transition as Transition
    from lwm_agents.worlds.base import World as World

_HOMES = {
    "Action": "lwm_agents.values",
    "Engine": "lwm_agents.engines.base",
    "Fidelity": "lwm_agents.scores",
    "Observation": "lwm_agents.values",
    "Session": "lwm_agents.session",
    "Store": "lwm_agents.store",
    "ToolSpec": "lwm_agents.values",
    "Trajectory": "lwm_agents.values",
    "Transition": "lwm_agents.values",
    "World": "lwm_agents.worlds.base",
    "engine_from": "lwm_agents.engines",
    "fidelity": "lwm_agents.scores",
}

__all__ = [
    "Action",
    "Engine",
    "Fidelity",
    "Observation",
    "Session",
    "Store",
    "ToolSpec",
    "Trajectory",
    "Transition",
    "World",
    "engine_from",
    "fidelity",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
