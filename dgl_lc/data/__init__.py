"""Graphs and tasks to work on: generated, from files, from DGL."""

from .disk_edges import build_disk_graph
from .files import save_npz
from .node_data import NodeData
from .sources import load
from .synthetic import block_model, power_law_graph

__all__ = [
    "NodeData",
    "load",
    "save_npz",
    "block_model",
    "power_law_graph",
    "build_disk_graph",
]
