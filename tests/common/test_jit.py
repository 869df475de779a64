"""Kernels that are kept on disk."""

import importlib.util
import os
import subprocess
import sys

import pytest

from dgl_lc._common.jit import jit

USE = """
import sys, time
import torch, dgl_lc
from dgl_lc.data import power_law_graph
from dgl_lc.testing.reference import dense_filter
while time.time() < float(sys.argv[1]):
    pass
g = power_law_graph(40, 300)
matrix = torch.from_numpy(dense_filter(g))
widths = [int(w) for w in sys.argv[2:]]
for width in widths:
    for kind in (torch.float32, torch.float64):
        x = torch.randn(40, width).to(kind)
        found = dgl_lc.block_aggregate(g, x, 1)[1]
        assert torch.allclose(found.double(), matrix @ x.double(), atol=1e-5)
"""


def start(folder, *args):
    return subprocess.Popen(
        [sys.executable, "-c", USE, *map(str, args)],
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder)},
    )


@pytest.mark.slow
def test_processes_that_compile_at_once_do_not_mix_up_kernels(tmp_path):
    import time

    together = time.time() + 6
    widths = [[8, 16], [16, 32], [32, 64], [64, 8]]
    processes = [start(tmp_path, together, *w) for w in widths]
    assert [process.wait() for process in processes] == [0] * 4
    assert start(tmp_path, 0, 8, 16, 32, 64).wait() == 0


@pytest.fixture
def cached(tmp_path):
    """Makes a new function each time, as a new process would find it."""
    source = tmp_path / "kernel_of_a_test.py"
    source.write_text(
        "from dgl_lc._common.jit import jit\n"
        "@jit\n"
        "def double(x):\n"
        "    return 2 * x\n"
    )

    def call():
        spec = importlib.util.spec_from_file_location("kernel", source)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert module.double(3) == 6
        return sum(module.double.stats.cache_hits.values())

    return call


def kept(tmp_path):
    return list(tmp_path.rglob("*.nbc"))


def test_a_kernel_is_found_again(tmp_path, cached):
    assert [cached(), cached()] == [0, 1]
    assert len(kept(tmp_path)) == 1
    assert not list(tmp_path.rglob("*.tmp*"))


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "pipe", "folder"])
def test_a_damaged_kernel_is_compiled_again(tmp_path, cached, damage):
    cached()
    (path,) = kept(tmp_path)
    data = bytearray(path.read_bytes())
    path.unlink()
    if damage == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "flip":
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    assert cached() == 0


def test_a_full_disk_does_not_stop_the_run(tmp_path, cached, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        assert cached() == 0
    assert not kept(tmp_path)
    assert [cached(), cached()] == [0, 1]


def test_where_nothing_can_be_written_it_still_compiles(monkeypatch):
    from numba.core import caching

    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])

    def double(x):
        return 2 * x

    assert jit(double)(3) == 6
