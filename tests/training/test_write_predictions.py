"""Predictions in files."""

import csv
import os
import re

import numpy as np
import pytest
import torch
from dgl import DGLError
from dgl.base import DGLWarning
from tiny_task import DATA, make, stray

from dgl_lc.data import block_model
from dgl_lc.nn import FSGNN, LCGPRGNN
from dgl_lc.precompute import block_aggregate, open_store
from dgl_lc.precompute.planning.cpu import MemoryTooSmall
from dgl_lc.training import predict, save_model, write_predictions
from dgl_lc.training.prediction_files import check_prediction_file

NODES = torch.tensor([7, 3, 399, 3, 0])
NAMES = ["a, b", '"quoted"', *(f"class {i}" for i in range(2, 8))]


@pytest.fixture
def model():
    return make(LCGPRGNN, K=2)


def expected(model, nodes=None):
    hops = model.precompute(DATA.graph, DATA.feat)
    return predict(model, hops, nodes).softmax(1).numpy()


def read_csv(path):
    with open(path, newline="") as file:
        return list(csv.reader(file))


def test_classes_of_all_nodes(model, tmp_path):
    found = write_predictions(model, DATA, tmp_path / "p.csv")
    title, *rows = read_csv(tmp_path / "p.csv")
    assert title == ["id", "class"]
    assert [int(row[0]) for row in rows] == list(range(400))
    classes = expected(model).argmax(1)
    assert [int(row[1]) for row in rows] == classes.tolist()
    assert (found.nodes, found.computed, found.blocks) == (400, 400, 1)
    assert stray(tmp_path / "p.csv") == []


def test_names_and_probabilities_in_the_order_of_the_nodes(model, tmp_path):
    write_predictions(
        model, DATA, tmp_path / "p.csv", nodes=NODES, class_names=NAMES,
        probabilities=True, batch_size=2,
    )  # fmt: skip
    title, *rows = read_csv(tmp_path / "p.csv")
    assert title == ["id", "class", *(f"p_{name}" for name in NAMES)]
    assert [int(row[0]) for row in rows] == NODES.tolist()
    wanted = expected(model, NODES)
    assert [row[1] for row in rows] == [NAMES[i] for i in wanted.argmax(1)]
    values = np.array([row[2:] for row in rows], float)
    np.testing.assert_allclose(values, wanted, atol=1e-6)


@pytest.mark.parametrize("batch_size", [1, 3, 1000])
def test_an_array_of_classes_or_of_probabilities(model, tmp_path, batch_size):
    options = {"nodes": NODES, "batch_size": batch_size}
    write_predictions(model, DATA, tmp_path / "c.npy", **options)
    found = np.load(tmp_path / "c.npy")
    assert found.dtype == np.int64
    wanted = expected(model, NODES)
    np.testing.assert_array_equal(found, wanted.argmax(1))
    path = tmp_path / "p.npy"
    write_predictions(model, DATA, path, probabilities=True, **options)
    assert np.load(path).dtype == np.float32
    np.testing.assert_allclose(np.load(path), wanted, atol=1e-6)


@pytest.mark.parametrize("names", [None, NAMES])
@pytest.mark.parametrize("probabilities", [True, False])
def test_a_parquet_file(model, tmp_path, names, probabilities, monkeypatch):
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr("dgl_lc.training.prediction_files._GROUP", 100)
    path = tmp_path / "p.parquet"
    write_predictions(
        model, DATA, path, class_names=names, probabilities=probabilities,
        batch_size=70,
    )  # fmt: skip
    table = parquet.read_table(path)
    assert table["id"].to_pylist() == list(range(400))
    classes = expected(model).argmax(1).tolist()
    if names is not None:
        classes = [names[place] for place in classes]
    assert table["class"].to_pylist() == classes
    assert table.num_columns == (10 if probabilities else 2)
    if probabilities:
        values = np.stack([c.to_numpy() for c in table.columns[2:]], axis=1)
        np.testing.assert_allclose(values, expected(model), atol=1e-6)


def test_only_rows_that_a_store_lacks_are_computed(
    model, tmp_path, monkeypatch
):
    stored = torch.arange(0, 400, 2)
    block_aggregate(
        DATA.graph, DATA.feat, 2, nodes=stored, out=tmp_path / "hops"
    )
    asked = []
    real = LCGPRGNN.precompute

    def spy(self, graph, feat, **options):
        asked.append(options.get("nodes"))
        return real(self, graph, feat, **options)

    monkeypatch.setattr(LCGPRGNN, "precompute", spy)
    path = tmp_path / "p.npy"
    rows = open_store(tmp_path / "hops")
    found = write_predictions(
        model, DATA, path, rows=rows, probabilities=True, batch_size=33
    )
    monkeypatch.undo()
    np.testing.assert_allclose(np.load(path), expected(model), atol=1e-6)
    assert found.computed == 200
    assert torch.equal(asked[0], torch.arange(1, 400, 2))
    found = write_predictions(model, DATA, path, rows=rows, nodes=stored)
    assert (found.computed, found.blocks) == (0, 0)


def test_rows_that_do_not_fit_are_computed_in_blocks(model, tmp_path):
    stored = torch.arange(100, 300)
    rows = block_aggregate(DATA.graph, DATA.feat, 2, nodes=stored)
    path = tmp_path / "p.npy"
    # Hop features of one node take 192 bytes.
    memory = 2**22
    nodes = torch.arange(399, -1, -1).repeat(100)
    with pytest.warns(DGLWarning, match="computed in 2 blocks") as warned:
        found = write_predictions(
            model, DATA, path, rows=rows, nodes=nodes, memory=memory,
            probabilities=True,
        )  # fmt: skip
    assert found.blocks == 2
    assert warned[0].filename == __file__
    np.testing.assert_allclose(np.load(path), expected(model, nodes), atol=1e-6)


@pytest.mark.filterwarnings("ignore:the hop features")
@pytest.mark.parametrize("kind", [LCGPRGNN, FSGNN])
def test_memory_that_is_said_to_be_enough_is_enough(kind, tmp_path):
    data = block_model(3000, num_feats=32, num_classes=8, seed=1)
    model = kind(32, 8, 8, K=3)
    path = tmp_path / "p.npy"
    with pytest.raises(DGLError, match="is too small") as refused:
        write_predictions(model, data, path, memory="64KiB")
    enough = int(re.search(r"(\d+) MiB would be", str(refused.value))[1])
    found = write_predictions(
        model, data, path, memory=f"{enough}MiB", probabilities=True
    )
    hops = model.precompute(data.graph, data.feat)
    wanted = predict(model, hops).softmax(1).numpy()
    np.testing.assert_allclose(np.load(path), wanted, atol=1e-6)
    assert found.blocks <= 100


def test_blocks_that_do_not_fit_become_smaller(model, tmp_path, monkeypatch):
    sizes = []
    real = LCGPRGNN.precompute

    def small(self, graph, feat, **options):
        sizes.append(len(options.get("nodes", range(400))))
        # The second block is larger than it seemed, as its frontier may be.
        if sizes[-1] > (250 if len(sizes) < 3 else 60):
            raise MemoryTooSmall("memory is too small", 2**20)
        return real(self, graph, feat, **options)

    monkeypatch.setattr(LCGPRGNN, "precompute", small)
    path = tmp_path / "p.npy"
    with pytest.warns(DGLWarning, match="computed in 2 blocks"):
        found = write_predictions(
            model, DATA, path, memory="1GiB", probabilities=True
        )
    monkeypatch.undo()
    assert sizes == [400, 200, 200, 100, 50, 50, 50, 50]
    assert found.blocks == 5
    np.testing.assert_allclose(np.load(path), expected(model), atol=1e-6)


def test_a_model_of_several_filters(tmp_path):
    model = make(FSGNN, K=2)
    write_predictions(
        model, DATA, tmp_path / "p.npy", nodes=NODES, probabilities=True,
        memory="1GiB",
    )  # fmt: skip
    found = np.load(tmp_path / "p.npy")
    np.testing.assert_allclose(found, expected(model, NODES), atol=1e-6)


def test_the_mode_of_the_model_stays_as_it_is(tmp_path):
    model = make(LCGPRGNN, K=2, dropout=0.5).train()
    write_predictions(model, DATA, tmp_path / "p.npy", probabilities=True)
    assert model.training
    np.testing.assert_allclose(
        np.load(tmp_path / "p.npy"), expected(model), atol=1e-6
    )


def test_a_failed_run_leaves_the_earlier_file(model, tmp_path, monkeypatch):
    path = tmp_path / "p.npy"
    write_predictions(model, DATA, path)
    before = path.read_bytes()
    calls = []

    def fail(self, graph, feat):
        calls.append(feat)
        if len(calls) == 3:
            raise RuntimeError("broken")
        return torch.zeros(feat.shape[0], 8)

    monkeypatch.setattr(LCGPRGNN, "forward", fail)
    with pytest.raises(RuntimeError, match="broken"):
        write_predictions(model, DATA, path, batch_size=10)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["p.npy"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes": torch.tensor([400])}, "nodes holds 400"),
        ({"nodes": torch.tensor([-1])}, "nodes holds -1"),
        ({"nodes": torch.tensor([], dtype=torch.int64)}, "nodes is empty"),
        ({"nodes": torch.ones(3, dtype=torch.bool)}, "mask of 3 entries"),
        ({"nodes": 5}, "nodes should be a tensor, an array or a list"),
        ({"class_names": ["a"]}, "class_names has 1 entries"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"memory": "much"}, "memory='much'"),
    ],
)
def test_bad_arguments_are_named(options, message, model, tmp_path):
    with pytest.raises(DGLError, match=message):
        write_predictions(model, DATA, tmp_path / "p.csv", **options)
    assert os.listdir(tmp_path) == []


def test_features_of_another_width_are_refused(tmp_path):
    model = LCGPRGNN(15, 8, 8)
    with pytest.raises(DGLError, match=r"reads 15 columns .* has 16"):
        write_predictions(model, DATA, tmp_path / "p.csv")


def test_a_file_in_one_of_our_folders_is_refused(model, tmp_path):
    store = tmp_path / "hops"
    rows = block_aggregate(DATA.graph, DATA.feat, 2, out=store)
    before = sorted(os.listdir(store))
    with pytest.raises(DGLError, match="in the folder of a dgl-lc hop"):
        write_predictions(model, DATA, store / "p.csv", rows=rows)
    with pytest.raises(DGLError, match="in the folder of a dgl-lc hop"):
        save_model(model, store / "model.pt")
    assert sorted(os.listdir(store)) == before
    # A manifest of anybody else is no reason.
    (tmp_path / "manifest.json").write_text("{}")
    write_predictions(model, DATA, tmp_path / "p.csv", rows=rows)


def test_a_part_of_a_killed_run_is_replaced(model, tmp_path):
    path = tmp_path / "p.csv"
    (tmp_path / ".p.csv.part").write_text("half")
    (tmp_path / ".p.csv.lock").write_text("")
    write_predictions(model, DATA, path)
    assert stray(path) == []


def test_other_kinds_of_files_are_refused(tmp_path, monkeypatch):
    with pytest.raises(DGLError, match=r"should end in .csv, .npy or .parquet"):
        check_prediction_file(tmp_path / "p.txt")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DGLError, match="need pyarrow"):
        check_prediction_file(tmp_path / "p.parquet")
