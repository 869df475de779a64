"""Functions that a model holds, bound to a copy of the model.

``self.encode = lambda v: self.fc(v)`` refers to the model in its closure, and
copy.deepcopy does not copy functions: in a copy of the model, it would still
call the layers of the original.
"""

from types import CellType, FunctionType
from typing import Any

from torch import nn

from .call_leaves import call_leaves, change_leaves


def bind_functions(model: nn.Module, copies: dict[int, Any]) -> None:
    """Let the functions that a copied model holds refer to what was copied.

    ``copies`` has the copies of all objects by the ids of the originals: the
    memo of copy.deepcopy.
    """
    binder = _Binder(copies)
    for module in model.modules():
        held = vars(module)
        for name, item in list(held.items()):
            bound = binder.bound(item)
            if bound is not item:
                held[name] = bound


class _Binder:
    """Makes functions that refer to copies."""

    def __init__(self, copies: dict[int, Any]) -> None:
        self._copies = copies
        self._made: dict[int, tuple[FunctionType, FunctionType]] = {}

    def bound(self, item: Any) -> Any:
        """Return an item with other functions in it, or the item itself."""
        if not self._refers(item, set()):
            return item
        return change_leaves(item, self._bind)

    def _refers(self, item: Any, seen: set[int]) -> bool:
        """Return whether an item refers to anything that was copied."""
        for leaf in call_leaves(item):
            # Graphs and features may stay what they are.
            if self._copies.get(id(leaf), leaf) is not leaf:
                return True
            if isinstance(leaf, FunctionType) and id(leaf) not in seen:
                seen.add(id(leaf))
                if any(self._refers(part, seen) for part in _parts(leaf)):
                    return True
        return False

    def _bind(self, leaf: Any) -> Any:
        """Return what a leaf is in the copy."""
        if id(leaf) in self._copies:
            return self._copies[id(leaf)]
        if not isinstance(leaf, FunctionType):
            return leaf
        if not self._refers(leaf, set()):
            return leaf
        if id(leaf) not in self._made:
            cells = leaf.__closure__ or ()
            new = tuple(CellType() if _is_filled(c) else c for c in cells)
            made = FunctionType(
                leaf.__code__, leaf.__globals__, leaf.__name__, None, new
            )
            # A function may refer to itself, so its cells are filled later.
            self._made[id(leaf)] = leaf, made
            self._fill(made, leaf)
        return self._made[id(leaf)][1]

    def _fill(self, made: FunctionType, function: FunctionType) -> None:
        """Let a new function refer to copies of what another refers to."""
        both = zip(
            made.__closure__ or (), function.__closure__ or (), strict=True
        )
        for cell, old in both:
            if cell is not old:
                cell.cell_contents = self.bound(old.cell_contents)
        made.__defaults__ = self.bound(function.__defaults__)
        made.__kwdefaults__ = self.bound(function.__kwdefaults__)
        made.__dict__.update(vars(function))
        made.__qualname__ = function.__qualname__
        made.__module__ = function.__module__


def _parts(function: FunctionType) -> list[Any]:
    """Return what a function refers to, besides global names."""
    cells = filter(_is_filled, function.__closure__ or ())
    contents = [cell.cell_contents for cell in cells]
    return [*contents, function.__defaults__, function.__kwdefaults__]


def _is_filled(cell: CellType) -> bool:
    """Return whether the enclosing function has assigned a name yet."""
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True
