"""dgl-lc: graph neural networks that train like an MLP.

Public names and subpackages are imported when they are first used, as torch
and DGL take seconds to import.
"""

import importlib
from typing import TYPE_CHECKING, Any

from ._dgl import let_dgl_be_imported
from ._moved import find_moved_modules

if TYPE_CHECKING:
    from .hops import HopFeatures
    from .precompute import block_aggregate
    from .transform import LCError, lc_explain, lc_transform

__version__ = "0.1.0"

__all__ = [
    "HopFeatures",
    "LCError",
    "block_aggregate",
    "lc_explain",
    "lc_transform",
    "__version__",
]

#: The modules of the public names.
_MODULES = {
    "HopFeatures": "hops",
    "LCError": "transform",
    "block_aggregate": "precompute",
    "lc_explain": "transform",
    "lc_transform": "transform",
}
#: Modules that ``import dgl_lc`` makes available.
_SUBMODULES = (
    "data", "experiments", "hops", "nn", "precompute", "storage", "training",
    "transform",
)  # fmt: skip

let_dgl_be_imported()
find_moved_modules()


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        module = importlib.import_module(f".{_MODULES[name]}", __name__)
        # The next use finds the name without this function.
        globals()[name] = value = getattr(module, name)
        return value
    if name in _SUBMODULES:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_SUBMODULES})
