"""The frontier against a search on the dense matrix."""

import dgl
import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from dgl_lc.precompute import block_aggregate
from dgl_lc.precompute.graph.frontier import frontier
from dgl_lc.precompute.graph.in_edges import in_edges
from dgl_lc.testing.random_graphs import graphs
from dgl_lc.testing.reference import dense_filter


@given(
    g=graphs(max_nodes=60, max_edges=80),
    K=st.integers(0, 4),
    self_loop=st.booleans(),
    loaded=st.booleans(),
    data=st.data(),
)
def test_frontier_is_what_is_reached_backwards(g, K, self_loop, loaded, data):
    n = g.num_nodes()
    ids = st.lists(st.integers(0, n - 1), min_size=1, max_size=4)
    nodes = np.array(data.draw(ids))
    hops = sorted(data.draw(st.sets(st.integers(0, K), min_size=1)))
    edges = in_edges(g)
    if loaded:
        edges.load()
    found = frontier(edges, nodes, hops, self_loop)
    reaches = dense_filter(g, norm="none", self_loop=self_loop) != 0
    assert len(found) == hops[-1] + 1
    needed = np.zeros(n, bool)
    for hop in range(hops[-1], -1, -1):
        if hop < hops[-1]:
            needed = reaches[needed].any(axis=0)
        if hop in hops:
            needed[nodes] = True
        rows = np.arange(n) if found[hop] is None else found[hop]
        # All rows may stand for fewer once every node was needed.
        assert set(np.flatnonzero(needed)) <= set(rows)
        if found[hop] is not None:
            assert np.array_equal(rows, np.flatnonzero(needed))
            assert len(rows) < n
        # Whatever is computed finds all it reads in the hop before.
        if hop < hops[-1]:
            later = np.arange(n) if found[hop + 1] is None else found[hop + 1]
            assert set(np.flatnonzero(reaches[later].any(axis=0))) <= set(rows)


def test_a_hop_that_is_needed_nowhere():
    # Node 2 has no in-edges: its hop 3 needs hop 2 nowhere, and hop 1 is
    # asked for at node 2 alone. Hop 2 is not computed at all.
    g = dgl.graph(([0, 1, 2], [1, 0, 0]), num_nodes=3)
    found = frontier(in_edges(g), np.array([2]), [1, 3], self_loop=False)
    assert [list(rows) for rows in found] == [[], [2], [], [2]]
    hops = block_aggregate(
        g, torch.ones(3, 2), 3, nodes=[2], hops=[1, 3], self_loop=False
    )
    assert not hops[1].any()
    assert not hops[3].any()
