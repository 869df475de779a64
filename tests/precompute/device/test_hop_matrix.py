"""Blocks of a hop's entries, as a device takes them."""

import numpy as np
import pytest
import torch
from dgl import DGLError
from hypothesis import given
from hypothesis import strategies as st

from dgl_lc.hops import FilterSpec
from dgl_lc.precompute.device.csr_spmm import spmm_add
from dgl_lc.precompute.device.hop_blocks import (
    BlockArrays,
    MatrixEntries,
    fill_block,
)
from dgl_lc.precompute.device.hop_matrix import HopMatrix, cut_blocks
from dgl_lc.precompute.graph.filters import Filter
from dgl_lc.precompute.graph.in_edges import in_edges
from dgl_lc.testing.random_graphs import graphs
from dgl_lc.testing.reference import dense_filter

NONE = np.empty(0, np.int32)


@given(
    counts=st.lists(st.integers(0, 30), min_size=1, max_size=60),
    entries=st.integers(1, 40),
    rows=st.integers(1, 20),
)
def test_every_entry_is_in_one_block(counts, entries, rows):
    starts = np.concatenate([[0], np.cumsum(counts)])
    blocks = cut_blocks(starts, entries, rows)
    covered = [e for b in blocks for e in range(b.begin, b.end)]
    assert covered == list(range(starts[-1]))
    for block in blocks:
        assert 0 < block.num_entries <= entries
        assert block.num_rows <= rows
        # Its rows are those of its entries.
        assert starts[block.first] <= block.begin < starts[block.first + 1]
        assert starts[block.last - 1] <= block.end <= starts[block.last]


@given(
    g=graphs(),
    self_loop=st.booleans(),
    weighted=st.booleans(),
    entries=st.integers(1, 30),
    some=st.booleans(),
)
def test_blocks_are_the_matrix(g, self_loop, weighted, entries, some):
    n = g.num_nodes()
    weight = torch.rand(g.num_edges()) if weighted else None
    spec = FilterSpec("none", self_loop, weighted)
    numbers = None if weight is None else weight.numpy()
    filter = Filter(in_edges(g), spec, np.float32, numbers)
    rows = place = None
    wanted = dense_filter(
        g, norm="none", self_loop=self_loop, edge_weight=weight
    )
    if some:
        rows = np.arange(0, n, 3, dtype=np.int32)
        needed = wanted[rows].any(axis=0)
        sources = np.flatnonzero(needed)
        place = np.full(n, -1, np.int32)
        place[sources] = np.arange(len(sources))
        wanted = wanted[np.ix_(rows, sources)]
    matrix = HopMatrix(filter, rows, entries, entries)
    found = np.zeros(wanted.shape)
    for block in matrix.blocks:
        indptr = np.full(block.num_rows + 1, -1, np.int32)
        indices = np.full(block.num_entries, -1, np.int32)
        values = None
        if weighted:
            values = np.full(block.num_entries, np.nan, np.float32)
        matrix.fill(block, place, indptr, indices, values)
        assert indptr[0] == 0
        assert indptr[-1] == block.num_entries
        for row in range(block.num_rows):
            for e in range(indptr[row], indptr[row + 1]):
                value = values[e] if weighted else 1
                found[block.first + row, indices[e]] += value
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_more_entries_than_32_bits_count():
    """The numbers of a block are its own, wherever it lies."""
    far = 5 * 2**31
    starts = far + np.array([0, 3, 3, 7])
    indptr = np.array([0, 3, 3, 7])
    sources = np.array([2, 0, 1, 0, 1, 2, 0], np.int32)
    out_indptr, out_indices = np.empty(4, np.int32), np.empty(5, np.int32)
    entries = MatrixEntries(
        starts, NONE, NONE, indptr, sources, np.empty(0, np.int64),
        np.empty(0, np.float32), False, False,
    )  # fmt: skip
    out = BlockArrays(out_indptr, out_indices, np.empty(0, np.float32))
    fill_block(far + 1, far + 6, 0, 0, 3, entries, out)
    assert out_indptr[:3].tolist() == [0, 2, 2]
    assert out_indices.tolist() == [0, 1, 0, 1, 2]
    blocks = cut_blocks(np.arange(6) * 2**31, 2**30, 10)
    assert blocks[-1].end == 5 * 2**31
    assert all(block.num_entries < 2**31 for block in blocks)


def test_index_types_have_to_be_the_same():
    x = torch.ones(3, 2)
    out, ones = torch.zeros(2, 2), torch.ones(2)
    indptr, indices = torch.tensor([0, 1, 2]), torch.tensor([0, 2])
    for a, b in ((torch.int64, torch.int32), (torch.int64, torch.int64)):
        with pytest.raises(DGLError, match="should both be int32"):
            spmm_add(out, indptr.to(a), indices.to(b), ones, x)
    spmm_add(out, indptr.int(), indices.int(), ones, x)
    assert (out == 1).all()
    with pytest.raises(DGLError, match="of one type"):
        spmm_add(out, indptr.int(), indices.int(), ones.double(), x)
    with pytest.raises(DGLError, match="columns"):
        spmm_add(out, indptr.int(), indices.int(), ones, x[:, :1])
