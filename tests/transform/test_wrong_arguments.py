"""Wrong arguments are named, in lc_transform and in lc.precompute."""

import dgl
import pytest
import torch
from torch import nn

from dgl_lc import LCError, lc_transform


class Mean(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.fc = nn.Linear(width, 3)

    def forward(self, g, feats):
        return self.fc(dgl.ops.copy_u_mean(g, feats))


class Categories(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(9, 4)

    def forward(self, g, kind):
        return dgl.ops.copy_u_mean(g, self.table(kind))


def graph(n=60):
    return dgl.add_self_loop(dgl.rand_graph(n, 4 * n))


def refused(function, *args, **kwargs):
    with pytest.raises(LCError) as caught:
        function(*args, **kwargs)
    return caught.value


X = torch.randn(60, 8)


@pytest.mark.parametrize(
    ("args", "kwargs", "code", "words"),
    [
        (lambda g: (X, g), {}, "LC036", "forward takes a graph as g"),
        (lambda g: (g,), {}, "LC001", "missing a required argument: 'feats'"),
        (lambda g: (g, X), {"flod": True}, "LC001", "the option fold="),
        (lambda g: (g, X[:50]), {}, "LC036", "it has 50 rows, and the graph"),
        (lambda g: (g, X.double()), {}, "LC036", "Pass feats.to(torch.float32"),
    ],
)
def test_what_is_wrong_with_the_arguments_is_said(args, kwargs, code, words):
    error = refused(lc_transform, Mean(), *args(graph()), **kwargs)
    assert error.code == code
    assert words in str(error)
    assert "another graph" not in str(error)


def test_an_error_of_dgl_is_shown():
    lonely = dgl.graph(([0], [1]), num_nodes=60)
    error = refused(lc_transform, dgl.nn.GraphConv(8, 3), lonely, X)
    assert error.code == "LC036"
    assert "0-in-degree nodes" in error.reason


def test_rows_that_do_not_fit_the_graph_are_counted():
    lc = lc_transform(Mean(), graph(), X)
    error = refused(lc.precompute, graph(), torch.randn(61, 8))
    assert "feats: has 61 rows, but the graph has 60 nodes" in str(error)


def test_arguments_may_be_given_by_name_later():
    g = graph()
    lc = lc_transform(Mean(), g, X)
    (by_name,) = lc.precompute(g, feats=X)
    torch.testing.assert_close(by_name, lc.precompute(g, X)[0])


def test_an_attribute_may_have_the_name_of_an_argument():
    class Both(Mean):
        def forward(self, g, feats):
            return super().forward(g, feats) + self.fc(self.feats)

    g, model = graph(), Both()
    model.feats = torch.randn(60, 8)
    lc = lc_transform(model, g, X)
    expected = model(g, X)
    torch.testing.assert_close(lc.module(*lc.precompute(g, X)), expected)


def test_categories_without_a_row_are_refused():
    g = graph()
    lc = lc_transform(Categories(), g, torch.zeros(60).long())
    error = refused(lc.precompute, g, torch.full((60,), 9))
    assert error.code == "LC001"
    assert "the categories of kind" in str(error)
    assert "an embedding of 9 categories is given the category 9" in str(error)


def test_another_branch_later_asks_for_lc_transform_again():
    class Types(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = dgl.nn.RelGraphConv(8, 3, 3)

        def forward(self, g, x, types):
            return self.conv(g, x, types)

    g = graph()
    lc = lc_transform(Types(), g, X, torch.randint(0, 2, (g.num_edges(),)))
    types = torch.randint(0, 3, (g.num_edges(),))
    error = refused(lc.precompute, g, X, types)
    assert "Call lc_transform with this graph" in error.advice


def test_a_graph_without_edges_is_named():
    empty = dgl.graph(([], []), num_nodes=60)
    error = refused(lc_transform, dgl.nn.SAGEConv(8, 3, "mean"), empty, X)
    assert "graph has no edges" in error.reason


class _Matrix(nn.Module):
    """A model of a matrix, as an argument or as an attribute."""

    def __init__(self, adj=None):
        super().__init__()
        self.fc = nn.Linear(8, 3)
        self.adj = adj

    def forward(self, x, adj=None):
        adj = self.adj if adj is None else adj
        return adj @ torch.relu(self.fc(x))


def test_adjacency_matrices_are_named():
    g, x = graph(), torch.randn(60, 8)
    matrix = g.adj_external().to_dense().to(x)
    for adj in (matrix, matrix.to_sparse()):
        with pytest.raises(LCError, match=r"LC001.* argument adj: is a matrix"):
            lc_transform(_Matrix(), x, adj)
        with pytest.raises(LCError, match=r"LC001.* self\.adj: is a matrix"):
            lc_transform(_Matrix(adj), x)


def test_an_edge_index_is_named():
    class Net(_Matrix):
        def forward(self, x, edge_index):
            u, v = edge_index
            h = self.fc(x)
            return torch.zeros_like(h).index_add(0, v, h[u])

    g, x = graph(), torch.randn(60, 8)
    with pytest.raises(LCError, match="edge_index: has the ends of edges"):
        lc_transform(Net(), x, torch.stack(g.edges()))


def test_nodes_in_another_dimension_are_named():
    class Net(_Matrix):
        def forward(self, g, x):
            return sum(dgl.ops.copy_u_mean(g, self.fc(part)) for part in x)

    g, x = graph(), torch.randn(60, 8)
    series = torch.stack([x, 2 * x])
    with pytest.raises(LCError, match=r"LC001.* x: has shape .* dimension 1"):
        lc_transform(Net(), g, series)
