"""Keys: a result is used again only for what it was made of."""

import os

import dgl
import numpy as np
import pytest
import torch
from dgl import DGLError
from dgl.base import DGLWarning

from dgl_lc import block_aggregate
from dgl_lc.data import build_disk_graph, write_features
from dgl_lc.storage.keys import array_key, is_unread


def random_ends(n=60, m=300):
    return torch.randint(n, (2, m), generator=torch.Generator().manual_seed(0))


@pytest.fixture
def g():
    ends = random_ends()
    return dgl.graph((ends[0], ends[1]), num_nodes=60)


@pytest.fixture
def x():
    return torch.randn(60, 40, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def weight():
    return torch.rand(300, generator=torch.Generator().manual_seed(2))


def test_weights_of_two_edges_that_changed_places(g, x, weight, tmp_path):
    out = tmp_path / "s"
    block_aggregate(g, x, 2, edge_weight=weight, out=out)
    other = weight.clone()
    other[[7, 200]] = other[[200, 7]]
    with pytest.raises(DGLError, match="it was made with graph="):
        block_aggregate(g, x, 2, edge_weight=other, out=out)


def test_edges_in_another_order_with_the_same_weights(weight, x, tmp_path):
    """The order of the edges changes, their weights do not go with them."""
    ends, order = random_ends(), torch.randperm(300)
    one = dgl.graph((ends[0], ends[1]), num_nodes=60)
    two = dgl.graph((ends[0][order], ends[1][order]), num_nodes=60)
    block_aggregate(one, x, 2, edge_weight=weight, out=tmp_path / "s")
    with pytest.raises(DGLError, match="it was made with graph="):
        block_aggregate(two, x, 2, edge_weight=weight, out=tmp_path / "s")
    found = block_aggregate(
        two, x, 2, edge_weight=weight[order], out=tmp_path / "s"
    )
    expected = block_aggregate(two, x, 2, edge_weight=weight[order])
    torch.testing.assert_close(found.stack, expected.stack)


@pytest.mark.parametrize("formats", ["coo", "csc", "csr"])
def test_the_format_of_the_graph_does_not_matter(
    g, x, weight, tmp_path, formats
):
    first = block_aggregate(g, x, 1, edge_weight=weight, out=tmp_path / "s")
    same = block_aggregate(
        g.formats(formats), x, 1, edge_weight=weight, out=tmp_path / "s"
    )
    assert same.key == first.key


@pytest.mark.parametrize("row", [0, 30, 59])
def test_any_row_of_the_features_counts(g, x, tmp_path, row):
    block_aggregate(g, x, 2, out=tmp_path / "s")
    x[row, -1] += 1
    with pytest.raises(DGLError, match="it was made with features="):
        block_aggregate(g, x, 2, out=tmp_path / "s")


def test_a_write_through_numpy_is_noticed(g, x, tmp_path):
    block_aggregate(g, x, 2, out=tmp_path / "s")
    x.numpy()[3] = 7
    with pytest.raises(DGLError, match="it was made with features="):
        block_aggregate(g, x, 2, out=tmp_path / "s")


def test_nodes_in_another_order(g, x, tmp_path):
    block_aggregate(g, x, 2, nodes=[1, 2, 3], out=tmp_path / "s")
    with pytest.raises(DGLError, match="it was made with nodes="):
        block_aggregate(g, x, 2, nodes=[1, 3, 2], out=tmp_path / "s")


def test_features_on_disk_that_were_written_to(g, x, tmp_path):
    np.save(tmp_path / "x.npy", x.numpy())
    feat = write_features(tmp_path / "x.npy", tmp_path / "feat", width=16)
    block_aggregate(g, feat, 2, out=tmp_path / "s")
    path = tmp_path / "feat/columns_0001.npy"
    with open(path, "r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(b"\0\0\0\1")
    with pytest.raises(DGLError, match=r"columns_0001\.npy is damaged"):
        block_aggregate(g, feat, 2, out=tmp_path / "s")


def test_a_graph_on_disk_that_was_written_to(x, tmp_path):
    np.save(tmp_path / "edges.npy", random_ends().numpy())
    g = build_disk_graph(tmp_path / "edges.npy", 60, tmp_path / "g")
    block_aggregate(g, x, 2, out=tmp_path / "s")
    with open(tmp_path / "g/indices.npy", "r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(b"\1\0\0\0")
    with pytest.raises(DGLError, match=r"indices\.npy is damaged"):
        block_aggregate(g, x, 2, out=tmp_path / "s")


def test_a_memory_map_of_a_foreign_file(g, x, tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, x.numpy())
    mapped = np.load(path, mmap_mode="r")
    assert is_unread(array_key(mapped))
    assert is_unread(array_key(mapped[:, 2:]))
    assert array_key(mapped[:, 2:]) != array_key(mapped[:, 1:-1])
    assert not is_unread(array_key(np.array(mapped)))
    block_aggregate(g, mapped, 2, out=tmp_path / "s")
    with pytest.warns(DGLWarning, match="Its content was not compared"):
        block_aggregate(g, mapped, 2, out=tmp_path / "s")
    np.save(path, x.numpy() + 1)
    with pytest.raises(DGLError, match="it was made with features="):
        block_aggregate(g, np.load(path, mmap_mode="r"), 2, out=tmp_path / "s")


def test_a_memory_map_of_a_file_that_took_the_place_of_another(x, tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, x.numpy())
    times = os.stat(path)
    before = array_key(np.load(path, mmap_mode="r"))
    np.save(tmp_path / "y.npy", x.numpy() + 1)
    os.replace(tmp_path / "y.npy", path)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert array_key(np.load(path, mmap_mode="r")) != before


def test_a_memory_map_read_in_another_order(x, tmp_path):
    np.save(tmp_path / "x.npy", x.numpy()[:40])
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert mapped.shape == mapped.T.shape
    assert array_key(mapped) != array_key(mapped.T)


def test_another_request_replaces_a_store_only_if_it_is_told_to(g, x, tmp_path):
    block_aggregate(g, x, 2, out=tmp_path / "s")
    with pytest.raises(DGLError, match=r"again with resume=False"):
        block_aggregate(g, x, 3, out=tmp_path / "s")
    found = block_aggregate(g, x, 3, out=tmp_path / "s", resume=False)
    assert found.K == 3
    found.verify()


def test_planning_that_fails_leaves_no_store(g, x, tmp_path):
    with pytest.raises(DGLError, match=r"memory=.* is too small"):
        block_aggregate(g, x, 3, out=tmp_path / "s", memory=100)
    block_aggregate(g, x, 2, out=tmp_path / "s")
