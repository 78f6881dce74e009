"""How far to trust a prediction: calibrated on logged pairs, tested, watched for drift."""

from lwm_agents.confidence.calibrator import Calibrator, stated_prior
from lwm_agents.confidence.drift import Drift, drift
from lwm_agents.confidence.fitting import fit, held_out
from lwm_agents.confidence.pairs import RIGHT, Pair, pairs_of, read_pairs
from lwm_agents.confidence.reliability import Reliability, reliability, report

__all__ = [
    "RIGHT",
    "Calibrator",
    "Drift",
    "Pair",
    "Reliability",
    "drift",
    "fit",
    "held_out",
    "pairs_of",
    "read_pairs",
    "reliability",
    "report",
    "stated_prior",
]
