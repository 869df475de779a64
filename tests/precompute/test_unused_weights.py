"""Weights in the edata of a graph: used, ignored, or warned of."""

import dgl
import pytest
import torch
from dgl.base import DGLWarning

from dgl_lc.precompute import block_aggregate


def weighted_graph():
    graph = dgl.graph(([0, 1, 2], [1, 2, 0]))
    graph.edata["weight"] = torch.tensor([2.0, 3.0, 4.0])
    return graph


def test_weights_that_are_not_mentioned_are_warned_of_once():
    graph, x = weighted_graph(), torch.eye(3)
    with pytest.warns(DGLWarning) as found:
        ignored = block_aggregate(graph, x, 1)
    [warning] = found
    assert warning.filename == __file__
    text = str(warning.message)
    assert 'edge_weight="weight"' in text
    assert "edge_weight=False" in text
    assert "\n" not in text
    assert not ignored.filter.weighted
    # A second warning would be an error here, and so in what follows.
    block_aggregate(graph, x, 1)


@pytest.mark.parametrize("weight", ["weight", False, torch.ones(3)])
def test_weights_that_are_mentioned_are_not_warned_of(weight):
    block_aggregate(weighted_graph(), torch.eye(3), 1, edge_weight=weight)


def test_hop_0_depends_on_no_weights():
    block_aggregate(weighted_graph(), torch.eye(3), 0)
