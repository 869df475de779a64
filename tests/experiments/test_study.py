"""Tuning and reproducing, on a small generated graph."""

import json
import os
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest
import torch
from dgl import DGLError

from dgl_lc.cli import main
from dgl_lc.data import block_model, save_npz
from dgl_lc.experiments import paper, study, tasks
from dgl_lc.experiments.recorded_run import NAMES, Inputs, run_once
from dgl_lc.experiments.results_folder import Results
from dgl_lc.experiments.tables import markdown, pairs_table
from dgl_lc.experiments.tasks import TAPE, load_task, paper_name, slug
from dgl_lc.experiments.tuning import space_of, tune

SHORT = {"epochs": 4, "patience": 4, "batch_size": 64, "hid_feats": 8}
FLAGS = ["--epochs", "4", "--patience", "4", "--hid-feats", "8",
         "--batch-size", "64"]  # fmt: skip


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    """A file with a task of 200 nodes."""
    path = tmp_path_factory.mktemp("data") / "small.npz"
    save_npz(block_model(200, seed=1, num_classes=3, num_feats=6), path)
    return str(path)


@pytest.mark.parametrize("name", [n for n in NAMES if n != "MLP"])
def test_every_model_runs_and_its_record_is_json(name, task):
    data = load_task(task)
    params = {key: values[0] for key, values in space_of(name).items()}
    record = run_once(name, data, params, 1, **SHORT)
    assert record == json.loads(json.dumps(record))
    assert 0 <= record["test"] <= 1
    assert len(record["history"]["valid"]) == record["epochs"]
    total = record["precompute_seconds"] + record["history"]["seconds"][-1]
    assert record["total_seconds"] == pytest.approx(total, abs=1e-3)
    steps = record["epochs"] * record["epoch_seconds"]
    assert record["history"]["seconds"][-1] == pytest.approx(steps, abs=1e-3)
    assert record["environment"]["torch"] == torch.__version__


def test_a_run_is_the_same_for_the_same_seed(task):
    data = load_task(task)
    params = {"lr": 0.01, "weight_decay": 1e-5, "dropout": 0.5, "num_layers": 2}
    runs = [run_once("LCGCN", data, params, s, **SHORT) for s in (3, 3, 4)]
    assert runs[0]["history"]["valid"] == runs[1]["history"]["valid"]
    assert runs[0]["test"] == runs[1]["test"]


def test_both_protocols(task):
    """The last epoch's weights are not the best one's."""
    data = load_task(task)
    params = {"lr": 0.02, "weight_decay": 0, "dropout": 0.0, "num_layers": 2}
    options = {**SHORT, "epochs": 60, "patience": 59}
    record = run_once("LCGCN", data, params, 0, **options)
    assert record["best_epoch"] < record["epochs"]
    assert record["valid_last"] == record["history"]["valid"][-1]
    best = record["history"]["valid"][record["best_epoch"] - 1]
    assert record["valid"] == pytest.approx(best, abs=1e-4)


def test_inputs_are_made_once(task):
    data = load_task(task)
    inputs = Inputs(data)
    from dgl_lc.nn import LCGCN

    first = inputs.of(LCGCN(6, 4, 3))
    assert inputs.of(LCGCN(6, 8, 3))[0] is first[0]
    assert inputs.of(LCGCN(6, 8, 3, num_layers=3))[0] is not first[0]


def test_tuning_goes_on_and_keeps_the_best(task, tmp_path):
    results = Results(tmp_path)
    first = tune("SGC", task, results, trials=2, **SHORT)
    assert first["trials"] == 2
    again = tune("SGC", task, results, trials=4, **SHORT)
    assert again["trials"] == 4
    assert again["valid"] >= first["valid"]
    assert results.best("SGC", load_task(task).name) == again
    assert set(again["params"]) == set(paper.SPACES["SGC"])
    for name, value in again["params"].items():
        assert value in paper.SPACES["SGC"][name]
    # Enough trials: nothing is run.
    assert tune("SGC", task, results, trials=3, **SHORT)["trials"] == 4


def test_a_study_of_another_space_is_an_error(task, tmp_path, monkeypatch):
    results = Results(tmp_path)
    tune("SGC", task, results, trials=1, **SHORT)
    with pytest.raises(DGLError, match="another search space, other"):
        tune("SGC", task, results, trials=1, **{**SHORT, "epochs": 5})
    monkeypatch.setitem(paper.SPACES["SGC"], "lr", [0.5])
    with pytest.raises(DGLError, match="another search space"):
        tune("SGC", task, results, trials=1, **SHORT)


def test_several_workers_share_a_study(task, tmp_path):
    found = tune("SGC", task, Results(tmp_path), trials=6, workers=2, **SHORT)
    assert 6 <= found["trials"] <= 8


def test_a_killed_worker_leaves_the_study_readable(task, tmp_path):
    call = [
        sys.executable, "-m", "dgl_lc.cli", "tune", "LCGPRGNN", task,
        "--trials", "50", "--out", str(tmp_path), "--epochs", "2000",
        "--patience", "2000", "--hid-feats", "8", "--batch-size", "64",
    ]  # fmt: skip
    process = subprocess.Popen(call, stdout=subprocess.DEVNULL)
    while not (tmp_path / "studies.db").exists():
        assert process.poll() is None
        time.sleep(0.1)
    time.sleep(2)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    found = tune("SGC", task, Results(tmp_path), trials=1, **SHORT)
    assert found["trials"] == 1


def test_tables_are_saved_and_nothing_is_run_twice(task, tmp_path, capsys):
    call = ["reproduce", "accuracy", "--data", task, "--models", "GCN",
            "LCGCN", "SGC", "autoGCN", "--seeds", "2", "--out",
            str(tmp_path), *FLAGS]  # fmt: skip
    assert main(call) == 0
    text = capsys.readouterr().out
    assert "8 runs to do" in text
    name = load_task(task).name
    assert "mean of LC minus original" in text
    frame = pd.read_csv(tmp_path / f"accuracy-{name}.csv")
    assert list(frame.model) == ["GCN", "SGC", "LCGCN", "autoGCN"] or set(
        frame.model
    ) == {"GCN", "SGC", "LCGCN", "autoGCN"}
    assert (
        (tmp_path / f"accuracy-{name}.md").read_text().startswith("| model |")
    )
    assert main(["reproduce", "time", *call[2:]]) == 0
    assert "0 runs to do, 8 are there" in capsys.readouterr().out
    assert "ms / " in (tmp_path / f"time-{name}.md").read_text()
    assert main(["reproduce", "validation-over-time", *call[2:]]) == 0
    picture = tmp_path / f"validation-over-time-{load_task(task).name}.png"
    assert picture.read_bytes()[:4] == b"\x89PNG"


def test_other_parameters_are_run_anew(task, tmp_path, capsys):
    call = ["reproduce", "accuracy", "--data", task, "--models", "SGC",
            "--seeds", "1", "--out", str(tmp_path), *FLAGS]  # fmt: skip
    assert main(call) == 0
    assert main([*call, "--lr", "0.5"]) == 0
    assert "1 runs to do" in capsys.readouterr().out.split("SGC seed")[-2]


def test_runs_by_several_workers(task, tmp_path):
    call = ["reproduce", "accuracy", "--data", task, "--models", "SGC",
            "LCGCN", "--seeds", "2", "--out", str(tmp_path), "--workers",
            "2", *FLAGS]  # fmt: skip
    assert main(call) == 0
    assert len(list((tmp_path / "runs").glob("*.json"))) == 4


def test_tuned_parameters_are_used(task, tmp_path):
    results = Results(tmp_path)
    tuned = tune("LCGCN", task, results, trials=1, **SHORT)
    data = load_task(task)
    for name in ("LCGCN", "autoGCN"):
        params, origin = study.parameters(name, data, results, {})
        assert params == tuned["params"]
        assert origin == "tuned, 1 trials"
    params, origin = study.parameters("SGC", data, results, {})
    assert origin == "untuned"
    params, origin = study.parameters("SGC", data, results, {"lr": 7})
    assert params["lr"] == 7
    assert origin == "untuned, given lr"
    params, _ = study.parameters("FSGNN", data, results, {"lr": 7})
    assert [params[k] for k in ("lr1", "lr2", "lr3", "lr_att")] == [7] * 4
    params, _ = study.parameters("LCGCN", data, results, {"lr": 7})
    assert params == {**tuned["params"], "lr": 7}


def test_untuned_is_the_middle_of_numbers_and_the_first_of_names(
    task, tmp_path
):
    params, origin = study.parameters(
        "JKNet", load_task(task), Results(tmp_path), {}
    )
    assert origin == "untuned"
    assert params == {
        "weight_decay": 1e-6, "lr": 0.005, "dropout": 0.5, "num_layers": 3,
        "pooling": "concat",
    }  # fmt: skip


def test_blocks_agree_and_are_drawn(task, tmp_path):
    call = ["reproduce", "cpu-vs-blocks", "--data", task, "--nodes", "300",
            "--columns", "9", "--runs", "1",
            "--out", str(tmp_path)]  # fmt: skip
    assert main(call) == 0
    frame = pd.read_csv(tmp_path / f"cpu-vs-blocks-{load_task(task).name}.csv")
    assert len(frame) == 4
    assert (tmp_path / "cpu-vs-blocks-power-law-300.png").exists()


def test_papers100m_on_a_generated_one(tmp_path, capsys):
    call = ["reproduce", "papers100m", "--root", str(tmp_path / "raw"),
            "--synthetic", "2e-5", "--feat-dim", "8", "--models", "SGC",
            "LCGCN", "--seeds", "1", "--epochs", "2", "--out",
            str(tmp_path / "out")]  # fmt: skip
    assert main(call) == 0
    text = capsys.readouterr().out
    assert "| LCGCN |" in text
    assert "64.7" not in text


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (["tune", "LCGNC", "x.npz"], "Did you mean 'LCGCN'?"),
        (["tune", "gcn", "x.npz"], "Did you mean 'GCN'?"),
        (["tune", "SGC", "citeser"], "Did you mean 'citeseer'?"),
        (["tune", "SGC", "synthetic", "--trials", "0"], "trials=0"),
        (["tune", "SGC", "synthetic", "--workers", "0"], "--workers"),
        (["reproduce", "accuracy", "--data", "nowhere"], "can be had"),
        (["reproduce", "accuracy", "--data", "x", "--models", "JKnet"],
         "Did you mean 'JKNet'?"),
        (["reproduce", "time", "--data", "x", "--seeds", "0"], "--seeds"),
        (["reproduce", "cpu-vs-blocks"], "give graphs by --data"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call, message, tmp_path, capsys):
    assert main([*call, "--out", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err


def test_a_folder_of_another_version_is_an_error(tmp_path):
    Results(tmp_path)
    (tmp_path / "about.json").write_text('{"format": 99}')
    with pytest.raises(DGLError, match="results of format 99"):
        Results(tmp_path)
    (tmp_path / "about.json").write_text("{")
    with pytest.raises(DGLError, match="cannot be read"):
        Results(tmp_path)


def test_data_sets_that_are_not_there_are_left_out(task, tmp_path, capsys):
    call = ["reproduce", "accuracy", "--data", "nowhere.npz", task,
            "--models", "SGC", "--seeds", "1", "--out", str(tmp_path),
            *FLAGS]  # fmt: skip
    assert main(call) == 0
    assert "left out: nowhere.npz" in capsys.readouterr().out


def test_names_of_data_sets(task, monkeypatch):
    data = load_task(task)
    assert paper_name(data) is None
    assert slug(TAPE) == "arxiv--TAPE-P"
    # The same name is not enough, and dgl.data's Reddit has another one.
    data.name = "flickr"
    assert paper_name(data) is None
    sizes = {"nodes": data.graph.num_nodes(), "features": 6}
    monkeypatch.setitem(paper.DATASETS, "Flickr", sizes)
    assert paper_name(data) == "Flickr"
    data.name = "reddit"
    monkeypatch.setattr(tasks, "load", lambda source: data)
    assert load_task("reddit").name == "Reddit of dgl.data"
    assert paper_name(data) is None


def test_pairs_and_markdown():
    base = {"seed": 0, "origin": "untuned", "test_last": 0.5, "epochs": 3,
            "total_seconds": 4.0, "valid": 0.5, "valid_last": 0.5}  # fmt: skip
    records = [
        {**base, "data": "a", "model": "GCN", "test": 0.8, "epoch_seconds": 2},
        {**base, "data": "a", "model": "LCGCN", "test": 0.7,
         "epoch_seconds": 1, "total_seconds": 1.0},
    ]  # fmt: skip
    frame = pairs_table(records)
    assert frame.points[0] == pytest.approx(-10)
    assert frame["epoch"][0] == 2
    assert frame["in all"][0] == 4
    assert (
        markdown(frame)
        .splitlines()[2]
        .startswith("| a | LCGCN | untuned | -10.00 |")
    )


def test_two_data_sets_of_one_name_are_kept_apart(tmp_path, capsys):
    call = ["reproduce", "accuracy", "--models", "SGC", "--seeds", "1",
            "--out", str(tmp_path), *FLAGS, "--data"]  # fmt: skip
    assert main([*call, "synthetic:100"]) == 0
    assert main([*call, "synthetic:150"]) == 0
    assert capsys.readouterr().out.count("1 runs to do, 0 are there") == 2
    assert main([*call, "synthetic:100"]) == 0
    assert "0 runs to do, 1 are there" in capsys.readouterr().out
    results = Results(tmp_path)
    tune("SGC", "synthetic:100", results, trials=1, **SHORT)
    with pytest.raises(DGLError, match="other data"):
        tune("SGC", "synthetic:150", results, trials=1, **SHORT)


def test_a_trial_that_fails_does_not_end_the_study(
    task, tmp_path, monkeypatch, capsys
):
    from dgl_lc.experiments import tuning as module

    real, calls = module.run_once, []

    def sometimes(*args, **options):
        calls.append(1)
        if len(calls) == 2:
            raise DGLError("the loss is not finite")
        return real(*args, **options)

    monkeypatch.setattr(module, "run_once", sometimes)
    found = tune("LCGCN", task, Results(tmp_path), trials=3, **SHORT)
    assert found["trials"] == 3
    assert "trial 1 of LCGCN failed" in capsys.readouterr().out


def test_a_run_that_fails_is_reported_and_the_others_go_on(
    task, tmp_path, monkeypatch, capsys
):
    real = study.run_once

    def broken(name, *args, **options):
        if name == "SGC":
            raise RuntimeError("out of memory")
        return real(name, *args, **options)

    monkeypatch.setattr(study, "run_once", broken)
    call = ["reproduce", "accuracy", "--data", task, "--models", "SGC",
            "LCGCN", "--seeds", "1", "--out", str(tmp_path),
            *FLAGS]  # fmt: skip
    assert main(call) == 0
    text = capsys.readouterr().out
    assert "SGC seed 0: out of memory" in text
    assert "1 of 2 runs did not come to their end" in text


def test_a_study_that_goes_on_draws_other_trials(task, tmp_path):
    import optuna

    results = Results(tmp_path)
    for trials in (1, 2, 3):
        tune("FSGNN", task, results, trials=trials, **SHORT)
    name = load_task(task).name
    study = optuna.load_study(
        study_name=f"FSGNN on {name}", storage=results.storage
    )
    drawn = {json.dumps(t.params, sort_keys=True) for t in study.trials}
    assert len(drawn) == 3


def test_blocks_are_timed_from_graphs_that_nothing_is_known_of(task):
    import dgl

    from dgl_lc.experiments import compare_schemes as blocks

    data = load_task(task)
    data.graph.create_formats_()
    fresh = dgl.graph(data.graph.edges(), num_nodes=data.graph.num_nodes())
    assert fresh.formats()["created"] == ["coo"]
    for prepare in blocks.WAYS.values():
        found = prepare(fresh, 6, 1 << 30)(data.feat, 2)
        wanted = blocks.WAYS[blocks.OURS](data.graph, 6, 1 << 30)(data.feat, 2)
        assert torch.allclose(found, wanted, atol=1e-4)
