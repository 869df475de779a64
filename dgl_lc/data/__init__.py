"""Graphs and tasks to work on: generated, from files, from DGL."""

from ..storage.disk_features import DiskFeatures
from ..storage.disk_graph import DiskGraph
from ..storage.sort_edges import build_disk_graph
from ..storage.write_features import write_features
from .disk_data import DiskData
from .files import save_npz
from .node_data import NodeData
from .ogb_binary import prepare_ogb
from .papers_like import write_papers_like
from .prepare_task import prepare
from .sources import load, open_data
from .synthetic import block_model, power_law_graph

__all__ = [
    "NodeData",
    "load",
    "open_data",
    "save_npz",
    "block_model",
    "power_law_graph",
    "DiskData",
    "DiskFeatures",
    "DiskGraph",
    "build_disk_graph",
    "prepare",
    "prepare_ogb",
    "write_features",
    "write_papers_like",
]
