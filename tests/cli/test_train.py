"""``dgl-lc train``."""

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import dgl
import pandas as pd
import pytest
import torch

from dgl_lc.cli import main
from dgl_lc.cli.fit_flags import METRICS
from dgl_lc.data import (
    DiskData,
    block_model,
    prepare_ogb,
    save_npz,
    write_papers_like,
)
from dgl_lc.precompute import block_aggregate, open_store
from dgl_lc.training import load_model
from dgl_lc.training.metrics import CLASS_METRICS

SHORT = ["--epochs", "3", "--hid-feats", "8"]


@pytest.fixture
def npz(tmp_path):
    """A task in a file, and the task."""
    data = block_model(200, num_feats=8)
    save_npz(data, tmp_path / "mine.npz")
    return tmp_path / "mine.npz", data


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    """The folder of a prepared task."""
    root = tmp_path_factory.mktemp("task")
    write_papers_like(root / "raw", 2e-5, feat_dim=4)
    prepare_ogb(root / "raw", root / "data", memory="64MiB")
    return root / "data"


def train(*flags):
    return main(["train", *SHORT, *(str(flag) for flag in flags)])


def test_train_on_a_file_of_ones_own(npz, tmp_path, capsys):
    saved, history = tmp_path / "new" / "model.pt", tmp_path / "h" / "h.csv"
    plot = tmp_path / "plots" / "course.png"
    for _ in range(2):  # the second call replaces the files of the first
        assert not train(
            "--model", "LCGPRGNN", "--data", npz[0], "--hops", "2",
            "--save", saved, "--history", history, "--plots", plot,
            "--checkpoint", tmp_path / "run.pt", "--memory", "1GiB",
        )  # fmt: skip
    assert "test accuracy" in capsys.readouterr().out
    assert load_model(saved).config["K"] == 2
    assert len(pd.read_csv(history)) == 3
    assert plot.read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("model", "flags", "config"),
    [
        ("SAGN", ["--num-heads", "2", "--attention-dropout", "0.1"],
         {"num_heads": 2, "attention_dropout": 0.1}),
        ("GAMLP", ["--mode", "jk", "--no-residual", "--input-dropout", "0.3"],
         {"mode": "jk", "residual": False, "input_dropout": 0.3}),
        ("FSGNN", ["--normalization", "layer"], {"normalization": "layer"}),
        ("LCGPRGNN", ["--normalization", "batch", "--residual",
                      "--sampled-hops", "2"],
         {"normalization": "batch", "residual": True, "sampled_hops": 2}),
        ("SGC", ["--input-dropout", "0.5"], {"input_dropout": 0.5}),
    ],
)  # fmt: skip
def test_train_a_model_with_options(model, flags, config, npz, tmp_path):
    saved, plot = tmp_path / "model.pt", tmp_path / "course.svg"
    assert not train(
        "--model", model, "--data", npz[0], "--hops", "2", "--save", saved,
        "--plots", plot, *flags,
    )  # fmt: skip
    found = load_model(saved).config
    assert {"K": 2, **config}.items() <= found.items()
    assert plot.stat().st_size > 1000


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--num-heads", "2"], "SGC has no option num_heads"),
        (["--attention-dropout", "1"], "should be at least 0 and below 1"),
        (["--model", "GAMLP", "--mode", "max"], "'recursive' or 'jk'"),
        (["--model", "LCX"], "'LCX' is not one of GCN"),
        (["--model", "autoGCN"], "'autoGCN' is not one of GCN"),
        (["--data", "nowhere"], "nowhere"),
        (["--model", "GCN", "--save", "x.pt"], "--save: GCN is an original"),
        (["--model", "GCN", "--store", "x"], "--store: GCN is an original"),
        (["--alpha", "0.5"], "SGC has no option alpha"),
        (["--lr", "-1"], "--lr: should be above 0, got -1"),
        (["--lr", "nan"], "--lr: should be a finite number"),
        (["--weight-decay", "-1"], "--weight-decay: should be at least 0"),
        (["--seed", "-1"], "--seed: should be at least 0"),
        (["--dropout", "1.5"], "--dropout: should be at least 0 and below 1"),
        (["--dprate", "2"], "--dprate: should be at least 0 and below 1"),
        (["--device", "foo"], "--device 'foo' is not known"),
        (["--device", "meta"], "--device 'meta' is not known"),
        (["--norm", "up"], "--norm up should be one of both"),
        (["--memory", "much"], "--memory='much' is not a number of bytes"),
        (["--hops", "100000000"], "--hops: should be at most 1000"),
        (["--model", "LCGCN", "--hops", "2"], "set by --num-layers"),
        (["--num-layers", "2"], "set by --hops"),
        (["--model", "LCGCN", "--hid-feats", "100000000000"],
         "hid_feats=100000000000 needs"),
        (["--data", "synthetic:99999999999999"], "generate a smaller one"),
        (["--no-resume"], "--no-resume is for runs with --checkpoint"),
        (["--plots", "x.txt"], "--plots x.txt should end in .png"),
        (["--store", "a", "--hops-out", "b"], "give one of them"),
        (["--metric", "r2"], "argument --metric: invalid choice"),
        (["--monitor", "f1"], "argument --monitor: invalid choice"),
        (["--metric", "macro_f1", "--monitor", "accuracy"],
         "--monitor accuracy: the metric is macro_f1"),
        (["--metric", "roc_auc"], "is for two classes, 0 and 1"),
        (["--class-weight", "even"], "argument --class-weight: invalid choice"),
        (["--precision", "fp16"], "argument --precision: invalid choice"),
        (["--clip-norm", "0"], "--clip-norm: should be above 0, got 0"),
        (["--consistency", "-1"], "--consistency: should be at least 0"),
        (["--stages", "0"], "--stages: should be at least 1, got 0"),
        (["--stages", "2", "--threshold", "1.1"],
         "--threshold: should be between 0 and 1, got 1.1"),
        (["--threshold", "0.5"], "--threshold is for runs with --stages"),
    ],
)  # fmt: skip
def test_bad_flags_are_named(flags, message, refused):
    call = ["train", "--model", "SGC", "--data", "synthetic:300"]
    assert message in refused(*call, *flags)


def test_metrics_are_those_of_classes():
    assert METRICS == CLASS_METRICS


def test_options_of_the_loss_and_stages(npz, tmp_path, capsys):
    history, file = tmp_path / "epochs.csv", tmp_path / "run.pt"
    call = [
        "--model", "LCGCN", "--data", npz[0], "--monitor", "macro_f1",
        "--class-weight", "balanced", "--precision", "bf16", "--clip-norm", 1,
        "--consistency", "0.5", "--stages", 2, "--threshold", 0,
        "--history", history, "--plots", tmp_path / "course.png",
        "--checkpoint", file,
    ]  # fmt: skip
    assert not train(*call)
    said = capsys.readouterr().out
    assert "validation macro_f1 " in said
    assert "test macro_f1 0." in said
    rows = pd.read_csv(history)
    assert rows.stage.tolist() == [1, 1, 1, 2, 2, 2]
    assert rows.pseudo.iloc[-1] == len(npz[1].test)
    assert (rows.train_consistency > 0).all()
    assert os.listdir(tmp_path).count("run.pt") == 1
    # The same command only reads the finished stages.
    assert not train(*call)
    again = capsys.readouterr().out
    assert again[again.index("best of") :] == said[said.index("best of") :]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_does_not_exist_is_named(refused):
    call = ["train", "--model", "SGC", "--data", "synthetic:300"]
    assert "cannot be used" in refused(*call, "--device", "cuda")


# Outputs


@pytest.mark.parametrize("flag", ["save", "history", "plots", "checkpoint"])
def test_outputs_that_can_not_be_written_are_named_first(
    flag, tmp_path, refused
):
    (tmp_path / "file").write_text("")
    folder = tmp_path / "folder.png"
    (folder / "training.png").mkdir(parents=True)
    call = ["train", "--model", "SGC", "--data", "nowhere", f"--{flag}"]
    below = refused(*call, tmp_path / "file" / "out.png")
    assert f"--{flag} {tmp_path / 'file'}" in below
    assert f"--{flag} {folder}" in refused(*call, folder)
    assert sorted(os.listdir(tmp_path)) == ["file", "folder.png"]


@pytest.mark.parametrize("flag", ["save", "history", "plots"])
def test_files_of_others_are_not_replaced(flag, tmp_path, refused):
    mine = tmp_path / "mine.png"
    mine.write_text("precious")
    call = ["train", "--model", "SGC", "--data", "nowhere", f"--{flag}", mine]
    assert "dgl-lc" in refused(*call)
    assert mine.read_text() == "precious"


def test_two_outputs_may_not_be_one_file(tmp_path, refused):
    call = ["train", "--model", "SGC", "--data", "nowhere"]
    file = tmp_path / "one"
    message = refused(*call, "--save", file, "--history", file)
    assert "--save and --history name one file" in message


def test_saving_to_a_folder_leaves_nothing(tmp_path, refused):
    folder = tmp_path / "folder"
    folder.mkdir()
    call = ["train", "--model", "SGC", "--data", "nowhere", "--save", folder]
    assert "is a folder" in refused(*call)
    assert os.listdir(tmp_path) == ["folder"]
    assert os.listdir(folder) == []


# Checkpoints


def test_a_checkpoint_of_other_data_or_options_is_refused(
    npz, tmp_path, refused, capsys
):
    save_npz(block_model(200, num_feats=8, seed=5), tmp_path / "other.npz")
    source, target = npz[1].graph.edges()
    one_way = dgl.graph((source[source < target], target[source < target]))
    save_npz(replace(npz[1], graph=one_way), npz[0])
    call = ["--model", "LCGPRGNN", "--hops", "2", "--dropout", "0.5",
            "--checkpoint", tmp_path / "run.pt", "--data"]  # fmt: skip
    assert not train(*call, npz[0])
    for changed, message in (
        ([tmp_path / "other.npz"], "its training nodes"),
        ([npz[0], "--dropout", "0.1"], "model's dropout is 0.5, that of this"),
        ([npz[0], "--add-reverse"], "the graph or the features"),
    ):
        text = refused("train", *SHORT, *call, *changed)
        assert message in text
        assert "--no-resume" in text
        assert len(text) < 500
    capsys.readouterr()
    assert not train(*call, npz[0], "--dropout", "0.1", "--no-resume")
    assert "best of 3 epochs" in capsys.readouterr().out


def test_a_text_file_is_no_checkpoint(npz, tmp_path, refused):
    (tmp_path / "run.pt").write_text("some text")
    call = ["train", *SHORT, "--model", "SGC", "--data", npz[0]]
    for more in ([], ["--no-resume"]):
        flags = ["--checkpoint", tmp_path / "run.pt", *more]
        assert "dgl-lc" in refused(*call, *flags)
    assert (tmp_path / "run.pt").read_text() == "some text"


def test_ctrl_c_keeps_the_last_whole_epoch(tmp_path):
    file = tmp_path / "run.pt"
    call = [sys.executable, "-m", "dgl_lc", "train", "--model", "LCGPRGNN",
            "--data", "synthetic:2000", "--epochs", "2000", "--patience",
            "2000", "--checkpoint", str(file)]  # fmt: skip
    for seconds in (1, 5, 30):
        with subprocess.Popen(call, stderr=subprocess.PIPE, text=True) as run:
            lock = tmp_path / ".run.pt.lock"
            while not lock.exists():
                assert run.poll() is None
                time.sleep(0.1)
            time.sleep(seconds)
            run.send_signal(signal.SIGINT)
            _, errors = run.communicate()
        assert run.returncode == 130
        assert "interrupted" in errors.splitlines()[-1]
        assert "Traceback" not in errors
        if file.exists():
            break
        # On a busy machine the first epoch was not finished yet.
        lock.unlink(missing_ok=True)
    assert file.stat().st_size > 0


# Stores


def test_a_store_that_was_made_before_is_read(task, tmp_path, capsys):
    call = ["precompute", "--data", str(task), "--hops", "3", "--out",
            str(tmp_path / "hops"), "--split-only"]  # fmt: skip
    assert main(call) == 0
    # On another machine: other paths, and other times of the files.
    shutil.copytree(task, tmp_path / "task")
    shutil.copytree(tmp_path / "hops", tmp_path / "moved")
    flags = ["--model", "LCGPRGNN", "--hops", "2"]
    capsys.readouterr()
    assert not train(
        *flags, "--data", tmp_path / "task", "--store", tmp_path / "moved"
    )
    with_store = capsys.readouterr().out
    assert "precomputation" not in with_store
    assert not train(*flags, "--data", task)
    without = capsys.readouterr().out
    assert "hop features in memory" in without
    assert with_store.splitlines()[-1] == without.splitlines()[-1]


def test_hop_features_are_written_to_a_folder(task, tmp_path, capsys):
    call = ["--model", "SGC", "--data", task, "--hops-out", tmp_path / "hops"]
    assert not train(*call)
    assert f"hop features in {tmp_path / 'hops'}" in capsys.readouterr().out
    data = DiskData(task)
    rows = len(data.train) + len(data.valid) + len(data.test)
    assert open_store(tmp_path / "hops").shape[0] == rows


def test_hop_features_that_do_not_fit_are_refused(task, refused):
    call = ["train", "--model", "LCGPRGNN", "--data", task, "--hops", "1000"]
    message = refused(*call, "--memory", "256KiB")
    assert "--hops-out" in message


def test_stores_of_other_data_are_refused(npz, tmp_path, refused):
    path, data = npz
    call = ["train", "--model", "SGC", "--data", path, "--store"]
    block_aggregate(data.graph, data.feat + 1, 2, out=tmp_path / "feat")
    message = refused(*call, tmp_path / "feat")
    assert "not made from the features of synthetic" in message
    other = block_model(200, num_feats=8, seed=9)
    block_aggregate(other.graph, data.feat, 2, out=tmp_path / "graph")
    message = refused(*call, tmp_path / "graph")
    assert "not made from the graph of synthetic" in message
    assert "does not exist" in refused(*call, tmp_path / "nowhere")


def test_a_store_has_to_suit_the_model(npz, tmp_path, refused):
    path, data = npz
    call = ["train", "--data", path, "--store"]
    block_aggregate(data.graph, data.feat, 2, out=tmp_path / "hops")
    flags = ["--model", "LCGPRGNN", "--hops", "3"]
    assert "lack [3]" in refused(*call, tmp_path / "hops", *flags)
    flags = ["--model", "SGC", "--norm", "right"]
    assert "norm='right'" in refused(*call, tmp_path / "hops", *flags)
    assert not train(*call[1:], tmp_path / "hops", "--model", "SGC")


def test_nodes_without_rows_are_counted(npz, tmp_path, refused):
    path, data = npz
    nodes = torch.cat([data.train[3:], data.valid[2:], data.test])
    out = tmp_path / "hops"
    block_aggregate(data.graph, data.feat, 2, nodes=nodes, out=out)
    call = ["train", "--model", "SGC", "--data", path, "--store", out]
    message = refused(*call)
    assert f"3 of {len(data.train)} training nodes" in message
    assert f"2 of {len(data.valid)} validation nodes:" in message
    assert "dgl-lc store extend" in message


def test_an_inductive_task_has_no_store(npz, tmp_path, refused):
    _, data = npz
    data.inductive = True
    save_npz(data, tmp_path / "inductive.npz")
    call = ["train", "--model", "SGC", "--data", tmp_path / "inductive.npz"]
    assert "is inductive" in refused(*call, "--hops-out", tmp_path / "hops")


def test_class_names_are_saved_with_the_model(npz, tmp_path, monkeypatch):
    _, data = npz
    data.class_names = [f"class {i}" for i in range(data.num_classes)]
    monkeypatch.setattr("dgl_lc.data.open_data", lambda *_, **__: data)
    saved = tmp_path / "model.pt"
    assert not train("--model", "SGC", "--data", "x", "--save", saved)
    known = load_model(saved).trained_on
    assert list(known.class_names) == data.class_names
