"""What the output of a model stands for, and predictions of each kind."""

import copy
import csv

import numpy as np
import pytest
import torch
from dgl import DGLError
from tiny_task import DATA, SPLIT, make

from dgl_lc.data import block_model
from dgl_lc.nn import LCGCN, SGC
from dgl_lc.precompute import label_features, with_labels
from dgl_lc.training import (
    fit,
    load_model,
    predict,
    save_model,
    self_train,
    write_predictions,
)
from dgl_lc.training.smoothed_predictions import write_smoothed
from dgl_lc.training.tensor_files import read_file, write_file

TAGS = torch.stack([DATA.labels % 2, DATA.labels // 4, DATA.labels * 0], 1)
NUMBERS = DATA.feat[:, :2]


@pytest.fixture(scope="module")
def hops():
    return make().precompute(DATA.graph, DATA.feat)


def trained(hops, columns, labels, **options):
    torch.manual_seed(0)
    model = SGC(DATA.num_feats, columns)
    fit(model, hops, labels, *SPLIT[1:], epochs=3, lr=0.1, **options)
    return model


def read(path):
    with open(path, newline="") as file:
        title, *rows = csv.reader(file)
    return title, rows


def own_loss(logits, target):
    if target.dim() == 1:
        return torch.nn.functional.cross_entropy(logits, target)
    return (logits - target).abs()


@pytest.mark.parametrize(
    ("loss", "labels", "columns", "kind"),
    [
        (None, DATA.labels, 8, "classes"),
        ("bce", TAGS, 3, "labels"),
        ("mse", NUMBERS, 2, "numbers"),
        ("l1", NUMBERS, 2, "numbers"),
        (own_loss, DATA.labels, 8, "classes"),
        (own_loss, NUMBERS, 2, "numbers"),
    ],
)
def test_fit_and_files_know_it(hops, tmp_path, loss, labels, columns, kind):
    metric = "mae" if loss is own_loss and kind == "numbers" else None
    model = trained(hops, columns, labels, loss=loss, metric=metric)
    assert model.trained_on.output == kind
    save_model(model, tmp_path / "m.pt")
    again = load_model(tmp_path / "m.pt")
    assert again.trained_on.output == kind
    save_model(again, tmp_path / "again.pt")
    assert load_model(tmp_path / "again.pt").trained_on.output == kind


def test_several_classes_per_node(hops, tmp_path):
    model = trained(hops, 3, TAGS, loss="bce")
    wanted = predict(model, hops).sigmoid().numpy()
    path = tmp_path / "p.csv"
    write_predictions(
        model, DATA, path, class_names=["a", "b", "id"], probabilities=True
    )
    title, rows = read(path)
    assert title == ["id", "is_a", "is_b", "is_id", "p_a", "p_b", "p_id"]
    found = np.array(rows, dtype=float)[:, 1:]
    np.testing.assert_array_equal(found[:, :3], wanted > 0.5)
    assert 0 < found[:, 0].mean() < 1
    np.testing.assert_allclose(found[:, 3:], wanted, rtol=1e-5)
    write_predictions(model, DATA, path)
    assert read(path)[0] == ["id", "is_0", "is_1", "is_2"]
    write_predictions(model, DATA, tmp_path / "p.npy", nodes=DATA.test)
    array = np.load(tmp_path / "p.npy")
    assert array.dtype == np.uint8
    np.testing.assert_array_equal(array, (wanted > 0.5)[DATA.test])
    write_predictions(model, DATA, tmp_path / "p.npy", probabilities=True)
    np.testing.assert_allclose(np.load(tmp_path / "p.npy"), wanted, rtol=1e-6)


@pytest.mark.parametrize("columns", [1, 2])
def test_numbers(hops, tmp_path, columns):
    model = trained(hops, columns, NUMBERS[:, :columns], loss="mse")
    wanted = predict(model, hops).numpy()
    path = tmp_path / "p.csv"
    write_predictions(model, DATA, path)
    title, rows = read(path)
    assert title == (["id", "value"] if columns == 1 else
                     ["id", "value_0", "value_1"])  # fmt: skip
    # The csv file has all digits.
    found = np.array(rows)[:, 1:].astype(np.float32)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)
    names = ["width", "height"][:columns]
    write_predictions(model, DATA, path, class_names=names)
    assert read(path)[0] == ["id", *(f"value_{name}" for name in names)]
    write_predictions(model, DATA, tmp_path / "p.npy", batch_size=7)
    found = np.load(tmp_path / "p.npy")
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)
    with pytest.raises(DGLError, match="probabilities is for models that"):
        write_predictions(model, DATA, path, probabilities=True)


def test_parquet_files_have_them_too(hops, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    for loss, labels, columns, kind in (
        ("bce", TAGS, 3, "uint8"), ("mse", NUMBERS, 2, "float")
    ):  # fmt: skip
        model = trained(hops, columns, labels, loss=loss)
        write_predictions(model, DATA, tmp_path / "p.parquet")
        table = parquet.read_table(tmp_path / "p.parquet")
        assert [str(own) for own in table.schema.types[1:]] == columns * [kind]
        assert table.num_rows == 400


def test_only_classes_are_smoothed(hops, tmp_path):
    for loss, labels in (("bce", TAGS), ("mse", NUMBERS)):
        model = trained(hops, labels.shape[1], labels, loss=loss)
        with pytest.raises(DGLError, match="one class per node"):
            write_smoothed(model, DATA, tmp_path / "p.csv")


def test_label_features_are_not_made_of_other_labels(tmp_path):
    data = block_model(100, num_classes=2, num_feats=4, seed=0)
    tags = torch.stack([data.labels, 1 - data.labels], dim=1)
    tags[data.train[0]] = 1
    torch.manual_seed(0)
    model = SGC(4, 2, label_feats=2, label_hops=1)
    labels = label_features(data.graph, tags, data.train, 1)
    hops = model.precompute(data.graph, data.feat)
    split = (data.train, data.valid)
    both = with_labels(hops, labels)
    fit(model, both, tags, *split, loss="bce", epochs=1)
    path = tmp_path / "p.npy"
    # Those of the task's classes would be something else.
    with pytest.raises(DGLError, match="give label_rows"):
        write_predictions(model, data, path)
    write_predictions(model, data, path, label_rows=labels, probabilities=True)
    wanted = predict(model, both).sigmoid()
    np.testing.assert_allclose(np.load(path), wanted, rtol=1e-5)


def test_one_column_is_no_class(hops, tmp_path):
    # Its softmax would be 1, and the class 0, whatever the model gives.
    bare = SGC(DATA.num_feats, 1)
    unlabelled = copy.copy(DATA)
    unlabelled.num_classes = 0
    with pytest.raises(DGLError, match="of which no class can be chosen"):
        write_predictions(bare, unlabelled, tmp_path / "p.csv")
    save_model(bare, tmp_path / "m.pt", output="labels")
    model = load_model(tmp_path / "m.pt")
    write_predictions(model, unlabelled, tmp_path / "p.csv")
    assert read(tmp_path / "p.csv")[0] == ["id", "is_0"]


def test_training_again_changes_it(hops):
    model = trained(hops, 8, torch.eye(8)[DATA.labels], loss="bce")
    assert model.trained_on.output == "labels"
    fit(model, hops, *SPLIT, epochs=1)
    assert model.trained_on.output == "classes"


def test_finished_stages_know_it(hops, tmp_path):
    options = {
        "stages": 2, "threshold": 0.1, "epochs": 1,
        "checkpoint": tmp_path / "s.pt",
    }  # fmt: skip
    self_train(make(), hops, *SPLIT, **options)
    model = make()
    # Nothing is trained here.
    self_train(model, hops, *SPLIT, **options)
    assert model.trained_on.output == "classes"


def test_wrong_kinds_are_refused(tmp_path):
    model = LCGCN(4, 4, 2)
    with pytest.raises(DGLError, match="output='class' should be one of"):
        save_model(model, tmp_path / "m.pt", output="class")
    save_model(model, tmp_path / "m.pt")
    assert load_model(tmp_path / "m.pt").trained_on.output is None
    content = read_file(tmp_path / "m.pt", "model", "")
    content["output"] = "colours"
    write_file(tmp_path / "m.pt", "model", content)
    with pytest.raises(DGLError, match="its output 'colours' is not known"):
        load_model(tmp_path / "m.pt")
