"""Features in column blocks on disk."""

import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from dgl import DGLError
from hypothesis import given
from hypothesis import strategies as st

from dgl_lc.data import DiskFeatures, write_features
from dgl_lc.storage import folder as disk_folder
from dgl_lc.storage.npz_stream import Member
from dgl_lc.testing.folders import folder_content


def rows(n=300, d=37, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)).astype(dtype)


@given(
    n=st.integers(1, 200),
    d=st.integers(1, 40),
    width=st.sampled_from([1, 3, 16, 64]),
    dtype=st.sampled_from([torch.float32, torch.float16, torch.bfloat16]),
    stored=st.sampled_from(["f2", "f4", "f8", ">f4"]),
    kind=st.sampled_from(["npy", "npz", "packed", "fortran"]),
    data=st.data(),
)
def test_blocks_are_the_columns(
    tmp_path_factory, n, d, width, dtype, stored, kind, data
):
    folder = tmp_path_factory.mktemp("feat")
    x = rows(n, d, stored)
    path = folder / ("feat.npy" if kind in ("npy", "fortran") else "feat.npz")
    if kind == "npz":
        np.savez(path, node_feat=x)
    elif kind == "packed":
        np.savez_compressed(path, node_feat=x)
    else:
        np.save(path, np.asfortranarray(x) if kind == "fortran" else x)
    feat = write_features(
        path, folder / "feat", width=width, dtype=dtype, memory=2_110_000
    )
    wanted = torch.from_numpy(x.astype(x.dtype.newbyteorder("="))).to(dtype)
    assert feat.shape == (n, d)
    assert feat.dtype == dtype
    first = data.draw(st.integers(0, d - 1))
    last = data.draw(st.integers(first + 1, d))
    assert torch.equal(feat.block(first, last), wanted[:, first:last])
    ids = torch.randint(0, n, (7,))
    assert torch.equal(feat.rows(ids), wanted[ids])
    mask = torch.arange(n) % 2 == 0
    assert torch.equal(feat.rows(mask), wanted[mask])
    feat.verify()


def test_a_file_is_mapped_not_copied(tmp_path):
    np.save(tmp_path / "feat.npy", rows())
    feat = write_features(tmp_path / "feat.npy", tmp_path / "feat")
    block = feat.block(16, 32)
    assert block.is_contiguous()
    # What is written to it stays in memory.
    block[:] = 0
    feat.verify()
    assert feat.block(16, 32).abs().sum() > 0
    assert "300 nodes, 37 columns, torch.float32" in repr(feat)
    plain = np.load(feat.path / "columns_0002.npy")
    assert np.array_equal(plain, rows()[:, 32:])


def test_all_of_the_files_with_the_columns_are_asked_for(tmp_path, monkeypatch):
    np.save(tmp_path / "feat.npy", rows(50_000, 9))
    write_features(tmp_path / "feat.npy", tmp_path / "f", width=2)
    asked: dict[str, set[int]] = {}

    def record(number, at, length, advice):
        assert advice == os.POSIX_FADV_WILLNEED
        name = Path(f"/proc/self/fd/{number}").resolve().name
        asked.setdefault(name, set()).update(range(at, at + length, 4096))

    monkeypatch.setattr(os, "posix_fadvise", record)
    DiskFeatures(tmp_path / "f").ask_ahead(3, 6)
    assert sorted(asked) == ["columns_0001.npy", "columns_0002.npy"]
    for name, pages in asked.items():
        size = (tmp_path / "f" / name).stat().st_size
        assert pages >= set(range(0, size, 4096))


@pytest.mark.timeout(20)
def test_a_pipe_in_place_of_the_columns_is_not_waited_for(tmp_path):
    np.save(tmp_path / "feat.npy", rows())
    feat = write_features(tmp_path / "feat.npy", tmp_path / "f", width=16)
    (feat.path / "columns_0001.npy").unlink()
    os.mkfifo(feat.path / "columns_0001.npy")
    with pytest.raises(DGLError, match=r"columns_0001\.npy is not a regular"):
        feat.ask_ahead(16, 32)


def test_a_killed_run_resumes(tmp_path, monkeypatch):
    # Seven rows at a time.
    options = {"commit_bytes": 2000, "memory": (2 << 20) + 3500}
    append = disk_folder.GrowingArray.append
    for packed, save in enumerate((np.savez, np.savez_compressed)):
        path = tmp_path / f"{packed}.npz"
        save(path, node_feat=rows())
        whole = write_features(path, tmp_path / f"whole{packed}", **options)
        safe = []

        def run(packed=packed, path=path, safe=safe):
            return write_features(
                path, tmp_path / f"killed{packed}", on_commit=safe.append,
                **options,
            )  # fmt: skip

        deaths = 0
        with monkeypatch.context() as patch:
            left = 0

            def dying(self, array):
                nonlocal left
                left -= 1
                if left == 0:
                    append(self, array[: len(array) // 2])
                    raise KeyboardInterrupt
                append(self, array)

            patch.setattr(disk_folder.GrowingArray, "append", dying)
            for step in range(5, 1000, 7):
                left = step
                try:
                    feat = run()
                    break
                except KeyboardInterrupt:
                    deaths += 1
                    with pytest.raises(DGLError, match=r"finish"):
                        DiskFeatures(tmp_path / f"killed{packed}")
        assert deaths > 3
        assert safe == sorted(safe)
        assert safe[-1] == 300
        assert feat.key == whole.key
        assert folder_content(whole.path) == folder_content(feat.path)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_inf_name_the_node(tmp_path, bad):
    x = rows()
    x[217, 20] = x[250, 21] = bad
    np.save(tmp_path / "feat.npy", x)
    message = rf"holds {bad} at node 217, column 20, and 1 more such"
    with pytest.raises(DGLError, match=message):
        write_features(tmp_path / "feat.npy", tmp_path / "feat")
    feat = write_features(
        tmp_path / "feat.npy", tmp_path / "feat", check_finite=False
    )
    assert not torch.isfinite(feat.block(20, 21)[217]).any()


def test_too_large_for_float16(tmp_path):
    x = rows()
    x[5, 3] = 1e6
    np.save(tmp_path / "feat.npy", x)
    with pytest.raises(DGLError, match=r"node 5, .* too large for torch.floa"):
        write_features(
            tmp_path / "feat.npy", tmp_path / "feat", dtype=torch.float16
        )


def test_a_flipped_byte_is_found(tmp_path):
    np.save(tmp_path / "feat.npy", rows())
    feat = write_features(tmp_path / "feat.npy", tmp_path / "feat")
    path = feat.path / "columns_0001.npy"
    data = bytearray(path.read_bytes())
    data[1000] ^= 1
    path.write_bytes(data)
    with pytest.raises(DGLError, match=r"columns_0001\.npy is damaged"):
        DiskFeatures(feat.path).verify()


def test_other_features_or_options_are_an_error(tmp_path):
    np.savez(tmp_path / "feat.npz", node_feat=rows())
    write_features(tmp_path / "feat.npz", tmp_path / "feat")
    with pytest.raises(DGLError, match="made with dtype='float32', asked"):
        write_features(
            tmp_path / "feat.npz", tmp_path / "feat", dtype=torch.float16
        )
    with pytest.raises(DGLError, match="made with width=16, asked for is 8"):
        write_features(tmp_path / "feat.npz", tmp_path / "feat", width=8)
    np.savez(tmp_path / "feat.npz", node_feat=rows(seed=1))
    with pytest.raises(DGLError, match=r"has changed \(content\)"):
        write_features(tmp_path / "feat.npz", tmp_path / "feat")


def test_wrong_arguments(tmp_path, monkeypatch):
    np.save(tmp_path / "ids.npy", np.arange(6).reshape(2, 3))
    np.save(tmp_path / "flat.npy", np.ones(3))
    np.save(tmp_path / "feat.npy", rows())
    out = tmp_path / "feat"
    with pytest.raises(DGLError, match="float32 or float64, got int64"):
        write_features(tmp_path / "ids.npy", out)
    with pytest.raises(DGLError, match="shape"):
        write_features(tmp_path / "flat.npy", out)
    with pytest.raises(DGLError, match="dtype should be one of"):
        write_features(tmp_path / "feat.npy", out, dtype=torch.float64)
    with pytest.raises(DGLError, match="width should be at least 1"):
        write_features(tmp_path / "feat.npy", out, width=0)
    with pytest.raises(DGLError, match="too small for one row") as caught:
        write_features(tmp_path / "feat.npy", out, memory=100)
    enough = int(re.search(r"\((\d+) bytes\) would", str(caught.value))[1])
    write_features(tmp_path / "feat.npy", out, memory=enough).verify()
    with pytest.raises(DGLError, match="source should be the path"):
        write_features(rows(), out)
    np.savez(tmp_path / "fortran.npz", node_feat=np.asfortranarray(rows()))
    with pytest.raises(DGLError, match="stored column by column"):
        write_features(
            Member(tmp_path / "fortran.npz", "node_feat"), out, resume=False
        )
    feat = write_features(tmp_path / "feat.npy", out, resume=False)
    with pytest.raises(DGLError, match="columns 0 to 38 do not exist"):
        feat.block(0, 38)
    with pytest.raises(
        DGLError, match="ids holds 300, but there are nodes 0 to 299"
    ):
        feat.rows([300])
    usage = type("Usage", (), {"free": 100})
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(DGLError, match="of disk, but only 100 B are free"):
        write_features(tmp_path / "feat.npy", out, resume=False)
