"""Tensors with several rows for each node: ``h.view(N * heads, -1)``."""

import dgl
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from transform.zoo import HID, IN, OUT, Function, features, random_graph

from dgl_lc import LCError, lc_transform
from dgl_lc.transform import recognise

pytestmark = pytest.mark.usefixtures("double_precision")

HEADS = 2


def make(body, **parts):
    torch.manual_seed(0)
    return Function(
        body,
        fc=nn.Linear(IN, HID, bias=False),
        head=nn.Linear(HID // HEADS, OUT, bias=False),
        **parts,
    ).double()


def by_number(self, g, h):
    return self.head(h.view(g.num_nodes() * HEADS, -1)).view(-1, HEADS, OUT)


def by_shape(self, g, h):
    z = self.head(h.reshape(HEADS * h.shape[0], HID // HEADS))
    return z.view(z.shape[0] // HEADS, HEADS, OUT)


def by_minus_one(self, g, h):
    z = self.head(h.reshape(-1, HID // HEADS))
    return z.reshape(len(h), -1).view(len(z) // HEADS, HEADS, OUT)


def added_to_each(self, g, h):
    z = h.view(g.num_nodes() * HEADS, -1)
    more = torch.ones(g.num_nodes() * HEADS, 1, dtype=h.dtype)
    return self.head(z * more).view(g.num_nodes(), HEADS, OUT)


def compare(model):
    g, x = random_graph(), features()
    lc = lc_transform(model, g, x)
    assert lc.report.exact
    inputs = lc.precompute(g, x)
    expected = model(g, x)
    torch.testing.assert_close(lc.module(*inputs), expected)
    ids = torch.tensor([7, 0, 59, 7])
    part = lc.module(*lc.rows(inputs, ids))
    torch.testing.assert_close(part, expected[ids])
    return lc


@pytest.mark.parametrize(
    "heads", [by_number, by_shape, by_minus_one, added_to_each]
)
def test_heads_below_each_other(heads):
    def body(self, g, x):
        h = dgl.ops.copy_u_sum(g, self.fc(x))
        return heads(self, g, h).mean(1)

    compare(make(body))


def test_heads_at_several_words():
    """Before aggregations, so that rows of two words are stacked."""

    def body(self, g, x):
        h = by_number(self, g, self.fc(x)).sum(1)
        one = dgl.ops.copy_u_mean(g, h)
        return torch.cat([h, one, dgl.ops.copy_u_sum(g, one)], 1)

    assert len(compare(make(body)).inputs) == 3


def test_features_with_several_rows():
    def body(self, g, x):
        z = x[:, :6].reshape(g.num_nodes() * 3, 2)
        z = self.out(z).view(-1, 3 * OUT)
        return dgl.ops.copy_u_sum(g, z)

    compare(make(body, out=nn.Linear(2, OUT, bias=False)))


def test_functions_that_are_not_linear():
    def body(self, g, x):
        z = self.fc(x).view(g.num_nodes() * HEADS, -1)
        z = self.norm(F.dropout(z, 0.5, self.training))
        return dgl.ops.copy_u_sum(g, F.gelu(z).view(-1, HID))

    for norm in (nn.BatchNorm1d(HID // HEADS), nn.LayerNorm(HID // HEADS)):
        model, g, x = make(body, norm=norm), random_graph(), features()
        lc = lc_transform(model, g, x)
        assert "equal on a permutation graph" in lc.report.checked
        lc.module.train()
        assert lc.module(*lc.precompute(g, x)).shape == (60, HID)


@pytest.mark.parametrize(
    "mix",
    [
        lambda h, n: torch.cat(h.split(HID // HEADS, 1)).view(n, -1),
        lambda h, n: h.t().reshape(n, -1),
        lambda h, n: h.view(n * HEADS, -1).roll(1, 0).view(n, -1),
        lambda h, n: h.view(n * HEADS, -1).softmax(0).view(n, -1),
        lambda h, n: h.view(n * HEADS, -1).flip(0).view(n, -1),
    ],
)
def test_rows_of_other_nodes_are_refused(mix):
    def body(self, g, x):
        return dgl.ops.copy_u_sum(g, mix(self.fc(x), g.num_nodes()))

    with pytest.raises(LCError, match=r"each node's own row|mixes nodes"):
        lc_transform(make(body), random_graph(), features())


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            lambda self, g, x: self.fc(x).view(g.num_nodes() * HEADS, -1),
            "without a row for each node",
        ),
        (
            lambda self, g, x: self.fc(x) / (g.num_nodes() * HEADS),
            "takes a number from the graph",
        ),
    ],
)
def test_other_uses_of_the_number_of_rows_are_refused(body, words):
    def after(self, g, x):
        return dgl.ops.copy_u_sum(g, self.fc(x)) @ torch.eye(HID)

    def whole(self, g, x):
        after(self, g, x)
        return body(self, g, x)

    with pytest.raises(LCError, match=words):
        lc_transform(make(whole), random_graph(), features())


def test_a_branch_on_the_number_of_rows_is_checked():
    def body(self, g, x):
        z = self.fc(x).view(g.num_nodes() * HEADS, -1)
        z = self.head(z) if z.shape[0] < 300 else -self.head(z)
        return dgl.ops.copy_u_sum(g, z.view(-1, HEADS * OUT))

    lc = lc_transform(make(body), random_graph(), features())
    with pytest.raises(LCError, match="another branch"):
        lc.precompute(random_graph(200), features(200))


def test_rows_in_the_wrong_order_are_noticed(monkeypatch):
    monkeypatch.setattr(
        recognise,
        "rows_of_nodes",
        lambda nodes, each: torch.cat([nodes + k for k in range(each)]),
    )
    with pytest.raises(LCError):
        test_heads_below_each_other(by_number)
