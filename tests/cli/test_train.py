"""``dgl-lc train``."""

import pandas as pd
import pytest

from dgl_lc.cli import main
from dgl_lc.data import block_model, save_npz
from dgl_lc.training import load_model


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
        (["--model", "LCX"], "'LCX' is not one of GCN"),
        (["--model", "autoGCN"], "'autoGCN' is not one of GCN"),
        (["--model", "SGC", "--data", "nowhere"], "nowhere"),
        (["--model", "GCN", "--save", "x.pt"], "--save: GCN is an original"),
        (["--model", "SGC", "--alpha", "0.5"], "SGC has no option alpha"),
    ],
)
def test_bad_flags_are_named(flags, message, refused):
    assert message in refused("train", "--data", "synthetic:300", *flags)
