"""The original models, and the graph that they read."""

import dgl
import pytest
import torch

from dgl_lc.experiments.originals import FeatureMLP, with_self_loops


@pytest.mark.parametrize("formats", ["coo", "csr", "csc"])
def test_every_node_has_one_self_loop(formats):
    g = dgl.graph(([0, 0, 1, 1, 2], [0, 0, 1, 2, 1]), num_nodes=4)
    found = with_self_loops(g.formats(formats))
    source, target = found.edges()
    loops = source[source == target]
    assert sorted(loops.tolist()) == [0, 1, 2, 3]
    rest = source != target
    edges = zip(source[rest].tolist(), target[rest].tolist(), strict=True)
    assert sorted(edges) == [(1, 2), (2, 1)]


def test_the_perceptron_does_not_use_the_graph():
    model = FeatureMLP(5, 8, 3)
    feat = torch.randn(4, 5)
    one, other = dgl.rand_graph(4, 9), dgl.rand_graph(4, 2)
    assert torch.equal(model(one, feat), model(other, feat))
    assert torch.equal(model(one, feat)[2:], model(None, feat[2:]))
