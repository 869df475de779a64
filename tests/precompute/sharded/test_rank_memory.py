"""The memory of a rank stays within what it was given."""

import pytest
import torch

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


def _peak(folder, split, memory, stored):
    graph, feat = DiskGraph(folder / "graph"), DiskFeatures(folder / "feat")
    small = torch.zeros(8, 64)
    block_aggregate(([0], [1]), small, 2, process_group=False)  # compiles
    out = folder / f"{split}-{memory}" if stored else None

    def compute():
        return block_aggregate(
            graph, feat, 2, split=split, memory=memory, out=out, resume=False,
            shared=stored,
        )  # fmt: skip

    compute()  # compiles the rest
    return peak_memory(compute, maps_files=True)


@pytest.mark.parametrize("split", ["columns", "edges"])
@pytest.mark.parametrize("stored", [True, False])
def test_a_rank_takes_no_more_than_its_memory(
    folder, monkeypatch, split, stored
):
    for name, value in LIVE.items():
        monkeypatch.setenv(name, value)
    memory = "80MiB" if stored else "160MiB"
    peaks = run_ranks(2, _peak, folder, split, memory, stored, spawn=True)
    assert max(peaks) <= parse_bytes(memory)
    # Blocks are as wide as fit: most of the memory is used.
    assert max(peaks) >= parse_bytes(memory) // 4
