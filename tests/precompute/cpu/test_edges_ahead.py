"""The edges of a mapped graph are asked for before they are read."""

import os
from contextlib import closing

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dgl_lc.data import build_disk_graph, power_law_graph
from dgl_lc.precompute import block_aggregate
from dgl_lc.precompute.cpu import edges_ahead
from dgl_lc.precompute.cpu.chunks import FIRST, cut_chunks
from dgl_lc.precompute.cpu.edges_ahead import EdgesAhead
from dgl_lc.precompute.graph.in_edges import EdgeBlock


@pytest.fixture
def asked(monkeypatch):
    """The places of edges that the system was asked for, in order."""
    found = []

    def record(_, begin, size, how):
        found.append((begin // 4, (begin + size) // 4))

    monkeypatch.setattr(os, "posix_fadvise", record)
    return found


def mapped_edges(folder, count):
    path = folder / "edges"
    path.write_bytes(bytes(4 * max(1, count)))
    return np.memmap(path, np.int32, "r", 0, (count,))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    degrees=st.lists(st.integers(0, 70_000), min_size=1, max_size=9),
    gap=st.sampled_from([1, 1000, 1 << 20]),
    ahead=st.integers(1, 4),
    data=st.data(),
)
def test_every_edge_is_asked_for_before_its_chunk(
    tmp_path, monkeypatch, asked, degrees, gap, ahead, data
):
    monkeypatch.setattr(edges_ahead, "_AHEAD", ahead)
    monkeypatch.setattr(edges_ahead, "_GAP", gap)
    monkeypatch.setattr(edges_ahead, "_ROWS", 2)
    asked.clear()
    indptr = np.concatenate([[0], np.cumsum(degrees)])
    rows = None
    if data.draw(st.booleans()):
        chosen = data.draw(st.sets(st.integers(0, len(degrees) - 1)))
        rows = np.array(sorted(chosen), np.int32)
        if not len(rows):
            return
    bounds = np.array([0, indptr[-1]])
    table = cut_chunks(rows, indptr, bounds).table
    block = EdgeBlock(0, mapped_edges(tmp_path, int(indptr[-1])), None, None)
    known = np.zeros(indptr[-1], bool)
    with closing(EdgesAhead(block, table, rows, indptr)) as coming:
        for item, chunk in enumerate(table):
            first, last, begin, end, _ = chunk
            for position in range(first, last):
                row = position if rows is None else rows[position]
                own = slice(max(indptr[row], begin), min(indptr[row + 1], end))
                for low, high in asked:
                    known[low:high] = True
                assert known[own].all(), item
            coming.begin(item)
    if rows is None:
        assert sum(high - low for low, high in asked) == indptr[-1]


def test_rows_far_from_each_other_are_asked_for_one_by_one(tmp_path, asked):
    indptr = np.arange(0, 10_000_001, 10)
    rows = np.arange(0, 1_000_000, 100_000, dtype=np.int32)
    table = cut_chunks(rows, indptr, np.array([0, indptr[-1]])).table
    block = EdgeBlock(0, mapped_edges(tmp_path, 10_000_000), None, None)
    EdgesAhead(block, table, rows, indptr).close()
    assert asked == [(10 * row, 10 * row + 10) for row in rows]


def test_weights_in_the_order_of_the_edges_are_asked_for_too(tmp_path, asked):
    indptr, edges = np.array([0, 50]), mapped_edges(tmp_path, 50)
    table = cut_chunks(None, indptr, indptr).table
    assert table[0, FIRST] == 0
    for ids, expected in ((None, 2), (np.arange(50), 1)):
        asked.clear()
        EdgesAhead(EdgeBlock(0, edges, ids, edges), table, None, indptr).close()
        assert asked == [(0, 50)] * expected


def test_a_graph_on_disk_is_asked_for_and_one_in_memory_is_not(
    tmp_path, asked, monkeypatch
):
    monkeypatch.setattr(edges_ahead, "_AHEAD", 1)
    graph = power_law_graph(3_000, 100_000)  # several chunks
    ends = np.stack([end.numpy() for end in graph.edges()])
    np.save(tmp_path / "edges.npy", ends)
    g = build_disk_graph(tmp_path / "edges.npy", 3_000, tmp_path / "graph")
    feat = np.ones((3_000, 3), np.float32)
    asked.clear()
    found = block_aggregate(g, feat, 2)
    hop = sum(high - low for low, high in asked) // 2
    assert hop == g.num_edges()
    asked.clear()
    expected = block_aggregate(graph, feat, 2)
    assert not asked
    for hop in range(3):
        assert torch.equal(found[hop], expected[hop])
