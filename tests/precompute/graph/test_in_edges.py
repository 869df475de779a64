"""Edges by destination, from any format, and arrays that are no graph."""

import dgl
import numpy as np
import pytest
import torch
from dgl import DGLError
from hypothesis import given
from hypothesis import strategies as st

from dgl_lc.precompute import block_aggregate, edge_blocks, normalize
from dgl_lc.precompute.graph.edge_reader import EdgeReader
from dgl_lc.precompute.graph.in_edges import in_edges
from dgl_lc.testing.random_graphs import graphs


@given(g=graphs(), size=st.sampled_from([1, 7, 1 << 19]))
def test_slices_are_all_edges(g, size):
    source, target, ids = g.edges(form="all", order="srcdst")
    found = np.full((2, g.num_edges()), -1)
    count = 0
    for first, edge_ids, own_source, own_target in EdgeReader(g).slices(size):
        assert len(own_source) <= size
        own = np.arange(first, first + len(own_source))
        if edge_ids is not None:
            own = edge_ids
        found[:, own] = own_source, own_target
        count += len(own)
    assert count == g.num_edges()
    order = ids.argsort()
    assert np.array_equal(found[0], source[order])
    assert np.array_equal(found[1], target[order])


@pytest.mark.parametrize("formats", ["coo", "csr", "csc"])
def test_edges_are_not_copied(formats):
    g = dgl.rand_graph(50, 400).formats(formats)
    held = {
        "coo": lambda: g.edges(),
        "csr": lambda: g.adj_tensors("csr")[1:2],
        "csc": lambda: g.adj_tensors("csc")[1:2],
    }[formats]()
    held = [tensor.data_ptr() for tensor in held]
    reader = EdgeReader(g)
    part = next(reader.slices())
    ends = [part.source.ctypes.data, part.target.ctypes.data]
    assert set(held) <= set(ends)


@given(g=graphs())
def test_degrees_are_counted(g):
    edges, n = in_edges(g), g.num_nodes()
    source, target = (ends.numpy() for ends in g.edges(order="srcdst"))
    counts = np.bincount(target, minlength=n), np.bincount(source, minlength=n)
    assert np.array_equal(np.diff(edges.indptr), counts[0])
    assert np.array_equal(edges.out_edges, counts[1])
    loops = np.bincount(source[source == target], minlength=n)
    assert np.array_equal(edges.loops, loops)


def compressed(indptr, indices, ids=(), formats="csc", n=3):
    """A graph of these arrays, put there behind DGL's back.

    DGL looks at the largest id, and has the tensors' memory from then on.
    """
    given = [torch.tensor(a, dtype=torch.int64) for a in (indptr, indices, ids)]
    arrays = [torch.zeros_like(array) for array in given]
    g = dgl.graph((formats, tuple(arrays)), num_nodes=n)
    for array, values in zip(arrays, given, strict=True):
        array.copy_(values)
    return g


@pytest.mark.parametrize("formats", ["csc", "csr"])
@pytest.mark.parametrize(
    ("indptr", "indices", "message"),
    [
        ([0, 1, 2, 3], [0, 1, 3], "node id 3, but its nodes are 0 to 2"),
        ([0, 1, 2, 3], [0, -5, 2], "node id -5, but its nodes are 0 to 2"),
        ([0, 1, 2, 3], [0, 2**40, 2], "node id 1099511627776"),
        ([0, 3, 1, 3], [0, 1, 2], r"indptr\[2\] is 1"),
        ([1, 1, 2, 3], [0, 1, 2], r"indptr\[0\] is 1"),
        ([0, 1, 2, 2], [0, 1, 2], r"indptr\[3\] is 2"),
        ([0, 1, 2, 9], [0, 1, 2], r"indptr\[3\] is 9"),
    ],
)
def test_arrays_that_are_no_graph_are_refused(
    indptr, indices, message, formats
):
    g = compressed(indptr, indices, formats=formats)
    x = torch.ones(3, 2)
    for call in (
        lambda: block_aggregate(g, x, 1),
        lambda: block_aggregate(g, x, 2, nodes=[0]),
        lambda: edge_blocks(g, 1),
        lambda: normalize(g),
    ):
        with pytest.raises(DGLError, match=message):
            call()


@pytest.mark.parametrize("formats", ["csc", "csr"])
def test_edge_ids_that_are_not_there_are_refused(formats):
    g = compressed([0, 1, 2, 3], [0, 1, 2], [0, 1, 7], formats)
    x = torch.ones(3, 2)
    with pytest.raises(DGLError, match="edge id 7"):
        block_aggregate(g, x, 1, edge_weight=torch.ones(3))
    with pytest.raises(DGLError, match="edge id 7"):
        normalize(g)
    block_aggregate(g, x, 1)  # without weights they are not read


def test_ends_outside_a_list_of_edges_are_refused():
    ends = torch.tensor([0, 1, 2])
    g = dgl.graph((ends, ends), num_nodes=3)
    ends[1] = 5  # DGL has the same memory
    with pytest.raises(DGLError, match="node id 5"):
        block_aggregate(g, torch.ones(3, 2), 1)
