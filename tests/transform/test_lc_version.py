"""What lc_transform returns: calling precompute, batches, training."""

import dgl
import pytest
import torch
from dgl import nn as dglnn
from torch import nn
from transform.zoo import (
    IN,
    OUT,
    TAKEN,
    Layers,
    features,
    gcn,
    looped_graph,
    model_of,
    random_graph,
)

import dgl_lc.nn as lcnn
from dgl_lc import LCError, lc_transform
from dgl_lc.data import block_model
from dgl_lc.experiments import originals
from dgl_lc.training import fit, predict

pytestmark = pytest.mark.usefixtures("double_precision")


def test_fit_trains_it_like_an_lc_module():
    data = block_model(600, seed=1)
    g = dgl.add_self_loop(dgl.remove_self_loop(data.graph))
    feat = data.feat.double()
    scores = []
    for make in (
        lambda: originals.GCN(data.num_feats, 16, data.num_classes),
        lambda: originals.JKNet(data.num_feats, 16, data.num_classes),
    ):
        torch.manual_seed(0)
        lc = lc_transform(make(), g, feat)
        inputs = lc.precompute(g, feat)
        found = fit(
            lc.module, inputs, data.labels, data.train, data.valid, epochs=40
        )
        scores.append(found.valid_accuracy)
        logits = predict(lc.module, inputs, data.valid)
        assert logits.shape == (len(data.valid), data.num_classes)
    torch.manual_seed(0)
    peer = lcnn.LCGCN(data.num_feats, 16, data.num_classes)
    found = fit(
        peer, peer.precompute(g, feat), data.labels, data.train,
        data.valid, epochs=40,
    )  # fmt: skip
    assert min(scores) > found.valid_accuracy - 0.1


def test_loader_gives_batches():
    graph, feat = looped_graph(), features()
    lc = lc_transform(TAKEN["jknet_cat"].make().model.double(), graph, feat)
    inputs = lc.precompute(graph, feat)
    labels = torch.arange(60)
    loader = lc.loader(inputs, torch.arange(60), labels, batch_size=32)
    for batch, target in loader:
        assert lc.module(*batch).shape[0] == len(target)
        assert lc.module(None, batch).shape[0] == len(target)


def test_another_graph_of_the_same_kind():
    graph, feat = looped_graph(), features()
    lc = lc_transform(Layers(*gcn()).double(), graph, feat)
    g = dgl.add_self_loop(random_graph(30, 90))
    inputs = lc.precompute(g, feat[:30])
    assert lc.module(*inputs).shape == (30, OUT)


def test_one_graph_for_two():
    def body(self, a, b, x):
        return self.conv(a, self.fc(x)) + self.conv(b, self.fc(x))

    g = random_graph()
    lc = lc_transform(model_of(body), g, g, features())
    lc.precompute(g, g, features())
    with pytest.raises(LCError, match="another argument"):
        lc.precompute(g, random_graph(seed=7), features())


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = dglnn.GraphConv(IN, OUT, allow_zero_in_degree=True)

    def forward(self, g, x, alpha=1.0):
        return alpha * self.conv(g, x)


def test_plain_arguments_that_change():
    g, x = random_graph(), features()
    lc = lc_transform(Scaled(), g, x, alpha=0.5)
    lc.precompute(g, x, alpha=0.5)
    lc.precompute(g, x, 0.5)
    with pytest.raises(LCError, match=r"alpha, which was 0\.5 and is 2\.0"):
        lc.precompute(g, x, alpha=2.0)
    with pytest.raises(LCError, match=r"width \(9,\)"):
        lc.precompute(g, x.repeat(1, 2)[:, :9], alpha=0.5)
