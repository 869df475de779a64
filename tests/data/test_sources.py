"""One call for every source of a task."""

import numpy as np
import pytest
import torch
from dgl import DGLError

import dgl_lc.data
from dgl_lc.data import (
    DiskData,
    block_model,
    load,
    open_data,
    prepare_ogb,
    save_npz,
    write_papers_like,
)


def test_the_generated_task_is_the_block_model():
    first, second = load("synthetic", num_feats=2), block_model(num_feats=2)
    assert repr(first) == repr(second)
    assert torch.equal(first.feat, second.feat)


@pytest.mark.parametrize("size", ["1200", "1_200", "1,200"])
def test_a_size_may_follow_the_name(size):
    data = load(f"synthetic:{size}", num_classes=3, seed=1)
    assert data.graph.num_nodes() == 1200
    assert data.num_classes == 3


@pytest.mark.parametrize("size", ["", "many", "-5", "1e6", " 5"])
def test_a_size_that_is_no_number_is_refused(size):
    with pytest.raises(DGLError, match="synthetic:1000000"):
        load(f"synthetic:{size}")


def write_npy_files(data, folder):
    folder.mkdir()
    np.save(folder / "edges.npy", torch.stack(data.graph.edges()).numpy())
    for name in ("feat", "labels", "train", "valid", "test"):
        np.save(folder / f"{name}.npy", getattr(data, name).numpy())


def test_a_file_and_a_folder_are_told_apart(tmp_path):
    data = block_model(30, 2, 3)
    save_npz(data, tmp_path / "task.npz")
    assert torch.equal(load(tmp_path / "task.npz").feat, data.feat)
    assert torch.equal(load(str(tmp_path / "task.npz")).feat, data.feat)
    folder = tmp_path / "folder"
    write_npy_files(data, folder)
    assert torch.equal(load(folder).feat, data.feat)
    assert load(folder, add_reverse=True).graph.num_edges() == (
        data.graph.num_edges()
    )


def test_a_name_goes_before_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cora").mkdir()
    monkeypatch.setattr(
        dgl_lc.data.sources, "load_dgl", lambda name: f"DGL's {name}"
    )
    assert load("cora") == "DGL's cora"
    with pytest.raises(DGLError, match=r"neither edges\.npy .* adj_full\.npz"):
        load("./cora")


@pytest.mark.parametrize("source", ["corra", "nowhere/task.npz", ""])
def test_an_unknown_source_lists_the_known_ones(tmp_path, monkeypatch, source):
    monkeypatch.chdir(tmp_path)
    known = "Known are .*synthetic.*cora, .*amazon_photo.* npz file"
    with pytest.raises(DGLError, match=known):
        load(source)


@pytest.mark.parametrize("source", [3, None, ["cora"]])
def test_a_source_of_another_type_is_refused(source):
    with pytest.raises(DGLError, match="source should be a name or a path"):
        load(source)


def test_an_unknown_option_lists_the_known_ones():
    with pytest.raises(DGLError, match=r"'degree'.* num_feats, avg_degree"):
        load("synthetic:100", degree=3)


@pytest.mark.parametrize("others", [{}, {"manifest.json": "[1]"},
                                    {"manifest.json": "not JSON"},
                                    {"state.json": "{}"}])  # fmt: skip
def test_other_folders_and_files_beside_a_task_are_not_ours(tmp_path, others):
    data = block_model(30, 2, 3)
    write_npy_files(data, tmp_path / "task")
    (tmp_path / "task" / "graph").mkdir()
    for name, text in others.items():
        (tmp_path / "task" / name).write_text(text)
    assert torch.equal(open_data(tmp_path / "task").feat, data.feat)
    assert torch.equal(load(tmp_path / "task").feat, data.feat)


def test_a_prepared_task_is_known_by_its_manifest(tmp_path):
    write_papers_like(tmp_path / "raw", 1e-5, feat_dim=4)
    folder = tmp_path / "data"
    data = prepare_ogb(tmp_path / "raw", folder, memory="64MiB")
    found = open_data(str(folder))
    assert isinstance(found, DiskData)
    assert found.key == data.key
    with pytest.raises(DGLError, match=r"no option add_reverse: give it when"):
        open_data(folder, add_reverse=True)
    with pytest.raises(DGLError, match=r"prepared task .*open_data"):
        load(folder)
    # A run that was killed before it wrote the manifest.
    (folder / "manifest.json").rename(folder / "state.json")
    with pytest.raises(DGLError, match="was not finished"):
        open_data(folder)
