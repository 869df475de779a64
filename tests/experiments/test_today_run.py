"""One run of today's study: its record, and what labels it reads."""

import pytest
import torch

from dgl_lc.data import block_model
from dgl_lc.experiments import today_run
from dgl_lc.experiments.today_run import metric_for, train_once
from dgl_lc.experiments.today_space import ENTRANTS, Contest

SHORT = {"epochs": 4, "patience": 4, "batch_size": 64}
CONTEST = Contest(ENTRANTS["SAGN"], labels=True)
PARAMS = {**CONTEST.draw(0), "hid_feats": 8}


@pytest.fixture
def data():
    return block_model(200, seed=1, num_classes=2, num_feats=6)


def scores(record):
    return {
        k: v
        for k, v in record.items()
        if k not in ("environment", "train_seconds", "smooth_seconds")
    }


def test_a_run_is_the_same_again(data):
    runs = [
        scores(train_once(CONTEST, data, PARAMS, 1, smooth=True, **SHORT))
        for _ in range(2)
    ]
    assert runs[0] == runs[1]
    assert runs[0]["model"] == "SAGN + labels"
    assert 0 <= runs[0]["test"] <= 1


def test_labels_of_test_nodes_change_test_scores_alone(data):
    before = train_once(
        CONTEST, data, PARAMS, smooth=True, stages=2, threshold=0.5, **SHORT
    )
    data.labels = data.labels.clone()
    data.labels[data.test] = 1 - data.labels[data.test]
    after = train_once(
        CONTEST, data, PARAMS, smooth=True, stages=2, threshold=0.5, **SHORT
    )
    assert after["test"] == pytest.approx(1 - before["test"])
    assert after["valid"] == before["valid"]
    smoothed = [record["smoothed"] for record in (before, after)]
    assert smoothed[1]["test"] == pytest.approx(1 - smoothed[0]["test"])
    assert smoothed[1]["valid"] == smoothed[0]["valid"]
    assert smoothed[1]["params"] == smoothed[0]["params"]


def test_smoothing_is_never_worse_on_the_validation(data):
    for seed in range(3):
        found = train_once(CONTEST, data, PARAMS, seed, smooth=True, **SHORT)
        assert found["smoothed"]["valid"] >= found["valid"]


def test_validation_labels_do_not_spread(data, monkeypatch):
    """Logits and what is smoothed do not depend on labels of validation.

    The first epoch is the only one, so that they cannot choose an epoch.
    """
    given = []

    def spy(rows, graph, labels, train, **options):
        given.append((rows, train))
        return rows

    monkeypatch.setattr(today_run, "correct_and_smooth", spy)
    one = {**SHORT, "epochs": 1}
    train_once(CONTEST, data, PARAMS, smooth=True, **one)
    data.labels = data.labels.clone()
    data.labels[data.valid] = 1 - data.labels[data.valid]
    count = len(given)
    train_once(CONTEST, data, PARAMS, smooth=True, **one)
    assert torch.equal(given[0][0], given[count][0])
    assert all(torch.equal(train, data.train) for _, train in given)


def test_tolokers_is_judged_by_roc_auc(data):
    assert metric_for(data) == "accuracy"
    data.name = "tolokers (0123abcd)"
    assert metric_for(data) == "roc_auc"
    found = train_once(CONTEST, data, PARAMS, smooth=True, **SHORT)
    assert found["metric"] == "roc_auc"
    assert found["valid"] != found["valid_accuracy"]
    assert "valid_accuracy" in found["smoothed"]
