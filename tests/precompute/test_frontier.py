"""The frontier against a search on the dense matrix."""

import numpy as np
from conftest import graphs
from hypothesis import given
from hypothesis import strategies as st

from dgl_lc.precompute.csc import in_edges
from dgl_lc.precompute.frontier import frontier
from dgl_lc.precompute.reference import dense_filter


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
        rows = found[hop] if len(found[hop]) else np.arange(n)
        # All rows may stand for fewer once every node was needed.
        assert set(np.flatnonzero(needed)) <= set(rows)
        if len(found[hop]):
            assert np.array_equal(rows, np.flatnonzero(needed))
            assert len(rows) < n
