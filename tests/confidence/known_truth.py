"""Pairs whose true probability of being right is known."""

from __future__ import annotations

import math
import random

from lwm_agents.confidence import Pair
from lwm_agents.values import Signals


def truth(signals: Signals) -> float:
    """Return the probability with which `drawn` makes a prediction right."""
    if signals.computed:
        return 0.97
    least = math.exp(signals.least or 0.0)
    return 1 / (1 + math.exp(-(5 * least + 3 * (signals.nearness or 0.0) - 4)))


def drawn(n: int, seed: int, tool: str = "shell", per: int = 5) -> list[Pair]:
    """Draw n pairs, `per` a trajectory. What was said is far too sure."""
    rng = random.Random(f"{seed} {tool}")
    pairs = []
    for index in range(n):
        signals = Signals(
            least=math.log(rng.uniform(0.05, 1)),
            logprob=math.log(rng.uniform(0.5, 1)),
            nearness=rng.random() if rng.random() < 0.7 else None,
            computed=rng.random() < 0.1,
            length=rng.randrange(200),
        )
        right = rng.random() < truth(signals)
        pairs.append(
            Pair(
                dataset="drawn",
                id=f"{tool}{index // per}",
                step=index % per + 1,
                tool=tool,
                domain="terminal",
                confidence=0.95,
                signals=signals,
                fidelity=rng.uniform(0.9, 1) if right else rng.uniform(0, 0.89),
                engine="m.gguf",
            )
        )
    return pairs
