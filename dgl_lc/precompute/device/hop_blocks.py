"""Kernels that write blocks of a hop's edges, as a device takes them.

An *entry* is an edge, or the one self-loop that the filter gives a row.
"""

from typing import NamedTuple

import numpy as np

from ..._common.jit import jit


@jit
def count_entries(
    rows: np.ndarray,
    indptr: np.ndarray,
    loops: np.ndarray,
    self_loop: bool,
    starts: np.ndarray,
) -> None:
    """Where the entries of each row begin; ``rows`` empty for all rows."""
    all_rows = len(rows) == 0
    total = 0
    starts[0] = 0
    for position in range(len(starts) - 1):
        row = position if all_rows else rows[position]
        count = indptr[row + 1] - indptr[row]
        if self_loop:
            # The graph's own self-loops give way to the filter's.
            count += 1 - loops[row]
        total += count
        starts[position + 1] = total


class MatrixEntries(NamedTuple):
    """What the entries of a hop's matrix are made of.

    ``starts`` is where the entries of each row begin. Empty arrays stand for
    the trivial case, as in :class:`..cpu.chunks.Entries`.
    """

    starts: np.ndarray
    rows: np.ndarray
    place: np.ndarray
    indptr: np.ndarray
    sources: np.ndarray
    edge_ids: np.ndarray
    weight: np.ndarray
    self_loop: bool
    drop_loops: bool


class BlockArrays(NamedTuple):
    """Where a block goes; ``values`` is empty for a filter without any."""

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray


@jit
def fill_block(
    begin: int,
    end: int,
    first_row: int,
    low: int,
    high: int,
    entries: MatrixEntries,
    out: BlockArrays,
) -> None:
    """Write entries ``begin`` to ``end`` that are of positions low to high.

    The outputs are the block's: ``out.indptr`` begins with the position
    ``first_row``, the others with the entry ``begin``, so that their numbers
    are small however many edges there are.
    """
    starts, rows, place = entries.starts, entries.rows, entries.place
    indptr, sources = entries.indptr, entries.sources
    edge_ids, weight = entries.edge_ids, entries.weight
    self_loop, drop_loops = entries.self_loop, entries.drop_loops
    out_indptr, out_indices, out_values = out.indptr, out.indices, out.values
    all_rows = len(rows) == 0
    # Not of the weights: self-loops have values even without any edge.
    weighted = len(out_values) > 0
    for position in range(low, high):
        row = position if all_rows else rows[position]
        at = starts[position]
        stop = min(starts[position + 1], end)
        out_indptr[position - first_row] = max(at, begin) - begin
        if self_loop:
            if begin <= at < end:
                found = place[row] if len(place) > 0 else row
                out_indices[at - begin] = found
                if weighted:
                    out_values[at - begin] = 1.0
            at += 1
        edge = indptr[row]
        if not drop_loops and at < begin:
            edge += begin - at
            at = begin
        while at < stop:
            source = sources[edge]
            if not (drop_loops and source == row):
                if at >= begin:
                    found = place[source] if len(place) > 0 else source
                    out_indices[at - begin] = found
                    if weighted:
                        own = edge if len(edge_ids) == 0 else edge_ids[edge]
                        out_values[at - begin] = weight[own]
                at += 1
            edge += 1
