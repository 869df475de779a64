"""Modules that moved: their old names work for one version, with a warning."""

import importlib
import importlib.abc
import importlib.machinery
import sys
import types
import warnings
from collections.abc import Sequence

#: Old names and new ones, of modules with names that users import.
MOVED = {
    "dgl_lc.data.arrays": "dgl_lc.storage.numpy_files",
    "dgl_lc.data.disk_edges": "dgl_lc.storage.sort_edges",
    "dgl_lc.data.disk_features": "dgl_lc.storage.write_features",
    "dgl_lc.data.edge_sources": "dgl_lc.storage.edge_sources",
    "dgl_lc.data.npz_stream": "dgl_lc.storage.npz_stream",
    "dgl_lc.precompute.aggregate": "dgl_lc.precompute.api",
    "dgl_lc.precompute.disk_features": "dgl_lc.storage.disk_features",
    "dgl_lc.precompute.disk_graph": "dgl_lc.storage.disk_graph",
    "dgl_lc.precompute.memory": "dgl_lc._common.bytes",
    "dgl_lc.precompute.published": "dgl_lc.precompute.planning.published",
    "dgl_lc.precompute.reference": "dgl_lc.testing.reference",
    "dgl_lc.precompute.selftest": "dgl_lc.testing.selftest",
    "dgl_lc.precompute.store": "dgl_lc.storage.hop_store",
}


class _MovedModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds a module under its old name."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in MOVED:
            return None
        return importlib.machinery.ModuleSpec(fullname, self)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        old = module.__name__
        new = MOVED[old]
        warnings.warn(
            f"{old} is now {new}; the old name goes away in version 0.2.",
            DeprecationWarning,
            stacklevel=2,
        )
        sys.modules[old] = importlib.import_module(new)


def find_moved_modules() -> None:
    """Let old names be imported."""
    if not any(isinstance(found, _MovedModules) for found in sys.meta_path):
        sys.meta_path.append(_MovedModules())
