"""Recognising what each operation is: row-wise or not, linear or not.

There is no list of operations: each one is run on rows of the probe.
"""

import copy
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn

from ..row_programs.written_rows import write_items, write_view
from . import causes
from .linearity import LINEAR, NONLINEAR, close, linearity
from .number_types import converted, has_numbers, normal_like
from .refusals import (
    FIXED_NUMBERS,
    LCError,
    first_line,
    refusal,
    refuse,
    refuse_value,
)
from .tracing.values import (
    TRAINING,
    Value,
    arguments_of,
    callable_of,
    in_evaluation,
    replace,
    tensors_in,
)

DROPOUT, BATCH_NORM = "dropout", "batch norm"

#: Operators whose numbers are operands, not lengths.
_OF_NUMBERS = (
    operator.add, operator.sub, operator.mul, operator.truediv, operator.pow,
)  # fmt: skip


#: Functions that drop numbers at random.
DROPOUTS = frozenset({
    "dropout", "dropout_", "alpha_dropout", "feature_alpha_dropout",
})  # fmt: skip

#: Functions that take sizes, so that N rows may become k N rows.
_OF_SHAPES = frozenset({
    "view", "reshape", "expand", "unflatten", "zeros", "ones", "full",
})  # fmt: skip

_ROWS_ONLY = "Only functions of each node's own row can be transformed"


class OperationKinds:
    """Says how each operation treats rows, by running it.

    An operation is row-wise if its results for some of the rows (in any
    order, and for one row alone) are the same as among all rows.
    """

    def __init__(self, model: nn.Module, num_nodes: int) -> None:
        self._model = model
        self.num_nodes = num_nodes
        self._found: dict[int, str] = {}

    def module(self, value: Value) -> nn.Module:
        """Return the module that a value calls."""
        return self._model.get_submodule(value.target)

    def of(self, value: Value) -> str:
        """Return the kind of an operation, or refuse what mixes nodes."""
        if value.id not in self._found:
            self._found[value.id] = self._find(value)
        return self._found[value.id]

    def _find(self, value: Value) -> str:
        """Find the kind of an operation."""
        tuples = isinstance(value.example, (tuple, list))
        if value.node_rows is None and not tuples:
            shape = tuple(value.dims)
            refuse_value(
                causes.MIXED_NODES, value,
                f"mixes nodes: its result, of shape {shape}, has no row for "
                f"each node" if "N" not in shape else
                f"has a result of shape {shape}, in which the rows of nodes "
                f"are not clear",
                _ROWS_ONLY,
            )  # fmt: skip
        if value.op == "module":
            module = self._model.get_submodule(value.target)
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                return self._batch_norm(value)
            if isinstance(module, nn.modules.dropout._DropoutNd):
                return _dropout(value)
        if value.name == "batch_norm":
            return self._batch_norm(value)
        if value.name in DROPOUTS:
            return _dropout(value)
        if value.is_item:
            return LINEAR
        # What draws in training only has a dropout of its own, such as
        # attention over the hops of a node.
        if value.always_draws:
            refuse_value(
                causes.RANDOM_NUMBERS, value,
                "draws random numbers",
                "Use dropout, or another function that is random in training "
                "only",
            )  # fmt: skip
        _check_arguments(value)
        kind = self._try(value)
        # Rounding to fewer digits counts as linear.
        return LINEAR if _rounds_only(value) else kind

    def _batch_norm(self, value: Value) -> str:
        """Check a batch norm, which mixes rows in training only."""
        self._check_statistics(value)
        if (value.args[0].node_rows or (1,))[0] != 0:
            refuse_value(
                causes.NORM_OVER_NODES, value,
                "normalises over a dimension other than that of the nodes",
                "Pass it a tensor whose rows are the nodes",
            )  # fmt: skip
        return BATCH_NORM

    def _check_statistics(self, value: Value) -> None:
        """Refuse a norm that uses other rows in evaluation too."""
        if value.op == "module":
            module = self._model.get_submodule(value.target)
            keeps = module.running_mean is not None
        else:
            flag = value.kwargs.get("training", *value.args[5:6] or (False,))
            keeps = flag is TRAINING or not flag
        if not keeps:
            refuse_value(
                causes.NORM_OVER_NODES, value,
                "has no running statistics: in evaluation it mixes the nodes "
                "of a batch",
                "Use track_running_stats=True, or LayerNorm",
            )  # fmt: skip

    def _try(self, value: Value) -> str:
        """Run an operation on all rows and on some, and compare."""
        function = callable_of(value, self._model)
        generator = torch.Generator().manual_seed(value.id)
        n = self.num_nodes
        every = torch.arange(n)
        some = torch.randint(0, n, (7,), generator=generator)
        try:
            with torch.no_grad(), evaluating(function):
                whole = _outputs(function, value, every, _as_is)
                _check_result(value, whole, n)
                for rows in (some, some[:1], every.flip(0)):
                    part = _outputs(function, value, rows, _as_is)
                    _check_rows(value, whole, part, rows, n)
                # Rows of the probe may be too much alike: after a ReLU, many
                # numbers are zero.
                whole = _outputs(function, value, every, _as_is, _noise)
                for rows in (some, every.flip(0)):
                    part = _outputs(function, value, rows, _as_is, _noise)
                    _check_rows(value, whole, part, rows, n)
                return self._linearity(function, value)
        except LCError:
            raise
        except Exception as error:
            raise refusal(
                causes.MIXED_NODES, value.where, value.name,
                f"does not run on some of the rows alone "
                f"({first_line(error)})",
                _ROWS_ONLY, value.line,
            ) from error  # fmt: skip

    def _linearity(self, function: Callable, value: Value) -> str:
        """Test in float64 whether it is linear, if the operation allows it.

        In float32, a bias of 1 is lost in the rounding of large numbers, and
        small non-linear terms are lost beside a bias.
        """
        seed = value.id + 1
        try:
            if isinstance(function, nn.Module):
                function = copy.deepcopy(function).double()
            outputs = partial(_outputs, function, value, dtype=torch.float64)
            return linearity(outputs, torch.Generator().manual_seed(seed))
        except Exception:
            # Some operations have no version for float64.
            function = callable_of(value, self._model)
            outputs = partial(_outputs, function, value)
            return linearity(outputs, torch.Generator().manual_seed(seed))


@contextmanager
def evaluating(function: Callable) -> Iterator[None]:
    """Put a module and its parts into evaluation, and back again.

    Other functions have no mode.
    """
    parts = function.modules() if isinstance(function, nn.Module) else ()
    modes = {part: part.training for part in parts}
    for part in modes:
        part.training = False
    try:
        yield
    finally:
        for part, mode in modes.items():
            part.training = mode


def _dropout(value: Value) -> str:
    """Return the kind of a dropout: it is exact if evaluation has none."""
    return NONLINEAR if value.always_draws else DROPOUT


def rows_of_nodes(nodes: torch.Tensor, each: int) -> torch.Tensor:
    """Return the places of the rows of some nodes, ``each`` per node."""
    if each == 1:
        return nodes
    return (nodes[:, None] * each + torch.arange(each)).flatten()


def node_rows_in(shape: Sequence[int], n: int) -> tuple[int, int] | None:
    """Return the dimension with rows of n nodes, and how many each has."""
    found = [(d, 1) for d, size in enumerate(shape) if size == n]
    if not found:
        found = [
            (d, size // n)
            for d, size in enumerate(shape)
            if size and size % n == 0
        ]
    return found[0] if len(found) == 1 else None


def _rounds_only(value: Value) -> bool:
    """Return whether it converts floating-point numbers to another type."""
    if value.name not in ("to", "type", "float", "double", "half", "bfloat16"):
        return False
    both = (value.args[0], value)
    return all(v.example.is_floating_point() for v in both)


def _as_is(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def _example(value: Value) -> torch.Tensor:
    return value.example


def _noise(value: Value) -> torch.Tensor:
    """Return random numbers instead of a value with rows of nodes."""
    example = value.example
    if not has_numbers(example):
        return example
    return normal_like(example, torch.Generator().manual_seed(value.id))


def _outputs(
    function: Callable,
    value: Value,
    rows: torch.Tensor,
    change: Callable[[torch.Tensor], torch.Tensor],
    of: Callable[[Value], torch.Tensor] = _example,
    dtype: torch.dtype | None = None,
) -> list[torch.Tensor]:
    """Run an operation on some rows of its arguments, changed.

    ``dtype``: type that all floating-point arguments are converted to.
    """

    def take(leaf: Any) -> Any:
        found = unconverted(leaf)
        if dtype is None or not isinstance(found, torch.Tensor):
            return found
        return converted(found, dtype)

    def unconverted(leaf: Any) -> Any:
        if not isinstance(leaf, Value):
            return in_evaluation(leaf)
        if leaf.op == "number" or leaf.count is not None:
            return len(rows) * (leaf.count or 1)
        if leaf.node_rows is None:
            return leaf.example
        dim, each = leaf.node_rows
        example = of(leaf).index_select(dim, rows_of_nodes(rows, each))
        if not has_numbers(example):
            return example
        return change(example if dtype is None else converted(example, dtype))

    args, kwargs = replace(value.args, take), replace(value.kwargs, take)
    return tensors_in(function(*args, **kwargs))


def _check_arguments(value: Value) -> None:
    """Refuse arguments that are neither rows of nodes nor constants."""
    for arg in arguments_of(value):
        unclear = "N" in arg.dims and arg.node_rows is None
        if unclear or "E" in arg.dims or None in arg.dims:
            refuse_value(
                causes.MIXED_NODES, value,
                f"has an argument of shape {arg.dims}, with values of "
                f"edges or of pairs of nodes",
                _ROWS_ONLY,
            )  # fmt: skip
        if arg.op == "number" and arg.target != "N":
            refuse_value(
                causes.NUMBER_OF_THE_GRAPH, value,
                "takes a number from the graph",
                FIXED_NUMBERS,
            )  # fmt: skip
        if arg.count is not None and value.name in _OF_SHAPES:
            continue
        if arg.static and not arg.dims and arg.op != "number":
            refuse_value(
                causes.NUMBER_OF_THE_GRAPH, value,
                f"takes a number from the graph or the features "
                f"({arg.name})",
                FIXED_NUMBERS,
            )  # fmt: skip
        if arg.op == "number" and value.target in _OF_NUMBERS:
            refuse_value(
                causes.NUMBER_OF_THE_GRAPH, value,
                "takes a number from the graph, the number of nodes",
                FIXED_NUMBERS,
            )  # fmt: skip


def _check_result(value: Value, found: list[torch.Tensor], n: int) -> None:
    """Refuse results without exactly one row for each node."""
    for tensor in found:
        if node_rows_in(tensor.shape, n) is None:
            refuse_value(
                causes.MIXED_NODES, value,
                f"returns a tensor of shape {tuple(tensor.shape)} for {n} "
                f"nodes",
                _ROWS_ONLY,
            )  # fmt: skip


def _check_rows(
    value: Value,
    whole: list[torch.Tensor],
    part: list[torch.Tensor],
    rows: torch.Tensor,
    n: int,
) -> None:
    """Refuse results for some rows that differ from those for all rows."""
    for all_rows, some in zip(whole, part, strict=True):
        dim, each = node_rows_in(all_rows.shape, n) or (0, 1)
        expected = all_rows.index_select(dim, rows_of_nodes(rows, each))
        if expected.shape != some.shape or not close(expected, some):
            if value.target in (write_items, write_view):
                refuse(
                    causes.SOME_ROWS, value.where,
                    "a write into some of the rows",
                    "changes rows at places that do not belong to a node's "
                    "own row",
                    "Write into columns (h[:, 0] = 0), or compute a new "
                    "tensor from each row (torch.where)", value.line,
                )  # fmt: skip
            refuse_value(
                causes.MIXED_NODES, value,
                "mixes nodes: its result for a node depends on the other "
                "nodes",
                f"{_ROWS_ONLY}; BatchNorm or LayerNorm may take its place",
            )  # fmt: skip
