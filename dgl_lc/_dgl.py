"""Importing DGL whatever torch is there.

DGL 2.1 loads, at import, a compiled graphbolt library that exists only for
the torch versions it was built with. Nothing else of DGL needs it. So where
that library is missing for the installed torch, an empty module stands in
for ``dgl.graphbolt``; it raises an error when graphbolt is really used.
"""

import importlib.util
import os
import sys
import types
from pathlib import Path

import torch

_WORKING = """\
Combinations that were tried and work:
  dgl 1.1.3 (Python 3.11 or older)  with torch 2.13
  dgl 2.1.0                         with torch 2.13
  dgl 2.1.0                         with torch 2.2.1, torchdata 0.7.1, numpy<2
Import dgl_lc before dgl: with dgl 2.1 on a torch newer than 2.2.1 that is
what makes the import of dgl succeed."""


class _NoGraphbolt(types.ModuleType):
    """Stands in for ``dgl.graphbolt``."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(name)
        raise ImportError(
            f"dgl.graphbolt.{name} is not available: the installed DGL has "
            f"no graphbolt library for torch {torch.__version__}. All else "
            f"of DGL works; for graphbolt install the torch that your DGL "
            f"was built for."
        )


def _graphbolt_is_missing(dgl_folder: Path) -> bool:
    """Whether DGL has graphbolt, but not for this torch."""
    folder = dgl_folder / "graphbolt"
    version = torch.__version__.split("+", maxsplit=1)[0]
    found = [p.name for p in folder.glob("*graphbolt_pytorch_*")]
    return bool(found) and not any(f"_{version}." in name for name in found)


def import_dgl() -> types.ModuleType:
    """Import DGL; say why, and what would work, where that fails."""
    if "dgl" in sys.modules:
        return sys.modules["dgl"]
    spec = importlib.util.find_spec("dgl")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(
            f"dgl_lc needs DGL, which is not installed.\n{_WORKING}"
        )
    os.environ.setdefault("DGLBACKEND", "pytorch")
    placeholder = None
    if _graphbolt_is_missing(Path(spec.submodule_search_locations[0])):
        placeholder = _NoGraphbolt("dgl.graphbolt")
        sys.modules["dgl.graphbolt"] = placeholder
    try:
        dgl = importlib.import_module("dgl")
    except Exception as error:
        sys.modules.pop("dgl.graphbolt", None)
        raise ImportError(
            f"DGL is installed but cannot be imported with torch "
            f"{torch.__version__} on Python {sys.version.split()[0]}: "
            f"{type(error).__name__}: {error}\n{_WORKING}"
        ) from None
    if placeholder is not None:
        setattr(dgl, "graphbolt", placeholder)  # noqa: B010
    return dgl
