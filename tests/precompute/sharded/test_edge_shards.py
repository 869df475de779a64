"""Cutting destinations into shards, and which rows a shard reads."""

import dgl
import numpy as np
import pytest
import torch
from dgl import DGLError
from hypothesis import given
from hypothesis import strategies as st

from dgl_lc.data import build_disk_graph
from dgl_lc.precompute.request import Request
from dgl_lc.precompute.sharded.edge_shards import EdgeShard, cut_destinations
from dgl_lc.precompute.survey import survey
from dgl_lc.testing.random_graphs import graphs, make_features


@given(
    degrees=st.lists(st.integers(0, 30) | st.just(200), max_size=40),
    shards=st.integers(1, 6),
)
def test_cuts_are_balanced(degrees, shards):
    indptr = np.concatenate([[0], np.cumsum(degrees)]).astype(np.int64)
    bounds = cut_destinations(indptr, shards)
    assert bounds.dtype == np.int64
    assert len(bounds) == shards + 1
    assert bounds[0] == 0
    assert bounds[-1] == len(degrees)
    assert (np.diff(bounds) >= 0).all()
    work = indptr + np.arange(len(indptr))
    assert np.diff(work[bounds]).max() == least_largest(work, shards)


def least_largest(work, shards):
    """The smallest largest shard of all cuts, by dynamic programming."""
    best = work - work[0]
    for _ in range(shards - 1):
        best = np.array(
            [
                min(max(best[j], work[i] - work[j]) for j in range(i + 1))
                for i in range(len(work))
            ]
        )
    return best[-1]


def test_shards_after_a_hub_share_what_remains():
    degrees = np.array([1000] + [9] * 60)
    indptr = np.concatenate([[0], np.cumsum(degrees)])
    assert cut_destinations(indptr, 4).tolist() == [0, 1, 21, 41, 61]
    # The hub is last: the others share the rest before it.
    indptr = np.concatenate([[0], np.cumsum(degrees[::-1])])
    bounds = cut_destinations(indptr, 2)
    assert bounds.tolist() == [0, 60, 61]


def test_rows_without_edges_are_shared_as_well():
    assert cut_destinations(np.zeros(9, int), 4).tolist() == [0, 2, 4, 6, 8]


def test_fewer_nodes_than_shards():
    bounds = cut_destinations(np.array([0, 2, 4]), 5)
    assert sorted(np.diff(bounds).tolist()) == [0, 0, 0, 1, 1]


def sources(g, rows):
    u, v = (ends.numpy() for ends in g.edges(order="srcdst"))
    return set(u[np.isin(v, rows)].tolist())


@pytest.mark.parametrize("shares", [True, False])
@given(
    g=graphs(max_nodes=30, max_edges=60),
    shards=st.integers(1, 4),
    K=st.integers(1, 3),
    self_loop=st.booleans(),
    blocks=st.integers(1, 3),
    data=st.data(),
)
def test_a_shard_reads_what_it_needs(
    shares, g, shards, K, self_loop, blocks, data
):
    n = g.num_nodes()
    nodes = data.draw(
        st.none() | st.lists(st.integers(0, n - 1), min_size=1, max_size=4)
    )
    kept = data.draw(st.sets(st.integers(0, K), min_size=1)) | {K}
    x = make_features(n, 2)
    request = Request.of(
        g, x, K, self_loop=self_loop, hops=sorted(kept),
        nodes=None if nodes is None else torch.tensor(nodes, dtype=torch.long),
        dtype=torch.float32 if shares else torch.float64,
    )  # fmt: skip
    found = survey(request)
    bounds = cut_destinations(found.edges.indptr, shards)
    every = [
        EdgeShard(request, found, bounds, s, blocks) for s in range(shards)
    ]
    places = np.concatenate([shard.kept_places.numpy() for shard in every])
    assert sorted(places.tolist()) == list(range(request.kept_rows))
    for hop in range(1, K + 1):
        rows = found.rows[hop]
        whole = np.arange(n) if rows is None else rows
        computed = np.concatenate([shard.rows[hop] for shard in every])
        assert computed.tolist() == whole.tolist()
    for shard in every:
        asked = range(n) if nodes is None else nodes
        own = [v for v in asked if shard.low <= v < shard.high]
        if nodes is not None:
            assert shard.kept_nodes(0, 9).tolist() == own
        for hop in range(1, K):
            foreign = shard.foreign[hop]
            assert foreign.dtype == np.int32
            outside = {
                u
                for u in sources(g, shard.rows[hop + 1])
                if not shard.low <= u < shard.high
            }
            assert foreign.tolist() == sorted(outside)
        assert (shard.feature_rows is None) == shares
        if not shares:
            needed = sources(g, shard.rows[1])
            needed |= set(shard.rows[1].tolist()) if self_loop else set()
            needed |= set(own) if 0 in kept else set()
            assert shard.feature_rows.tolist() == sorted(needed)


def test_only_the_edges_of_the_shard_are_sorted():
    g = dgl.rand_graph(50, 400)
    request = Request.of(g, make_features(50, 2), 2)
    found = survey(request)
    bounds = cut_destinations(found.edges.indptr, 4)
    shard = EdgeShard(request, found, bounds, 2)
    assert found.edges.indices is None
    (block,) = shard.filter.blocks()
    degrees = g.in_degrees().numpy()
    assert len(block.indices) == degrees[bounds[2] : bounds[3]].sum()
    assert 60 < len(block.indices) < 140


def test_only_the_edges_of_the_shard_are_read_from_disk(tmp_path, monkeypatch):
    u, v = np.random.default_rng(0).integers(0, 50, (2, 400))
    np.save(tmp_path / "edges.npy", np.stack([u, v]))
    graph = build_disk_graph(tmp_path / "edges.npy", 50, tmp_path / "graph")
    # A memory map, as the graph has, in which only some edges are valid.
    request = Request.of(graph, make_features(50, 2), 2)
    found = survey(request)
    bounds = cut_destinations(found.edges.indptr, 3)
    begin, end = graph.indptr[bounds[1]], graph.indptr[bounds[2]]
    indices = np.full(400, 2**31 - 1, np.int32)
    indices[begin:end] = graph.indices[begin:end]
    whole = [EdgeShard(request, found, bounds, s) for s in range(3)]
    monkeypatch.setattr(graph, "indices", indices)
    monkeypatch.setattr(graph, "_is_checked", False)
    shard = EdgeShard(request, survey(request), bounds, 1)
    assert shard.foreign[1].tolist() == whole[1].foreign[1].tolist()
    for other in (0, 2):
        with pytest.raises(DGLError, match="comes from node 2147483647"):
            EdgeShard(request, survey(request), bounds, other)


def test_hops_at_all_rows_share_their_lists():
    g = dgl.rand_graph(50, 100)
    request = Request.of(g, make_features(50, 2), 4)
    found = survey(request)
    bounds = cut_destinations(found.edges.indptr, 2)
    shard = EdgeShard(request, found, bounds, 0)
    assert len({id(rows) for rows in shard.rows[1:]}) == 1
    assert len({id(rows) for rows in shard.foreign.values()}) == 1
    assert sorted(shard.foreign) == [1, 2, 3]
