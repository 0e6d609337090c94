"""Formats and names of other tools."""
