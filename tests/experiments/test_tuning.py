"""Tuning."""

import json

import optuna
import pytest
from dgl import DGLError

from dgl_lc.experiments import paper, tuning
from dgl_lc.experiments.results_folder import ResultsFolder
from dgl_lc.experiments.tasks import fingerprint_of, load_task
from dgl_lc.experiments.tuning import tune


def test_tuning_resumes_and_keeps_the_best(small_task, short, tmp_path):
    results = ResultsFolder(tmp_path)
    first = tune("SGC", small_task, results, trials=2, **short)
    assert first["trials"] == 2
    again = tune("SGC", small_task, results, trials=4, **short)
    assert again["trials"] == 4
    assert again["valid"] >= first["valid"]
    data = load_task(small_task)
    key = fingerprint_of(data)
    assert results.load_best("SGC", data.name, key) == again
    assert set(again["params"]) == set(paper.SPACES["SGC"])
    for name, value in again["params"].items():
        assert value in paper.SPACES["SGC"][name]
    # The study has enough trials, so that nothing is run.
    assert tune("SGC", small_task, results, trials=3, **short)["trials"] == 4


def test_a_study_of_another_space_is_an_error(
    small_task, short, tmp_path, monkeypatch
):
    results = ResultsFolder(tmp_path)
    tune("SGC", small_task, results, trials=1, **short)
    with pytest.raises(DGLError, match="another search space, other"):
        tune("SGC", small_task, results, trials=1, **{**short, "epochs": 5})
    monkeypatch.setitem(paper.SPACES["SGC"], "lr", [0.5])
    with pytest.raises(DGLError, match="another search space"):
        tune("SGC", small_task, results, trials=1, **short)


def test_data_sets_of_one_name_are_tuned_apart(
    small_task, other_task, short, tmp_path
):
    results = ResultsFolder(tmp_path)
    first = tune("SGC", small_task, results, trials=1, **short)
    second = tune("SGC", other_task, results, trials=1, **short)
    assert first["data"] == "synthetic"
    assert second["data"] == f"synthetic ({second['data_key'][:8]})"
    assert first["data_key"] != second["data_key"]
    assert tune("SGC", small_task, results, trials=1, **short) == first


def test_a_study_of_another_data_set_of_that_name_is_an_error(
    small_task, other_task, short, tmp_path
):
    results = ResultsFolder(tmp_path)
    tune("SGC", small_task, results, trials=1, **short)
    (tmp_path / "data.json").unlink()
    with pytest.raises(DGLError, match="other data"):
        tune("SGC", other_task, results, trials=1, **short)


# Two processes import torch and DGL.
@pytest.mark.slow
def test_several_workers_share_a_study(small_task, short, tmp_path):
    results = ResultsFolder(tmp_path)
    found = tune("SGC", small_task, results, trials=3, workers=2, **short)
    assert found["trials"] == 3
    study = optuna.load_study(
        study_name=f"SGC on {found['data']}", storage=results.storage
    )
    assert len(study.trials) == 3


def test_a_trial_that_fails_does_not_end_the_study(
    small_task, short, tmp_path, monkeypatch, capsys
):
    real, calls = tuning.run_once, []

    def sometimes(*args, **options):
        calls.append(1)
        if len(calls) == 2:
            raise DGLError("the loss is not finite")
        return real(*args, **options)

    monkeypatch.setattr(tuning, "run_once", sometimes)
    results = ResultsFolder(tmp_path)
    found = tune("LCGCN", small_task, results, trials=3, **short)
    assert found["trials"] == 3
    text = capsys.readouterr().out
    assert "trial 1 of LCGCN failed: the loss is not finite" in text


def test_a_study_whose_trials_all_fail_ends(
    small_task, short, tmp_path, monkeypatch
):
    calls = []

    def broken(*args, **options):
        calls.append(1)
        raise DGLError("the loss is not finite")

    monkeypatch.setattr(tuning, "run_once", broken)
    with pytest.raises(
        DGLError, match="no trial of LCGCN on synthetic finished"
    ):
        tune("LCGCN", small_task, ResultsFolder(tmp_path), trials=3, **short)
    assert len(calls) == 3


def test_every_trial_is_reported_with_the_best_so_far(
    small_task, short, tmp_path, monkeypatch, capfd
):
    scores = iter([0.5, 0.25, 0.75])
    monkeypatch.setattr(
        tuning,
        "run_once",
        lambda *_, **options: {"valid": next(scores), "total_seconds": 0.0},
    )
    monkeypatch.setitem(paper.SPACES["LCGCN"], "num_layers", [*range(1, 99)])
    tune("LCGCN", small_task, ResultsFolder(tmp_path), trials=3, **short)
    lines = capfd.readouterr().out.splitlines()
    assert [line.split(" (")[0] for line in lines] == [
        "1 of 3 trials: validation accuracy 50.00 %, best so far 50.00 %",
        "2 of 3 trials: validation accuracy 25.00 %, best so far 50.00 %",
        "3 of 3 trials: validation accuracy 75.00 %, best so far 75.00 %",
    ]
    assert "lr 0." in lines[0]


def test_a_resumed_study_draws_other_trials(small_task, short, tmp_path):
    results = ResultsFolder(tmp_path)
    for trials in (1, 2, 3):
        tune("FSGNN", small_task, results, trials=trials, **short)
    name = load_task(small_task).name
    study = optuna.load_study(
        study_name=f"FSGNN on {name}", storage=results.storage
    )
    drawn = {json.dumps(t.params, sort_keys=True) for t in study.trials}
    assert len(drawn) == 3


@pytest.mark.parametrize("name", ["trials", "workers"])
def test_a_number_below_one_is_named(name, small_task, tmp_path):
    with pytest.raises(DGLError, match=f"{name}=0 should be at least 1"):
        tune("SGC", small_task, ResultsFolder(tmp_path), **{name: 0})
