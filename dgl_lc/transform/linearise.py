"""A model and its LC version with everything non-linear made linear.

Swapping changes a non-linear model, so it can't be compared with its LC
version on every graph. If each non-linear operation (and each bias) of both is
replaced by the same random linear function of rows, both must be equal.
"""

from math import prod
from typing import Any

import torch
from torch import fx

from .evaluate import Evaluator
from .lc_module import LCModule
from .linearity import LINEAR
from .number_types import has_numbers, real_parts
from .pushed import Pushed
from .recognise import node_rows_in
from .tracing.model_call import ModelCall
from .tracing.values import Value, leaves, replace


class LinearModel(Evaluator):
    """Evaluates the values of a model, with non-linear ones replaced."""

    def __init__(self, call: ModelCall, pushed: Pushed) -> None:
        super().__init__(call)
        self._pushed = pushed

    def _evaluate(self, value: Value) -> Any:
        if not is_replaced(value, self._pushed):
            return super()._evaluate(value)
        found = replace((value.args, value.kwargs), self._argument)
        result = linear_instead(value, found, self._pushed)
        return _zeros(super()._evaluate(value)) if result is None else result


class LinearVersion(fx.Interpreter):
    """Runs an LC version, with non-linear operations replaced."""

    def __init__(self, module: LCModule, pushed: Pushed) -> None:
        super().__init__(module)
        self._pushed = pushed

    def run_node(self, n: fx.Node) -> Any:
        value = n.meta.get("value")
        if value is None or not is_replaced(value, self._pushed):
            return super().run_node(n)
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        if n.target is getattr:
            # A property is traced without its name among the arguments.
            args = args[:1]
        result = linear_instead(value, (args, kwargs), self._pushed)
        return _zeros(super().run_node(n)) if result is None else result


def _zeros(result: Any) -> Any:
    """Replace a result that depends on no rows of numbers by zeros."""
    return replace(
        result,
        lambda leaf: (
            torch.zeros_like(leaf) if isinstance(leaf, torch.Tensor) else leaf
        ),
    )


def is_replaced(value: Value, pushed: Pushed) -> bool:
    """Return whether an operation does not commute with aggregation."""
    if value not in pushed.needs or value in pushed.scaled:
        return False
    if value in pushed.exact_biases or value.counted is not None:
        # A lookup of categories is needed without a word only.
        return False
    return pushed.kinds[value] != LINEAR


def linear_instead(value: Value, arguments: Any, pushed: Pushed) -> Any:
    """Apply a random linear function of rows, with the same shapes.

    Return None if no argument has rows of floating-point numbers.
    """
    rows = []
    pairs = zip(
        leaves((value.args, value.kwargs)), leaves(arguments), strict=True
    )
    for leaf, tensor in pairs:
        row = isinstance(leaf, Value) and leaf.data and leaf.node_rows
        if row and has_numbers(tensor):
            dim, each = row
            tensor = real_parts(tensor.movedim(dim, 0))
            rows.append(tensor.reshape(len(tensor) // each, -1))
    if not rows:
        return None
    together = torch.cat(rows, 1)
    num_nodes = pushed.num_nodes
    count = 0

    def result(example: Any) -> Any:
        nonlocal count
        count += 1
        if not isinstance(example, torch.Tensor):
            return example
        shape = list(example.shape)
        dim, each = node_rows_in(shape, num_nodes) or (0, 1)
        del shape[dim]
        generator = torch.Generator().manual_seed(1000 * value.id + count)
        width = together.shape[1]
        columns = each * prod(shape)
        pair = (2,) if example.is_complex() else ()
        weight = torch.randn(width, columns * prod(pair), generator=generator)
        found = together @ weight.to(together) / width**0.5
        found = found.reshape(len(found) * each, *shape, *pair)
        if pair:
            found = torch.view_as_complex(found)
        elif not example.is_floating_point():
            found = torch.zeros_like(found, dtype=example.dtype)
        found = found.movedim(0, dim)
        return found.contiguous()

    return replace(value.example, result)
