"""Precomputing inputs: memory, storage, formats."""

import dgl
import pytest
import torch
import torch.nn.functional as F
from dgl import nn as dglnn
from torch import nn
from transform.zoo import (
    HID,
    OUT,
    Layers,
    features,
    gcn,
    looped_graph,
    model_of,
    random_graph,
)

from dgl_lc import lc_transform

pytestmark = pytest.mark.usefixtures("double_precision")


def test_memory_is_a_promise():
    graph, feat = looped_graph(), features()
    lc = lc_transform(Layers(*gcn()).double(), graph, feat)
    with pytest.raises(dgl.DGLError, match="memory"):
        lc.precompute(graph, feat, memory=100)
    lc.precompute(graph, feat, memory="64MiB")


def test_memory_counts_what_is_made_on_the_way():
    graph, feat = looped_graph(), features()

    class Scaled(nn.Module):
        """Rows scaled by hand, so that the engine has no norm for it."""

        def forward(self, g, x):
            scale = (1.0 + g.in_degrees()).pow(-0.3).unsqueeze(1)
            h = dgl.ops.copy_u_sum(g, x * scale) * scale
            return dgl.ops.copy_u_sum(g, h.relu() * scale)

    wide = feat.repeat(1, 4096)
    lc = lc_transform(Scaled(), graph, wide)
    with pytest.raises(dgl.DGLError, match="what they are made of"):
        lc.precompute(graph, wide, memory=wide.nbytes // 2)


def test_storage_type():
    graph, feat = looped_graph(), features()
    lc = lc_transform(Layers(*gcn()).double(), graph, feat)
    (rows,) = lc.precompute(graph, feat, dtype=torch.float16)
    assert rows.dtype == torch.float16
    expected = lc.module(rows.double())
    assert torch.equal(lc.module(rows), expected)


def test_a_graph_with_one_format():
    conv = dglnn.GraphConv(HID, OUT, norm="right", allow_zero_in_degree=True)
    model = model_of(
        lambda self, g, x: self.conv(g, F.relu(self.fc(x))), conv=conv
    )
    g, x = random_graph().formats("csc"), features()
    lc = lc_transform(model, g, x)
    (found,) = lc.precompute(g, x)
    torch.testing.assert_close(found, dgl.ops.copy_u_mean(g, x))
