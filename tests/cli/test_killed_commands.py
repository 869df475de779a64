"""``train`` and ``predict``, killed again and again."""

import random
import signal
import subprocess
import sys
import time

import pytest
import torch

from dgl_lc.cli import main
from dgl_lc.data import block_model, save_npz
from dgl_lc.training import load_model

KILLS = 20


def run(command, seconds=None):
    """Whether a command came to its end before it was killed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "dgl_lc", *map(str, command)],
        stdout=subprocess.DEVNULL,
    )
    try:
        assert process.wait(seconds) == 0
        return True
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
        return False


def kill_often(make_command):
    """Run a command, killed again and again; return how often it ended."""
    start = time.monotonic()
    assert run(make_command("calm"))
    whole = time.monotonic() - start
    rng = random.Random(0)
    kills = ended = 0
    while kills < KILLS:
        # Python and torch take seconds to start: those are not interesting.
        seconds = rng.uniform(0.5, 0.97) * whole
        if run(make_command(f"run{ended}"), seconds):
            ended += 1
        else:
            kills += 1
    assert run(make_command(f"run{ended}"))
    print(f"killed {kills} times, came to its end {ended + 1} times")
    return ended + 1


@pytest.fixture
def task(tmp_path):
    """A task in an npz file, and a hop store of it."""
    source, store = tmp_path / "task.npz", tmp_path / "hops"
    save_npz(block_model(20_000, 4, 32), source)
    call = ["precompute", "--data", source, "--hops", 3, "--out", store]
    assert main([str(part) for part in call]) == 0
    return ["--data", source, "--store", store]


def train(task, folder, epochs):
    return [
        "train", *task, "--model", "LCGPRGNN", "--hops", 3, "--epochs", epochs,
        "--dropout", 0.3, "--checkpoint", f"{folder}/run.pt",
        "--save", f"{folder}/model.pt",
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_train_killed_twenty_times(task, tmp_path):
    ended = kill_often(lambda name: train(task, tmp_path / name, 12))
    expected = load_model(tmp_path / "calm/model.pt").state_dict()
    for number in range(ended):
        found = load_model(tmp_path / f"run{number}/model.pt").state_dict()
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[k], expected[k]) for k in expected)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_predict_killed_twenty_times(task, tmp_path):
    assert run(train(task, tmp_path, 1))

    def predict(name):
        return ["predict", *task, "--model", tmp_path / "model.pt",
                "--probabilities", "--batch-size", 64, "--overwrite",
                "--out", tmp_path / name / "p.csv"]  # fmt: skip

    ended = kill_often(predict)
    expected = (tmp_path / "calm/p.csv").read_bytes()
    assert expected.count(b"\n") == 20_001
    for number in range(ended):
        folder = tmp_path / f"run{number}"
        assert (folder / "p.csv").read_bytes() == expected
        left = [path.name for path in folder.iterdir()]
        # What a killed run was writing lies beside it, under another name.
        assert all(name == "p.csv" or ".part" in name for name in left)
