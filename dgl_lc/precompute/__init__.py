"""Block-wise precomputation of hop features."""

from .aggregate import block_aggregate, plan
from .blocks import edge_blocks, normalize

__all__ = [
    "block_aggregate",
    "edge_blocks",
    "normalize",
    "plan",
]
