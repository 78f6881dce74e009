"""LangGraph: shadow tool nodes and the dream graph."""
