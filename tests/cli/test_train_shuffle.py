"""``dgl-lc train --shuffle``."""

import logging

from dgl_lc.cli import main
from dgl_lc.data import block_model, save_npz

DATA = block_model(200, num_feats=8)


def test_the_command_says_how_it_shuffles(tmp_path, capsys):
    save_npz(DATA, tmp_path / "task.npz")
    call = [
        "train", "--model", "SGC", "--data", str(tmp_path / "task.npz"),
        "--epochs", "2", "--hops-out", str(tmp_path / "hops"),
    ]  # fmt: skip
    assert main(call) == 0
    assert "training rows are mapped from disk (" in capsys.readouterr().out
    call += ["--shuffle", "chunks", "--shuffle-buffer", "64KiB"]
    assert main(call) == 0
    printed = capsys.readouterr().out
    assert "training rows are read from disk (" in printed
    assert "shuffled in chunks of" in printed
    log = logging.getLogger("dgl_lc")
    assert not log.handlers


def test_commands_that_train_many_models_do_not_say_it(tmp_path, capsys):
    call = [
        "demo", "--nodes", "200", "--epochs", "2", "--seeds", "1",
        "--out", str(tmp_path / "demo"),
    ]  # fmt: skip
    assert main(call) == 0
    assert "training rows" not in capsys.readouterr().out


def test_the_command_refuses_a_buffer_that_is_not_used(tmp_path, refused):
    call = ["train", "--model", "SGC", "--data", "x", "--shuffle", "full"]
    assert "--shuffle-buffer is for" in refused(
        *call, "--shuffle-buffer", "1GiB"
    )
