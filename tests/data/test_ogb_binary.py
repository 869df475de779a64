"""OGB's binary files, turned into a task on disk."""

import functools
import gzip
import shutil
import sys
import types

import numpy as np
import pytest
import torch
from dgl import DGLError

from dgl_lc.data import (
    DiskData,
    ogb_binary,
    prepare_ogb,
    write_features,
    write_papers_like,
)
from dgl_lc.data.undirected import both_directions
from dgl_lc.storage.free_disk import free_range
from dgl_lc.storage.npy_file import GrowingArray
from dgl_lc.testing.folders import folder_content

N = 60


def arrays():
    rng = np.random.default_rng(0)
    labels = np.full((N, 1), np.nan, np.float32)
    labels[:30, 0] = rng.integers(0, 172, 30)
    return {
        "edge_index": rng.integers(0, N, (2, 400)),
        "node_feat": rng.standard_normal((N, 20)).astype(np.float32),
        "num_nodes_list": np.array([N]),
        "num_edges_list": np.array([400]),
        "node_label": labels,
        "train": np.arange(0, 10),
        "valid": np.arange(10, 20),
        "test": np.arange(20, 30)[::-1],
    }


def write(root, save=np.savez_compressed, **changes):
    """A folder as OGB's; None leaves something out."""
    given = {k: v for k, v in (arrays() | changes).items() if v is not None}
    home = root / "ogbn_papers100M"
    (home / "raw").mkdir(parents=True, exist_ok=True)
    (home / "split" / "time").mkdir(parents=True, exist_ok=True)
    for split in ("train", "valid", "test"):
        text = "".join(f"{node}\n" for node in given.pop(split))
        path = home / "split" / "time" / f"{split}.csv.gz"
        path.write_bytes(gzip.compress(text.encode()))
    labels = given.pop("node_label", None)
    save(home / "raw" / "data.npz", **given)
    if labels is not None:
        np.savez_compressed(home / "raw" / "node-label.npz", node_label=labels)
    return home


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_the_files_become_a_task(tmp_path, save):
    write(tmp_path / "root", save)
    data = prepare_ogb(tmp_path / "root", tmp_path / "out")
    wanted = arrays()
    source, target = both_directions(*wanted["edge_index"], N)
    order = np.lexsort((source, target))
    assert np.array_equal(data.graph.indices, source[order])
    feat = torch.from_numpy(wanted["node_feat"])
    assert torch.equal(data.feat.block(0, 20), feat)
    assert data.labels.dtype == torch.int64
    labels = wanted["node_label"][:, 0]
    assert data.labels[:30].tolist() == labels[:30].tolist()
    assert (data.labels[30:] == -1).all()
    for split in ("train", "valid", "test"):
        assert getattr(data, split).tolist() == wanted[split].tolist()
    assert (data.num_classes, data.num_feats) == (172, 20)
    assert repr(data) == (
        f"DiskData('ogbn-papers100M', 60 nodes, {len(source)} edges, "
        f"20 columns, 172 classes, 10 train, 10 valid, 10 test)"
    )
    data.verify()


def test_the_folder_of_the_dataset_will_do(tmp_path):
    home = write(tmp_path)
    data = prepare_ogb(
        home, tmp_path / "out", add_reverse=False, dtype=torch.bfloat16
    )
    assert data.graph.num_edges() == 400
    assert data.feat.dtype == torch.bfloat16


def test_a_second_call_only_opens(tmp_path, monkeypatch):
    write(tmp_path)
    first = prepare_ogb(tmp_path, tmp_path / "out")
    for name in ("write_labels", "write_split"):
        monkeypatch.setattr(ogb_binary, name, None)
    monkeypatch.setattr(GrowingArray, "append", None)
    assert prepare_ogb(tmp_path, tmp_path / "out").key == first.key
    assert DiskData(tmp_path / "out").key == first.key


def test_a_whole_task_is_opened_with_other_files_beside_it(tmp_path):
    write(tmp_path / "root")
    data = prepare_ogb(tmp_path / "root", tmp_path / "out")
    # Scripts keep hop stores and checkpoints there.
    (tmp_path / "out" / "hops-2").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    again = prepare_ogb(tmp_path / "root", tmp_path / "out")
    assert again.graph.key == data.graph.key
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine"
    # A folder that would be written to has to be ours alone.
    (tmp_path / "out" / "manifest.json").unlink()
    with pytest.raises(DGLError, match="holds 'hops-2', which dgl-lc did not"):
        prepare_ogb(tmp_path / "root", tmp_path / "out")


def test_the_folder_of_something_else_is_refused_before_any_work(tmp_path):
    write(tmp_path / "root")
    prepare_ogb(tmp_path / "root", tmp_path / "out")
    with pytest.raises(DGLError, match="that of 'dgl-lc graph', not of"):
        prepare_ogb(tmp_path / "root", tmp_path / "out" / "graph")
    assert not (tmp_path / "out" / "graph" / "graph").exists()


@pytest.mark.parametrize(
    "step", ["write_features", "write_labels", "write_split"]
)
def test_a_killed_run_resumes(tmp_path, monkeypatch, step):
    write(tmp_path)
    whole = prepare_ogb(tmp_path, tmp_path / "whole")
    with monkeypatch.context() as patch:

        def die(*_, **__):
            raise KeyboardInterrupt

        patch.setattr(ogb_binary, step, die)
        with pytest.raises(KeyboardInterrupt):
            prepare_ogb(tmp_path, tmp_path / "out")
        with pytest.raises(
            DGLError, match=r"prepare_ogb did not finish it|was not finished"
        ):
            DiskData(tmp_path / "out")
    data = prepare_ogb(tmp_path, tmp_path / "out")
    assert data.key == whole.key
    content = folder_content(whole.path)
    assert len(content) == 13
    assert content == folder_content(data.path)


def test_other_options_or_files_are_an_error(tmp_path):
    write(tmp_path)
    prepare_ogb(tmp_path, tmp_path / "out")
    with pytest.raises(DGLError, match="made with add_reverse=True, asked"):
        prepare_ogb(tmp_path, tmp_path / "out", add_reverse=False)
    with pytest.raises(DGLError, match="made with dtype='float32', asked"):
        prepare_ogb(tmp_path, tmp_path / "out", dtype=torch.float16)
    other = arrays()["node_feat"] + 1
    write(tmp_path, node_feat=other)
    with pytest.raises(DGLError, match=r"has changed \(content\)"):
        prepare_ogb(tmp_path, tmp_path / "out")
    write(tmp_path, train=[3])
    with pytest.raises(DGLError, match=r"train\.csv\.gz has changed"):
        prepare_ogb(tmp_path, tmp_path / "out")


def test_raw_files_are_freed(tmp_path):
    home = write(tmp_path)
    data = prepare_ogb(tmp_path, tmp_path / "out", consume_raw=True)
    assert not (home / "raw" / "data.npz").exists()
    again = prepare_ogb(tmp_path, tmp_path / "out", consume_raw=True)
    assert again.key == data.key
    with pytest.raises(DGLError, match=r"add_reverse=True.* no longer exists"):
        prepare_ogb(tmp_path, tmp_path / "out", add_reverse=False)
    with pytest.raises(DGLError, match=r"data\.npz missing"):
        prepare_ogb(tmp_path, tmp_path / "other")


def blocks(path):
    return path.stat().st_blocks * 512


@pytest.mark.skipif(sys.platform != "linux", reason="makes holes in files")
def test_a_killed_run_that_frees_resumes(tmp_path, monkeypatch):
    home = write_papers_like(tmp_path / "root", 2e-4, feat_dim=64)
    raw = home / "raw" / "data.npz"
    if not free_range(shutil.copy(raw, tmp_path / "try"), 0, 8192):
        pytest.skip("this disk has no holes in files")
    whole = prepare_ogb(tmp_path / "root", tmp_path / "whole")
    often = functools.partial(write_features, commit_bytes=1 << 20)
    monkeypatch.setattr(ogb_binary, "write_features", often)
    small = {"consume_raw": True, "memory": "8MiB"}
    before = blocks(raw)
    left = 3

    def dying(path, begin, end):
        nonlocal left
        left -= 1
        if left == 0:
            raise KeyboardInterrupt
        return free_range(path, begin, end)

    with monkeypatch.context() as patch:
        patch.setattr(ogb_binary, "free_range", dying)
        with pytest.raises(KeyboardInterrupt):
            prepare_ogb(tmp_path / "root", tmp_path / "out", **small)
    # The edges, 5 MB, and 1 MB of features.
    assert before - blocks(raw) > 5_500_000
    shutil.copytree(tmp_path / "root", tmp_path / "holes")
    data = prepare_ogb(tmp_path / "root", tmp_path / "out", **small)
    assert data.key == whole.key
    assert not raw.exists()
    # What is gone is not taken for zeros.
    with pytest.raises(DGLError, match="edge_index is damaged: its checksum"):
        prepare_ogb(tmp_path / "holes", tmp_path / "new")


def test_labels_that_are_wrong(tmp_path):
    for value, text in ((172, "172.0"), (-1, "-1.0"), (1.5, "1.5")):
        labels = arrays()["node_label"]
        labels[7] = value
        write(tmp_path, node_label=labels)
        message = rf"node_label holds {text} at node 7, but classes go from 0"
        with pytest.raises(DGLError, match=message):
            prepare_ogb(tmp_path, tmp_path / "out")
    write(tmp_path, node_label=np.zeros((N + 1, 1), np.float32))
    with pytest.raises(DGLError, match="one label for each of 60 nodes"):
        prepare_ogb(tmp_path, tmp_path / "out")
    whole_numbers = np.where(np.arange(N) < 30, 5, 0)
    write(tmp_path, node_label=whole_numbers)
    assert prepare_ogb(tmp_path, tmp_path / "out").labels[7] == 5


def test_splits_that_are_wrong(tmp_path):
    for changes, message in (
        ({"train": [0, 60]}, "holds 60, but there are nodes 0 to 59"),
        ({"valid": [10, 45]}, "holds node 45, which has no label"),
        ({"test": [20, 3]}, "nodes that are in a split already"),
        ({"test": [20, 20]}, "nodes that are in a split already"),
    ):
        write(tmp_path, **changes)
        with pytest.raises(DGLError, match=message):
            prepare_ogb(tmp_path, tmp_path / "out")


def test_files_that_are_wrong(tmp_path):
    for changes, message in (
        ({"edge_index": None}, "has no edge_index"),
        ({"node_feat": None}, "has no node_feat"),
        ({"num_nodes_list": None}, "has no num_nodes_list"),
        ({"num_nodes_list": np.array([N, N])}, "should hold one integer"),
        ({"num_nodes_list": np.array([20])}, "there are nodes 0 to 19"),
        ({"num_edges_list": np.array([401])}, "says 401 edges, edge_index"),
        ({"node_feat": np.ones((N + 1, 2))}, "node_feat has 61 rows"),
    ):
        write(tmp_path / message, **changes)
        with pytest.raises(DGLError, match=message):
            prepare_ogb(tmp_path / message, tmp_path / message / "out")
    raw = write(tmp_path) / "raw"
    data = (raw / "data.npz").read_bytes()
    (raw / "data.npz").write_bytes(data[:-100])
    with pytest.raises(DGLError, match=r"data\.npz: .* cannot be read"):
        prepare_ogb(tmp_path, tmp_path / "out")
    (raw / "node-label.npz").unlink()
    with pytest.raises(DGLError, match=r"incomplete: .*node-label\.npz mis"):
        prepare_ogb(tmp_path, tmp_path / "out")


def test_wrong_arguments(tmp_path):
    write(tmp_path)
    with pytest.raises(DGLError, match="name='ogbn-mag' is not known"):
        prepare_ogb(tmp_path, tmp_path / "out", name="ogbn-mag")
    with pytest.raises(DGLError, match="memory=4 MiB is too small to read"):
        prepare_ogb(tmp_path, tmp_path / "out", memory="4MiB")
    with pytest.raises(DGLError, match="dtype should be one of"):
        prepare_ogb(tmp_path, tmp_path / "out", dtype=torch.float64)


def test_parts_that_were_exchanged(tmp_path):
    write(tmp_path / "a")
    write(tmp_path / "b", edge_index=np.zeros((2, 400), np.int64))
    one = prepare_ogb(tmp_path / "a", tmp_path / "1")
    two = prepare_ogb(tmp_path / "b", tmp_path / "2")
    shutil.rmtree(one.path / "graph")
    shutil.copytree(two.path / "graph", one.path / "graph")
    with pytest.raises(DGLError, match="is not the one that"):
        DiskData(one.path)


def test_without_a_network(tmp_path, monkeypatch):
    fake = types.ModuleType("ogb.utils.url")
    calls = []

    def download_url(url, folder):
        calls.append(url)
        raise RuntimeError("Stopped downloading due to interruption.")

    fake.download_url, fake.extract_zip = download_url, None
    monkeypatch.setitem(sys.modules, "ogb.utils.url", fake)
    usage = types.SimpleNamespace(free=10**12)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(DGLError, match="due to interruption") as caught:
        prepare_ogb(tmp_path / "root", tmp_path / "out")
    assert "papers100M-bin.zip" in str(caught.value)
    assert "raw/node-label.npz" in str(caught.value)
    usage.free = 10**9
    with pytest.raises(DGLError, match="needs about 130 GiB of disk"):
        prepare_ogb(tmp_path / "root", tmp_path / "out")
    assert len(calls) == 1
