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

from dgl_lc import LCError, block_aggregate, lc_transform
from dgl_lc.nn import LCGCN, LCGraphConv
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


@pytest.mark.parametrize("swapped", [LCGraphConv(IN, OUT), LCGCN(IN, 4, OUT)])
def test_a_model_that_was_swapped_is_refused(swapped):
    g, x = random_graph(), features()
    hops = block_aggregate(g, x, K=2)
    for feat in (x, hops):
        with pytest.raises(
            LCError,
            match=r"in convs.0: LC.* as written for dgl\.nn, with its plain",
        ):
            lc_transform(Layers(swapped), g, feat)


@pytest.mark.parametrize("by_name", [False, True])
def test_hop_features_are_refused(by_name):
    g, hops = random_graph(), block_aggregate(random_graph(), features(), K=2)
    args, kwargs = ([g], {"feat": hops}) if by_name else ([g, hops], {})
    with pytest.raises(LCError, match=r"hop features: were .*plain features"):
        lc_transform(dglnn.GraphConv(IN, OUT), *args, **kwargs)
