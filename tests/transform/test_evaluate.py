"""Static values and branches, on the graph that is precomputed."""

import dgl
import pytest
import torch
import torch.nn.functional as F
from dgl import nn as dglnn
from transform.zoo import (
    IN,
    OUT,
    Function,
    Layers,
    features,
    gcn,
    looped_graph,
    model_of,
    random_graph,
)

from dgl_lc import LCError, lc_transform
from dgl_lc.testing.random_graphs import make_features

pytestmark = pytest.mark.usefixtures("double_precision")


def test_a_graph_on_which_the_model_would_stop():
    graph, feat = looped_graph(), features()
    lc = lc_transform(Layers(*gcn()).double(), graph, feat)
    isolated = dgl.graph(([0, 1], [1, 0]), num_nodes=60)
    with pytest.raises(LCError, match="branch"):
        lc.precompute(isolated, feat)
    with pytest.raises(LCError, match=r"LC036.* 0-in-degree nodes"):
        lc_transform(Layers(*gcn()).double(), isolated, feat)


def test_branch_on_the_number_of_nodes_is_checked_on_the_graph():
    feat = features()

    def body(self, g, x):
        h = self.a(g, x)
        return h if g.num_nodes() < 500 else h * 2

    model = Function(body, a=dglnn.GraphConv(IN, OUT)).double()
    small, large = random_graph(60), random_graph(700, 3000)
    lc = lc_transform(model, small, feat)
    assert len(lc.inputs) == 1
    x = make_features(700, IN, dtype=torch.float64)
    with pytest.raises(LCError, match="branch"):
        lc_transform(model, large, x)
    with pytest.raises(LCError, match="branch"):
        lc.precompute(large, x)


def test_static_features_may_be_scaled_by_sizes():
    def body(self, g, x):
        return self.conv(g, self.fc(x / g.num_nodes() ** 0.5))

    model = model_of(body)
    g, x = random_graph(), features()
    lc = lc_transform(model, g, x)
    (rows,) = lc.precompute(g, x)
    plain = dglnn.GraphConv(IN, IN, weight=False, bias=False)
    torch.testing.assert_close(rows, plain(g, x) / 60**0.5)


def test_static_statistics_are_those_of_the_real_features():
    def body(self, g, x):
        return self.conv(g, F.relu(self.fc((x - x.mean(0)) / x.std(0))))

    model = model_of(body)
    g, x = random_graph(), features()
    (rows,) = lc_transform(model, g, x).precompute(g, x)
    plain = dglnn.GraphConv(IN, IN, weight=False, bias=False)
    expected = plain(g, (x - x.mean(0)) / x.std(0))
    torch.testing.assert_close(rows, expected)


def test_features_that_the_graph_lacks():
    g, x = random_graph(), features()
    g.ndata["n"] = torch.rand(g.num_nodes(), 1)
    model = model_of(lambda self, g, x: self.conv(g, self.fc(x * g.ndata["n"])))
    lc = lc_transform(model, g, x)
    with pytest.raises(LCError, match=r"ndata\['n'\]: does not exist"):
        lc.precompute(random_graph(), x)
