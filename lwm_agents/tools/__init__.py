"""The built-in tools: files, shell, database."""
