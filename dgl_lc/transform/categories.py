"""Embeddings of categories: rows of a table, chosen by integers.

Integers can't be aggregated, but an embedding is linear in the one-hot columns
of its integers: E[i] = one_hot(i) E. At a word, these columns are an input, and
the table is multiplied with it: after a sum over neighbours, they count how
many neighbours have each category. Without a word, a lookup stays a lookup.

A layer with a matrix for each type of node (``TypedLinear``) is, at a word, a
sum over types: a factor per node, which is 1 for one type, times the product of
all rows with the matrix of that type.
"""

import operator
from typing import Any

import torch
from dgl import DGLError
from torch import nn

from ..row_programs.typed_products import typed_product
from .made_values import MadeValues
from .terms import times
from .tracing.values import Value, arguments_of

#: Number of one-hot columns above which an embedding is refused at a word.
MOST_CATEGORIES = 1024
#: Number of types of nodes above which a layer for each is refused at a word.
MOST_TYPES = 64


def count_categories(
    value: Value, values: MadeValues, model: nn.Module
) -> None:
    """Say how a lookup is computed at words, if a value is one.

    :attr:`Value.counted` becomes the product of one-hot columns and the table,
    or the reason why there is none.
    """
    if not value.data or value.op not in ("call", "module"):
        return
    if value.target is typed_product:
        value.counted = _sum_over_types(value, values)
        return
    module: Any = None
    table: Any = None
    if value.op == "module":
        module = model.get_submodule(value.target)
        if not isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
            return
        options = {
            name: getattr(module, name)
            for name in ("padding_idx", "max_norm", "scale_grad_by_freq")
        }
        ids = value.args[0]
    elif value.name == "embedding" and len(value.args) >= 2:
        ids, table, *rest = value.args
        names = ("padding_idx", "max_norm", "norm_type", "scale_grad_by_freq")
        given = dict(zip(names, rest, strict=False))
        options = {**given, **value.kwargs}
    elif value.target is operator.getitem and not value.is_item:
        (table, ids), options = value.args, {}
    else:
        return
    if not _are_categories(ids) or not _is_table(table, module):
        return
    rows = table.example.shape[0] if table else module.num_embeddings
    value.counted = _why_not(value, module, options, rows)
    if value.counted is None:
        if table is None:
            table = values.parameter(f"{value.target}.weight", value)
        table = _without_padding(table, options.get("padding_idx"), values)
        value.counted = _product(value, ids, table, module, values)


def _sum_over_types(value: Value, values: MadeValues) -> Value | str | None:
    """Write a product with the matrix of each node's type as a sum."""
    rows, weights, types, blocks = value.args
    if rows.row_dim != 0 or weights.data or not _are_categories(types):
        return None
    if len(weights.example) > MOST_TYPES:
        return (
            f"has {len(weights.example):,} types: each is a filter of its "
            f"own, and at most {MOST_TYPES:,} are"
        )
    total: Value | None = None
    for number in range(len(weights.example)):
        own = values.call(operator.eq, (types, number), ("N",))
        mask = values.call(torch.Tensor.to, (own, rows.example.dtype), ("N",))
        column = values.call(torch.Tensor.unsqueeze, (mask, 1), ("N", 1))
        shape = tuple(weights.example.shape[1:])
        matrix = values.call(operator.getitem, (weights, number), shape)
        made = times(values, rows, matrix, blocks)
        part = values.call(operator.mul, (made, column), made.dims)
        if total is not None:
            part = values.call(operator.add, (total, part), made.dims)
        total = part
    return total


def _why_not(
    value: Value, module: nn.Module | None, options: dict, rows: int
) -> str | None:
    """Return why an embedding has no one-hot columns, if it has none."""
    if rows > MOST_CATEGORIES:
        return (
            f"has a table of {rows:,} rows: their one-hot columns would be "
            f"aggregated, and at most {MOST_CATEGORIES:,} are"
        )
    if options.get("max_norm") is not None:
        return "changes its table in forward (max_norm)"
    if options.get("scale_grad_by_freq"):
        return "scales gradients by how often a row occurs in a batch"
    if isinstance(module, nn.EmbeddingBag):
        plain = len(value.args) == 1 and not value.kwargs
        if not plain or module.mode not in ("sum", "mean"):
            return "is not a sum or a mean over the columns of its integers"
    return None


def _product(
    value: Value, ids: Value, table: Value, module: nn.Module | None,
    values: MadeValues,
) -> Value:  # fmt: skip
    """Write a lookup as one-hot columns times the table."""
    rows = len(table.example)
    dtype = table.example.dtype
    dims = (*ids.dims, rows)
    columns = values.call(one_hot, (ids, rows, dtype), dims)
    if isinstance(module, nn.EmbeddingBag):
        reduce = torch.sum if module.mode == "sum" else torch.mean
        if module.padding_idx is not None:
            columns = values.call(
                counts_without, (columns, module.padding_idx, module.mode),
                ("N", rows),
            )  # fmt: skip
        else:
            columns = values.call(reduce, (columns, 1), ("N", rows))
    wide = (*columns.dims[:-1], table.example.shape[1])
    return values.call(operator.matmul, (columns, table), wide)


def _without_padding(
    table: Value, padding: int | None, values: MadeValues
) -> Value:
    """Let no gradients reach the row for padding, as an embedding does."""
    if padding is None:
        return table
    rows = len(table.example)
    is_padding = torch.arange(rows).unsqueeze(1) == padding % rows
    mask = values.constant(is_padding, table)
    shape = tuple(table.example.shape)
    fixed = values.call(torch.Tensor.detach, (table,), shape)
    return values.call(torch.where, (mask, fixed, table), shape)


def _are_categories(ids: Any) -> bool:
    """Return whether they are static integers of features or degrees."""
    if not isinstance(ids, Value) or not ids.static or ids.row_dim != 0:
        return False
    if ids.example.dtype not in (torch.int64, torch.int32):
        return False
    pending, seen = [ids], set()
    while pending:
        value = pending.pop()
        # Degrees are categories, but the ids of nodes are not: a row for each
        # node is not learned.
        of_graph = value.op == "graph" and value.target[1] != "nodes"
        if value.op == "input" or of_graph or value.target is torch.zeros:
            return True
        if value not in seen:
            seen.add(value)
            pending += arguments_of(value)
    return False


def _is_table(table: Any, module: nn.Module | None) -> bool:
    """Return whether it is a matrix that does not depend on nodes."""
    if module is not None:
        return True
    return (
        isinstance(table, Value)
        and not table.data
        and table.example.dim() == 2
        and table.example.is_floating_point()
    )


class CategoryError(DGLError):
    """Integers that an embedding has no row for."""


def one_hot(ids: torch.Tensor, count: int, dtype: torch.dtype) -> torch.Tensor:
    """Return a column for each category, with ones where it is."""
    if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < count:
        raise CategoryError(
            f"an embedding of {count} categories is given the category "
            f"{int(ids.max() if ids.min() >= 0 else ids.min())}. Categories "
            f"are whole numbers from 0 to {count - 1}: limit them, as by "
            f"g.in_degrees().clamp(max={count - 1})."
        )
    return nn.functional.one_hot(ids.long(), count).to(dtype)


def counts_without(
    columns: torch.Tensor, padding: int, mode: str
) -> torch.Tensor:
    """Sum or average one-hot columns over all integers but the padding."""
    columns = columns.clone()
    columns[..., padding] = 0
    total = columns.sum(1)
    if mode == "mean":
        total = total / total.sum(1, keepdim=True).clamp(min=1)
    return total
