"""The generated data set of ogbn-papers100M's shape."""

import hashlib
import re
import shutil

import numpy as np
import pytest
from dgl import DGLError

from dgl_lc.data import papers_like, write_papers_like
from dgl_lc.data.papers_rule import make_rule, name_of, place_of

SCALE = 2e-4


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    root = tmp_path_factory.mktemp("papers")
    return write_papers_like(root, SCALE, feat_dim=32)


@pytest.fixture(scope="module")
def data(home):
    with np.load(home / "raw" / "data.npz") as file:
        found = dict(file)
    with np.load(home / "raw" / "node-label.npz") as file:
        return found | dict(file)


def ids(home, split):
    return np.loadtxt(home / "split" / "time" / f"{split}.csv.gz", dtype=int)


def digests(folder):
    return {
        str(file.relative_to(folder)): hashlib.sha256(
            file.read_bytes()
        ).hexdigest()
        for file in folder.rglob("*")
        if file.is_file()
    }


def test_the_layout_is_ogbs(home, data):
    n, m = 22_212, 323_137
    assert data["edge_index"].shape == (2, m)
    assert data["edge_index"].dtype == np.int64
    assert data["node_feat"].shape == (n, 32)
    assert data["node_feat"].dtype == np.float32
    assert data["node_label"].shape == (n, 1)
    assert data["num_nodes_list"].tolist() == [n]
    assert data["num_edges_list"].tolist() == [m]
    labels = data["node_label"][:, 0]
    known = np.flatnonzero(~np.isnan(labels))
    assert len(known) == round(n * 0.01393)
    split = [ids(home, name) for name in ("train", "valid", "test")]
    assert np.array_equal(np.sort(np.concatenate(split)), known)
    shares = [len(part) / len(known) for part in split]
    assert np.allclose(shares, [0.78, 0.081, 0.139], atol=0.01)


def test_names_are_a_permutation():
    for n in (500, 1000, 1024, 1025):
        rule = make_rule(n, 3)
        names = [name_of(place, rule) for place in range(n)]
        assert sorted(names) == list(range(n))
        assert names != sorted(names)
        places = [place_of(name, rule) for name in names]
        assert places == list(range(n))


def test_newer_papers_cite_older_ones(home, data):
    n = len(data["node_feat"])
    rule = make_rule(n, 0)
    place = np.array([place_of(name, rule) for name in range(n)])
    source, target = data["edge_index"]
    assert (place[source] > place[target]).all()
    # And the split is by time.
    train, valid, test = (
        place[ids(home, name)] for name in ("train", "valid", "test")
    )
    assert train.max() < valid.min()
    assert valid.max() < test.min()


def test_citations_follow_a_power_law(data):
    citations = np.bincount(data["edge_index"][1])
    assert citations.max() > 50 * citations.mean()
    assert np.bincount(data["edge_index"][0]).max() < 5 * citations.mean()


def test_features_and_graph_both_tell_the_class(data):
    n = len(data["node_feat"])
    rule = make_rule(n, 0)
    classes = np.array([place_of(name, rule) % 172 for name in range(n)])
    labels = data["node_label"][:, 0]
    known = ~np.isnan(labels)
    assert np.array_equal(labels[known], classes[known])
    source, target = data["edge_index"]
    assert 0.4 < (classes[source] == classes[target]).mean() < 0.6
    means = np.stack(
        [data["node_feat"][classes == c].mean(0) for c in range(172)]
    )
    guess = (data["node_feat"] @ means.T - (means**2).sum(1) / 2).argmax(1)
    assert 0.1 < (guess == classes).mean() < 0.9
    noise = data["node_feat"] - means[classes]
    assert abs(noise.std() - 1) < 0.02


def test_the_seed_gives_the_files(tmp_path, home):
    # Less memory, smaller pieces.
    again = write_papers_like(tmp_path, SCALE, feat_dim=32, memory=2_250_000)
    assert digests(again) == digests(home)
    other = write_papers_like(tmp_path / "2", SCALE, feat_dim=32, seed=1)
    one, two = digests(other), digests(home)
    assert one["raw/data.npz"] != two["raw/data.npz"]


def test_what_is_there_is_left_alone(tmp_path, home):
    before = (home / "raw" / "data.npz").stat().st_mtime_ns
    write_papers_like(home.parent, SCALE, feat_dim=32)
    assert (home / "raw" / "data.npz").stat().st_mtime_ns == before
    with pytest.raises(DGLError, match="holds another data set"):
        write_papers_like(home.parent, SCALE, feat_dim=16)
    real = tmp_path / "ogbn_papers100M" / "raw"
    real.mkdir(parents=True)
    (real / "data.npz").write_bytes(b"real")
    with pytest.raises(DGLError, match="was not generated"):
        write_papers_like(tmp_path, SCALE)


def test_a_killed_run_is_written_again(tmp_path, monkeypatch, home):
    with monkeypatch.context() as patch:

        def die(*_):
            raise KeyboardInterrupt

        patch.setattr(papers_like, "label_nodes", die)
        with pytest.raises(KeyboardInterrupt):
            write_papers_like(tmp_path, SCALE, feat_dim=32)
    again = write_papers_like(tmp_path, SCALE, feat_dim=32)
    assert digests(again) == digests(home)


def test_foreign_files_are_left_alone(tmp_path):
    label = tmp_path / "ogbn_papers100M" / "raw" / "node-label.npz"
    label.parent.mkdir(parents=True)
    label.write_bytes(b"real")
    with pytest.raises(DGLError, match="was not generated"):
        write_papers_like(tmp_path, SCALE)
    assert label.read_bytes() == b"real"


def test_wrong_arguments(tmp_path, monkeypatch):
    for scale in (0, -1, 1e-7, 30):
        with pytest.raises(DGLError, match="scale should be"):
            write_papers_like(tmp_path, scale)
    with pytest.raises(DGLError, match="feat_dim"):
        write_papers_like(tmp_path, SCALE, feat_dim=0)
    with pytest.raises(DGLError, match="memory=1 KiB is too") as caught:
        write_papers_like(tmp_path, SCALE, memory="1KiB")
    enough = int(re.search(r"\((\d+) bytes\)", str(caught.value))[1])
    write_papers_like(tmp_path / "small", 1e-5, memory=enough)
    usage = type("Usage", (), {"free": 100})
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(DGLError, match="of disk, but only 100 B are free"):
        write_papers_like(tmp_path, SCALE)
