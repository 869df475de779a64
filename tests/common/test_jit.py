"""Kernels that are kept on disk."""

import os
import subprocess
import sys
import textwrap

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


def test_a_kernel_is_found_again(tmp_path):
    code = textwrap.dedent(
        """
        from dgl_lc.precompute.graph import edge_kernels as edges
        import numpy as np
        place = np.zeros(3, np.int32)
        edges.number_rows(np.array([2, 0], np.int32), place)
        assert place[2] == 0 and place[0] == 1
        print(sum(edges.number_rows.stats.cache_hits.values()))
        """
    )
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    hits = [
        subprocess.run(
            [sys.executable, "-c", code], env=env, check=True,
            capture_output=True, text=True,
        ).stdout.strip()
        for _ in range(2)
    ]  # fmt: skip
    assert hits == ["0", "1"]
    assert not list(tmp_path.rglob("*.tmp*"))


def test_where_nothing_can_be_written_it_still_compiles(monkeypatch):
    from numba.core import caching

    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])

    def double(x):
        return 2 * x

    assert jit(double)(3) == 6
