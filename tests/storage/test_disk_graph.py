"""Graphs on disk: what they say, and folders that are not whole."""

import json

import numpy as np
import pytest
import torch
from dgl import DGLError

from dgl_lc.data import build_disk_graph
from dgl_lc.storage.disk_graph import DiskGraph

EDGES = np.array([[0, 0, 1, 2, 2], [1, 1, 2, 0, 2]])


@pytest.fixture
def graph(tmp_path):
    np.save(tmp_path / "edges.npy", EDGES)
    return build_disk_graph(tmp_path / "edges.npy", 4, tmp_path / "graph")


def test_it_answers_as_dgl(graph, small_graph):
    assert graph.num_nodes() == 4
    assert graph.num_edges() == 5
    assert torch.equal(graph.in_degrees(), small_graph.in_degrees().int())
    assert torch.equal(graph.out_degrees(), small_graph.out_degrees().int())
    assert graph.in_degrees([2, 3]).tolist() == [2, 0]
    assert graph.out_degrees(2).tolist() == [2]
    assert graph.in_degrees([False, True, True, False]).tolist() == [2, 2]
    assert graph.loops.tolist() == [0, 0, 1, 0]
    assert repr(graph).endswith("graph', 4 nodes, 5 edges)")


def test_it_becomes_a_dgl_graph(graph, small_graph):
    source, target = graph.to_dgl().edges()
    pairs = sorted(zip(source.tolist(), target.tolist(), strict=True))
    assert pairs == sorted(zip(*EDGES.tolist(), strict=True))
    assert torch.equal(graph.to_dgl().in_degrees(), small_graph.in_degrees())


def test_ids_that_are_not_there(graph):
    with pytest.raises(DGLError, match="node 4 does not exist"):
        graph.in_degrees([0, 4])
    with pytest.raises(DGLError, match="u holds -1, not a node id"):
        graph.out_degrees(-1)


def test_files_cannot_be_written_to(graph):
    with pytest.raises(ValueError, match="read-only"):
        graph.indices[0] = 1


@pytest.mark.parametrize("name", ["indptr", "indices", "out_edges", "loops"])
@pytest.mark.parametrize("place", [20, -1])
def test_a_flipped_byte_is_found(graph, name, place):
    graph.verify()
    path = graph.path / f"{name}.npy"
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)
    with pytest.raises(DGLError, match=rf"{name}\.npy is damaged"):
        DiskGraph(graph.path).verify()


def test_the_files_are_numpys(graph):
    for name in ("indptr", "indices", "out_edges", "loops"):
        plain = np.load(graph.path / f"{name}.npy")
        assert np.array_equal(plain, getattr(graph, name))
        assert plain.dtype == (np.int64 if name == "indptr" else np.int32)


def test_a_short_file_is_found_when_opened(graph):
    path = graph.path / "indices.npy"
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(DGLError, match=r"indices\.npy has 144 bytes"):
        DiskGraph(graph.path)


def test_what_is_no_graph(tmp_path, graph):
    with pytest.raises(DGLError, match="does not exist"):
        DiskGraph(tmp_path / "nowhere")
    with pytest.raises(DGLError, match=r"has no manifest\.json"):
        DiskGraph(tmp_path)
    path = graph.path / "manifest.json"
    about = json.loads(path.read_text())
    path.write_text(json.dumps(about | {"version": 99}))
    with pytest.raises(DGLError, match="version 99"):
        DiskGraph(graph.path)
    path.write_text(json.dumps(about | {"format": "dgl-lc features"}))
    with pytest.raises(DGLError, match="something else"):
        DiskGraph(graph.path)
    path.write_text("{")
    with pytest.raises(DGLError, match="cannot be read"):
        DiskGraph(graph.path)


def test_an_unfinished_folder_says_so(graph):
    (graph.path / "manifest.json").rename(graph.path / "state.json")
    with pytest.raises(DGLError, match="was not finished: call build_disk"):
        DiskGraph(graph.path)
