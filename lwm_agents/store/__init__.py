"""The log: one SQLite file."""
