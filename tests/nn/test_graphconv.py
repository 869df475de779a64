"""LCGraphConv beside dgl.nn.GraphConv."""

import dgl
import pytest
import torch
import torch.nn.functional as F
from dgl import DGLError
from dgl.nn import GraphConv

from dgl_lc import block_aggregate
from dgl_lc.nn import LCGraphConv
from dgl_lc.testing.random_graphs import make_features


@pytest.fixture
def graph():
    g = dgl.graph(([0, 1, 2, 3, 2, 5, 4], [1, 2, 3, 4, 0, 3, 5]))
    return dgl.add_self_loop(g)


@pytest.mark.parametrize("norm", ["both", "right", "left", "none"])
@pytest.mark.parametrize("weight", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_one_layer_is_graph_conv(graph, norm, weight, weighted):
    x = make_features(6, 4)
    w = torch.rand(graph.num_edges()) if weighted else None
    hops = block_aggregate(
        graph, x, 1, norm=norm, self_loop=False, edge_weight=w
    )
    out = 3 if weight else 4
    conv = GraphConv(4, out, norm=norm, weight=weight, activation=F.relu)
    lc = LCGraphConv(4, out, norm=norm, weight=weight, activation=F.relu)
    lc.load_state_dict(conv.state_dict())
    torch.testing.assert_close(
        lc(graph, hops, edge_weight=w), conv(graph, x, edge_weight=w)
    )


def test_a_checkpoint_of_graph_conv_loads():
    state = GraphConv(4, 3).state_dict()
    LCGraphConv(4, 3).load_state_dict(state)
    assert repr(LCGraphConv(4, 3)) == (
        "LCGraphConv(in=4, out=3, normalization=both)"
    )


def test_a_stack_eats_as_many_hops_as_it_has_layers(graph):
    x = make_features(6, 4)
    conv1, conv2 = LCGraphConv(4, 8), LCGraphConv(8, 2)
    conv1.bias.data.normal_()
    hops = block_aggregate(graph, x, 3)
    every = conv2(None, torch.relu(conv1(None, hops)))
    assert every.hops == [0, 1]
    alone = conv2(None, torch.relu(conv1(None, hops[2:3])))
    assert isinstance(alone, torch.Tensor)
    torch.testing.assert_close(every[0], alone)
    expected = torch.relu(hops[2] @ conv1.weight + conv1.bias)
    torch.testing.assert_close(alone, expected @ conv2.weight + conv2.bias)


def test_misuse_is_a_clear_error(graph):
    x = make_features(6, 4)
    hops = block_aggregate(graph, x, 1)
    conv = LCGraphConv(4, 2)
    with pytest.raises(DGLError, match="block_aggregate"):
        conv(graph, x)
    with pytest.raises(DGLError, match="norm='right'"):
        LCGraphConv(4, 2, norm="right")(graph, hops)
    with pytest.raises(DGLError, match="edge_weight"):
        conv(graph, hops, edge_weight=torch.ones(3))
    with pytest.raises(DGLError, match="External weight"):
        conv(graph, hops, weight=torch.ones(4, 2))
    with pytest.raises(DGLError, match="4 columns"):
        LCGraphConv(5, 2)(graph, hops)
    with pytest.raises(DGLError, match="needs hop 1"):
        conv(graph, hops[:1])
    with pytest.raises(DGLError, match="norm='up'"):
        LCGraphConv(4, 2, norm="up")


def test_an_external_weight_is_used(graph):
    hops = block_aggregate(graph, make_features(6, 4), 1)
    weight = torch.randn(4, 2)
    conv = LCGraphConv(4, 2, weight=False, bias=False)
    torch.testing.assert_close(
        conv(None, hops, weight=weight), hops[1] @ weight
    )
