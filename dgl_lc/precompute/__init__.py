"""Block-wise precomputation of hop features."""

from ..storage.hop_store import open_store
from .api import block_aggregate, plan
from .graph.edge_blocks import edge_blocks, normalize
from .planning.calibrate import calibrate
from .planning.estimate import estimate

__all__ = [
    "block_aggregate",
    "calibrate",
    "edge_blocks",
    "estimate",
    "normalize",
    "open_store",
    "plan",
]
