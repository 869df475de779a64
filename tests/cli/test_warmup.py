"""``dgl-lc warmup``."""

import subprocess
import sys

import numpy as np
import pytest

from dgl_lc._common import jit as jit_module
from dgl_lc._common.jit import count_kernels, jit
from dgl_lc.cli import main

CALL = ["warmup", "--dtype", "float32", "--columns", "8", "--workers", "1"]

#: Modules whose kernels are all used, and those of them that are only used
#: by other kernels, or to name what is wrong.
WARMED = (
    "dgl_lc.precompute.graph.bucket_sort.",
    "dgl_lc.precompute.graph.edge_kernels.",
    "dgl_lc.precompute.cpu.chunks.",
)
INNER = {"_mix", "mix", "_write", "_split", "find_outside"}


def test_a_second_call_compiles_nothing(capsys):
    assert main(CALL) == 0
    assert "kernels compiled" in capsys.readouterr().out
    # In a process of its own: in this one nothing would be loaded.
    again = subprocess.run(
        [sys.executable, "-m", "dgl_lc", *CALL],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert again.stdout.startswith("0 kernels compiled, ")


def test_all_kernels_that_read_graphs_are_used():
    assert main(CALL) == 0
    unused = [
        name
        for name in count_kernels().unused
        if name.startswith(WARMED) and name.split(".")[-1] not in INNER
    ]
    assert not unused


@pytest.mark.parametrize("flags", [["--columns", "0"], ["--dtype", "int8"]])
def test_wrong_flags_are_refused(flags, refused):
    assert flags[1] in refused("warmup", *flags)


def test_code_that_cannot_be_kept_is_refused(monkeypatch, refused):
    def double(x):
        return 2 * x

    monkeypatch.setattr(jit_module, "_kernels", [])
    monkeypatch.setattr("dgl_lc.cli.warmup.warm_files", bool)
    monkeypatch.setattr("dgl_lc.cli.warmup.warm_graphs", bool)
    monkeypatch.setattr("dgl_lc.cli.warmup.warm_hops", lambda *_: None)

    def refuse_cache(*_, cache=False, **__):
        if cache:
            raise RuntimeError("no locator available")
        return lambda function: njit(nogil=True)(function)

    njit = jit_module.nb.njit
    monkeypatch.setattr(jit_module.nb, "njit", refuse_cache)
    assert jit(double)(np.int64(2)) == 4
    assert "NUMBA_CACHE_DIR" in refused(*CALL)
