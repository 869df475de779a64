"""Learned rows of types of edges, and several weights for each edge."""

import dgl
import dgl.function as fn
import pytest
import torch
from torch import nn
from transform.zoo import IN, OUT, Function, features, random_graph, randomised

from dgl_lc import LCError, lc_transform

pytestmark = pytest.mark.usefixtures("double_precision")

KINDS = 4


def types_of(g, kinds=KINDS):
    generator = torch.Generator().manual_seed(3)
    return torch.randint(0, kinds, (g.num_edges(),), generator=generator)


def _added(self, g, h, types):
    return dgl.ops.u_add_e_sum(g, h, self.table[types])


def _subtracted_from_weighted(self, g, h, types):
    norm = 1 / g.in_degrees().clamp(min=1).to(h.dtype)
    _, v = g.edges()
    both = dgl.ops.u_sub_e(g, h, self.table[types])
    return dgl.ops.copy_e_sum(g, both * norm[v].unsqueeze(1))


def _multiplied(self, g, h, types):
    return dgl.ops.u_mul_e_mean(g, h, torch.tanh(self.table)[types])


def _layer_on_both(self, g, h, types):
    def message(edges):
        rows = self.table.index_select(0, edges.data["t"])
        return {"m": self.layer(edges.src["h"] + rows)}

    with g.local_scope():
        g.ndata["h"], g.edata["t"] = h, types
        g.update_all(message, fn.sum("m", "h"))
        return g.ndata["h"]


def _targets_too(self, g, h, types):
    both = dgl.ops.v_mul_e(g, h, self.table[types])
    return dgl.ops.copy_e_sum(g, both)


def _function_of_the_table(self, g, h, types):
    rows = torch.relu(self.layer(self.table[types]))
    return dgl.ops.u_add_e_mean(g, h, rows)


ALL = [
    _added, _subtracted_from_weighted, _multiplied, _layer_on_both,
    _targets_too, _function_of_the_table,
]  # fmt: skip


def model_with(message):
    def body(self, g, x, types):
        h = self.a(x)
        for _ in range(2):
            h = message(self, g, h, types)
        return h

    parts = {
        "a": nn.Linear(IN, OUT, bias=False),
        "layer": nn.Linear(OUT, OUT, bias=False),
        "table": nn.Parameter(torch.zeros(KINDS, OUT)),
    }  # fmt: skip
    return randomised(Function(body, **parts)).eval()


@pytest.mark.parametrize("message", ALL)
def test_linear_models_of_learned_rows_are_exact(message):
    g, x = random_graph(), features()
    types = types_of(g)
    model = model_with(message)
    lc = lc_transform(model, g, x, types, max_inputs=10_000)
    assert lc.report.exact
    found = lc.module(*lc.precompute(g, x, types))
    torch.testing.assert_close(found, model(g, x, types))


def test_gradients_of_a_table_are_the_models():
    g, x = random_graph(), features()
    types = types_of(g)
    model = model_with(_added)
    lc = lc_transform(model, g, x, types, copy=True)
    lc.module(*lc.precompute(g, x, types)).square().sum().backward()
    model(g, x, types).square().sum().backward()
    torch.testing.assert_close(lc.module.table.grad, model.table.grad)


def test_types_that_were_absent_are_an_error_later():
    g, x = random_graph(), features()
    model = model_with(_multiplied)
    lc = lc_transform(model, g, x, types_of(g, 2), max_inputs=10_000)
    with pytest.raises(LCError, match="type of edges"):
        lc.precompute(g, x, types_of(g))


def test_a_large_table_is_added_but_not_multiplied():
    g, x = random_graph(), features()
    types = types_of(g, 300)
    for message, taken in ((_added, True), (_multiplied, False)):
        model = model_with(message)
        model.table = nn.Parameter(torch.randn(300, OUT))
        if taken:
            lc = lc_transform(model, g, x, types)
            found = lc.module(*lc.precompute(g, x, types))
            torch.testing.assert_close(found, model(g, x, types))
        else:
            with pytest.raises(LCError, match="LC003"):
                lc_transform(model, g, x, types)


def test_statistics_over_edges_are_refused():
    def body(self, g, x, types):
        rows = self.norm(self.table[types])
        return dgl.ops.u_add_e_sum(g, self.a(x), rows)

    parts = {
        "a": nn.Linear(IN, OUT), "norm": nn.BatchNorm1d(OUT),
        "table": nn.Parameter(torch.randn(KINDS, OUT)),
    }  # fmt: skip
    g = random_graph()
    with pytest.raises(LCError):
        lc_transform(Function(body, **parts), g, features(), types_of(g))


@pytest.mark.parametrize("shape", [(3, 1), (3, 2), (1, 2), (1, 1)])
def test_several_weights_per_edge_are_as_many_filters(shape):
    def body(self, g, x, weights):
        heads = self.a(x).view(-1, 3, 2)
        for _ in range(2):
            heads = dgl.ops.u_mul_e_sum(g, heads, weights)
        return heads.flatten(1)

    g, x = random_graph(), features()
    weights = torch.rand(g.num_edges(), *shape)
    model = randomised(Function(body, a=nn.Linear(IN, 6, bias=False)))
    lc = lc_transform(model, g, x, weights)
    assert lc.report.exact
    found = lc.module(*lc.precompute(g, x, weights))
    torch.testing.assert_close(found, model(g, x, weights))
    count = shape[0] * shape[1]
    assert len(lc.report.filters) == count
    if count > 1:
        last = f"weighted by x2[:, {count - 1}]"
        assert any(last in line for line in lc.report.filters)


def test_filters_of_types_are_named_by_them():
    g, x = random_graph(), features()
    types = types_of(g)
    lc = lc_transform(model_with(_multiplied), g, x, types, max_inputs=10_000)
    names = " ".join(lc.report.filters)
    assert all(f"over edges with x2 = {k}" in names for k in range(KINDS))


def test_a_norm_beside_heads_is_a_part_of_the_filter():
    def body(self, g, x):
        norm = g.in_degrees().clamp(min=1).to(x.dtype) ** -0.5
        heads = torch.relu(self.a(x)).view(-1, 3, 2).transpose(0, 1)
        sent = (heads * norm[None, :, None]).transpose(0, 1)
        found = dgl.ops.copy_u_sum(g, sent).transpose(0, 1)
        return (found / norm.reciprocal().view(1, -1, 1)).sum(0)

    lc = lc_transform(
        Function(body, a=nn.Linear(IN, 6)), random_graph(), features()
    )
    assert [*map(str, lc.inputs)] == ["S x"]
    assert "symmetric norm by in-degrees" in str(lc.report)
