"""Fidelity: how near a prediction is to what really happened. Pure functions on plain values."""

from lwm_agents.scores.masks import masked
from lwm_agents.scores.measure import DISAGREEMENT_CAP, Fidelity, fidelity, same
from lwm_agents.scores.rubric import Rubric
from lwm_agents.scores.text import fold, similarity

__all__ = [
    "DISAGREEMENT_CAP",
    "Fidelity",
    "Rubric",
    "fidelity",
    "fold",
    "masked",
    "same",
    "similarity",
]
