"""``dgl-lc precompute``."""

import numpy as np
import pytest
import torch

from dgl_lc.cli import main
from dgl_lc.data import (
    block_model,
    prepare_ogb,
    save_npz,
    write_papers_like,
)
from dgl_lc.precompute import open_store


def test_precompute_a_file(tmp_path, capsys):
    save_npz(block_model(300, 3, 8), tmp_path / "g.npz")
    call = ["precompute", "--data", str(tmp_path / "g.npz"), "--hops", "2",
            "--out", str(tmp_path / "hops"), "--memory", "64MiB",
            "--split-only"]  # fmt: skip
    assert main(call) == 0
    assert "hops=[0, 1, 2], rows=300" in capsys.readouterr().out
    assert open_store(tmp_path / "hops").shape[0] == 300


def test_precompute_on_disk(tmp_path, capsys):
    write_papers_like(tmp_path / "raw", 1e-5, feat_dim=4)
    prepare_ogb(tmp_path / "raw", tmp_path / "data", memory="64MiB")
    call = ["precompute", "--data", str(tmp_path / "data"), "--hops", "1",
            "--out", str(tmp_path / "hops"), "--dtype", "float16"]  # fmt: skip
    assert main(call) == 0
    assert "DiskData" in capsys.readouterr().out
    assert open_store(tmp_path / "hops").dtype == torch.float16


def test_a_folder_named_graph_beside_npy_files_does_not_matter(tmp_path):
    data = block_model(60, 3, 8)
    np.save(tmp_path / "edges.npy", torch.stack(data.graph.edges()).numpy())
    for name in ("feat", "labels", "train", "valid", "test"):
        np.save(tmp_path / f"{name}.npy", getattr(data, name).numpy())
    (tmp_path / "graph").mkdir()
    out = tmp_path / "hops"
    call = [
        "precompute",
        "--data",
        str(tmp_path),
        "--hops",
        "1",
        "--out",
        str(out),
    ]
    assert main(call) == 0
    assert open_store(out).shape[0] == 60


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--hops", "100000000"], "--hops: should be at most 1000"),
        (["--hops", "-1"], "--hops: should be at least 0"),
        (["--device", "foo"], "--device"),
        (["--memory", "much"], "--memory"),
        (["--memory", "1KiB"], "is too small"),
        (["--out", "/proc/hops"], "--out /proc/hops"),
        (["--data", "nowhere"], "nowhere"),
    ],
)
def test_bad_flags_are_named(flags, message, tmp_path, refused):
    call = ["precompute", "--data", "synthetic:300", "--hops", "2", "--out"]
    assert message in refused(*call, tmp_path / "hops", *flags)
    assert not (tmp_path / "hops").exists()


def test_a_file_is_not_a_folder(tmp_path, refused):
    (tmp_path / "file").write_text("precious")
    call = ["precompute", "--data", "synthetic:300", "--hops", "2", "--out"]
    assert "is a file" in refused(*call, tmp_path / "file")
    assert (tmp_path / "file").read_text() == "precious"


def test_a_store_of_another_file_is_written_again_on_request(tmp_path, capsys):
    call = ["precompute", "--data", str(tmp_path / "g.npz"), "--hops", "1",
            "--out", str(tmp_path / "hops")]  # fmt: skip
    save_npz(block_model(60, 3, 8), tmp_path / "g.npz")
    assert main(call) == 0
    save_npz(block_model(90, 3, 8), tmp_path / "g.npz")
    assert main(call) == 2
    assert "again with --no-resume" in capsys.readouterr().err
    assert main([*call, "--no-resume"]) == 0
    assert open_store(tmp_path / "hops").shape[0] == 90
