"""Block-wise precomputation of hop features."""

from ..labelled_rows import with_labels
from ..storage.input_store import open_store
from .api import block_aggregate, plan
from .extend import extend_store
from .graph.edge_blocks import edge_blocks, normalize
from .label_hops import label_features
from .planning.calibrate import calibrate
from .planning.estimate import estimate
from .update import find_reach, update_store

__all__ = [
    "block_aggregate",
    "calibrate",
    "edge_blocks",
    "estimate",
    "extend_store",
    "find_reach",
    "label_features",
    "normalize",
    "open_store",
    "plan",
    "update_store",
    "with_labels",
]
