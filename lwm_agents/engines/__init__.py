"""Engines: text models behind one method."""
