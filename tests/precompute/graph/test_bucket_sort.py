"""Sorting edges in buckets gives what a stable sort gives."""

import sys

import dgl
import numpy as np
import pytest
import torch
from dgl import DGLError
from hypothesis import given

from dgl_lc.precompute import block_aggregate
from dgl_lc.precompute.graph import bucket_sort
from dgl_lc.precompute.graph.bucket_sort import SortedEdges, sort_edges
from dgl_lc.precompute.graph.in_edges import InEdges
from dgl_lc.testing.random_graphs import graphs


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def made(source, target, n, counted=True):
    degrees = n if counted else 0
    found = SortedEdges(
        np.zeros(n + 1, np.int64),
        np.zeros(degrees, np.int32),
        np.zeros(degrees, np.int32),
        np.zeros(len(source), np.int32),
    )
    return found if sort_edges(source, target, found) else None


def random_ends(n, m, dtype):
    """Both ends of edges, with hubs and self-loops."""
    generator = np.random.default_rng(n + m)
    ends = (n * generator.random((2, m)) ** 3).astype(dtype)
    ends[1, ::7] = ends[0, ::7]
    return ends


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("n", [1, 2, 255, 256, 257, 5000, 70_001])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_edges_are_sorted_and_stay_in_order(dtype, n, count, threads):
    threads(count)
    source, target = random_ends(n, 20_003, dtype)
    found = made(source, target, n)
    order = np.argsort(target, kind="stable")
    assert np.array_equal(found.indices, source[order])
    counts = np.bincount(target, minlength=n)
    assert np.array_equal(np.diff(found.indptr), counts)
    assert np.array_equal(found.out_edges, np.bincount(source, minlength=n))
    loops = np.bincount(source[source == target], minlength=n)
    assert np.array_equal(found.loops, loops)


@pytest.mark.parametrize("n", [0, 1, 300])
def test_no_edges(n):
    empty = np.empty(0, np.int64)
    found = made(empty, empty, n)
    assert not found.indptr.any()


@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize("wrong", [-1, 300, 2**33])
@pytest.mark.parametrize("place", [0, -1])
def test_an_end_outside_the_graph_is_found(end, wrong, place):
    ends = random_ends(300, 1001, np.int64)
    ends[end, place] = wrong
    assert made(*ends, 300) is None


def test_ends_that_change_after_they_were_checked_do_no_harm():
    n, m = 300, 1000
    source, target = random_ends(n, m, np.int64)
    target[::3] = 2**40
    target[1::3] = -5
    pairs = np.zeros(m, np.uint64)
    cursor = np.full(150, m - 1)
    bucket_sort.fill_buckets(source, target, 0, m, 1, cursor, pairs)
    assert cursor.max() <= m
    pairs[:] = 1 << 32  # all of one row, and too many for it
    indices = np.zeros(10, np.int32)
    indptr, loops = np.zeros(3, np.int64), np.zeros(2, np.int32)
    bucket_sort.sort_bucket(
        pairs[:10], 0, 10, 0, 2, np.zeros(2, np.int64), indptr, loops, indices
    )
    assert indptr.tolist() == [0, 0, 10]


@given(g=graphs())
def test_loading_with_room_gives_the_same(g):
    slow, fast = InEdges(g), InEdges(g)
    assert np.array_equal(slow.load(), fast.load(sys.maxsize))
    assert np.array_equal(slow.indptr, fast.indptr)
    assert np.array_equal(slow.out_edges, fast.out_edges)
    assert np.array_equal(slow.loops, fast.loops)


def test_degrees_that_are_known_are_kept():
    g = dgl.rand_graph(50, 400)
    edges = InEdges(g)
    indptr, loops = edges.indptr, edges.loops
    before = indptr.copy()
    edges.load(sys.maxsize)
    assert edges.indptr is indptr
    assert edges.loops is loops
    assert np.array_equal(indptr, before)


def test_buckets_are_used_only_with_room(monkeypatch):
    g = dgl.rand_graph(50, 400)
    used = []
    monkeypatch.setattr(
        "dgl_lc.precompute.graph.in_edges.sort_edges",
        lambda *given: used.append(given) or sort_edges(*given),
    )
    InEdges(g).load(0)
    assert not used
    InEdges(g).load(bucket_sort.bucket_sort_bytes(50, 400, 64))
    assert used


@pytest.mark.parametrize("nodes", [None, [0, 1]])
def test_a_fresh_graph_with_wrong_ends_is_refused(nodes):
    ends = torch.tensor([0, 1, 2]), torch.tensor([1, 2, 0])
    g = dgl.graph(ends, num_nodes=3)
    ends[0][1] = 7
    with pytest.raises(DGLError, match="node id 7, but its nodes are 0 to 2"):
        block_aggregate(g, torch.ones(3, 2), 2, nodes=nodes)
