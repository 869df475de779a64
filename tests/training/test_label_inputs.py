"""Label features in training, in files of models and in predictions."""

import numpy as np
import pytest
import torch
from dgl import DGLError
from dgl.base import DGLWarning

from dgl_lc.data import block_model
from dgl_lc.experiments.train_one import train_model
from dgl_lc.nn import FSGNN, LCGCN, SGC
from dgl_lc.precompute import label_features, open_store, with_labels
from dgl_lc.training import (
    fit,
    load_model,
    predict,
    save_model,
    write_predictions,
)
from dgl_lc.training.label_inputs import compute_labels, open_label_store

DATA = block_model(300, num_feats=8, num_classes=3, seed=1)
SPLIT = (DATA.labels, DATA.train, DATA.valid)
QUICK = {"epochs": 4, "batch_size": 64}


def make(kind=LCGCN, **options):
    torch.manual_seed(0)
    sizes = (8, 3) if kind is SGC else (8, 16, 3)
    return kind(*sizes, label_feats=3, label_hops=2, **options)


def label_rows(**options):
    options = {"parts": 4, "seed": 2, **options}
    return label_features(DATA.graph, DATA.labels, DATA.train, 2, **options)


def trained(kind=LCGCN, **options):
    model = make(kind)
    rows = with_labels(
        model.precompute(DATA.graph, DATA.feat), label_rows(**options)
    )
    fit(model, rows, *SPLIT, **QUICK)
    return model, rows


def probabilities(model, rows, nodes=None):
    return predict(model, rows, nodes).softmax(dim=1).numpy()


def test_a_model_learns_from_labels_alone():
    # Features are noise; the labels of neighbours tell the class.
    data = block_model(2000, num_feats=8, num_classes=3, seed=1)
    model = make(SGC, label_dropout=0.0)
    hops = model.precompute(data.graph, torch.zeros_like(data.feat))
    labels = label_features(data.graph, data.labels, data.train, 2)
    rows = with_labels(hops, labels)
    fit(model, rows, data.labels, data.train, data.valid, epochs=60, lr=0.05)
    right = (predict(model, rows, data.test).argmax(1)
             == data.labels[data.test])  # fmt: skip
    assert right.float().mean() > 0.6


def test_a_checkpoint_is_of_its_label_features(tmp_path):
    rows = with_labels(make().precompute(DATA.graph, DATA.feat), label_rows())
    options = {**QUICK, "checkpoint": tmp_path / "c.pt"}
    fit(make(), rows, *SPLIT, **options)
    other = with_labels(rows.features, label_rows(seed=3))
    with pytest.raises(DGLError, match="label features of inputs"):
        fit(make(), other, *SPLIT, **options)
    again = with_labels(rows.features, label_rows())
    fit(make(), again, *SPLIT, **options)


@pytest.mark.parametrize("kind", [LCGCN, SGC, FSGNN])
@pytest.mark.parametrize("memory", [None, "40MiB"])
def test_predictions_compute_the_same_label_features(tmp_path, kind, memory):
    model, rows = trained(kind)
    save_model(model, tmp_path / "model.pt")
    again = load_model(tmp_path / "model.pt")
    assert again.label_recipe == rows.labels.label_recipe
    write_predictions(
        again, DATA, tmp_path / "p.npy", probabilities=True, memory=memory
    )
    expected = probabilities(model, rows)
    np.testing.assert_allclose(np.load(tmp_path / "p.npy"), expected, atol=1e-5)


@pytest.mark.parametrize("given", [True, False])
def test_predictions_with_stores(tmp_path, given):
    model, rows = trained()
    store = model.precompute(
        DATA.graph, DATA.feat, nodes=torch.arange(100), out=tmp_path / "hops"
    )
    labels = label_rows(out=tmp_path / "labels") if given else None
    nodes = torch.tensor([5, 250, 99, 5])
    found = write_predictions(
        model, DATA, tmp_path / "p.npy", nodes=nodes, rows=store,
        label_rows=labels, probabilities=True,
    )  # fmt: skip
    assert found.computed == 1
    expected = probabilities(model, rows, nodes)
    np.testing.assert_allclose(np.load(tmp_path / "p.npy"), expected, atol=1e-5)


def test_other_training_labels_are_a_warning(tmp_path):
    model, _ = trained()
    other = block_model(300, num_feats=8, num_classes=3, seed=1)
    other.labels[other.train[0]] = (other.labels[other.train[0]] + 1) % 3
    with pytest.warns(DGLWarning, match="are not those that the model was"):
        write_predictions(model, other, tmp_path / "p.npy")


def test_soft_labels_have_to_be_given_again(tmp_path):
    soft = (DATA.test[:5], torch.full((5, 3), 1 / 3))
    model, rows = trained(soft=soft)
    with pytest.raises(DGLError, match="give label_rows"):
        write_predictions(model, DATA, tmp_path / "p.npy")
    write_predictions(
        model, DATA, tmp_path / "p.npy", label_rows=rows.labels,
        probabilities=True,
    )  # fmt: skip
    np.testing.assert_allclose(
        np.load(tmp_path / "p.npy"), probabilities(model, rows), atol=1e-5
    )


def test_label_rows_are_for_models_with_labels(tmp_path):
    with pytest.raises(DGLError, match="label_rows is for models"):
        write_predictions(
            SGC(8, 3), DATA, tmp_path / "p.npy", label_rows=label_rows()
        )


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"parts": 3}, "parts=3, and not 4"),
        ({"seed": 1}, "seed=1, and not 2"),
        ({"norm": "right"}, "norm='right', and not 'both'"),
    ],
)
def test_a_label_store_of_something_else_is_refused(tmp_path, change, named):
    model, _ = trained()
    label_rows(out=tmp_path / "good")
    assert open_label_store(tmp_path / "good", model, DATA).hops == [1, 2]
    label_rows(out=tmp_path / "bad", **change)
    with pytest.raises(DGLError, match=named):
        open_label_store(tmp_path / "bad", model, DATA)


def test_a_store_of_features_or_of_other_data_is_no_label_store(tmp_path):
    model, _ = trained()
    model.precompute(DATA.graph, DATA.feat, out=tmp_path / "hops")
    with pytest.raises(DGLError, match="is not a store of label features"):
        open_label_store(tmp_path / "hops", model, DATA)
    with pytest.raises(DGLError, match="does not exist: name the folder that"):
        open_label_store(tmp_path / "none", model, DATA)
    label_rows(out=tmp_path / "labels")
    other = block_model(300, num_feats=8, num_classes=3, seed=4)
    model.label_recipe = None
    with pytest.raises(DGLError, match="not made from the training labels"):
        open_label_store(tmp_path / "labels", model, other)


def test_train_model_pairs_with_labels(tmp_path):
    options = {"label_feats": 3, "label_hops": 2, "num_layers": 2}
    common = {"options": options, "hid_feats": 8, **QUICK}
    memory = train_model("LCGCN", DATA, **common)
    stored = train_model(
        "LCGCN", DATA, label_store=tmp_path / "labels", **common
    )
    assert open_store(tmp_path / "labels").label_recipe == (
        memory.model.label_recipe
    )
    for one, other in zip(
        memory.model.parameters(), stored.model.parameters(), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)
    labels = compute_labels(memory.model, DATA)
    assert labels.label_recipe == memory.model.label_recipe


def test_a_task_without_labels_is_refused():
    model = make()
    data = block_model(300, num_feats=8, num_classes=4, seed=1)
    with pytest.raises(DGLError, match="label features of 3 classes"):
        compute_labels(model, data)
    data.train = data.train[:0]
    with pytest.raises(DGLError, match="no training nodes"):
        compute_labels(model, data)
