"""``dgl-lc demo``."""

import re

import pandas as pd

from dgl_lc.cli import main
from dgl_lc.experiments.demo_settings import FAMILIES

NAMES = [name for family in FAMILIES.values() for name in family]


def test_demo_trains_every_model_and_saves_what_it_shows(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    call = ["demo", "--nodes", "300", "--epochs", "3", "--out", "demo"]
    call += ["--hid-feats", "8", "--seeds", "2"]
    assert main(call) == 0
    text = capsys.readouterr().out
    for name in NAMES:
        assert f"{name} " in text
    assert text.count("compiled the kernels") == 1
    assert "LCGCN against GCN" in text
    out = tmp_path / "demo"
    frame = pd.read_csv(out / "table.csv")
    assert frame.model.tolist() == NAMES
    assert (frame.runs == 2).all()
    assert (out / "accuracy.png").read_bytes()[:4] == b"\x89PNG"
    page = (out / "index.html").read_text()
    assert "data:image/png;base64," in page
    # It is one file: nothing is fetched.
    assert not re.findall(r'(?:src|href)="(?!data:)', page)
    for value in re.findall(r"\d+\.\d+ \(\d+\.\d+\) %", text):
        assert value in page
    # What it says to try next can be tried, in this order.
    _, _, after = text.partition("try next:\n")
    commands = [line.split("#")[0].split() for line in after.splitlines()]
    assert [words[:2] for words in commands] == [
        ["dgl-lc", "train"], ["dgl-lc", "predict"], ["dgl-lc", "prepare"]
    ]  # fmt: skip
    for words in commands[:2]:
        words = ["2" if word == "100" else word for word in words]
        assert main(words[1:]) == 0
    assert (out / "predictions.csv").is_file()
    # Its own folder is written again, also with other options.
    assert main([*call, "--seed", "1", "--seeds", "1"]) == 0


def test_an_output_that_cannot_be_written_is_refused_before_training(
    tmp_path, refused
):
    (tmp_path / "file").write_text("mine")
    message = refused("demo", "--out", str(tmp_path / "file"))
    assert "is a file, not a folder" in message
    assert (tmp_path / "file").read_text() == "mine"
    assert "--hid-feats" in refused("demo", "--hid-feats", "0")


def test_a_folder_with_other_files_is_refused(tmp_path, refused):
    (tmp_path / "table.csv").write_text("mine")
    message = refused("demo", "--out", str(tmp_path))
    assert "files that the demo did not write" in message
    (tmp_path / "index.html").write_text("mine as well")
    refused("demo", "--out", str(tmp_path))
    assert (tmp_path / "table.csv").read_text() == "mine"
