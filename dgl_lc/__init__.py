"""dgl-lc: graph neural networks that train like an MLP."""

from ._dgl import import_dgl
from ._moved import find_moved_modules

import_dgl()
find_moved_modules()

from .hops import HopFeatures  # noqa: E402
from .precompute import block_aggregate  # noqa: E402
from .transform import LCError, lc_transform  # noqa: E402

__version__ = "0.1.0"

__all__ = [
    "HopFeatures",
    "LCError",
    "block_aggregate",
    "lc_transform",
    "__version__",
]
