"""The edges of a mapped graph are asked for before they are read."""

import os
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dgl_lc.data import build_disk_graph, power_law_graph
from dgl_lc.precompute import block_aggregate
from dgl_lc.precompute.cpu import edges_ahead
from dgl_lc.precompute.cpu.chunks import CAPACITY, cut_chunks
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


def block_of(folder, count):
    """A block of so many edges, in a file without a header."""
    path = folder / "edges"
    path.write_bytes(bytes(4 * max(1, count)))
    edges = np.memmap(path, np.int32, "r", 0, (count,))
    return EdgeBlock(0, edges, None, None, (edges,))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    degrees=st.lists(st.integers(0, 70_000), min_size=1, max_size=9),
    gap=st.sampled_from([1, 1000, 1 << 20]),
    ahead=st.sampled_from([0, 1000, 50_000, 1 << 22]),
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
    block = block_of(tmp_path, int(indptr[-1]))
    known = np.zeros(indptr[-1], bool)
    with closing(EdgesAhead(block, table, rows, indptr)) as coming:
        for item, chunk in enumerate(table):
            coming.begin(item)
            first, last, begin, end, _ = chunk
            for position in range(first, last):
                row = position if rows is None else rows[position]
                own = slice(max(indptr[row], begin), min(indptr[row + 1], end))
                for low, high in asked:
                    known[low:high] = True
                assert known[own].all(), item
            if rows is None and asked:
                here = max(indptr[first], begin)
                assert asked[-1][1] < here + max(ahead, CAPACITY) + CAPACITY
    if rows is None:
        assert sum(high - low for low, high in asked) == indptr[-1]


def test_rows_far_from_each_other_are_asked_for_one_by_one(tmp_path, asked):
    indptr = np.arange(0, 10_000_001, 10)
    rows = np.arange(0, 1_000_000, 100_000, dtype=np.int32)
    table = cut_chunks(rows, indptr, np.array([0, indptr[-1]])).table
    with closing(
        EdgesAhead(block_of(tmp_path, 10_000_000), table, rows, indptr)
    ) as coming:
        coming.begin(0)
    assert asked == [(10 * row, 10 * row + 10) for row in rows]


def test_no_more_is_asked_for_than_edges_that_come_soon(
    tmp_path, monkeypatch, asked
):
    monkeypatch.setattr(edges_ahead, "_AHEAD", 50_000)
    indptr = np.arange(0, 2_000_001, 20_000)  # each row is a chunk
    table = cut_chunks(None, indptr, indptr[[0, -1]]).table
    coming = EdgesAhead(block_of(tmp_path, 2_000_000), table, None, indptr)
    for item in range(3):
        coming.begin(item)
        assert asked[-1][1] == 60_000 + 20_000 * item
    coming.close()


def test_weights_on_disk_are_asked_for(tmp_path, monkeypatch):
    files = []

    def record(number, begin, size, how):
        files.append(Path(os.readlink(f"/proc/self/fd/{number}")).name)

    np.save(tmp_path / "edges.npy", np.array([[0, 1, 2], [1, 2, 0]]))
    np.save(tmp_path / "weights.npy", np.ones(3, np.float32))
    g = build_disk_graph(
        tmp_path / "edges.npy", 3, tmp_path / "graph",
        weights=tmp_path / "weights.npy",
    )  # fmt: skip
    monkeypatch.setattr(os, "posix_fadvise", record)
    block_aggregate(g, np.ones((3, 2), np.float32), 1, edge_weight="weight")
    assert files == ["indices.npy", "weights.npy"]


def test_a_graph_on_disk_is_asked_for_and_one_in_memory_is_not(
    tmp_path, asked, monkeypatch
):
    monkeypatch.setattr(edges_ahead, "_AHEAD", 0)
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
