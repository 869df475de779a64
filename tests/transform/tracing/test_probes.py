"""Calls from which it is hard to make a probe."""

import dgl
import pytest
import torch
import torch.nn.functional as F
from dgl import nn as dglnn
from torch import nn
from transform.zoo import (
    IN,
    OUT,
    features,
    model_of,
    random_graph,
)

from dgl_lc import lc_transform
from dgl_lc.testing.random_graphs import make_features

pytestmark = pytest.mark.usefixtures("double_precision")


def test_one_width_may_be_a_size_of_the_first_probes():
    for width in (53, 59, 61, 67):
        model = model_of(
            lambda self, g, x: self.conv(g, torch.cat([self.fc(x), x], 1)),
            fc=nn.Linear(IN, width - IN),
            conv=dglnn.GraphConv(width, OUT),
        )
        lc = lc_transform(model, random_graph(), features())
        assert len(lc.inputs) == 1


def test_toy_graphs_of_few_nodes():
    g = dgl.add_self_loop(dgl.graph(([0, 1], [1, 2])))
    x = make_features(3, IN, dtype=torch.float64)
    model = model_of(lambda self, g, x: self.conv(g, F.relu(self.fc(x))))
    lc = lc_transform(model, g, x)
    assert lc.module(*lc.precompute(g, x)).shape == (3, OUT)


def test_features_that_are_not_finite():
    x = features()
    x[3, 1], x[5, 2] = torch.nan, torch.inf
    model = model_of(lambda self, g, x: self.conv(g, F.relu(self.fc(x))))
    lc_transform(model, random_graph(), x)


def test_bfloat16():
    model = model_of(lambda self, g, x: self.conv(g, F.relu(self.fc(x))))
    lc_transform(model.bfloat16(), random_graph(), features().bfloat16())
