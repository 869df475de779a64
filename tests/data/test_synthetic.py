"""Generated graphs."""

import pytest
import torch
from dgl import DGLError
from hypothesis import given
from hypothesis import strategies as st

from dgl_lc.data import block_model, power_law_graph
from dgl_lc.precompute import block_aggregate


@given(st.integers(2, 300), st.integers(0, 500), st.integers(0, 5))
def test_both_directions_and_no_self_loops(n, half, seed):
    g = power_law_graph(n, 2 * half, seed=seed)
    assert (g.num_nodes(), g.num_edges()) == (n, 2 * half)
    source, target = g.edges()
    assert (source != target).all()
    assert torch.equal(source[:half], target[half:])
    assert torch.equal(target[:half], source[half:])


def test_a_seed_gives_the_same_graph():
    first, second = power_law_graph(50, 200), power_law_graph(50, 200)
    assert torch.equal(first.edges()[0], second.edges()[0])
    other = power_law_graph(50, 200, seed=1)
    assert not torch.equal(first.edges()[0], other.edges()[0])


def test_degrees_have_a_heavy_tail():
    degrees = power_law_graph(20_000, 200_000).in_degrees().double()
    assert degrees.max() > 30 * degrees.mean()
    assert degrees.median() < degrees.mean()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ((1, 2), "num_nodes"),
        ((5, 3), "num_edges"),
        ((5, -2), "num_edges"),
    ],
)
def test_bad_sizes_are_named(call, message):
    with pytest.raises(DGLError, match=message):
        power_law_graph(*call)


def test_a_bad_exponent_is_named():
    with pytest.raises(DGLError, match="exponent"):
        power_law_graph(5, 4, exponent=2)


@given(
    n=st.integers(3, 200),
    num_classes=st.integers(2, 8),
    num_feats=st.integers(1, 5),
    avg_degree=st.floats(0, 12),
    homophily=st.floats(0, 1),
    seed=st.integers(0, 5),
)
def test_a_block_model_of_any_size_is_a_simple_undirected_graph(
    n, num_classes, num_feats, avg_degree, homophily, seed
):
    n = max(n, num_classes)
    data = block_model(
        n, num_classes, num_feats, avg_degree=avg_degree, homophily=homophily,
        seed=seed,
    )  # fmt: skip
    assert data.graph.num_nodes() == n
    assert data.feat.shape == (n, num_feats)
    assert data.graph.num_edges() <= 2 * round(n * avg_degree / 2)
    source, target = (ends.tolist() for ends in data.graph.edges())
    edges = set(zip(source, target, strict=True))
    assert len(edges) == len(source)
    assert edges == {(v, u) for u, v in edges}
    assert all(u != v for u, v in edges)
    sizes = torch.bincount(data.labels, minlength=num_classes)
    assert sizes.max() - sizes.min() <= 1
    assert len(data.train) + len(data.valid) + len(data.test) == n


def test_a_seed_gives_the_same_task_and_another_seed_another():
    first, second = block_model(500, seed=3), block_model(500, seed=3)
    other = block_model(500, seed=4)
    for name in ("feat", "labels", "train", "valid", "test"):
        assert torch.equal(getattr(first, name), getattr(second, name))
        assert not torch.equal(getattr(first, name), getattr(other, name))
    assert torch.equal(first.graph.edges()[1], second.graph.edges()[1])
    assert first.graph.num_edges() != other.graph.num_edges()


def test_graph_and_split_do_not_depend_on_the_features():
    first = block_model(500, num_feats=3, signal=1)
    second = block_model(500, num_feats=9, signal=2)
    for name in ("labels", "train", "valid", "test"):
        assert torch.equal(getattr(first, name), getattr(second, name))
    for ours, theirs in zip(
        first.graph.edges(), second.graph.edges(), strict=True
    ):
        assert torch.equal(ours, theirs)


def test_graph_and_features_do_not_depend_on_the_split():
    first = block_model(500, split=(0.1, 0.1, 0.1))
    second = block_model(500)
    assert torch.equal(first.feat, second.feat)
    assert torch.equal(first.graph.edges()[0], second.graph.edges()[0])


def test_degrees_are_near_what_was_asked_with_a_heavy_tail():
    degrees = block_model(num_feats=1).graph.in_degrees().double()
    assert 0.85 * 16 < degrees.mean() <= 16
    assert degrees.max() > 30 * degrees.mean()
    assert degrees.median() < 0.7 * degrees.mean()


@pytest.mark.parametrize("homophily", [0.0, 0.125, 0.5, 1.0])
def test_edges_are_inside_a_class_as_often_as_asked(homophily):
    data = block_model(num_feats=1, homophily=homophily)
    source, target = data.graph.edges()
    inside = (data.labels[source] == data.labels[target]).double().mean()
    assert inside == pytest.approx(homophily, abs=0.04)


def test_features_lie_around_the_means_of_their_class():
    data = block_model(num_feats=8, signal=3)
    means = torch.stack([data.feat[data.labels == c].mean(0) for c in range(8)])
    assert torch.allclose(means.norm(dim=1), torch.tensor(3.0), atol=0.1)
    noise = data.feat - means[data.labels]
    assert noise.std() == pytest.approx(1, abs=0.02)


def test_a_split_can_be_asked_for():
    data = block_model(1000, num_feats=1, split=(0.05, 0.15, 0.3))
    sizes = [len(part) for part in (data.train, data.valid, data.test)]
    assert sizes == [50, 150, 300]


def linear_accuracy(data, rows):
    """Test accuracy of ridge regression on the classes."""
    rows = torch.cat([rows, torch.ones(len(rows), 1)], dim=1)
    train = rows[data.train]
    wanted = torch.eye(data.num_classes)[data.labels[data.train]]
    gram = train.T @ train + 10 * torch.eye(rows.shape[1])
    weights = torch.linalg.solve(gram, train.T @ wanted)
    guess = (rows[data.test] @ weights).argmax(1)
    return (guess == data.labels[data.test]).double().mean().item()


def test_the_graph_tells_what_features_do_not():
    data = block_model(5000)
    hops = block_aggregate(data.graph, data.feat, K=2)
    alone, together = (linear_accuracy(data, hops[k]) for k in (0, 2))
    assert 0.5 < alone < 0.65
    assert 0.8 < together < 0.95


def test_a_graph_without_homophily_tells_nothing():
    data = block_model(5000, homophily=1 / 8)
    hops = block_aggregate(data.graph, data.feat, K=2)
    assert linear_accuracy(data, hops[2]) < linear_accuracy(data, hops[0])


@pytest.mark.parametrize(
    "wrong",
    [
        {"num_nodes": 2, "num_classes": 2},
        {"num_nodes": 7},
        {"num_nodes": 1e3},
        {"num_classes": 1},
        {"num_classes": 2.5},
        {"num_feats": 0},
        {"num_feats": True},
        {"avg_degree": -1},
        {"avg_degree": float("inf")},
        {"avg_degree": "many"},
        {"homophily": 1.1},
        {"homophily": -0.1},
        {"homophily": float("nan")},
        {"signal": -1},
        {"exponent": 2},
        {"exponent": float("nan")},
        {"exponent": "steep"},
        {"split": (0.5, 0.6, 0.1)},
        {"seed": -1},
        {"seed": 0.5},
    ],
    ids=str,
)
def test_a_bad_argument_of_a_block_model_is_named(wrong):
    with pytest.raises(DGLError, match=next(iter(wrong))):
        block_model(**wrong)


@pytest.mark.parametrize(
    "sizes",
    [{"num_nodes": 99_999_999_999_999}, {"num_nodes": 10**40},
     {"num_feats": 10**15}, {"avg_degree": 1e30}, {"avg_degree": 1.7e308}],
)  # fmt: skip
def test_a_task_that_memory_cannot_hold_is_refused(sizes):
    (name,) = sizes
    with pytest.raises(DGLError, match=f"{name}=.* of memory") as found:
        block_model(**sizes)
    assert "generate a smaller one" in str(found.value)


def test_a_graph_that_memory_cannot_hold_is_refused():
    with pytest.raises(DGLError, match=r"num_nodes=9\d+ .* of memory"):
        power_law_graph(99_999_999_999_999, 4)
    with pytest.raises(DGLError, match=r"num_edges=1000000000000000 .* memory"):
        power_law_graph(5, 10**15)
