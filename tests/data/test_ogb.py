"""Tasks in OGB's csv files."""

import gzip
import re
import shutil
import sys
import types
import zipfile

import pytest
import torch
from dgl import DGLError

from dgl_lc.data import load, prepare_ogb
from dgl_lc.data.ogb import load_ogb

# 0 -> 1 -> 2 -> 0, and 2 <-> 3; 4 is alone.
EDGES = "0,1\n1,2\n2,0\n2,3\n3,2\n"
FILES = {
    "raw/num-node-list": "5\n",
    "raw/edge": EDGES,
    "raw/node-feat": "0.5,-1\n1,2\n3,4\n-0.25,1e-3\n7,8\n",
    "raw/node-label": "0\n39\n1\n2\n0\n",
    "split/time/train": "3\n0\n",
    "split/time/valid": "1\n",
    "split/time/test": "2\n4\n",
}


def write(home, **changes):
    """A folder as OGB's; a name with __ for / is another content."""
    changes = {key.replace("__", "/"): text for key, text in changes.items()}
    for name, text in (FILES | changes).items():
        path = home / f"{name}.csv.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        if text is not None:
            path.write_bytes(gzip.compress(text.encode()))
    return home


def pairs(graph):
    return sorted(zip(*(e.tolist() for e in graph.edges()), strict=True))


@pytest.fixture
def arxiv(tmp_path):
    write(tmp_path / "ogbn_arxiv")
    return tmp_path


@pytest.fixture
def no_network(monkeypatch):
    """OGB's functions for downloads, without one; the calls are kept."""
    fake = types.ModuleType("ogb.utils.url")
    calls = []

    def download_url(url, folder):
        calls.append(url)
        raise OSError("no route to host")

    fake.download_url, fake.extract_zip = download_url, None
    fake.calls = calls
    monkeypatch.setitem(sys.modules, "ogb.utils.url", fake)
    return fake


def test_the_files_become_a_task(arxiv):
    data = load_ogb("ogbn-arxiv", arxiv)
    assert data.name == "ogbn-arxiv"
    assert data.num_classes == 40
    assert not data.inductive
    assert data.feat.dtype == torch.float32
    assert data.feat.is_contiguous()
    expected = [[0.5, -1], [1, 2], [3, 4], [-0.25, 1e-3], [7, 8]]
    assert torch.equal(data.feat, torch.tensor(expected))
    assert data.labels.tolist() == [0, 39, 1, 2, 0]
    assert data.train.tolist() == [3, 0]
    assert (data.valid.tolist(), data.test.tolist()) == ([1], [2, 4])


def test_edges_go_both_ways_and_once(arxiv):
    graph = load_ogb("ogbn-arxiv", arxiv).graph
    one_way = [(0, 1), (1, 2), (0, 2), (2, 3)]
    assert graph.num_nodes() == 5
    assert pairs(graph) == sorted(one_way + [(v, u) for u, v in one_way])


def test_edges_may_stay_as_they_are(arxiv):
    graph = load_ogb("ogbn-arxiv", arxiv, add_reverse=False).graph
    assert pairs(graph) == [(0, 1), (1, 2), (2, 0), (2, 3), (3, 2)]


@pytest.mark.parametrize("name", ["ogbn_arxiv", "OGBN-ArXiv"])
def test_a_name_may_be_spelled_otherwise(arxiv, name):
    assert load_ogb(name, arxiv).name == "ogbn-arxiv"


def test_the_folder_of_the_dataset_itself_will_do(arxiv):
    assert load_ogb("ogbn-arxiv", arxiv / "ogbn_arxiv").num_feats == 2


def test_the_default_folder_is_ogbs(tmp_path, monkeypatch):
    write(tmp_path / "dataset" / "ogbn_arxiv")
    monkeypatch.chdir(tmp_path)
    assert load_ogb("ogbn-arxiv").num_feats == 2


def test_products_have_a_split_of_their_own(tmp_path):
    home = write(tmp_path / "ogbn_products")
    (home / "split" / "time").rename(home / "split" / "sales_ranking")
    data = load_ogb("ogbn-products", tmp_path)
    assert data.num_classes == 47
    assert data.graph.num_edges() == 8


def test_csv_files_become_a_task_on_disk(tmp_path):
    pytest.importorskip("pyarrow")
    labels = "".join(f"{number % 3}\n" for number in range(5))
    home = tmp_path / "ogbn_products"
    write(home, **{"raw__node-label": labels})
    shutil.move(home / "split" / "time", home / "split" / "sales_ranking")
    expected = load_ogb("ogbn-products", tmp_path)
    call = {"name": "ogbn-products", "memory": "512MiB"}
    found = prepare_ogb(tmp_path, tmp_path / "out", **call)
    assert pairs(expected.graph) == pairs(found.graph.to_dgl())
    assert torch.equal(found.feat.rows(range(5)), expected.feat)
    assert torch.equal(found.labels, expected.labels)
    for split in ("train", "valid", "test"):
        ids = getattr(expected, split).sort().values
        assert torch.equal(getattr(found, split).sort().values, ids)
    with pytest.raises(DGLError, match="consume_raw is for ogbn-papers100M"):
        prepare_ogb(tmp_path, tmp_path / "out", consume_raw=True, **call)
    write_to = home / "raw" / "num-node-list.csv.gz"
    write_to.write_bytes(gzip.compress(b"6\n"))
    with pytest.raises(DGLError, match="num-node-list"):
        prepare_ogb(tmp_path, tmp_path / "out", **call)


def test_nothing_is_unpickled(arxiv, monkeypatch):
    home = arxiv / "ogbn_arxiv"
    (home / "processed").mkdir()
    for name in ("processed/data_processed", "split/time/split_dict.pt"):
        (home / name).write_bytes(b"not to be read")
    monkeypatch.setattr(torch, "load", None)
    assert load_ogb("ogbn-arxiv", arxiv).num_feats == 2


@pytest.mark.parametrize("reader", [load_ogb, load])
def test_papers100m_is_read_elsewhere(tmp_path, reader):
    with pytest.raises(DGLError, match=r"dgl_lc\.data\.prepare_ogb\(root, out"):
        reader("ogbn-papers100M", folder=tmp_path)


@pytest.mark.parametrize("name", ["ogbn-arxiv", "ogbn_arxiv"])
def test_load_knows_the_names(arxiv, name):
    assert load(name, folder=arxiv).graph.num_edges() == 8
    as_stored = load(name, folder=arxiv, add_reverse=False)
    assert as_stored.graph.num_edges() == 5
    with pytest.raises(DGLError, match="Options of this source: folder, add"):
        load(name, seed=1)


def test_a_file_with_such_a_name_is_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DGLError, match="neither a known name nor a file"):
        load("ogbn_arxiv.npz")


@pytest.mark.parametrize("name", ["ogbn-mag", "arxiv", ""])
def test_other_names_are_refused(tmp_path, name):
    with pytest.raises(DGLError, match="one of ogbn-arxiv, ogbn-products"):
        load_ogb(name, tmp_path)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(arxiv, name):
    path = arxiv / "ogbn_arxiv" / f"{name}.csv.gz"
    path.unlink()
    with pytest.raises(DGLError, match=re.escape(f"{path} missing")):
        load_ogb("ogbn-arxiv", arxiv)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("raw/num-node-list", "5\n5\n", "should hold one number"),
        ("raw/num-node-list", "4\n", "has 5 rows"),
        ("raw/edge", "0,1,2\n", "has 3 columns, but should have 2"),
        ("raw/edge", "0,5\n", "holds 5, but there are nodes 0 to 4"),
        ("raw/edge", "0,-1\n", "holds -1"),
        ("raw/edge", "0,0.5\n", "cannot be read"),
        ("raw/edge", "source,target\n0,1\n", "cannot be read"),
        ("raw/edge", "", "cannot be read"),
        ("raw/node-feat", "1,2\n3,4\n", "has 2 rows, but .* says 5 nodes"),
        ("raw/node-feat", "1,2\n" * 4 + "3\n", "empty fields"),
        ("raw/node-feat", "1,2\n" * 4 + "3,4,5\n", "cannot be read"),
        ("raw/node-feat", "1,2\n" * 4 + "3,x\n", "cannot be read"),
        ("raw/node-label", "0\n", "has 1 rows, but"),
        ("raw/node-label", "0\n1\n2\n3\n40\n", "holds class 40"),
        ("raw/node-label", "0,1\n" * 5, "has 2 columns, but should have 1"),
        ("split/time/train", "1\n", "is in train and in valid"),
        ("split/time/test", "9\n", "test holds 9"),
    ],
)
def test_a_wrong_file_is_named(tmp_path, name, text, message):
    write(tmp_path / "ogbn_arxiv", **{name.replace("/", "__"): text})
    with pytest.raises(DGLError, match=message) as caught:
        load_ogb("ogbn-arxiv", tmp_path)
    assert str(tmp_path / "ogbn_arxiv") in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [b"", b"0,1\n", gzip.compress(b"0,1")[:9]],
    ids=["empty", "plain", "cut off"],
)
def test_a_file_that_is_not_gzip_is_named(arxiv, content):
    path = arxiv / "ogbn_arxiv" / "raw" / "edge.csv.gz"
    path.write_bytes(content)
    with pytest.raises(DGLError, match=re.escape(f"{path} cannot be read")):
        load_ogb("ogbn-arxiv", arxiv)


def test_a_failed_download_says_what_is_wanted_where(tmp_path, no_network):
    with pytest.raises(DGLError) as caught:
        load_ogb("ogbn-arxiv", tmp_path)
    said = str(caught.value)
    assert "OSError: no route to host" in said
    assert "http://snap.stanford.edu/ogb/data/nodeproppred/arxiv.zip" in said
    assert str(tmp_path / "ogbn_arxiv") in said
    for name in FILES:
        assert f"{name}.csv.gz" in said
    assert not (tmp_path / "ogbn_arxiv").exists()


def test_a_failed_download_leaves_no_empty_folder(tmp_path, no_network):
    (tmp_path / "mine").mkdir()
    with pytest.raises(DGLError, match="could not be downloaded"):
        load_ogb("ogbn-arxiv", tmp_path / "mine" / "new" / "root")
    assert [path.name for path in tmp_path.rglob("*")] == ["mine"]


def test_a_small_disk_is_named_before_a_download(
    tmp_path, no_network, monkeypatch
):
    usage = types.SimpleNamespace(free=10**9)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(DGLError, match=r"needs about 3\.73 GiB of disk"):
        load_ogb("ogbn-products", tmp_path)
    assert not no_network.calls


def test_a_folder_with_something_else_is_left_alone(tmp_path, no_network):
    home = tmp_path / "ogbn_arxiv"
    home.mkdir()
    (home / "mine.txt").write_text("mine")
    with pytest.raises(DGLError, match="is incomplete"):
        load_ogb("ogbn-arxiv", tmp_path)
    assert not no_network.calls
    assert (home / "mine.txt").read_text() == "mine"


def serve(fake, archive):
    """Let the downloads give a file."""

    def download_url(url, folder):
        fake.calls.append(url)
        return shutil.copy(archive, f"{folder}/{url.rpartition('/')[2]}")

    def extract_zip(path, folder):
        with zipfile.ZipFile(path) as file:
            file.extractall(folder)

    fake.download_url, fake.extract_zip = download_url, extract_zip


@pytest.mark.parametrize("empty_folder", [False, True])
def test_a_download_is_unpacked_and_read(tmp_path, no_network, empty_folder):
    write(tmp_path / "server" / "arxiv")
    made = shutil.make_archive(
        str(tmp_path / "made"), "zip", tmp_path / "server", "arxiv"
    )
    serve(no_network, made)
    root = tmp_path / "root"
    root.mkdir()
    if empty_folder:
        (root / "ogbn_arxiv").mkdir()
    data = load_ogb("ogbn-arxiv", root)
    assert data.graph.num_edges() == 8
    assert [path.name for path in root.iterdir()] == ["ogbn_arxiv"]
    load_ogb("ogbn-arxiv", root)
    assert len(no_network.calls) == 1


def test_a_broken_download_is_not_kept(tmp_path, no_network):
    (tmp_path / "broken").write_bytes(b"no zip")
    serve(no_network, tmp_path / "broken")
    root = tmp_path / "root"
    root.mkdir()
    with pytest.raises(DGLError, match="BadZipFile"):
        load_ogb("ogbn-arxiv", root)
    assert not list(root.iterdir())
