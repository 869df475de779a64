"""``len(x)`` in the user's code, as a number that is followed.

Python makes a plain integer of whatever ``__len__`` returns, so the name
``len`` itself is given to the user's modules while a model is traced. The
function of Python stays as it is: other libraries may look at it.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from torch import nn

#: Libraries whose own calls of ``len`` are not followed.
_LIBRARIES = ("torch", "dgl", "dgl_lc", "numpy", "builtins")


@contextmanager
def followed_len(model: nn.Module, length: Callable) -> Iterator[None]:
    """Let the modules of the user's code call ``length`` as ``len``."""
    changed = []
    try:
        for names in _namespaces(model):
            if "len" not in names:
                names["len"] = length
                changed.append(names)
        yield
    finally:
        for names in changed:
            del names["len"]


def _namespaces(model: nn.Module) -> Iterator[dict[str, Any]]:
    """Yield the global names of the modules that a model is written in."""
    packages = {"__main__"}
    for module in model.modules():
        for function in (type(module).forward, *vars(module).values()):
            names = getattr(function, "__globals__", None)
            if isinstance(names, dict):
                package = str(names.get("__name__", "")).split(".")[0]
                if package not in _LIBRARIES:
                    packages.add(package)
                    yield names
    for name in _names_within(frozenset(packages), tuple(sys.modules)):
        found = sys.modules.get(name)
        if hasattr(found, "__dict__"):
            yield vars(found)


@lru_cache(maxsize=8)
def _names_within(
    packages: frozenset[str], modules: tuple[str, ...]
) -> list[str]:
    """List the modules of some packages, of the thousands that there are."""
    return [name for name in modules if name.split(".")[0] in packages]
