"""LCGraphConv beside dgl.nn.GraphConv."""

import dgl
import pytest
import torch
import torch.nn.functional as F
from dgl import DGLError
from dgl.nn import GraphConv

from dgl_lc import block_aggregate
from dgl_lc.nn import LCGraphConv, plain
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
    with pytest.raises(DGLError, match="weight of its own"):
        conv(graph, hops, weight=torch.ones(4, 2))
    with pytest.raises(DGLError, match="4 columns"):
        LCGraphConv(5, 2)(graph, hops)
    with pytest.raises(DGLError, match="reads hop 1"):
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


PACKAGES = pytest.mark.parametrize("kind", [LCGraphConv, plain.LCGraphConv])


def two_layers(kind):
    torch.manual_seed(4)
    layers = kind(4, 5, activation=torch.tanh), kind(5, 2)
    for layer in layers:
        layer.bias.data.normal_()
    return layers


def output(layers, h):
    """Two layers on rows of hop 2, written out."""
    first, second = layers
    h = torch.tanh(h @ first.weight + first.bias)
    return h @ second.weight + second.bias


@PACKAGES
def test_a_list_is_hops_from_hop_0_on(kind, graph):
    hops = list(block_aggregate(graph, make_features(6, 4), 3))
    layers = first, second = two_layers(kind)
    one = first(None, hops)
    assert isinstance(one, list)
    assert len(one) == 3
    for k in range(3):
        expected = torch.tanh(hops[k + 1] @ first.weight + first.bias)
        torch.testing.assert_close(one[k], expected)
    two = second(None, one)
    assert len(two) == 2
    torch.testing.assert_close(two[0], output(layers, hops[2]))
    torch.testing.assert_close(two[1], output(layers, hops[3]))
    # The given list is not changed.
    assert len(hops) == 4
    assert [h.shape for h in hops] == [(6, 4)] * 4


@PACKAGES
def test_hop_0_alone_is_a_tensor(kind, graph):
    hops = list(block_aggregate(graph, make_features(6, 4), 2))
    layers = first, second = two_layers(kind)
    every = second(graph, first(graph, hops))
    assert every.shape == (6, 2)
    torch.testing.assert_close(every, output(layers, hops[2]))
    torch.testing.assert_close(
        first(None, hops[:2]),
        torch.tanh(hops[1] @ first.weight + first.bias),
    )


@PACKAGES
@pytest.mark.parametrize("left_out", [[0], [1], [0, 1]])
def test_hops_that_are_not_needed_can_be_none(kind, left_out, graph):
    hops = list(block_aggregate(graph, make_features(6, 4), 2))
    first, second = two_layers(kind)
    expected = second(None, first(None, hops))
    some = [None if k in left_out else h for k, h in enumerate(hops)]
    assert torch.equal(second(None, first(None, some)), expected)
    batch = [h if h is None else h[[4, 0]] for h in some]
    torch.testing.assert_close(
        second(None, first(None, batch)), expected[[4, 0]]
    )


@PACKAGES
def test_none_stays_in_its_place(kind):
    conv = kind(4, 2)
    x = make_features(6, 4)
    found = conv(None, [None, None, x, None, x])
    assert [h is None for h in found] == [True, False, True, False]
    torch.testing.assert_close(found[1], x @ conv.weight + conv.bias)
    # Hop 0 alone, although a later one was left out.
    assert isinstance(conv(None, [None, x, None]), torch.Tensor)


@PACKAGES
def test_one_tensor_of_hops_is_the_list_of_them(kind, graph):
    hops = list(block_aggregate(graph, make_features(6, 4), 3))
    first, second = two_layers(kind)
    stack = torch.stack(hops)
    one = first(None, stack)
    assert one.shape == (3, 6, 5)
    torch.testing.assert_close(list(one), first(None, hops))
    two = second(None, one)
    assert two.shape == (2, 6, 2)
    torch.testing.assert_close(list(two), second(None, first(None, hops)))
    assert second(None, first(None, stack[:3])).shape == (6, 2)
    batch = second(None, first(None, stack[:, [4, 0]]))
    torch.testing.assert_close(batch, two[:, [4, 0]])


def test_plain_hops_give_what_hop_features_give(graph):
    hops = block_aggregate(graph, make_features(6, 4), 3)
    layers = first, second = two_layers(LCGraphConv)
    others = two_layers(plain.LCGraphConv)
    for layer, other in zip(layers, others, strict=True):
        assert list(layer.state_dict()) == list(other.state_dict())
        other.load_state_dict(layer.state_dict())
    expected = second(None, first(None, hops))
    for one, two in (layers, others):
        for feat in (list(hops), torch.stack(list(hops))):
            found = two(None, one(None, feat))
            torch.testing.assert_close(list(found), list(expected))


@PACKAGES
def test_gradients_reach_the_features_and_the_weights(kind):
    hops = [make_features(6, 4).requires_grad_() for _ in range(3)]
    first, second = two_layers(kind)
    second(None, first(None, hops)).sum().backward()
    assert hops[0].grad is None
    assert hops[1].grad is None
    assert hops[2].grad.abs().sum() > 0
    assert first.weight.grad.abs().sum() > 0


@PACKAGES
@pytest.mark.parametrize(
    "make_feat",
    [
        lambda x: [x],
        lambda x: x[None],
        lambda x: [],
        lambda x: [x, None],
        lambda x: [None, None, None],
    ],
)
def test_without_a_hop_to_step_to_it_is_an_error(kind, make_feat):
    with pytest.raises(DGLError, match="too few hops: the layer reads hop 1"):
        kind(4, 2)(None, make_feat(make_features(6, 4)))


@PACKAGES
def test_a_stack_of_more_layers_than_hops_is_an_error(kind):
    first, second = two_layers(kind)
    x = make_features(6, 4)
    with pytest.raises(DGLError):
        second(None, first(None, [x, x]))


@PACKAGES
def test_other_plain_input_is_named(kind):
    conv, x = kind(4, 2), make_features(6, 4)
    with pytest.raises(DGLError, match="got dict"):
        conv(None, {0: x, 1: x})
    with pytest.raises(DGLError, match="feat has 3 columns"):
        conv(None, [x, x[:, :3]])
    with pytest.raises(DGLError, match="feat has 3 columns"):
        conv(None, torch.ones(2, 6, 3))
    with pytest.raises(DGLError, match="weight of its own"):
        conv(None, [x, x], weight=torch.ones(4, 2))
    with pytest.raises(DGLError):
        conv(None, x)


@PACKAGES
def test_an_external_weight_is_used_on_plain_hops(kind):
    x, weight = make_features(6, 4), torch.randn(4, 2)
    conv = kind(4, 2, weight=False, bias=False)
    torch.testing.assert_close(conv(None, [x, 2 * x], weight), 2 * x @ weight)
    assert torch.equal(conv(None, [x, 2 * x]), 2 * x)


@PACKAGES
def test_allow_zero_in_degree_can_be_set_and_has_no_effect(kind):
    x = make_features(6, 4)
    conv = kind(4, 2, allow_zero_in_degree=True)
    expected = conv(None, [x, x])
    conv.set_allow_zero_in_degree(False)
    assert torch.equal(conv(None, [x, x]), expected)


@PACKAGES
def test_it_is_printed_as_graph_conv(kind):
    options = {"activation": torch.relu, "norm": "right"}
    original = repr(GraphConv(4, 3, **options))
    assert "activation=<built-in" in original
    assert repr(kind(4, 3, **options)) == f"LC{original}"
