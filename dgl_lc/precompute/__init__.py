"""Block-wise precomputation of hop features."""

from .aggregate import block_aggregate, plan
from .blocks import edge_blocks, normalize
from .calibrate import calibrate
from .store import open_store

__all__ = [
    "block_aggregate",
    "calibrate",
    "edge_blocks",
    "normalize",
    "open_store",
    "plan",
]
