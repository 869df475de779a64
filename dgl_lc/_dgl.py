"""Letting DGL be imported whatever torch is there.

DGL 2.1 loads, at import, a compiled graphbolt library that exists only for
the torch versions it was built with. Nothing else of DGL needs it. So where
that library is missing for the installed torch, an empty module stands in
for ``dgl.graphbolt``; it raises an error when graphbolt is really used.

This is done when DGL is imported, by whoever imports it: importing DGL and
torch takes seconds, and the help of the command needs neither.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import types
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

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
        import torch

        raise ImportError(
            f"dgl.graphbolt.{name} is not available: the installed DGL has "
            f"no graphbolt library for torch {torch.__version__}. All else "
            f"of DGL works; for graphbolt install the torch that your DGL "
            f"was built for."
        )


class _PlaceholderLoader(importlib.abc.Loader):
    """Makes the module that stands in for ``dgl.graphbolt``."""

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        return _NoGraphbolt(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


class _DglFinder(importlib.abc.MetaPathFinder):
    """Finds DGL as usual, but explains errors and replaces graphbolt."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: types.ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname == "dgl":
            spec = PathFinder.find_spec(fullname, path)
            if spec is not None and spec.loader is not None:
                _explain_errors(spec.loader)
            return spec
        if fullname == "dgl.graphbolt" and path is not None:
            folder = Path(next(iter(path)))
            if _graphbolt_is_missing(folder):
                return ModuleSpec(fullname, _PlaceholderLoader())
        return None


def _graphbolt_is_missing(dgl_folder: Path) -> bool:
    """Whether DGL has graphbolt, but not for this torch."""
    import torch

    folder = dgl_folder / "graphbolt"
    version = torch.__version__.split("+", maxsplit=1)[0]
    found = [p.name for p in folder.glob("*graphbolt_pytorch_*")]
    return bool(found) and not any(f"_{version}." in name for name in found)


def _explain_errors(loader: importlib.abc.Loader) -> None:
    """Let the loader of DGL say why it fails, and what would work."""
    run = loader.exec_module

    def exec_module(module: types.ModuleType) -> None:
        try:
            run(module)
        except Exception as error:
            sys.modules.pop("dgl.graphbolt", None)
            raise ImportError(
                f"DGL is installed but cannot be imported with "
                f"{_torch_version()} on Python {sys.version.split()[0]}: "
                f"{type(error).__name__}: {error}\n{_WORKING}"
            ) from None

    loader.exec_module = exec_module  # type: ignore[method-assign]


def _torch_version() -> str:
    torch = sys.modules.get("torch")
    return f"torch {torch.__version__}" if torch else "this torch"


def let_dgl_be_imported() -> None:
    """Make a later import of DGL succeed, or say why it cannot.

    Nothing is imported here, and a DGL that is imported already is left
    alone.
    """
    if "dgl" in sys.modules:
        return
    if importlib.util.find_spec("dgl") is None:
        raise ImportError(
            f"dgl_lc needs DGL, which is not installed.\n{_WORKING}"
        )
    os.environ.setdefault("DGLBACKEND", "pytorch")
    if not any(isinstance(found, _DglFinder) for found in sys.meta_path):
        sys.meta_path.insert(0, _DglFinder())
