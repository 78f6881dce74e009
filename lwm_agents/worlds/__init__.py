"""Worlds: whatever can answer an action."""
