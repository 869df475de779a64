"""Filters as diagonals and edges."""

import dgl
import numpy as np

from dgl_lc.hops import FilterSpec
from dgl_lc.precompute.csc import in_edges
from dgl_lc.precompute.filters import diagonals


def test_a_graph_in_both_directions_has_one_diagonal():
    spec = FilterSpec("both", True, False)
    g = dgl.graph(([0, 1, 1, 2], [1, 0, 2, 1]))
    left, right = diagonals(in_edges(g), spec, np.float32)
    assert left is right
    g = dgl.graph(([0, 1, 1], [1, 0, 2]))
    left, right = diagonals(in_edges(g), spec, np.float32)
    assert not np.array_equal(left, right)
