"""``dgl-lc tune``."""

import os
import signal
import subprocess
import sys
import time

import pytest

from dgl_lc.cli import main


def test_the_best_parameters_are_printed(tmp_path, short_flags, capsys):
    call = ["tune", "SGC", "synthetic:200", "--trials", "1",
            "--out", str(tmp_path), *short_flags]  # fmt: skip
    assert main(call) == 0
    text = capsys.readouterr().out
    assert "SGC on synthetic-200: validation accuracy" in text
    assert "\n  lr  " in text
    assert "1 of 1 trials: validation accuracy" in text
    assert "1 trials (1 of them different, 0 pruned)" in text


def test_a_killed_process_leaves_the_study_readable(tmp_path, short_flags):
    call = [
        sys.executable, "-m", "dgl_lc.cli", "tune", "LCGPRGNN",
        "synthetic:200", "--trials", "50", "--out", str(tmp_path),
        "--epochs", "2000", "--patience", "2000", "--hid-feats", "8",
        "--batch-size", "64",
    ]  # fmt: skip
    process = subprocess.Popen(call, stdout=subprocess.DEVNULL)
    while not (tmp_path / "studies.db").exists():
        assert process.poll() is None
        time.sleep(0.1)
    time.sleep(1)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    call = ["tune", "SGC", "synthetic:200", "--trials", "1",
            "--out", str(tmp_path), *short_flags]  # fmt: skip
    assert main(call) == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (["LCGNC", "x.npz"], "Did you mean 'LCGCN'?"),
        (["gcn", "x.npz"], "Did you mean 'GCN'?"),
        (["SGC", "citeser"], "Did you mean 'citeseer'?"),
        (["SGC", "synthetic", "--trials", "0"], "--trials"),
        (["SGC", "synthetic", "--seed", "-1"], "--seed"),
        (["SGC", "synthetic:99999999999999"], "of memory"),
        (["SGC", f"synthetic:{'9' * 5000}"], "write a number of nodes"),
        (["SGC", "synthetic", "--workers", "0"], "--workers"),
    ],
)
def test_bad_input_is_named(call, message, tmp_path, refused):
    assert message in refused("tune", *call, "--out", str(tmp_path))
