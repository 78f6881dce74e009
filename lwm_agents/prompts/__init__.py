"""What a language world reads and how its answers are parsed."""
