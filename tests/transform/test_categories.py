"""Embeddings of categories are aggregated as one-hot columns."""

import dgl
import pytest
import torch
from torch import nn
from transform.zoo import IN, OUT, Function, features, random_graph, randomised
from transform.zoo.categories import categories

from dgl_lc import LCError, lc_transform

pytestmark = pytest.mark.usefixtures("double_precision")


def propagate(g, h):
    return dgl.ops.copy_u_mean(g, h)


def linear_model(look_up, **parts):
    """Two aggregations of a lookup, and nothing that is not linear."""

    def body(self, g, z):
        h = look_up(self, z)
        return propagate(g, self.fc(propagate(g, h))) + self.fc(h)

    fc = nn.Linear(IN, OUT, bias=False)
    return randomised(Function(body, fc=fc, **parts))


LOOK_UPS = {
    "embedding": (lambda s, z: s.e(z[:, 0]), nn.Embedding(4, IN)),
    "padding": (lambda s, z: s.e(z[:, 1]), nn.Embedding(3, IN, padding_idx=2)),
    "columns": (lambda s, z: s.e(z).sum(1), nn.Embedding(5, IN)),
    "function": (
        lambda s, z: nn.functional.embedding(z[:, 0], s.e.weight),
        nn.Embedding(4, IN),
    ),
    "bag": (lambda s, z: s.e(z), nn.EmbeddingBag(5, IN, mode="sum")),
    "mean bag": (
        lambda s, z: s.e(z),
        nn.EmbeddingBag(5, IN, mode="mean", padding_idx=0),
    ),
}


@pytest.mark.parametrize("name", LOOK_UPS)
def test_linear_models_of_categories_are_exact(name):
    look_up, table = LOOK_UPS[name]
    g, z = random_graph(), categories(60)
    model = linear_model(look_up, e=table.double())
    lc = lc_transform(model, g, z)
    assert lc.report.exact
    inputs = lc.precompute(g, z)
    found, expected = lc.module(*inputs), model(g, z)
    torch.testing.assert_close(found, expected)
    mine = torch.autograd.grad(found.square().sum(), model.e.weight)
    its = torch.autograd.grad(expected.square().sum(), model.e.weight)
    torch.testing.assert_close(mine, its)


def test_the_report_counts_the_columns_of_categories():
    look_up, table = LOOK_UPS["embedding"]
    model = linear_model(look_up, e=table.double())
    lc = lc_transform(model, random_graph(), categories(60))
    by_formula = {str(entry): entry.columns for entry in lc.inputs}
    assert by_formula["S² one_hot(x[:, 0])"] == 4
    # Where nothing is aggregated, the integers themselves are the input.
    assert by_formula["x[:, 0]"] == 1


@pytest.mark.parametrize(
    "table",
    [
        nn.Embedding(4, IN, scale_grad_by_freq=True),
        nn.Embedding(1025, IN),
        nn.EmbeddingBag(5, IN, mode="max"),
    ],
)
def test_other_embeddings_are_refused(table):
    def look_up(self, z):
        return self.e(z if isinstance(self.e, nn.EmbeddingBag) else z[:, 0])

    model = linear_model(look_up, e=table.double())
    with pytest.raises(LCError) as caught:
        lc_transform(model, random_graph(), categories(60))
    assert caught.value.code == "LC017"


def test_an_embedding_of_all_nodes_is_refused():
    def body(self, g, x):
        return propagate(g, self.fc(x) + self.e(g.nodes()))

    model = Function(body, fc=nn.Linear(IN, OUT), e=nn.Embedding(900, OUT))
    with pytest.raises(LCError) as caught:
        lc_transform(model.double(), random_graph(), features())
    assert caught.value.code == "LC016"


DEGREES = {
    "in": lambda g: g.in_degrees(),
    "clamped": lambda g: g.in_degrees().clamp(max=9),
    "of a derived graph": lambda g: dgl.remove_self_loop(g).out_degrees(),
    "binned": lambda g: torch.bucketize(g.in_degrees(), torch.tensor([2, 5])),
    "counted": lambda g: torch.bincount(g.edges()[1], minlength=g.num_nodes()),
}


def degree_model(name, rows):
    torch.manual_seed(0)

    def body(self, g, x):
        return propagate(g, self.fc(x) + self.e(DEGREES[name](g)))

    fc = nn.Linear(IN, OUT, bias=False)
    return Function(body, fc=fc, e=nn.Embedding(rows, OUT)).double()


@pytest.mark.parametrize("name", DEGREES)
@pytest.mark.parametrize("more_rows", [0, 100])
def test_degrees_are_categories(name, more_rows):
    """The table may have no more rows than the degrees of the graph need."""
    g, x = random_graph(), features()
    rows = int(max(g.in_degrees().max(), g.out_degrees().max())) + 1
    model = degree_model(name, rows + more_rows)
    lc = lc_transform(model, g, x)
    assert lc.report.exact
    assert str(lc.inputs[1]).startswith("S one_hot(")
    torch.testing.assert_close(lc.module(*lc.precompute(g, x)), model(g, x))


def test_a_graph_with_larger_degrees_than_the_table_is_an_error():
    g, x = random_graph(), features()
    lc = lc_transform(degree_model("in", 56), g, x)
    hub = dgl.graph((torch.arange(60), torch.zeros(60, dtype=torch.int64)))
    with pytest.raises(dgl.DGLError, match="is given the category 60"):
        lc.precompute(hub, x)
