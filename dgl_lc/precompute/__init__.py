"""Block-wise precomputation of hop features."""

from .aggregate import block_aggregate, plan
from .blocks import edge_blocks, normalize
from .calibrate import calibrate

__all__ = [
    "block_aggregate",
    "calibrate",
    "edge_blocks",
    "normalize",
    "plan",
]
