"""Metrics of the validation, and what is monitored."""

import numpy as np
import pytest
import torch
from dgl import DGLError
from sklearn import metrics
from test_losses import CLASSES, MANY, NUMBERS, train
from tiny_task import DATA, DEEP, make

from dgl_lc.nn import LCGPRGNN
from dgl_lc.training import predict
from dgl_lc.training.metrics import Metric
from dgl_lc.training.targets import Targets

TWO = (DATA.labels > 2).long()


@pytest.fixture(scope="module")
def hops():
    return make(LCGPRGNN, **DEEP).precompute(DATA.graph, DATA.feat)


def of_columns(right, score):
    pairs = zip(right.T, score.T, strict=True)
    return np.mean([metrics.roc_auc_score(r, s) for r, s in pairs])


CASES = {
    "accuracy": (DATA.labels, CLASSES, {}, lambda y, p: np.mean(
        y == p.argmax(1))),
    "macro_f1": (DATA.labels, CLASSES, {}, lambda y, p: metrics.f1_score(
        y, p.argmax(1), average="macro")),
    "micro_f1": (MANY, 3, {"loss": "bce"}, lambda y, p: metrics.f1_score(
        y, p > 0, average="micro")),
    "accuracy of columns": (MANY, 3, {"loss": "bce"}, lambda y, p: np.mean(
        (p > 0) == y)),
    "roc_auc": (TWO, 2, {}, lambda y, p: metrics.roc_auc_score(
        y, torch.from_numpy(p).softmax(1)[:, 1])),
    "roc_auc of one column": (TWO, 1, {"loss": "bce"},
                              lambda y, p: metrics.roc_auc_score(y, p[:, 0])),
    "roc_auc of columns": (MANY, 3, {"loss": "bce"}, of_columns),
    "r2": (NUMBERS, 2, {"loss": "mse"}, metrics.r2_score),
    "mae": (NUMBERS, 2, {"loss": "mse"}, metrics.mean_absolute_error),
    "rmse": (NUMBERS[:, 0], 1, {"loss": "l1"}, lambda y, p: np.sqrt(
        np.mean((y - p[:, 0]) ** 2))),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_metric_is_that_of_all_validation_rows(hops, case):
    labels, columns, options, wanted = CASES[case]
    name = case.split(" ")[0]
    # Batches of the validation are smaller than it.
    model, found = train(
        hops, labels, columns, metric=name, monitor=name, batch_size=5,
        **options,
    )  # fmt: skip
    assert list(found.history.columns)[2] == f"valid_{name}"
    logits = predict(model, hops, DATA.valid).numpy()
    value = wanted(labels[DATA.valid].numpy(), logits)
    assert found.valid_metric == pytest.approx(value, abs=1e-6)
    column = found.history[f"valid_{name}"]
    best = column.min() if name in ("mae", "rmse") else column.max()
    assert found.valid_metric == best


def test_columns_of_one_value_are_left_out_of_the_auc():
    right = torch.tensor([[0.0, 1], [1, 1], [0, 1]])
    logits = torch.tensor([[0.1, 1], [0.0, 2], [-1, 3]])
    assert Metric("roc_auc").value(logits, right) == 0.5


def test_a_metric_of_ones_own_has_its_name_as_column(hops):
    seen = []

    def worst(logits, target):
        seen.append((logits.shape, target.dtype))
        return -len(seen)

    _, found = train(hops, DATA.labels, CLASSES, metric=worst, monitor="worst")
    assert found.history.valid_worst.tolist() == [-1, -2, -3]
    assert found.best_epoch == 1
    assert seen[0] == ((len(DATA.valid), CLASSES), torch.int64)
    _, found = train(hops, DATA.labels, CLASSES, metric=lambda a, b: 0.5)
    assert "valid_metric" in found.history


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "auc"}, "metric='auc' should be one of accuracy"),
        ({"metric": 3}, "metric=3 should be a name"),
        ({"metric": "r2"}, "metric='r2' is not one for loss='cross_entropy'"),
        ({"loss": "mse", "metric": "accuracy"}, "choose one of r2, mae, rmse"),
        ({"metric": "roc_auc"}, "is for two classes, 0 and 1"),
        ({"monitor": "macro_f1"}, "monitor='macro_f1' should be 'loss' or 'ac"),
        ({"metric": "macro_f1", "monitor": "accuracy"}, "or 'macro_f1'"),
        ({"metric": lambda a, b: float("nan")}, "metric of .* is nan"),
        ({"loss": lambda a, b: a.sum(1), "labels": NUMBERS}, "metric should"),
        ({"loss": "bce", "metric": "roc_auc", "labels": MANY * 0}, "a 0 and a"),
    ],
)
def test_metrics_that_do_not_fit_are_named(hops, options, message):
    labels = options.pop("labels", DATA.labels)
    with pytest.raises(DGLError, match=message):
        train(hops, labels, CLASSES, epochs=1, **options)


def test_hits_are_counted_in_batches():
    logits, classes = torch.eye(3), torch.tensor([0, 1, 1])
    assert Metric().hits(logits, Targets(classes)) == (2, 3)
