"""The command ``dgl-lc``."""

import subprocess
import sys

import pandas as pd
import pytest
import torch

import dgl_lc
from dgl_lc.cli import main
from dgl_lc.data import (
    block_model,
    prepare_ogb,
    save_npz,
    write_papers_like,
)
from dgl_lc.experiments.compare_models import MODELS as DEMO_MODELS
from dgl_lc.precompute import open_store
from dgl_lc.training import load_model

SIZES = ["--nodes", "111059956", "--edges", "1615685872", "--feats", "128"]


def test_plan_of_papers100m(capsys):
    assert main(["plan", *SIZES, "--hops", "3", "--memory", "32GiB"]) == 0
    text = capsys.readouterr().out
    assert "111,059,956 nodes, 1,615,685,872 edges" in text
    assert "fewest bytes" in text


def test_plan_that_does_not_fit_says_what_would(capsys):
    call = ["plan", *SIZES, "--hops", "3", "--memory", "32GiB"]
    assert main([*call, "--device", "cpu"]) == 2
    error = capsys.readouterr().err
    assert "is too small" in error
    assert "would be enough" in error


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--memory", "big"], "--memory='big'"),
        (["--hops", "0"], "--hops should be at least 1"),
        (["--keep", "0"], "--keep should be from 1"),
    ],
)
def test_bad_flags_are_named(flags, message, capsys):
    call = ["plan", *SIZES, "--hops", "3", "--memory", "32GiB", *flags]
    assert main(call) == 2
    assert message in capsys.readouterr().err


def test_demo_trains_every_model_and_saves_what_it_shows(tmp_path, capsys):
    out = tmp_path / "demo"
    call = ["demo", "--nodes", "300", "--epochs", "3", "--out", str(out)]
    assert main([*call, "--hid-feats", "8"]) == 0
    text = capsys.readouterr().out
    for name in DEMO_MODELS:
        assert f"{name} " in text
    assert "LCGCN against GCN" in text
    frame = pd.read_csv(out / "table.csv")
    assert frame.model.tolist() == list(DEMO_MODELS)
    assert (out / "accuracy.png").read_bytes()[:4] == b"\x89PNG"


def test_train_on_a_file_of_ones_own(tmp_path, capsys):
    data = block_model(200, num_feats=8)
    save_npz(data, tmp_path / "mine.npz")
    saved, history = tmp_path / "model.pt", tmp_path / "history.csv"
    call = [
        "train", "--model", "LCGPRGNN", "--data", str(tmp_path / "mine.npz"),
        "--hops", "2", "--epochs", "3", "--hid-feats", "8",
        "--save", str(saved), "--history", str(history),
        "--checkpoint", str(tmp_path / "run.pt"), "--memory", "1GiB",
    ]  # fmt: skip
    assert main(call) == 0
    assert "test accuracy" in capsys.readouterr().out
    assert load_model(saved).config["K"] == 2
    assert len(pd.read_csv(history)) == 3


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--model", "LCX"], "LCX is not known: choose one of GCN"),
        (["--model", "SGC", "--data", "nowhere"], "nowhere"),
        (["--model", "GCN", "--save", "x.pt"], "--save: GCN is an original"),
        (["--model", "SGC", "--alpha", "0.5"], "SGC has no option alpha"),
    ],
)
def test_bad_flags_of_train_are_named(flags, message, capsys):
    assert main(["train", "--data", "synthetic:300", *flags]) == 2
    assert message in capsys.readouterr().err


def test_calibrate_prints_the_coefficients(capsys):
    assert main(["calibrate"]) == 0
    assert "beta_X" in capsys.readouterr().out


def test_plan_with_measured_coefficients(capsys):
    call = ["plan", *SIZES, "--hops", "2", "--memory", "24GiB"]
    assert main([*call, "--calibrate", "--keep", "1500000"]) == 0
    assert "published" in capsys.readouterr().out


def test_version_from_the_shell():
    found = subprocess.run(
        [sys.executable, "-m", "dgl_lc.cli", "--version"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert found.stdout.strip() == dgl_lc.__version__


def test_precompute_into_a_store(tmp_path, capsys):
    save_npz(block_model(300, 3, 8), tmp_path / "g.npz")
    out = str(tmp_path / "hops")
    call = ["precompute", "--data", str(tmp_path / "g.npz"), "--hops", "2",
            "--out", out, "--memory", "64MiB", "--split-only"]  # fmt: skip
    assert main(call) == 0
    assert "hops=[0, 1, 2], rows=300" in capsys.readouterr().out
    assert main(["store", "info", out]) == 0
    text = capsys.readouterr().out
    assert "300 of some nodes" in text
    assert "norm=both, self_loop=True" in text
    assert main(["store", "verify", out]) == 0
    assert "300 rows are as they were written" in capsys.readouterr().out
    with open(tmp_path / "hops/rows.npy", "r+b") as file:
        file.seek(200)
        byte = file.read(1)[0]
        file.seek(200)
        file.write(bytes([byte ^ 1]))
    assert main(["store", "verify", out]) == 2
    assert "check sums differ" in capsys.readouterr().err


def test_precompute_on_disk(tmp_path, capsys):
    write_papers_like(tmp_path / "raw", 1e-5, feat_dim=4)
    prepare_ogb(tmp_path / "raw", tmp_path / "data", memory="64MiB")
    call = ["precompute", "--data", str(tmp_path / "data"), "--hops", "1",
            "--out", str(tmp_path / "hops"), "--dtype", "float16"]  # fmt: skip
    assert main(call) == 0
    assert "DiskData" in capsys.readouterr().out
    assert open_store(tmp_path / "hops").dtype == torch.float16


def test_what_is_no_store(tmp_path, capsys):
    assert main(["store", "info", str(tmp_path)]) == 2
    assert "is not a hop store" in capsys.readouterr().err


def test_selftest_reports_and_says_whether_all_is_right(capsys, monkeypatch):
    assert main(["selftest", "--device", "cpu", "--nodes", "2000"]) == 0
    text = capsys.readouterr().out
    for word in ("torch.float16", "were taken", "GB/s", "all is right"):
        assert word in text
    assert "FAILED" not in text

    from dgl_lc.precompute.devices.cpu import CpuDevice

    def wrong(self, stream, target, source):
        target.copy_(source)
        target[:1] += 1

    monkeypatch.setattr(CpuDevice, "copy_out", wrong)
    assert main(["selftest", "--device", "cpu", "--nodes", "2000"]) == 1
    assert "FAILED  torch.float32" in capsys.readouterr().out


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_selftest_without_a_gpu_says_why(capsys):
    assert main(["selftest", "--device", "cuda"]) == 1
    assert "cuda cannot be used: " in capsys.readouterr().out
