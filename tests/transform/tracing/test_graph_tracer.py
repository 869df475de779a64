"""Edge features of derived graphs."""

import dgl
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from transform.zoo import (
    IN,
    OUT,
    features,
    model_of,
    weighted_graph,
)

from dgl_lc import LCError, lc_transform

pytestmark = pytest.mark.usefixtures("double_precision")


def test_edge_features_assigned_before_a_graph_is_derived():
    def body(self, g, x):
        with g.local_scope():
            g.edata["w"] = 3 * g.edata["w"]
            looped = dgl.add_self_loop(g, edge_feat_names=["w"])
            return dgl.ops.u_mul_e_sum(
                looped, F.relu(self.fc(x)), looped.edata["w"]
            )

    with pytest.raises(LCError, match="edge features made in forward"):
        lc_transform(model_of(body), weighted_graph(), features())


def test_edge_features_of_a_derived_graph():
    def body(self, g, x):
        g = dgl.add_self_loop(g=g, edge_feat_names=["w"], fill_data=2.0)
        return dgl.ops.u_mul_e_sum(g, self.fc(x), g.edata["w"])

    model = model_of(body, fc=nn.Linear(IN, OUT, bias=False))
    g, x = weighted_graph(), features()
    lc = lc_transform(model, g, x)
    found = lc.module(*lc.precompute(g, x))
    torch.testing.assert_close(found, model(g, x))
