"""Commands under torchrun: who prints and writes, and what is refused."""

import contextlib
import filecmp
import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch.distributed as dist

from dgl_lc.cli import main
from dgl_lc.data import block_model, save_npz
from dgl_lc.testing.run_ranks import run_ranks
from dgl_lc.training import load_model

LAUNCHER = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK")


@pytest.fixture
def task(tmp_path):
    path = tmp_path / "task.npz"
    save_npz(block_model(300, num_feats=8, seed=3), path)
    return path


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        ({"WORLD_SIZE": "2"}, "RANK and MASTER_ADDR and MASTER_PORT are not"),
        ({"WORLD_SIZE": "2", "RANK": "0", "MASTER_PORT": "1"},
         "MASTER_ADDR is not set: start the ranks with torchrun"),
        ({"WORLD_SIZE": "two"}, "WORLD_SIZE='two'"),
        ({"WORLD_SIZE": "2", "RANK": "2", "MASTER_PORT": "1",
          "MASTER_ADDR": "127.0.0.1"}, "RANK should be below WORLD_SIZE"),
        ({"TORCHELASTIC_RUN_ID": "x"}, "has not set WORLD_SIZE"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", ["train", "predict"])
def test_an_environment_that_is_no_launchers_is_refused(
    refused, monkeypatch, task, variables, text, command
):
    for name in (*LAUNCHER, "TORCHELASTIC_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    flags = {
        "train": ["--model", "SGC"], "predict": ["--model", "m", "--out", "p"]
    }  # fmt: skip
    assert text in refused(command, "--data", task, *flags[command])


def _command(words):
    """Run a command on this rank; give its exit code and what it prints."""
    rank, size = dist.get_rank(), dist.get_world_size()
    os.environ.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(size),
        MASTER_ADDR="127.0.0.1", MASTER_PORT="1",
    )  # fmt: skip
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        codes = [main([str(word) for word in each]) for each in words]
    return codes, out.getvalue(), err.getvalue()


def _precompute(task, out, *flags):
    return ["precompute", "--data", task, "--hops", 2, "--out", out, *flags]


def test_a_mesh_of_ranks_is_a_flag(task, tmp_path):
    one, many = tmp_path / "one", tmp_path / "many"
    assert main([str(word) for word in _precompute(task, one)]) == 0
    words = [
        _precompute(task, many, "--split", "2x2"),
        _precompute(task, tmp_path / "bad", "--split", "3x2"),
    ]
    (codes, out, err), *others = run_ranks(4, _command, words)
    assert codes == [0, 2]
    assert [own[0] for own in others] == [[0, 2]] * 3
    assert "StoredHops" in out
    assert "--split 3x2: the product of the two" in err
    assert filecmp.cmp(one / "rows.npy", many / "rows.npy", False)


def _words(task, folder, batch_size, *more):
    """Give the commands that train and predict with a store."""
    store = task.with_name("hops")
    if not store.exists():
        made = ["precompute", "--data", task, "--hops", 2, "--out", store]
        assert main([str(word) for word in made]) == 0
    folder.mkdir()
    more = ("--store", store, *more)
    return [
        ["train", "--data", task, "--model", "LCGCN", "--hid-feats", "8",
         "--epochs", "3", "--batch-size", batch_size, "--save",
         folder / "m.pt", "--history", folder / "h.csv", "--checkpoint",
         folder / "c.pt", *more],
        ["predict", "--data", task, "--model", folder / "m.pt", "--out",
         folder / "p.npy", "--probabilities"],
    ]  # fmt: skip


def test_ranks_train_and_predict_as_one_process(task, tmp_path, capsys):
    one, both = tmp_path / "one", tmp_path / "both"
    for words in _words(task, one, 64):
        assert main([str(word) for word in words]) == 0
    (codes, out, err), other = run_ranks(2, _command, _words(task, both, 32))
    assert (codes, other[0]) == ([0, 0], [0, 0])
    assert "2 ranks, 32 nodes per batch of each" in out
    assert "test accuracy" in out
    assert (other[1], err, other[2]) == ("", "", "")
    names = sorted(path.name for path in both.iterdir())
    assert names == ["c.pt", "h.csv", "m.pt", "p.npy"]
    np.testing.assert_allclose(
        np.load(both / "p.npy"), np.load(one / "p.npy"), atol=1e-4
    )
    histories = [pd.read_csv(own / "h.csv") for own in (one, both)]
    np.testing.assert_allclose(
        histories[1].valid_loss, histories[0].valid_loss, rtol=1e-4
    )
    assert load_model(both / "m.pt").config["out_feats"] > 1


def test_ranks_compute_the_rows_that_they_need(task, tmp_path):
    words = _words(task, tmp_path / "f", 32)
    place = words[0].index("--store")
    del words[0][place : place + 2]
    (codes, out, _), _ = run_ranks(2, _command, words)
    assert codes == [0, 0]
    assert "hop features in memory" in out
    assert "hop features of 300 were computed" in out
    assert len(np.load(tmp_path / "f" / "p.npy")) == 300


def test_an_error_is_said_by_rank_0(task, tmp_path):
    words = _words(task, tmp_path / "f", 32)[:1]
    words[0] += ["--history", str(tmp_path)]
    (code, _, first), (other, _, second) = run_ranks(2, _command, words)
    assert (code, other) == ([2], [2])
    assert first.count("\n") == 1
    assert "is a folder" in first
    assert second == ""
    words = [["train", "--data", str(task), "--model", "GCN"]]
    (_, _, first), (_, _, second) = run_ranks(2, _command, words)
    assert "inputs is a graph with its features" in first
    assert second == first.replace("dgl-lc: ", "dgl-lc: rank 1: ")


KILLED = """
import os, pathlib, signal, sys
from dgl_lc.cli import main
from dgl_lc.training import epochs, ranks_run

epochs._CHECKPOINT_SECONDS = 0.0
marker = pathlib.Path(sys.argv[1])
train = ranks_run.RanksRun._train

def killed(self, source):
    if self.epoch == 4 and os.environ["RANK"] == "1" and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return train(self, source)

ranks_run.RanksRun._train = killed
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.slow
def test_torchrun_restarts_from_the_checkpoint(task, tmp_path):
    expected, _ = _words(task, tmp_path / "one", 64, "--epochs", "8")
    assert main([str(word) for word in expected]) == 0
    words, _ = _words(task, tmp_path / "both", 32, "--epochs", "8")
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    marker = tmp_path / "marker"
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    for name in LAUNCHER:
        environment.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone",
         "--nproc-per-node", "2", "--max-restarts", "1", script, marker,
         *map(str, words)],
        env=environment, capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert marker.exists()
    assert "find_unused_parameters" not in done.stderr
    assert done.stdout.count("test accuracy") == 1
    histories = [
        pd.read_csv(tmp_path / name / "h.csv") for name in ("one", "both")
    ]
    assert len(histories[1]) == 8
    np.testing.assert_allclose(
        histories[1].valid_loss, histories[0].valid_loss, rtol=1e-4
    )
