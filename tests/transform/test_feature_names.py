"""Names of features that a model computes, as reports show them."""

import dgl
import pytest
import torch
import torch.nn.functional as F
from transform.zoo import features, model_of, random_graph

from dgl_lc import lc_transform


def _degrees(g, x):
    return g.in_degrees().to(x).unsqueeze(1)


@pytest.mark.parametrize(("name", "static"), [
    ("in-degree", _degrees),
    ("log1p(out-degree)", lambda g, x: torch.log1p(g.out_degrees()[:, None])),
    ("x[:, 1:3]", lambda g, x: x[:, 1:3].float()),
    ("softmax(scaled(x))", lambda g, x: F.softmax(x * 3, 1)),
    ("sum(x, in-degree)", lambda g, x: x + _degrees(g, x)),
    ("D relu(x)", lambda g, x: x.relu() * _degrees(g, x)),
    ("relu(product(x, in-degree))",
     lambda g, x: F.relu(x.exp() * _degrees(g, x))),
    ("amax(neighbours(x))",
     lambda g, x: dgl.ops.copy_u_max(g, x).amax(1, keepdim=True)),
    ("tanh(tanh(tanh(…x)))",
     lambda g, x: torch.tanh(torch.tanh(torch.tanh(torch.tanh(x))))),
])  # fmt: skip
def test_computed_features_have_names_that_people_read(name, static):
    def body(self, g, x):
        more = static(g, x)
        h = torch.cat([self.fc(x), more], 1)
        return h

    x = features().float()
    lc = lc_transform(model_of(body).float(), random_graph(), x)
    assert name in map(str, lc.inputs)


def test_edge_weights_are_named_by_what_they_are_computed_from():
    def body(self, g, x, w):
        h = dgl.ops.u_mul_e_sum(g, self.fc(x), torch.sigmoid(w))
        return dgl.ops.copy_u_sum(g, h)

    g, x = random_graph(), features()
    w = torch.rand(g.num_edges(), 1).to(x)
    lc = lc_transform(model_of(body), g, x, w=w)
    assert "with edge weights computed from w" in str(lc.report)


def test_products_with_a_matrix_are_named():
    def body(self, g, x):
        return (g.adj_external().to(x) * 0.5) @ self.fc(x)

    lc = lc_transform(model_of(body), random_graph(), features())
    assert "as a product with a matrix" in str(lc.report)
    assert "computed from adjacency matrix" in str(lc.report)
