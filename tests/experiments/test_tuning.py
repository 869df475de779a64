"""Tuning."""

import json

import optuna
import pytest
from dgl import DGLError

from dgl_lc.experiments import paper, tuning
from dgl_lc.experiments.results_folder import ResultsFolder
from dgl_lc.experiments.tasks import load_task
from dgl_lc.experiments.tuning import tune


def test_tuning_resumes_and_keeps_the_best(small_task, short, tmp_path):
    results = ResultsFolder(tmp_path)
    first = tune("SGC", small_task, results, trials=2, **short)
    assert first["trials"] == 2
    again = tune("SGC", small_task, results, trials=4, **short)
    assert again["trials"] == 4
    assert again["valid"] >= first["valid"]
    assert results.load_best("SGC", load_task(small_task).name) == again
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


def test_a_study_of_another_data_set_of_that_name_is_an_error(short, tmp_path):
    results = ResultsFolder(tmp_path)
    tune("SGC", "synthetic:100", results, trials=1, **short)
    with pytest.raises(DGLError, match="other data"):
        tune("SGC", "synthetic:150", results, trials=1, **short)


def test_several_workers_share_a_study(small_task, short, tmp_path):
    results = ResultsFolder(tmp_path)
    found = tune("SGC", small_task, results, trials=6, workers=2, **short)
    assert 6 <= found["trials"] <= 8


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
    assert "trial 1 of LCGCN failed" in capsys.readouterr().out


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
