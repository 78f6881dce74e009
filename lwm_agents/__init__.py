"""Predict what an agent would do to the real world, before it does it."""
