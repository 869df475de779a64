"""``dgl-lc demo``."""

import pandas as pd

from dgl_lc.cli import main
from dgl_lc.experiments.compare_models import DEMO_MODELS


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


def test_an_output_that_cannot_be_written_is_refused_before_training(
    tmp_path, refused, capsys
):
    (tmp_path / "file").write_text("mine")
    message = refused("demo", "--out", str(tmp_path / "file"))
    assert "is a file, not a folder" in message
    assert (tmp_path / "file").read_text() == "mine"
    assert "--hid-feats" in refused("demo", "--hid-feats", "0")
