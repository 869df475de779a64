"""A model and the task it is used on: the same features and classes."""

import csv

import pytest
import torch
from dgl import DGLError

from dgl_lc.cli import main
from dgl_lc.data import DiskData, block_model, prepare
from dgl_lc.nn import SGC
from dgl_lc.training import load_model, save_model, write_predictions
from dgl_lc.training.trained_on import check_same_task

DATA = block_model(60, num_classes=3, num_feats=4, seed=1)
KINDS = ["blue", "green", "red"]


def write_table(path, header, rows):
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([header, *rows])


def make_task(folder, columns=tuple("abcd"), kinds=KINDS):
    """Prepare the task from csv files; without labels if kinds is None."""
    pytest.importorskip("pyarrow")
    folder.mkdir()
    rows = ([n, *DATA.feat[n, : len(columns)].tolist()] for n in range(60))
    write_table(folder / "feat.csv", ["id", *columns], rows)
    edges = torch.stack(DATA.graph.edges(), dim=1).tolist()
    write_table(folder / "edges.csv", ["src", "dst"], edges)
    options = {}
    if kinds is not None:
        labels = [kinds[label] for label in DATA.labels.tolist()]
        write_table(folder / "labels.csv", ["id", "label"],
                    enumerate(labels))  # fmt: skip
        options = {"labels": folder / "labels.csv", "split": (0.6, 0.2, 0.2)}
    return prepare(
        edges=folder / "edges.csv", features=folder / "feat.csv",
        out=folder / "task", **options,
    )  # fmt: skip


@pytest.fixture
def model(tmp_path):
    """A model that was saved with the names of the task."""
    save_model(SGC(4, 3), tmp_path / "model.pt", KINDS, list("abcd"))
    return load_model(tmp_path / "model.pt")


def test_a_task_on_disk_knows_its_columns(tmp_path):
    data = make_task(tmp_path / "new")
    assert data.feat_names == ["a", "b", "c", "d"]
    assert DiskData(data.path).feat_names == data.feat_names
    array = prepare(
        edges=torch.stack(DATA.graph.edges()).numpy(),
        features=DATA.feat.numpy(), out=tmp_path / "array",
    )  # fmt: skip
    assert array.feat_names is None


def test_the_same_features_and_classes_are_accepted(model, tmp_path):
    check_same_task(model, make_task(tmp_path / "same"))
    check_same_task(model, make_task(tmp_path / "unlabelled", kinds=None))
    # What is not known is not compared.
    check_same_task(model, DATA)
    check_same_task(SGC(4, 3), make_task(tmp_path / "new", "dcba"))


@pytest.mark.parametrize(
    ("columns", "kinds", "message"),
    [
        ("abdc", KINDS, "column 2 was 'c', and is 'd' here"),
        ("abcx", KINDS, "column 3 was 'd', and is 'x' here"),
        ("abc", KINDS, "reads 4 columns of features, but task has 3"),
        ("abcd", ["blue", "green", "teal"], "class 2 was 'red', and is 'teal'"),
        ("abcd", ["blue", "green", "blue"], "class 2 was 'red', and is None"),
    ],
)
def test_other_features_or_classes_are_refused(
    model, columns, kinds, message, tmp_path
):
    data = make_task(tmp_path / "new", columns, kinds)
    with pytest.raises(DGLError, match=message):
        write_predictions(model, data, tmp_path / "p.csv")
    assert not (tmp_path / "p.csv").exists()


def test_another_number_of_classes_is_refused():
    with pytest.raises(DGLError, match=r"it has 5 classes, and .* has 3"):
        check_same_task(SGC(4, 5), DATA)


def test_train_saves_the_names_that_predict_compares(tmp_path, capsys):
    task = make_task(tmp_path / "first").path
    saved = str(tmp_path / "model.pt")
    assert not main(["train", "--model", "SGC", "--data", str(task),
                     "--epochs", "2", "--save", saved])  # fmt: skip
    other = make_task(tmp_path / "second", "bacd").path
    call = ["predict", "--model", saved, "--out", str(tmp_path / "p.csv")]
    assert main([*call, "--data", str(other)]) == 2
    assert "column 0 was 'a', and is 'b' here" in capsys.readouterr().err
    assert main([*call, "--data", str(task)]) == 0
