"""``dgl-lc predict``."""

import csv

import numpy as np
import pytest
import torch
from dgl.nn import GraphConv

from dgl_lc import lc_transform
from dgl_lc.cli import main
from dgl_lc.data import block_model, save_npz
from dgl_lc.nn import SGC
from dgl_lc.precompute import block_aggregate
from dgl_lc.training import computed_blocks, predict, save_model

DATA = block_model(200, num_feats=8)
NAMES = [f"kind {number}" for number in range(DATA.num_classes)]


@pytest.fixture
def call(tmp_path):
    """The beginning of a call, for a model and a task in files."""
    save_npz(DATA, tmp_path / "mine.npz")
    torch.manual_seed(0)
    save_model(SGC(8, DATA.num_classes), tmp_path / "model.pt", NAMES)
    return ["predict", "--model", str(tmp_path / "model.pt"),
            "--data", str(tmp_path / "mine.npz"), "--out"]  # fmt: skip


def classes(nodes=None):
    torch.manual_seed(0)
    model = SGC(8, DATA.num_classes)
    hops = model.precompute(DATA.graph, DATA.feat)
    return predict(model, hops, nodes).argmax(1)


def test_predict_all_nodes_by_name(call, tmp_path, capsys):
    out = tmp_path / "new" / "p.csv"
    assert main([*call, str(out)]) == 0
    assert "predictions for 200 nodes" in capsys.readouterr().out
    with open(out, newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["id", "class"]
    assert [row[1] for row in rows[1:]] == [NAMES[c] for c in classes()]


def test_several_classes_per_node_and_numbers(tmp_path, refused):
    # Once they were written as classes, by a softmax.
    save_npz(DATA, tmp_path / "mine.npz")
    model, out = tmp_path / "model.pt", tmp_path / "p.csv"
    call = ["predict", "--model", str(model), "--overwrite", "--data",
            str(tmp_path / "mine.npz"), "--out", str(out)]  # fmt: skip
    for kind, title in (("labels", "is_a"), ("numbers", "value_a")):
        save_model(SGC(8, 2), model, ["a", "b"], output=kind)
        assert main(call) == 0
        assert out.read_text().splitlines()[0].split(",")[1] == title
        assert "class per node" in refused(*call, "--correct-and-smooth")
    assert "omit it" in refused(*call, "--probabilities")


def test_predict_with_a_store_that_has_some_rows(call, tmp_path, capsys):
    store, ids, out = (
        tmp_path / "hops",
        tmp_path / "ids.txt",
        tmp_path / "p.npy",
    )
    block_aggregate(DATA.graph, DATA.feat, 3, nodes=torch.arange(50), out=store)
    ids.write_text("10\n190\n")
    flags = ["--store", str(store), "--nodes", str(ids), "--memory", "64MiB"]
    assert main([*call, str(out), *flags]) == 0
    assert "features of 1 were computed" in capsys.readouterr().out
    wanted = classes(torch.tensor([10, 190])).numpy()
    np.testing.assert_array_equal(np.load(out), wanted)


def test_predict_a_split_with_probabilities(call, tmp_path):
    out = tmp_path / "p.npy"
    flags = ["--nodes", "test", "--probabilities"]
    assert main([*call, str(out), *flags]) == 0
    found = np.load(out)
    assert found.shape == (len(DATA.test), DATA.num_classes)
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-5)


def test_an_existing_file_is_replaced_on_request_only(call, tmp_path, refused):
    out = tmp_path / "p.npy"
    out.write_text("precious")
    assert "exists" in refused(*call, out)
    assert out.read_text() == "precious"
    assert main([*call, str(out), "--overwrite"]) == 0
    assert len(np.load(out)) == 200


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--out", "p.txt"], "p.txt should end in .csv"),
        (["--model", "nowhere.pt"], "nowhere.pt does not exist"),
        (["--data", "nowhere"], "nowhere"),
        (["--data", "synthetic:300"], "reads 8 columns"),
        (["--store", "nowhere"], "nowhere does not exist"),
        (["--nodes", "nowhere"], "nowhere does not exist"),
        (["--device", "foo"], "--device"),
        (["--memory", "much"], "--memory"),
        (["--batch-size", "0"], "--batch-size"),
    ],
)
def test_bad_flags_are_named(call, flags, message, tmp_path, refused):
    assert message in refused(*call, tmp_path / "p.csv", *flags)
    assert not (tmp_path / "p.csv").exists()


@pytest.mark.filterwarnings("default")
def test_warnings_are_lines(call, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(computed_blocks, "_most_rows", lambda *_: 100)
    assert main([*call, str(tmp_path / "p.csv")]) == 0
    captured = capsys.readouterr()
    notes = [x for x in captured.out.splitlines() if x.startswith("note: ")]
    assert len(notes) == 1
    assert "computed in 2 blocks" in notes[0]
    assert captured.err == ""


def test_a_store_is_no_place_for_predictions(call, tmp_path, refused):
    block_aggregate(DATA.graph, DATA.feat, 1, out=tmp_path / "hops")
    message = refused(*call, tmp_path / "hops" / "p.csv")
    assert "would lie in the folder of a dgl-lc hop store" in message


def test_a_folder_is_no_output(call, tmp_path, refused):
    (tmp_path / "p.csv").mkdir()
    assert "is a folder" in refused(*call, tmp_path / "p.csv")


class _Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = GraphConv(8, 6, allow_zero_in_degree=True)
        self.second = GraphConv(6, DATA.num_classes, allow_zero_in_degree=True)

    def forward(self, g, x):
        return self.second(g, self.first(g, x).relu())


@pytest.fixture
def lc_call(call, tmp_path):
    """The call with an LC version as its model, and the LC version."""
    torch.manual_seed(0)
    lc = lc_transform(_Net(), DATA.graph, DATA.feat)
    save_model(lc.module, tmp_path / "model.pt", NAMES)
    return call, lc


def test_an_lc_version_predicts_from_its_store(lc_call, tmp_path):
    call, lc = lc_call
    store, out = tmp_path / "inputs", tmp_path / "p.csv"
    rows = lc.precompute(DATA.graph, DATA.feat, out=store)
    flags = ["--store", str(store), "--probabilities"]
    assert main([*call, str(out), *flags]) == 0
    with open(out, newline="") as file:
        found = list(csv.reader(file))
    wanted = predict(lc.module, rows)
    assert [row[1] for row in found[1:]] == [NAMES[c] for c in wanted.argmax(1)]
    first = [float(text) for text in found[1][2:]]
    np.testing.assert_allclose(first, wanted[0].softmax(0), rtol=1e-4)


def test_an_lc_version_says_which_store_it_needs(lc_call, tmp_path, refused):
    call, lc = lc_call
    out, hops = tmp_path / "p.csv", tmp_path / "hops"
    message = refused(*call, out)
    assert "needs inputs that were precomputed for it (S² x)" in message
    assert "--store folder" in message
    block_aggregate(DATA.graph, DATA.feat, 3, hops=[2], out=hops)
    assert "(S² x)" in refused(*call, out, "--store", hops)
    some = tmp_path / "some"
    lc.precompute(DATA.graph, DATA.feat, out=some, nodes=torch.arange(50))
    message = refused(*call, out, "--store", some)
    assert "no inputs of 150 of the nodes" in message
    flags = ["--store", some, "--nodes", tmp_path / "ids.txt"]
    (tmp_path / "ids.txt").write_text("10\n49\n")
    assert main([str(word) for word in (*call, out, *flags)]) == 0
    other = block_model(90, num_feats=8)
    elsewhere = tmp_path / "other"
    lc.precompute(other.graph, other.feat, out=elsewhere)
    assert "of other nodes" in refused(*call, out, "--overwrite", "--store",
                                       elsewhere)  # fmt: skip
