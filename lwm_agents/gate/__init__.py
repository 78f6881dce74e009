"""The gate: what a call can do, whether it may, and who said so."""

from lwm_agents.gate.caps import Caps, Spent, cost_of
from lwm_agents.gate.effects import effect_of, effects_of, worst
from lwm_agents.gate.gate import Gate, Verdict, default_decision
from lwm_agents.gate.policy import Decision, Policy
from lwm_agents.gate.policy_file import load_policy

__all__ = [
    "Caps",
    "Decision",
    "Gate",
    "Policy",
    "Spent",
    "Verdict",
    "cost_of",
    "default_decision",
    "effect_of",
    "effects_of",
    "load_policy",
    "worst",
]
