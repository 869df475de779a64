"""Runs and their records."""

import copy
import json

import pytest
import torch

from dgl_lc.experiments.named_models import NAMES
from dgl_lc.experiments.recorded_run import (
    TaskInputs,
    run_once,
    train_and_record,
)
from dgl_lc.experiments.tasks import load_task
from dgl_lc.experiments.train_one import accuracy, prepare
from dgl_lc.experiments.tuning import space_of
from dgl_lc.nn import LCGCN
from dgl_lc.training import fit, predict


@pytest.mark.parametrize("name", NAMES)
def test_every_model_runs_and_its_record_is_json(name, small_task, short):
    data = load_task(small_task)
    params = {key: values[0] for key, values in space_of(name).items()}
    record = run_once(name, data, params, 1, **short)
    assert record == json.loads(json.dumps(record))
    assert 0 <= record["test"] <= 1
    assert len(record["history"]["valid"]) == record["epochs"]
    total = record["precompute_seconds"] + record["history"]["seconds"][-1]
    assert record["total_seconds"] == pytest.approx(total, abs=1e-3)
    steps = record["epochs"] * record["epoch_seconds"]
    assert record["history"]["seconds"][-1] == pytest.approx(steps, abs=1e-3)
    assert record["environment"]["torch"] == torch.__version__


def test_a_run_is_the_same_for_the_same_seed(small_task, short):
    data = load_task(small_task)
    params = {"lr": 0.01, "weight_decay": 1e-5, "dropout": 0.5, "num_layers": 2}
    runs = [run_once("LCGCN", data, params, s, **short) for s in (3, 3, 4)]
    assert runs[0]["history"]["valid"] == runs[1]["history"]["valid"]
    assert runs[0]["test"] == runs[1]["test"]


def test_both_protocols(small_task):
    """The weights of the last epoch are not those of the best one."""
    data = load_task(small_task)
    model = LCGCN(data.num_feats, 8, data.num_classes)
    best = copy.deepcopy(model)
    inputs = prepare(model, data)
    options = {"epochs": 60, "patience": 59, "batch_size": 64}
    rates = {"lr": 0.3}
    record = train_and_record(
        "LCGCN", model, data, {}, 0, inputs, rates, **options
    )
    # The same training; it ends with the weights of the best epoch.
    fit(
        best, inputs[0], data.labels, data.train, data.valid, seed=0,
        **rates, **options,
    )  # fmt: skip

    def score(model, nodes):
        return accuracy(predict(model, inputs[1], nodes), data.labels[nodes])

    assert record["best_epoch"] < record["epochs"]
    assert record["test"] == score(best, data.test)
    assert record["valid"] == score(best, data.valid)
    assert record["test_last"] == score(model, data.test)
    assert record["valid_last"] == score(model, data.valid)
    assert record["test"] != record["test_last"]


def test_inputs_are_made_once(small_task):
    inputs = TaskInputs(load_task(small_task))
    first = inputs.of(LCGCN(6, 4, 3))
    assert inputs.of(LCGCN(6, 8, 3))[0] is first[0]
    assert inputs.of(LCGCN(6, 8, 3, num_layers=3))[0] is not first[0]
