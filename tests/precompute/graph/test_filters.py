"""Filters as diagonals and edges."""

import dgl
import numpy as np

from dgl_lc.hops import FilterSpec
from dgl_lc.precompute.graph.filters import diagonals
from dgl_lc.precompute.graph.in_edges import in_edges


def test_a_graph_in_both_directions_has_one_diagonal():
    spec = FilterSpec("both", True, False)
    g = dgl.graph(([0, 1, 1, 2], [1, 0, 2, 1]))
    left, right = diagonals(in_edges(g), spec, np.float32)
    assert left is right
    g = dgl.graph(([0, 1, 1], [1, 0, 2]))
    left, right = diagonals(in_edges(g), spec, np.float32)
    assert not np.array_equal(left, right)
