"""Graphs to work on."""

from .synthetic import power_law_graph

__all__ = ["power_law_graph"]
