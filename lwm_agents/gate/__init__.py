"""The gate: effects, policy, approvals."""
