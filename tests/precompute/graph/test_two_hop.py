"""Exact neighbourhoods against a dense search."""

import dgl
import numpy as np
import pytest
from dgl import DGLError
from hypothesis import given
from hypothesis import strategies as st

from dgl_lc.precompute.graph.two_hop import one_hop_graph, two_hop_graph
from dgl_lc.testing.random_graphs import graphs


def dense(g):
    found = np.zeros((g.num_nodes(), g.num_nodes()), int)
    source, target = (t.numpy() for t in g.edges(order="srcdst"))
    np.add.at(found, (target, source), 1)
    return found


@given(g=graphs(), paths=st.sampled_from([1, 5, 1 << 22]))
def test_neighbourhoods_are_exact(g, paths):
    near = one_hop_graph(g)
    eye = np.eye(g.num_nodes(), dtype=bool)
    expected = (dense(g) > 0) & ~eye
    assert np.array_equal(dense(near), expected)
    far = two_hop_graph(near, paths_at_once=paths)
    steps = expected.astype(int)
    assert np.array_equal(dense(far), (steps @ steps > 0) & ~expected & ~eye)
    assert far.idtype == g.idtype


def test_too_many_paths_are_refused_before_they_are_made():
    star = dgl.graph(([*range(1, 3000)], [0] * 2999))
    star = dgl.add_reverse_edges(star)
    with pytest.raises(DGLError, match=r"paths of two edges.*memory="):
        two_hop_graph(star, "100MiB")
