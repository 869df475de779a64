"""The gather-sum for GPUs, in Triton.

A program sums a few rows, a tile of columns and of entries at a time. Rows
with very many entries (hubs) would keep one program busy long after all
others: they are cut into parts that are summed side by side into a scratch
tensor, and added up in order. No result depends on which program is first.
"""

from collections.abc import Callable
from importlib import metadata
from typing import Any

import torch
from dgl import DGLError

from ..._common.dtypes import NAMES, find_type
from .hubs import LONGEST

try:
    # Older ones lack what is used here; importing them would be in vain.
    if int(metadata.version("triton").partition(".")[0]) < 3:
        raise ImportError
    import triton
    import triton.language as tl
    from triton.language import constexpr
except ImportError:
    triton = None
    constexpr = None

# Tiles are unmeasured, as is LONGEST.
_NO_LIMIT = 2**31 - 1
_MAX_COLUMNS = 128
_MAX_ENTRIES = 16
_MAX_ROWS = 8
#: Values in a tile: at most 32 for each thread of a warp, and 16 where that
#: takes several rows.
_MAX_TILE = 1024
_ROWS_TILE = 512
#: What the programs of parts of hubs have more than others: they are few.
_TAIL_WARPS = 4
#: Parts of a hub that are added up at a time.
_PARTS = 8


def _jit(function: Callable[..., Any]) -> Any:
    return function if triton is None else triton.jit(function)


@_jit
def _sum_entries(
    indices, values, right, x, x_stride, start, stop, column, width,
    ROWS: constexpr, ENTRIES: constexpr, COLUMNS: constexpr, ACC: constexpr,
):  # fmt: skip
    """``sum(values[e] * right[j] * x[j])``, j = indices[e], start <= e < stop.

    ``start`` and ``stop`` are of 64 bits: what is added to them to get the
    entries of a tile can lead past the last one, and past 2**31.
    """
    total = tl.zeros((ROWS, COLUMNS), dtype=ACC)
    longest = tl.max(stop - start, axis=0)
    ahead = tl.arange(0, ENTRIES)
    for i in range(0, longest, ENTRIES):
        entry = start[:, None] + (i + ahead)[None, :]
        live = entry < stop[:, None]
        # Of 64 bits, so that the product with the stride is.
        j = tl.load(indices + entry, mask=live, other=0).to(tl.int64)
        place = x + (j * x_stride)[:, :, None] + column[None, None, :]
        mask = live[:, :, None] & (column < width)[None, None, :]
        term = tl.load(place, mask=mask, other=0.0).to(ACC)
        if right is not None:
            factor = tl.load(right + j, mask=live, other=0.0).to(ACC)
            term *= factor[:, :, None]
        if values is not None:
            value = tl.load(values + entry, mask=live, other=0.0).to(ACC)
            term *= value[:, :, None]
        total += tl.sum(term, axis=1)
    return total


@_jit
def _add_rows(
    out, indptr, indices, values, x, left, right,
    num_rows, width, out_stride, x_stride, longest,
    ROWS: constexpr, ENTRIES: constexpr, COLUMNS: constexpr, ACC: constexpr,
):  # fmt: skip
    """Add the sums of rows with at most ``longest`` entries to ``out``."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = row < num_rows
    start = tl.load(indptr + row, mask=inside, other=0).to(tl.int64)
    stop = tl.load(indptr + row + 1, mask=inside, other=0).to(tl.int64)
    stop = tl.where(stop - start > longest, start, stop)
    total = _sum_entries(
        indices, values, right, x, x_stride, start, stop, column, width,
        ROWS, ENTRIES, COLUMNS, ACC,
    )  # fmt: skip
    if left is not None:
        factor = tl.load(left + row, mask=inside, other=0.0).to(ACC)
        total *= factor[:, None]
    place = out + (row * out_stride)[:, None] + column[None, :]
    mask = (start < stop)[:, None] & (column < width)[None, :]
    total += tl.load(place, mask=mask, other=0.0).to(ACC)
    tl.store(place, total.to(out.dtype.element_ty), mask=mask)


@_jit
def _sum_tails(
    scratch, tails, indices, values, x, right,
    width, scratch_stride, x_stride,
    ENTRIES: constexpr, COLUMNS: constexpr, ACC: constexpr,
):  # fmt: skip
    """Write the sum of each part of a hub to its row of ``scratch``."""
    tail = tl.program_id(0).to(tl.int64) + tl.arange(0, 1)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    start = tl.load(tails + 3 * tail + 1).to(tl.int64)
    stop = tl.load(tails + 3 * tail + 2).to(tl.int64)
    total = _sum_entries(
        indices, values, right, x, x_stride, start, stop, column, width,
        1, ENTRIES, COLUMNS, ACC,
    )  # fmt: skip
    place = scratch + (tail * scratch_stride)[:, None] + column[None, :]
    tl.store(place, total, mask=(column < width)[None, :])


@_jit
def _add_tails(
    out, indptr, tails, scratch, left,
    width, out_stride, scratch_stride, longest,
    PARTS: constexpr, COLUMNS: constexpr, ACC: constexpr,
):  # fmt: skip
    """Add the rows of ``scratch`` of each hub, in order, to ``out``.

    There is a program for each part; that of a hub's first part does it.
    """
    tail = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    row = tl.load(tails + 3 * tail).to(tl.int64)
    start = tl.load(indptr + row)
    is_first = tl.load(tails + 3 * tail + 1) == start
    num_parts = (tl.load(indptr + row + 1) - start) // longest
    num_parts = tl.where(is_first, num_parts, 0)
    total = tl.zeros((COLUMNS,), dtype=ACC)
    for i in range(0, num_parts, PARTS):
        part = i + tl.arange(0, PARTS)
        place = (tail + part) * scratch_stride
        place = scratch + place[:, None] + column[None, :]
        mask = (part < num_parts)[:, None] & (column < width)[None, :]
        total += tl.sum(tl.load(place, mask=mask, other=0.0), axis=0)
    if left is not None:
        total *= tl.load(left + row).to(ACC)
    place = out + row * out_stride + column
    mask = is_first & (column < width)
    total += tl.load(place, mask=mask, other=0.0).to(ACC)
    tl.store(place, total.to(out.dtype.element_ty), mask=mask)


def spmm_add(
    out: torch.Tensor,
    indptr: torch.Tensor,
    indices: torch.Tensor,
    values: torch.Tensor | None,
    x: torch.Tensor,
    left: torch.Tensor | None = None,
    right: torch.Tensor | None = None,
    tails: torch.Tensor | None = None,
    scratch: torch.Tensor | None = None,
    longest: int = LONGEST,
) -> None:
    """Add the sums of an edge block's rows to ``out``, on the device.

    ``out[r] += left[r] * sum(values[e] * right[j] * x[j])`` for the entries
    ``indptr[r] <= e < indptr[r + 1]`` and ``j = indices[e]``. Sums are
    float32 (float64 for float64) and rounded once, on the way to ``out``.
    Nothing is allocated, and nothing waits for the device. Triton launches on
    the current device and stream, whatever the arguments are on.

    Parameters
    ----------
    out, x
        Rows, of any stride, whose columns are contiguous. Their types may
        differ, but float64 goes with float64 only. They share no memory.
    indptr, indices
        The edge block, of int32.
    values, left, right
        Factors of entries, of rows of ``out`` and of rows of ``x``; or None,
        which is 1. They are float32, or float64 beside float64 rows.
    tails
        :func:`.hubs.hub_tails` of ``indptr``, with the same ``longest``.
        Without it the result is the same, but a hub is summed by a single
        program.
    scratch
        At least as many rows and columns as there are tails and columns of
        ``x``, of the type of the sums. What was in it is lost.
    """
    double = torch.float64 in (x.dtype, out.dtype)
    acc = torch.float64 if double else torch.float32
    _check_rows("x", x)
    _check_rows("out", out, columns=x.shape[1])
    if double and x.dtype != out.dtype:
        raise DGLError(
            f"x is {x.dtype} and out is {out.dtype}: float64 goes with "
            f"float64 only."
        )
    num_rows, width = out.shape
    _check_vector("indptr", indptr, (torch.int32,), num_rows + 1, x)
    _check_vector("indices", indices, (torch.int32,), len(indices), x)
    factors = (torch.float32, acc)
    for name, factor, length in (
        ("values", values, len(indices)),
        ("left", left, num_rows),
        ("right", right, len(x)),
    ):
        if factor is not None:
            _check_vector(name, factor, factors, length, x)
    num_tails = 0 if tails is None else len(tails)
    if tails is not None and num_tails:
        _check_tails(tails, scratch, num_tails, width, acc, x)
    _check_device(x, out)
    if num_rows == 0 or width == 0 or len(indices) == 0:
        return

    rows, entries, columns = _tile(width)
    kind = tl.float64 if double else tl.float32
    blocks = triton.cdiv(width, columns)
    _add_rows[(triton.cdiv(num_rows, rows), blocks)](
        out, indptr, indices, values, x, left, right,
        num_rows, width, out.stride(0), x.stride(0),
        longest if num_tails else _NO_LIMIT,
        ROWS=rows, ENTRIES=entries, COLUMNS=columns, ACC=kind, num_warps=1,
    )  # fmt: skip
    if num_tails == 0 or scratch is None:
        return
    _sum_tails[(num_tails, blocks)](
        scratch, tails, indices, values, x, right,
        width, scratch.stride(0), x.stride(0),
        ENTRIES=entries * _TAIL_WARPS, COLUMNS=columns, ACC=kind,
        num_warps=_TAIL_WARPS,
    )  # fmt: skip
    _add_tails[(num_tails, blocks)](
        out, indptr, tails, scratch, left,
        width, out.stride(0), scratch.stride(0), longest,
        PARTS=_PARTS, COLUMNS=columns, ACC=kind, num_warps=1,
    )  # fmt: skip


def _tile(width: int) -> tuple[int, int, int]:
    """Rows, entries and columns of a program's tile, all powers of 2.

    Narrow rows are taken several at a time, but not many: a program takes as
    long as the longest of its rows.
    """
    columns = min(_MAX_COLUMNS, 1 << (width - 1).bit_length())
    entries = min(_MAX_ENTRIES, _MAX_TILE // columns)
    rows = max(1, min(_MAX_ROWS, _ROWS_TILE // (entries * columns)))
    return rows, entries, columns


def _check_rows(
    name: str, rows: torch.Tensor, columns: int | None = None
) -> None:
    if rows.dim() != 2 or columns not in (None, rows.shape[-1]):
        expected = "columns" if columns is None else columns
        raise DGLError(
            f"{name} should have shape (rows, {expected}), got "
            f"{tuple(rows.shape)}."
        )
    if find_type(rows.dtype) is None:
        raise DGLError(f"{name} is {rows.dtype}: convert it to one of {NAMES}.")
    if rows.shape[1] > 1 and rows.stride(1) != 1:
        raise DGLError(
            f"{name} has columns {rows.stride(1)} elements apart: use "
            f"{name}.contiguous()."
        )


def _check_vector(
    name: str,
    vector: torch.Tensor,
    dtypes: tuple[torch.dtype, ...],
    length: int,
    x: torch.Tensor,
) -> None:
    if vector.dtype not in dtypes:
        raise DGLError(f"{name} should be {dtypes[0]}, got {vector.dtype}.")
    if vector.dim() != 1 or len(vector) != length:
        raise DGLError(
            f"{name} should have shape ({length},), got {tuple(vector.shape)}."
        )
    if not vector.is_contiguous():
        raise DGLError(f"{name} is strided: use {name}.contiguous().")
    _check_same_device(name, vector, x)


def _check_tails(
    tails: torch.Tensor,
    scratch: torch.Tensor | None,
    num_tails: int,
    width: int,
    acc: torch.dtype,
    x: torch.Tensor,
) -> None:
    if tails.dtype != torch.int32 or tails.shape != (num_tails, 3):
        raise DGLError(
            f"tails should be what hub_tails gives, got {tails.dtype} of "
            f"shape {tuple(tails.shape)}."
        )
    if not tails.is_contiguous():
        raise DGLError("tails is strided: use tails.contiguous().")
    _check_same_device("tails", tails, x)
    if scratch is None:
        raise DGLError("tails were given without scratch to sum them in.")
    _check_rows("scratch", scratch)
    if scratch.dtype != acc:
        raise DGLError(f"scratch should be {acc}, got {scratch.dtype}.")
    if len(scratch) < num_tails or scratch.shape[1] < width:
        raise DGLError(
            f"scratch should have at least shape ({num_tails}, {width}), got "
            f"{tuple(scratch.shape)}."
        )
    _check_same_device("scratch", scratch, x)


def _check_same_device(
    name: str, tensor: torch.Tensor, x: torch.Tensor
) -> None:
    if tensor.device != x.device:
        raise DGLError(f"{name} is on {tensor.device} and x on {x.device}.")


def _check_device(x: torch.Tensor, out: torch.Tensor) -> None:
    _check_same_device("out", out, x)
    if triton is None:
        raise DGLError(
            "The Triton kernel was asked for, but Triton 3 is not installed: "
            "pip install triton."
        )
    compiled = isinstance(_add_rows, triton.runtime.JITFunction)
    if compiled and x.device.type == "cpu":
        raise DGLError(
            "The Triton kernel runs on GPUs, and x is on the CPU. (For tests, "
            "TRITON_INTERPRET=1 in the environment runs it there.)"
        )
