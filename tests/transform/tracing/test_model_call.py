"""Reading a call of the model."""

import dgl
import pytest
import torch
from dgl import nn as dglnn
from torch import nn
from transform.zoo import (
    IN,
    OUT,
    Layers,
    features,
    gcn,
    model_of,
    random_graph,
)

from dgl_lc import LCError, lc_transform
from dgl_lc.testing.random_graphs import make_features

pytestmark = pytest.mark.usefixtures("double_precision")


def test_heterographs_and_blocks_are_refused():
    feat = features()
    model = Layers(*gcn()).double()
    hetero = dgl.heterograph(
        {("a", "to", "b"): ([0], [1]), ("b", "to", "a"): ([1], [0])}
    )
    with pytest.raises(LCError, match="heterograph"):
        lc_transform(model, hetero, feat)
    block = dgl.to_block(random_graph(), torch.arange(60))
    with pytest.raises(LCError, match="block"):
        lc_transform(model, block, feat)


def test_a_number_the_model_holds_is_no_row_of_a_single_node():
    g = dgl.graph(([0, 0], [0, 0]))
    model = dglnn.GINConv(nn.Linear(IN, OUT, bias=False), init_eps=0.3)
    x = make_features(1, IN, dtype=torch.float64)
    lc = lc_transform(model.double(), g, x)
    assert lc.report.exact
    torch.testing.assert_close(lc.module(*lc.precompute(g, x)), model(g, x))


def test_features_in_a_list():
    def body(self, g, feats):
        return self.conv(g, self.fc(feats[0] + feats[1]))

    g, x = random_graph(), features()
    lc = lc_transform(model_of(body), g, feats=[x, 2 * x])
    lc.precompute(g, feats=[x, x.clone()])
