"""Modules of rows: what ``fit`` and ``predict`` call without a graph."""

from typing import Any

import torch
from torch import nn

from .._common.nested import replace
from .needs import Needs


class RowModule(nn.Module):
    """A module that takes rows of precomputed inputs, one tensor for each.

    It may be called as ``module(*rows)``, or as training calls a model, with
    None for the graph: ``module(None, rows)``.
    """

    #: Names of parameters without weight decay, as the model has them.
    no_weight_decay: frozenset[str] = frozenset()
    _row_needs: Needs | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # Training calls a model with (graph, features).
        if len(args) == 2 and args[0] is None:
            if self._row_needs is not None:
                self._row_needs.check(args[1])
            args = tuple(args[1])
        args, kwargs = replace((args, kwargs), self._widened)
        return super().__call__(*args, **kwargs)

    def _widened(self, rows: Any) -> Any:
        """Convert rows that are stored in 16 bits to the parameters' type."""
        halves = (torch.float16, torch.bfloat16)
        if not isinstance(rows, torch.Tensor) or rows.dtype not in halves:
            return rows
        kinds = (p.dtype for p in self.parameters() if p.is_floating_point())
        return rows.to(next(kinds, rows.dtype))


def find_owner(module: nn.Module, path: str) -> tuple[nn.Module, str]:
    """Return the submodule that a path ends in, and the last name.

    Names are looked up among submodules alone, not among attributes.
    """
    *parents, name = path.split(".")
    for parent in parents:
        found = module._modules[parent]
        assert found is not None
        module = found
    return module, name
