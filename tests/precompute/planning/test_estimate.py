"""The estimate of time, memory and disk. No time is asserted."""

import math
import os
from dataclasses import replace

import dgl
import numpy as np
import pytest
import torch

from dgl_lc.data import build_disk_graph, write_features
from dgl_lc.precompute import block_aggregate, estimate, open_store, plan

GRAPH = dgl.rand_graph(2000, 30_000)
FEAT = torch.rand(2000, 24)


@pytest.fixture
def on_disk(tmp_path):
    """The same graph and features on disk."""
    edges = torch.stack(GRAPH.edges()).numpy()
    np.save(tmp_path / "edges.npy", edges)
    np.save(tmp_path / "feat.npy", FEAT.numpy())
    graph = build_disk_graph(tmp_path / "edges.npy", 2000, tmp_path / "graph")
    return graph, write_features(tmp_path / "feat.npy", tmp_path / "feat")


def names(found):
    return [stage.name for stage in found.stages]


def sorted_graph():
    return GRAPH.formats("csc")


@pytest.mark.parametrize(
    ("graph", "options", "expected"),
    [
        (GRAPH, {}, ["computing keys", "sorting the edges", "computing hops",
                     "writing the store"]),
        (sorted_graph(), {}, ["computing keys", "counting the edges",
                              "computing hops", "writing the store"]),
        (GRAPH, {"nodes": [3, 1]},
         ["computing keys", "sorting the edges", "finding the frontier",
          "computing hops", "writing the store"]),
        (GRAPH, {"dtype": torch.float16},
         ["computing keys", "sorting the edges", "reading the features",
          "computing hops", "writing the store"]),
        (GRAPH, {"stored": False}, ["sorting the edges", "computing hops"]),
        (GRAPH, {"memory": "8MiB"},
         ["computing keys", "sorting the edges", "computing hops",
          "writing the store"]),
    ],
)  # fmt: skip
def test_every_stage_is_estimated(graph, options, expected, tmp_path):
    made = plan(graph, FEAT, 2, **{"stored": True, **options})
    found = estimate(made, graph, FEAT, tmp_path / "new" / "hops")
    assert names(found) == expected
    for stage in found.stages:
        assert 0 < stage.seconds < math.inf
        assert stage.size > 0
    assert os.listdir(tmp_path) == []


def test_a_graph_and_features_on_disk(on_disk, tmp_path):
    found = estimate(plan(*on_disk, 2, stored=True), *on_disk, tmp_path)
    assert names(found) == ["checking the graph", "reading the features",
                            "computing hops", "writing the store"]  # fmt: skip
    assert all(0 < stage.seconds < math.inf for stage in found.stages)


def test_edge_blocks_are_sorted_again_for_each_hop(tmp_path):
    made = plan(GRAPH, FEAT, 2)
    one, many = (
        estimate(replace(made, num_edge_blocks=blocks), GRAPH, FEAT, tmp_path)
        for blocks in (1, 3000)
    )
    assert many.stages[-1].seconds > one.stages[-1].seconds


def test_a_graph_without_edges_and_no_hops(tmp_path):
    empty = dgl.graph(([], []), num_nodes=30)
    feat = torch.ones(30, 4)
    for hops in (0, 1):
        made = plan(empty, feat, hops, stored=True)
        found = estimate(made, empty, feat, tmp_path)
        assert math.isfinite(found.seconds)


def test_the_disk_is_what_a_store_takes(tmp_path):
    found = estimate(plan(GRAPH, FEAT, 2, stored=True), GRAPH, FEAT, tmp_path)
    block_aggregate(GRAPH, FEAT, 2, out=tmp_path / "hops")
    size = open_store(tmp_path / "hops").nbytes
    # Beside the rows there are checksums, twice while they are written.
    assert size < found.disk_bytes <= size + 32 * 2000
    written = sum(f.stat().st_size for f in (tmp_path / "hops").iterdir())
    assert written < found.disk_bytes + 2**14


def test_a_larger_graph_takes_longer_in_proportion(tmp_path):
    """The estimate follows the sizes of the work, not those of the sample."""
    made = plan(GRAPH, FEAT, 2, stored=True)
    larger = replace(
        made, work=replace(made.work, hop_entries=(30_000_000,) * 2)
    )
    small, large = (
        {stage.name: stage.size for stage in estimate(p, GRAPH, FEAT,
                                                      tmp_path).stages}
        for p in (made, larger)
    )  # fmt: skip
    hops = "computing hops"
    assert large[hops] > 500 * small[hops]


def test_what_is_missing_is_said(tmp_path):
    found = estimate(plan(GRAPH, FEAT, 2, stored=True), GRAPH, FEAT, tmp_path)
    assert found.missing() == []
    less = replace(found, free_memory=1 << 20, free_disk=0)
    memory, disk = less.missing()
    assert memory.endswith("of memory are missing")
    assert disk.endswith("of disk are missing")
    assert str(less).endswith(f"{memory}\n{disk}")
