"""Putting a hop store together of parts, by several writers.

A part is a hop store of some of the columns, at all or some of the rows. The
rows of the whole store are written in ranges of bytes that begin and end at
whole pages of the file: no page has two writers, which may be on different
machines.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from dgl import DGLError

from .._common.dtypes import bits_of
from .._common.rows import COPY_ROWS
from .folder import disk_errors
from .hop_store import ROWS, StoreHead, open_hop_store
from .npy_file import HEADER
from .row_checksums import add_checksums, factors

#: Ranges of bytes begin at multiples of this, in the file.
_UNIT = 1 << 20
#: Bytes of rows that are put together at a time.
_PIECE = 1 << 22


@dataclass(frozen=True)
class Part:
    """A hop store of a part of a result.

    Attributes
    ----------
    folder : Path
        Its folder.
    first, last : int
        Its columns, of those of the whole store.
    places : int64 tensor or None
        The rows of the whole store that it has, ascending; None for all.
    """

    folder: Path
    first: int
    last: int
    places: torch.Tensor | None = None


def byte_ranges(head: StoreHead, itemsize: int, writers: int) -> np.ndarray:
    """Cut the file of the rows into ranges, one for each writer.

    Gives the first byte of each range, from the beginning of the file, and
    the size of the file.
    """
    rows, hops, columns = head.shape
    size = HEADER + rows * hops * columns * itemsize
    units = -(-size // _UNIT)
    bounds = np.arange(writers + 1) * units // writers * _UNIT
    return np.minimum(bounds, size)


def rows_of(bounds: np.ndarray, row_bytes: int) -> np.ndarray:
    """Give the first row that begins in each range of bytes."""
    begins = np.maximum(bounds - HEADER, 0)
    return -(-begins // row_bytes)


def assemble_bytes(head: StoreHead, itemsize: int, rows: int) -> int:
    """Count the bytes that a writer of so many rows allocates."""
    row = head.shape[1] * head.shape[2] * itemsize
    return 8 * rows + 4 * max(_PIECE, 2 * row)


def write_range(
    folder: Path,
    head: StoreHead,
    parts: Sequence[Part],
    begin: int,
    end: int,
    done: Callable[[int], object] = bool,
) -> np.ndarray:
    """Write bytes begin to end of the rows of a store; give the checksums.

    These are of the rows that begin in this range. Every row that is read
    from a part is compared with its checksum. ``done`` is told of bytes.
    """
    rows, hops, columns = head.shape
    stores = [open_hop_store(part.folder) for part in parts]
    dtype = stores[0].dtype
    row_bytes = hops * columns * dtype.itemsize
    first = max(0, begin - HEADER) // row_bytes
    last = min(rows, -(-max(0, end - HEADER) // row_bytes))
    begins, ends = rows_of(np.array([begin, end]), row_bytes)
    checksums = np.zeros(int(ends - begins), np.uint64)
    odd = factors(hops * columns)
    piece = max(1, min(COPY_ROWS, _PIECE // row_bytes))
    values = torch.empty(piece, hops, columns, dtype=dtype)
    with disk_errors(folder), open(folder / ROWS, "r+b") as file:
        for low in range(first, last, piece):
            high = min(low + piece, last)
            own = values[: high - low]
            _fill(own, low, high, parts, stores)
            bits = bits_of(own.reshape(high - low, -1))
            sums = np.zeros(high - low, np.uint64)
            add_checksums(bits, odd, sums)
            # A row at the border of two ranges is counted where it begins.
            since, until = max(low, int(begins)), min(high, int(ends))
            if since < until:
                checksums[since - begins : until - begins] = sums[
                    since - low : until - low
                ]
            _write(file.fileno(), bits, HEADER + low * row_bytes, begin, end)
            done(bits.nbytes)
        file.flush()
        os.fsync(file.fileno())
    return checksums


def _fill(
    values: torch.Tensor,
    low: int,
    high: int,
    parts: Sequence[Part],
    stores: Sequence,
) -> None:
    """Read rows low to high of the whole store from its parts."""
    for part, store in zip(parts, stores, strict=True):
        if part.places is None:
            places, at = torch.arange(low, high), slice(None)
        else:
            since, until = torch.searchsorted(
                part.places, torch.tensor([low, high])
            ).tolist()
            if since == until:
                continue
            places = torch.arange(since, until)
            at = part.places[since:until] - low  # type: ignore[assignment]
        found = store.take(places, places).stack
        found = found.view(len(store), len(places), -1).transpose(0, 1)
        values[at, :, part.first : part.last] = found


def _write(
    file: int, bits: np.ndarray, offset: int, begin: int, end: int
) -> None:
    """Write rows that lie at an offset, but for what others write."""
    data = np.ascontiguousarray(bits).view(np.uint8).reshape(-1)
    since, until = max(begin, offset), min(end, offset + len(data))
    view = memoryview(data.data)[since - offset : until - offset]
    while len(view):
        written = os.pwrite(file, view, since)
        if written <= 0:
            raise DGLError("the disk takes no more bytes: make room.")
        view, since = view[written:], since + written
