"""The memory of a rank stays within what it was given."""

import pytest
import torch
from night import NIGHT, each

from dgl_lc._common.bytes import parse_bytes
from dgl_lc.data import (
    DiskFeatures,
    DiskGraph,
    build_disk_graph,
    write_features,
)
from dgl_lc.precompute import block_aggregate
from dgl_lc.testing.peak_memory import LIVE, peak_memory
from dgl_lc.testing.run_ranks import run_ranks

from .edge_cases import give_memory_back

NODES, EDGES, COLUMNS = 200_000, 1_000_000, 64


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    import numpy as np

    folder = tmp_path_factory.mktemp("task")
    random = np.random.default_rng(0)
    np.save(folder / "edges.npy", random.integers(NODES, size=(2, EDGES)))
    feat = random.standard_normal((NODES, COLUMNS)).astype(np.float32)
    np.save(folder / "feat.npy", feat)
    build_disk_graph(folder / "edges.npy", NODES, folder / "graph")
    write_features(folder / "feat.npy", folder / "feat")
    return folder


CASES = each(["columns", "edges"], [True, False])


def _memory(stored):
    return "80MiB" if stored else "160MiB"


def _peaks(folder):
    """Measure all cases, one after the other, on this rank."""
    give_memory_back()
    graph, feat = DiskGraph(folder / "graph"), DiskFeatures(folder / "feat")
    small = torch.zeros(8, 64)
    block_aggregate(([0], [1]), small, 2, process_group=False)  # compiles
    return [_peak(folder, graph, feat, *case) for case in CASES]


def _peak(folder, graph, feat, split, stored):
    out = folder / f"{split}-store" if stored else None

    def compute():
        return block_aggregate(
            graph, feat, 2, split=split, memory=_memory(stored), out=out,
            resume=False, shared=stored,
        )  # fmt: skip

    compute()  # compiles the rest
    return peak_memory(compute, maps_files=True)


@pytest.fixture(scope="module")
def peaks(folder):
    """The peaks of two ranks, by case; at night, these are new processes."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in LIVE.items():
            patch.setenv(name, value)
        first, second = run_ranks(2, _peaks, folder, spawn=NIGHT)
    return dict(zip(CASES, map(max, first, second), strict=True))


@pytest.mark.parametrize(("split", "stored"), CASES)
def test_a_rank_takes_no_more_than_its_memory(peaks, split, stored):
    memory, peak = parse_bytes(_memory(stored)), peaks[split, stored]
    assert peak <= memory
    # Blocks are as wide as fit: most of the memory is used.
    assert peak >= memory // 4
