"""DGL's datasets, without a network."""

import dgl
import pytest
import torch
from dgl import DGLError
from dgl.data.dgl_dataset import DGLBuiltinDataset

from dgl_lc.data import load
from dgl_lc.data.dgl_data import CLASSES, load_dgl


def masks():
    order = torch.arange(10)
    return {
        "train_mask": order < 4,
        "val_mask": (order >= 4) & (order < 6),
        "test_mask": (order >= 6).to(torch.uint8),
    }


def put(monkeypatch, name, split=None, labels=None):
    """A fake dataset in the place of one of DGL's; returns the calls."""
    graph = dgl.graph((torch.arange(9), torch.arange(9) + 1))
    graph.ndata["feat"] = torch.rand(10, 3, dtype=torch.float64)
    graph.ndata["label"] = torch.arange(10) % 2 if labels is None else labels
    graph.ndata.update(split or {})
    calls = []

    class Fake:
        num_classes = 4

        def __init__(self, raw_dir=None, verbose=True):
            calls.append((raw_dir, verbose))

        def __getitem__(self, index):
            assert index == 0
            return graph

    monkeypatch.setattr(dgl.data, CLASSES[name], Fake)
    return graph, calls


def test_masks_become_ids(monkeypatch, tmp_path):
    graph, calls = put(monkeypatch, "cora", masks())
    data = load_dgl("cora", tmp_path)
    assert calls == [(str(tmp_path), False)]
    assert data.train.tolist() == [0, 1, 2, 3]
    assert data.valid.tolist() == [4, 5]
    assert data.test.tolist() == [6, 7, 8, 9]
    assert data.graph is graph
    assert torch.equal(data.feat, graph.ndata["feat"].float())
    assert (data.name, data.num_classes) == ("cora", 4)


def test_a_dataset_without_a_split_gets_a_seeded_one(monkeypatch):
    labels = torch.tensor([0] * 9 + [-1])
    put(monkeypatch, "coauthor_cs", labels=labels)
    data = load_dgl("coauthor_cs")
    assert [len(s) for s in (data.train, data.valid, data.test)] == [5, 2, 2]
    assert torch.equal(load_dgl("coauthor_cs").train, data.train)
    seeds = [load_dgl("coauthor_cs", seed=seed).train for seed in range(1, 6)]
    assert not all(torch.equal(train, data.train) for train in seeds)


@pytest.mark.parametrize("name", CLASSES)
def test_flickr_and_reddit_are_inductive_unless_told(monkeypatch, name):
    put(monkeypatch, name, masks())
    assert load_dgl(name).inductive == (name in ("flickr", "reddit"))
    assert load_dgl(name, inductive=True).inductive
    assert not load_dgl(name, inductive=False).inductive


def test_the_classes_are_there_and_take_these_arguments():
    for name in CLASSES.values():
        assert issubclass(getattr(dgl.data, name), DGLBuiltinDataset)


@pytest.mark.parametrize("name", CLASSES)
def test_a_failed_download_says_what_is_wanted_and_where(
    monkeypatch, tmp_path, name
):
    def offline(url, *args, **kwargs):
        raise ConnectionError("no route to host")

    monkeypatch.setattr(dgl.data.dgl_dataset, "download", offline)
    with pytest.raises(DGLError) as caught:
        load_dgl(name, tmp_path)
    text = str(caught.value)
    assert text.startswith(f"{name} could not be loaded (ConnectionError: no")
    assert "https://data.dgl.ai/dataset/" in text
    assert f"unpack it into {tmp_path}" in text


def test_what_is_unpacked_where_the_message_says_is_found(
    monkeypatch, tmp_path
):
    def offline(url, *args, **kwargs):
        raise ConnectionError("no route to host")

    monkeypatch.setattr(dgl.data.dgl_dataset, "download", offline)
    with pytest.raises(DGLError) as caught:
        load_dgl("cora", tmp_path)
    (tmp_path / str(caught.value).rpartition(" into ")[2].rstrip(".")).mkdir()
    # Now DGL looks for its files there instead of for a network.
    with pytest.raises(DGLError, match="FileNotFoundError"):
        load_dgl("cora", tmp_path)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(DGLError, match=r"cora, citeseer, .*amazon_photo"):
        load_dgl("corra")


def test_load_takes_names_as_people_write_them(monkeypatch):
    put(monkeypatch, "amazon_photo")
    assert load("Amazon-Photo", seed=3).name == "amazon_photo"
