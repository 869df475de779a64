"""Studies: which parameters are used, and what is run."""

import pytest
from dgl import DGLError

from dgl_lc.experiments import study
from dgl_lc.experiments.results_folder import ResultsFolder
from dgl_lc.experiments.study import Study, parameters, run_study
from dgl_lc.experiments.tables import accuracy_table
from dgl_lc.experiments.tasks import load_task
from dgl_lc.experiments.tuning import tune


def test_tuned_parameters_are_used(small_task, short, tmp_path):
    results = ResultsFolder(tmp_path)
    tuned = tune("LCGCN", small_task, results, trials=1, **short)
    data = load_task(small_task)
    for name in ("LCGCN", "autoGCN"):
        params, origin = parameters(name, data, results, {})
        assert params == tuned["params"]
        assert origin == "tuned, 1 trials"
    params, origin = parameters("SGC", data, results, {})
    assert origin == "untuned"
    params, origin = parameters("SGC", data, results, {"lr": 7})
    assert params["lr"] == 7
    assert origin == "untuned, given lr"
    params, _ = parameters("FSGNN", data, results, {"lr": 7})
    assert [params[k] for k in ("lr1", "lr2", "lr3", "lr_att")] == [7] * 4
    params, _ = parameters("LCGCN", data, results, {"lr": 7})
    assert params == {**tuned["params"], "lr": 7}


def test_parameters_tuned_on_another_data_set_of_that_name_are_not_used(
    small_task, other_task, short, tmp_path, capsys
):
    results = ResultsFolder(tmp_path)
    tuned = tune("SGC", small_task, results, trials=1, **short)
    study = Study(
        [other_task, small_task], results, ["SGC"], seeds=1, training=short
    )
    records, _ = run_study(study)
    (name,) = {r["data"] for r in records} - {"synthetic"}
    origins = {record["data"]: record["origin"] for record in records}
    assert origins == {name: "untuned", "synthetic": "tuned, 1 trials"}
    assert records[1]["params"] == tuned["params"]
    assert len(accuracy_table(records, {}).columns) == 6
    data = load_task(other_task)
    with pytest.raises(DGLError, match="were not tuned on this synthetic"):
        parameters("SGC", data, results, {})


def test_untuned_is_the_middle_of_numbers_and_the_first_of_names(
    small_task, tmp_path
):
    params, origin = parameters(
        "JKNet", load_task(small_task), ResultsFolder(tmp_path), {}
    )
    assert origin == "untuned"
    assert params == {
        "weight_decay": 1e-6, "lr": 0.005, "dropout": 0.5, "num_layers": 3,
        "pooling": "concat",
    }  # fmt: skip


def make_study(task, folder, short, **options):
    options = {"models": ["SGC", "LCGCN"], "seeds": 1, **options}
    return Study([task], ResultsFolder(folder), training=short, **options)


def test_only_runs_without_a_record_are_run(
    small_task, short, tmp_path, capsys
):
    records, _ = run_study(make_study(small_task, tmp_path, short))
    assert "2 runs to do, 0 done before" in capsys.readouterr().out
    more, _ = run_study(make_study(small_task, tmp_path, short, seeds=2))
    assert "2 runs to do, 2 done before" in capsys.readouterr().out
    assert [(r["model"], r["seed"]) for r in more] == [
        ("SGC", 0), ("SGC", 1), ("LCGCN", 0), ("LCGCN", 1),
    ]  # fmt: skip
    assert more[0] == records[0]


def test_a_run_that_fails_is_reported_and_the_others_are_run(
    small_task, short, tmp_path, monkeypatch, capsys
):
    real = study.run_once

    def broken(name, *args, **options):
        if name == "SGC":
            raise RuntimeError("out of memory")
        return real(name, *args, **options)

    monkeypatch.setattr(study, "run_once", broken)
    records, _ = run_study(make_study(small_task, tmp_path, short))
    assert [record["model"] for record in records] == ["LCGCN"]
    text = capsys.readouterr().out
    assert "SGC seed 0: out of memory" in text
    assert "1 of 2 runs did not finish" in text
    with pytest.raises(DGLError, match="no run finished"):
        run_study(make_study(small_task, tmp_path, short, models=["SGC"]))
