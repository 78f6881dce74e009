"""How far to trust a prediction: calibrated on logged pairs, tested, watched for drift."""

from lwm_agents.confidence.calibrator import Calibrator, stated_prior
from lwm_agents.confidence.fitting import fit, held_out
from lwm_agents.confidence.pairs import Pair, pairs_of, read_pairs
from lwm_agents.confidence.reliability import Reliability, measure, report
from lwm_agents.confidence.trend import Drift, drift

__all__ = [
    "Calibrator",
    "Drift",
    "Pair",
    "Reliability",
    "drift",
    "fit",
    "held_out",
    "measure",
    "pairs_of",
    "read_pairs",
    "report",
    "stated_prior",
]
