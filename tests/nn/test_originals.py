"""Every LC version against its original, where they have to agree."""

import dgl
import numpy as np
import pytest
import torch
from model_cases import (
    HID,
    IN,
    OUT,
    exact_filters,
    make_feat,
    make_graph,
    permutation_graph,
)

from dgl_lc import nn
from dgl_lc.experiments import originals
from dgl_lc.testing.random_graphs import make_features

graph, feat = pytest.fixture(make_graph), pytest.fixture(make_feat)

ORIGINALS = {
    "LCGCN": (nn.LCGCN, originals.GCN),
    "LCJKNet": (nn.LCJKNet, originals.JKNet),
    "LCGPRGNN": (nn.LCGPRGNN, originals.GPRGNN),
}


def identity(x):
    return x


def copy_parameters(lc, original):
    """By order: linear weights of GraphConv and of Linear are transposed."""
    with torch.no_grad():
        found = dict(original.named_parameters())
        for (key, a), (_, b) in zip(
            sorted(lc.named_parameters(), key=_plain),
            sorted(found.items(), key=_plain),
            strict=True,
        ):
            b.normal_()
            a.copy_(b if a.shape == b.shape and not _turn(key, lc) else b.T)


def _plain(item):
    return item[0].replace("mlp.", "")


def _turn(key, lc):
    return (
        isinstance(lc, nn.LCJKNet)
        and key.startswith("layers.")
        and ("weight" in key)
    )


@pytest.mark.parametrize("name", ORIGINALS)
@pytest.mark.parametrize("mode", ["cat", "max"])
def test_on_a_permutation_graph_it_is_the_original(name, mode):
    kind, original = ORIGINALS[name]
    options = {"mode": mode} if name == "LCJKNet" else {}
    lc = kind(IN, HID, OUT, self_loop=False, **options).double()
    other = original(IN, HID, OUT, **options).double()
    copy_parameters(lc, other)
    g, x = permutation_graph(9), make_features(9, IN, dtype=torch.float64)
    torch.testing.assert_close(lc(g, x), other(g, x))


@pytest.mark.parametrize("name", ORIGINALS)
def test_linear_and_without_bias_it_is_the_original(name, graph, feat):
    kind, original = ORIGINALS[name]
    lc = kind(IN, HID, OUT, activation=identity).double()
    other = original(IN, HID, OUT).double()
    copy_parameters(lc, other)
    with torch.no_grad():
        for model in (lc, other):
            for key, parameter in model.named_parameters():
                if "bias" in key:
                    parameter.zero_()
    looped = dgl.add_self_loop(dgl.remove_self_loop(graph))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(originals.F, "relu", identity)
        expected = other(looped, feat)
    torch.testing.assert_close(lc(graph, feat), expected)


def loop_free(activation):
    """A graph where the LC version and its original must agree."""
    if activation is identity:
        rng = np.random.default_rng(4)
        ends = rng.integers(0, 9, 30), rng.integers(0, 9, 30)
        return dgl.add_self_loop(
            dgl.remove_self_loop(dgl.graph(ends, num_nodes=9))
        )
    return permutation_graph(9)


AGREE = pytest.mark.parametrize("activation", [identity, torch.tanh])


@AGREE
def test_appnp_agrees_with_dgl(activation):
    g = loop_free(activation)
    x = make_features(9, IN)  # APPNPConv takes float32 alone
    lc = nn.LCAPPNP(IN, HID, OUT, K=4, activation=activation, self_loop=False)
    if activation is identity:
        with torch.no_grad():
            for layer in lc.mlp.layers:
                layer.bias.zero_()
    original = dgl.nn.APPNPConv(4, 0.1)
    torch.testing.assert_close(lc(g, x), original(g, lc.mlp(x)))


def test_sgc_agrees_with_dgl(graph, feat):
    lc = nn.SGC(IN, OUT, K=3).double()
    original = dgl.nn.SGConv(IN, OUT, k=3).double()
    original.fc.load_state_dict(lc.fc.state_dict())
    looped = dgl.add_self_loop(dgl.remove_self_loop(graph))
    # SGConv takes in-degrees on both sides.
    both = dgl.add_reverse_edges(looped)
    both = dgl.to_simple(both)
    torch.testing.assert_close(lc(both, feat), original(both, feat))


@AGREE
def test_mixhop_agrees_with_powers_of_graph_conv(activation):
    g = loop_free(activation)
    x = make_features(9, IN, dtype=torch.float64)
    lc = nn.LCMixHop(
        IN, HID, OUT, p=(0, 1, 2), activation=activation, self_loop=False
    ).double()
    aggregate = dgl.nn.GraphConv(1, 1, weight=False, bias=False)
    h = x
    for layer in lc.layers:
        columns = []
        for power in (0, 1, 2):
            step = layer[str(power)](h)
            for _ in range(power):
                step = aggregate(g, step)
            columns.append(step)
        h = activation(torch.cat(columns, dim=1))
    torch.testing.assert_close(lc(g, x), lc.output(h))


def test_h2gcn_agrees_with_its_original_where_it_is_linear(graph, feat):
    lc = nn.LCH2GCN(IN, HID, OUT, activation=identity).double()
    one, two = exact_filters(graph)
    rounds = [lc.embedding(feat)]
    for _ in range(2):
        rounds.append(torch.cat([one @ rounds[-1], two @ rounds[-1]], 1))
    # R_2 = [S1 [S1 R, S2 R], S2 [S1 R, S2 R]]: the order of the words.
    torch.testing.assert_close(lc(graph, feat), lc.output(torch.cat(rounds, 1)))
