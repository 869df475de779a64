"""Counts of the graph in the manifest of a hop store."""

import dgl
import numpy as np
import pytest
import torch
from dgl import DGLError
from dgl.base import DGLWarning

from dgl_lc.data import build_disk_graph
from dgl_lc.graph_counts import GraphCounts
from dgl_lc.precompute import (
    block_aggregate,
    extend_store,
    open_store,
    sinks,
    update_store,
)
from dgl_lc.precompute import update as update_module
from dgl_lc.testing.folders import edit_manifest, folder_content
from dgl_lc.testing.random_graphs import make_features

COUNTS = GraphCounts(8, 8, 1, 1, False)


@pytest.fixture
def g():
    return dgl.graph(([0, 1, 2, 3, 4, 5, 6, 6], [1, 2, 3, 4, 5, 6, 7, 6]))


@pytest.fixture
def x():
    return make_features(8, 3)


def forget(folder):
    """Make it a store of an earlier version, which knew no counts."""
    edit_manifest(folder, lambda found: found.pop("graph_counts"))


def test_a_store_knows_its_graph(g, x, tmp_path):
    for nodes in (None, [7, 0]):
        path = tmp_path / f"{nodes is None}"
        block_aggregate(g, x, 2, nodes=nodes, out=path)
        found = open_store(path)
        assert found.filter.graph == found.head.spec.graph == COUNTS
        assert found.rows(torch.tensor([7])).filter.graph == COUNTS


def test_a_store_of_an_earlier_version_is_used_again(
    g, x, tmp_path, monkeypatch
):
    new = block_aggregate(g, x, 2, out=tmp_path / "s")
    forget(tmp_path / "s")
    content = folder_content(tmp_path / "s")
    assert open_store(tmp_path / "s").filter.graph is None
    assert open_store(tmp_path / "s").key == new.key
    monkeypatch.setattr(sinks.StoreWriter, "keep", lambda *_: 1 / 0)
    found = block_aggregate(g, x, 2, out=tmp_path / "s")
    # The graph is at hand, and was compared with the store's.
    assert found.filter.graph == COUNTS
    assert folder_content(tmp_path / "s") == content


def test_a_store_without_hashes_is_used_again(g, x, tmp_path):
    """Versions before the hashes kept only counts."""
    w = torch.rand(8)
    options = {"edge_weight": w, "out": tmp_path / "s"}
    new = block_aggregate(g, x, 2, **options).filter.graph
    assert None not in (new.degrees, new.weights)

    def edit(found):
        del found["graph_counts"]["degrees"], found["graph_counts"]["weights"]

    edit_manifest(tmp_path / "s", edit)
    known = open_store(tmp_path / "s").filter.graph
    assert (known, known.degrees, known.weights) == (COUNTS, None, None)
    found = block_aggregate(g, x, 2, **options).filter.graph
    assert (found.degrees, found.weights) == (new.degrees, new.weights)


def test_a_graph_on_disk_is_not_read_to_count_it(g, x, tmp_path, monkeypatch):
    np.save(tmp_path / "edges.npy", torch.stack(g.edges()).numpy())
    disk = build_disk_graph(tmp_path / "edges.npy", 8, tmp_path / "graph")
    block_aggregate(disk, x, 2, out=tmp_path / "s")
    assert open_store(tmp_path / "s").filter.graph == COUNTS
    forget(tmp_path / "s")
    monkeypatch.setattr(type(disk), "check_edges", lambda self: 1 / 0)
    found = block_aggregate(disk, x, 2, out=tmp_path / "s")
    assert found.filter.graph is None


@pytest.mark.parametrize("change", [
    None, [], {}, {"num_nodes": 9}, {"num_edges": -1}, {"num_loops": 9},
    {"num_looped": 2}, {"balanced": 0}, {"num_edges": 8.0},
    {"degrees": ["1"]}, {"weights": [0.0]},
])  # fmt: skip
def test_counts_that_cannot_be_are_refused(g, x, tmp_path, change):
    block_aggregate(g, x, 2, out=tmp_path / "s")

    def edit(found):
        wrong = found["graph_counts"] | change if change else change
        found["graph_counts"] = wrong

    edit_manifest(tmp_path / "s", edit)
    with pytest.raises(DGLError, match="says of the graph can't be"):
        open_store(tmp_path / "s")


def test_a_node_that_the_graph_lacks_is_refused(g, x, tmp_path):
    block_aggregate(g, x, 2, nodes=[0, 7], out=tmp_path / "s")
    edit_manifest(
        tmp_path / "s", lambda found: found["graph_counts"].update(num_nodes=7)
    )
    with pytest.raises(DGLError, match="says of the graph can't be"):
        open_store(tmp_path / "s")


@pytest.mark.parametrize("known", [True, False])
def test_an_extended_store_knows_its_graph(g, x, tmp_path, known):
    block_aggregate(g, x, 1, out=tmp_path / "hops")
    block_aggregate(g, x, 1, nodes=[0, 3], out=tmp_path / "rows")
    for name, more in (("hops", {"K": 2}), ("rows", {"nodes": [5]})):
        if not known:
            forget(tmp_path / name)
        extend_store(tmp_path / name, g, x, **more)
        assert open_store(tmp_path / name).filter.graph == COUNTS


@pytest.mark.parametrize("most", [1.0, 0.0])
def test_an_updated_store_knows_the_new_graph(
    g, x, tmp_path, monkeypatch, most
):
    monkeypatch.setattr(update_module, "MOST", most)
    new = dgl.add_edges(g, [7, 7], [7, 0])
    block_aggregate(g, x, 1, out=tmp_path / "s")
    if most == 0:
        with pytest.warns(DGLWarning, match="of the rows change"):
            update_store(tmp_path / "s", g, new, x)
    else:
        update_store(tmp_path / "s", g, new, x)
    expected = GraphCounts(8, 10, 2, 2, True)
    assert open_store(tmp_path / "s").filter.graph == expected
