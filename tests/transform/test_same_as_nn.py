"""The LC version of an original is the LC module of dgl_lc.nn."""

import pytest
import torch
import torch.nn.functional as F
from dgl import nn as dglnn
from torch import nn
from transform.zoo import (
    HID,
    IN,
    OUT,
    TAKEN,
    Function,
    features,
    looped_graph,
    randomised,
)

import dgl_lc.nn as lcnn
from dgl_lc import lc_transform
from dgl_lc.experiments import originals
from dgl_lc.precompute.graph.two_hop import one_hop_graph, two_hop_graph

pytestmark = pytest.mark.usefixtures("double_precision")


def agree(original, lc_model, graph, feat):
    randomised(original).double().eval()
    named = dict(original.named_parameters())
    with torch.no_grad():
        for name, mine in lc_model.named_parameters():
            prefix = name.rpartition(".")[0]
            turned = (
                isinstance(original.get_submodule(prefix), dglnn.GraphConv)
                and isinstance(lc_model.get_submodule(prefix), nn.Linear)
                and mine.dim() == 2
            )
            mine.copy_(named[name].T if turned else named[name])
    lc_model.double().eval()
    lc = lc_transform(original, graph, feat)
    found = lc.module(*lc.precompute(graph, feat))
    torch.testing.assert_close(found, lc_model(graph, feat))
    return lc


def test_gcn_is_lcgcn():
    graph, feat = looped_graph(), features()
    original = originals.GCN(IN, HID, OUT, num_layers=3)
    lc = agree(original, lcnn.LCGCN(IN, HID, OUT, 3), graph, feat)
    assert [str(entry) for entry in lc.inputs] == ["S³ feat"]


@pytest.mark.parametrize("mode", ["cat", "max"])
def test_jknet_is_lcjknet(mode):
    graph, feat = looped_graph(), features()
    original = originals.JKNet(IN, HID, OUT, 3, mode)
    model = lcnn.LCJKNet(IN, HID, OUT, 3, mode)
    lc = agree(original, model, graph, feat)
    assert [str(entry) for entry in lc.inputs] == [
        "S feat",
        "S² feat",
        "S³ feat",
    ]


def test_gprgnn_is_lcgprgnn():
    graph, feat = looped_graph(), features()
    original = originals.GPRGNN(IN, HID, OUT, K=3, num_layers=2)
    model = lcnn.LCGPRGNN(IN, HID, OUT, K=3, num_layers=2)
    randomised(original).double().eval()
    with torch.no_grad():
        model.gamma.copy_(original.gamma)
        for mine, its in zip(model.mlp.layers, original.layers, strict=True):
            mine.load_state_dict(its.state_dict())
    lc = lc_transform(original, graph, feat)
    found = lc.module(*lc.precompute(graph, feat))
    torch.testing.assert_close(found, model.double().eval()(graph, feat))


def test_appnp_is_lcappnp():
    graph, feat = looped_graph(), features()
    original = TAKEN["appnp"].make().model
    randomised(original).double().eval()
    model = lcnn.LCAPPNP(IN, HID, OUT, K=4, alpha=0.1)
    with torch.no_grad():
        for mine, its in zip(
            model.mlp.layers, (original.fc1, original.fc2), strict=True
        ):
            mine.load_state_dict(its.state_dict())
    lc = lc_transform(original, graph, feat)
    found = lc.module(*lc.precompute(graph, feat))
    torch.testing.assert_close(
        found, model.double().eval()(graph, feat), rtol=1e-5, atol=1e-6
    )
    assert len(lc.inputs) == 5


def test_mixhop_is_lcmixhop():
    graph, feat = looped_graph(), features()
    original = TAKEN["mixhop"].make().model
    for fcs in original.layers:
        for fc in fcs:
            fc.bias = None
    original.out.bias = None
    randomised(original).double().eval()
    model = lcnn.LCMixHop(IN, HID, OUT, p=(0, 1, 2))
    with torch.no_grad():
        for mine, its in zip(model.layers, original.layers, strict=True):
            for a, b in zip(mine.values(), its, strict=True):
                a.weight.copy_(b.weight)
        model.output.weight.copy_(original.out.weight)
    lc = lc_transform(original, graph, feat)
    found = lc.module(*lc.precompute(graph, feat))
    torch.testing.assert_close(found, model.double().eval()(graph, feat))


def test_h2gcn_is_lch2gcn():
    graph, feat = looped_graph(), features()
    near = one_hop_graph(graph)
    far = two_hop_graph(near)

    def body(self, near, far, x):
        h = F.relu(self.embedding(x))
        rounds = [h]
        for _ in range(2):
            last = rounds[-1]
            parts = [self.conv(g, last) for g in (near, far)]
            rounds.append(torch.cat(parts, dim=1))
        return self.output(torch.cat(rounds, dim=1))

    model = lcnn.LCH2GCN(IN, HID, OUT, K=2)
    conv = dglnn.GraphConv(
        HID, HID, weight=False, bias=False, allow_zero_in_degree=True
    )
    original = Function(
        body, conv=conv, embedding=model.embedding, output=model.output
    )
    randomised(original).double().eval()
    lc = lc_transform(original, near, far, feat)
    assert len(lc.inputs) == 7
    found = lc.module(*lc.precompute(near, far, feat))
    expected = model.double().eval()(graph, feat)
    # The order of the words may be another: that of the output's columns.
    assert found.shape == expected.shape
    torch.testing.assert_close(found, expected)
