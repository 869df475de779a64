"""Counts of graphs, and what hop features remember of theirs."""

import copy
import gc
import json
import pickle
import weakref

import dgl
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from dgl_lc.data import build_disk_graph
from dgl_lc.graph_counts import DegreeHashes, GraphCounts, WeightSums
from dgl_lc.precompute import block_aggregate
from dgl_lc.precompute.graph import count_graph as module
from dgl_lc.precompute.graph.count_graph import count_graph, count_with_torch
from dgl_lc.precompute.graph.edge_kernels import mix
from dgl_lc.testing.random_graphs import graphs, make_features

#: What :func:`small_graph` has: a double edge, a self-loop, a lonely node.
SMALL = GraphCounts(4, 5, 1, 1, False)


def dense_counts(g):
    """Count by a dense matrix."""
    n = g.num_nodes()
    matrix = np.zeros((n, n), int)
    source, target = g.edges(order="srcdst")
    np.add.at(matrix, (source.numpy(), target.numpy()), 1)
    loops = np.diagonal(matrix)
    factors = [int(mix(np.uint64(v))) for v in range(n)]
    hashes = [
        sum(f * int(part) for f, part in zip(factors, parts, strict=True))
        for parts in (matrix.sum(0), matrix.sum(1), loops, np.ones(n))
    ]
    return GraphCounts(
        n, int(matrix.sum()), int(loops.sum()), int((loops > 0).sum()),
        bool((matrix.sum(0) == matrix.sum(1)).all()),
        DegreeHashes(*(part % 2**64 for part in hashes)),
    )  # fmt: skip


@given(g=graphs(), both=st.booleans())
def test_counts_are_those_of_a_dense_matrix(g, both):
    assert count_with_torch(g.formats("csc")) == dense_counts(g)
    if both:
        g = dgl.add_reverse_edges(g.formats(["coo", "csr", "csc"]))
    expected = dense_counts(g)
    assert expected.balanced or not both
    assert count_graph(g) == count_with_torch(g) == expected


@given(g=graphs())
def test_a_filter_sees_one_loop_per_node(g):
    counts = count_graph(g)
    g = g.formats(["coo", "csr", "csc"])
    looped = dgl.add_self_loop(dgl.remove_self_loop(g))
    assert counts.seen(self_loop=True) == dense_counts(looped)
    assert counts.seen(self_loop=False) == counts
    assert counts.add_loops() == dense_counts(dgl.add_self_loop(g))
    assert count_graph(looped).one_loop_each
    assert not count_graph(dgl.add_self_loop(looped)).one_loop_each


def test_a_graph_is_counted_once_until_it_changes(monkeypatch):
    g = dgl.graph(([0, 1], [1, 1]))
    first = count_graph(g)
    monkeypatch.setattr(module, "counts_of", lambda edges: 1 / 0)
    assert count_graph(g) is first
    monkeypatch.undo()
    g.add_edges([0], [0])
    assert count_graph(g) == GraphCounts(2, 3, 2, 2, False)
    g.remove_edges([0, 1])
    assert count_graph(g) == GraphCounts(2, 1, 1, 1, True)


def test_the_forward_of_a_layer_does_not_count_the_same_graph(
    small_graph, monkeypatch
):
    block_aggregate(small_graph, make_features(4, 3), 1)
    monkeypatch.setattr(module, "counts_of", lambda edges: 1 / 0)
    assert count_graph(small_graph) == SMALL


@pytest.mark.parametrize("options", [
    {}, {"nodes": [3, 0]}, {"hops": [2]}, {"self_loop": False},
    {"norm": "in"}, {"dtype": torch.float16}, {"memory": "9MiB"},
])  # fmt: skip
def test_hop_features_know_their_graph(small_graph, tmp_path, options):
    x = make_features(4, 3)
    found = block_aggregate(small_graph, x, 2, **options)
    assert found.filter.graph == SMALL
    for _ in range(2):
        # Written, and found finished.
        stored = block_aggregate(
            small_graph, x, 2, out=tmp_path / "s", **options
        )
        assert stored.filter.graph == SMALL
        assert stored.filter == found.filter


def test_every_kind_of_graph_is_counted(small_graph, tmp_path):
    x = make_features(4, 3)
    source, target = (ends.numpy() for ends in small_graph.edges())
    np.save(tmp_path / "edges.npy", np.stack([source, target]))
    matrix = sparse.coo_array((np.ones(5), (source, target)), shape=(4, 4))
    for g in (
        small_graph.int(),
        small_graph.formats("csc"),
        (source, target),
        matrix,
        build_disk_graph(tmp_path / "edges.npy", 4, tmp_path / "graph"),
    ):
        assert block_aggregate(g, x, 1).filter.graph == SMALL


def test_hop_0_needs_no_counts(small_graph, tmp_path):
    x = make_features(4, 3)
    assert block_aggregate(small_graph, x, 0).filter.graph is None
    stored = block_aggregate(small_graph, x, 2, hops=[0], out=tmp_path / "s")
    assert stored.filter.graph is None


def test_counts_go_wherever_hop_features_go(small_graph):
    hops = block_aggregate(small_graph, make_features(4, 3), 2)
    batch = hops.rows(torch.tensor([2, 0]))
    for found in (
        batch,
        hops.select([1, 2]).shift(),
        torch.relu(hops) + 1,
        pickle.loads(pickle.dumps(hops)),
        copy.deepcopy(batch),
    ):
        assert found.filter.graph == SMALL


def test_hop_features_keep_no_graph_alive():
    g = dgl.graph(([0, 1], [1, 0]))
    hops = block_aggregate(g, make_features(2, 3), 1)
    alive = weakref.ref(g), weakref.ref(g._graph)
    del g
    gc.collect()
    assert [found() for found in alive] == [None, None]
    assert hops.filter.graph == GraphCounts(2, 2, 0, 0, True)


def test_other_degrees_are_another_graph():
    source, target = torch.tensor([[0, 1, 2, 3, 2, 5], [1, 2, 3, 4, 0, 3]])
    g = dgl.graph((source, target))
    counts = count_graph(g)
    assert counts == count_graph(dgl.graph((source, target)))
    swapped = torch.tensor([2, 1, 0, 3, 4, 5])
    for other in (
        dgl.reverse(g),
        dgl.graph((swapped[source], swapped[target])),
        # One end of an edge is another node.
        dgl.graph((source, torch.tensor([1, 2, 3, 4, 0, 4]))),
        dgl.graph((torch.tensor([0, 1, 2, 3, 3, 5]), target)),
    ):
        found = count_graph(other)
        assert found != counts
        assert found.seen(True) != counts.seen(True)
        assert found.add_loops() != counts.add_loops()
        # Nothing but the degrees differs.
        assert str(found) == str(counts)
        unknown = GraphCounts(6, 6, 0, 0, False)
        assert found == unknown == counts
    # The same edges, but another node has the self-loop.
    one, two = (dgl.add_edges(g, [v], [v]) for v in (0, 1))
    assert count_graph(one) != count_graph(two)
    assert count_graph(one).seen(True) == count_graph(two).seen(True)


def test_filters_know_the_sums_of_their_weights(small_graph, tmp_path):
    x, w = make_features(4, 3), torch.tensor([1.0, 2, -3, 0.5, 4])
    sums = WeightSums(4.5, 30.25)
    for weight in (w, w.double(), w[:, None], w.half()):
        hops = block_aggregate(small_graph, x, 1, edge_weight=weight)
        assert hops.filter.graph.weights == sums
    for _ in range(2):
        hops = block_aggregate(
            small_graph, x, 1, edge_weight=w, out=tmp_path / "s"
        )
        assert hops.filter.graph.weights == sums
    # One self-loop of the graph is replaced: its weight is not known.
    assert hops.filter.seen_graph.weights is None
    assert hops.filter.graph.add_loops().weights == (8.5, 34.25)
    bare = dgl.remove_self_loop(small_graph)
    hops = block_aggregate(bare, x, 1, edge_weight=torch.ones(4))
    assert hops.filter.seen_graph.weights == (8.0, 8.0)
    assert block_aggregate(bare, x, 1).filter.graph.weights is None


@pytest.mark.parametrize("change", [
    {"degrees": None}, {"degrees": []}, {"degrees": ["0" * 16] * 3},
    {"degrees": [0] * 4}, {"degrees": ["0" * 15] * 4},
    {"degrees": ["g" * 16] * 4}, {"degrees": ["0" * 17] * 4},
    {"weights": None}, {"weights": [1.0]}, {"weights": [1, 2]},
    {"weights": ["1.0", "1.0"]}, {"weights": [1.0, -1.0]},
    {"weights": [4.0, 1.0]}, {"weights": [float("nan"), 1.0]},
    {"weights": [1.0, float("inf")]},
])  # fmt: skip
def test_hashes_and_sums_that_cannot_be_are_refused(change):
    hashes = DegreeHashes(0, 1, 2**64 - 1, 17)
    counts = GraphCounts(4, 5, 2, 1, False, hashes, WeightSums(-2.0, 3.5))
    found = GraphCounts.from_json(json.loads(json.dumps(counts.to_json())))
    assert (found, *found.degrees) == (counts, *hashes)
    assert found.weights == counts.weights
    with pytest.raises(ValueError, match="can't be"):
        GraphCounts.from_json(counts.to_json() | change)


@pytest.mark.parametrize("found", [
    None, [], {}, {"num_nodes": 3},
    {"num_nodes": 3.0}, {"num_nodes": 0}, {"num_nodes": 2**31},
    {"num_edges": -1}, {"num_edges": True}, {"num_edges": "5"},
    {"num_edges": 1}, {"num_loops": 0}, {"num_looped": 0},
    {"num_looped": 3}, {"num_looped": -1}, {"balanced": 1},
    {"balanced": None}, {"more": 1},
])  # fmt: skip
def test_counts_that_cannot_be_are_refused(found):
    good = GraphCounts(4, 5, 2, 1, False).to_json()
    assert GraphCounts.from_json(good) == GraphCounts(**good)
    if isinstance(found, dict) and found != {} and found != {"num_nodes": 3}:
        found = good | found
    with pytest.raises(ValueError, match=r"can't be|not the counts"):
        GraphCounts.from_json(found)
