"""``dgl-lc prepare``."""

import numpy as np
import pytest
import torch

from dgl_lc.cli import main
from dgl_lc.cli.prepare import STORED
from dgl_lc.data import DiskData
from dgl_lc.storage import disk_features

pytest.importorskip("pyarrow")


@pytest.fixture
def files(tmp_path):
    (tmp_path / "e.csv").write_text("from;to;w\nb;a;0.5\na;c;2\n")
    np.save(tmp_path / "x.npy", np.eye(3, dtype=np.float32))
    (tmp_path / "n.csv").write_text("name;color\na;red\nb;\nc;blue\n")
    return tmp_path


def call(files, *more):
    return main(
        ["prepare", "--edges", f"{files}/e.csv", "--features",
         f"{files}/x.npy", "--nodes", f"{files}/n.csv", "--id-column", "name",
         "--label-column", "color", "--out", f"{files}/out", *more]
    )  # fmt: skip


def test_files_become_a_task(files, capsys):
    assert call(files, "--weight-column", "w", "--dtype", "bfloat16") == 0
    out = capsys.readouterr().out
    assert "3 nodes, 2 weighted edges" in out
    assert "edges: source 'from', target 'to', weight 'w'; the first" in out
    assert "nodes: id 'name'; the first row is a header" in out
    assert "labels: column 'color' of the nodes" in out
    data = DiskData(files / "out")
    assert data.ids_of([0, 2]).tolist() == ["a", "c"]
    assert data.class_names == ["blue", "red"]
    assert data.labels.tolist() == [1, -1, 0]
    assert data.graph.weights.tolist() == [0.5, 2]
    assert data.feat.dtype == torch.bfloat16
    assert call(files, "--weight-column", "w", "--dtype", "bfloat16") == 0
    assert call(files) == 2
    text = capsys.readouterr().err
    assert "dtype" in text
    assert "or write this one again with --no-resume." in text
    assert call(files, "--no-resume") == 0
    assert DiskData(files / "out").graph.weights is None


def test_parts_of_a_split_are_files(files):
    for name, text in (("train", "a\n"), ("test", "c\n")):
        (files / f"{name}.csv").write_text(text)
    parts = [f"train={files}/train.csv", f"test={files}/test.csv"]
    assert call(files, "--split", *parts) == 0
    data = DiskData(files / "out")
    assert (data.train.tolist(), data.test.tolist()) == ([0], [2])
    assert len(data.valid) == 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--split", "train=a", "b"], "--split 'b'"),
        (["--split", "0.5,0.5"], "three positive fractions"),
        (["--delimiter", "::"], "--delimiter"),
        (["--source-column", "x"], "--source-column: "),
        (["--memory", "lots"], "--memory='lots'"),
        (["--memory", "1MiB"], "--memory=1 MiB is too small"),
        (["--seed", "-1"], "--seed"),
    ],
)
def test_bad_flags_are_one_line(files, capsys, flags, message):
    try:
        code = call(files, *flags)
    except SystemExit as error:
        code = error.code
    assert code == 2
    text = capsys.readouterr().err
    assert message in text
    assert text.count("\n") == 1


def test_the_types_are_those_of_the_storage():
    assert STORED == disk_features.STORED
