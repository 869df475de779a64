"""Predictions that several ranks write to one file."""

import errno

import numpy as np
import pytest
import torch
import torch.distributed as dist
from ranks_task import attempt
from tiny_task import DATA, make, stray

from dgl_lc.nn import FSGNN, LCGPRGNN
from dgl_lc.precompute import block_aggregate, open_store
from dgl_lc.testing.run_ranks import run_ranks
from dgl_lc.training import (
    computed_blocks,
    prediction_files,
    write_predictions,
)

NODES = torch.tensor([7, 3, 399, 3, 0, 11, 12])


def write_all(folder):
    """Write predictions from stores, shards and nothing; give the files."""
    ranked = dist.is_initialized()
    rank, size = (dist.get_rank(), dist.get_world_size()) if ranked else (0, 1)
    model = make(LCGPRGNN, K=2)
    hops = open_store(folder / "hops")
    own = hops
    if ranked:
        # Half of the nodes, so that the rest is computed.
        own = hops.rows(torch.arange(200)[rank::size])
        own.shard = (rank, size)
    calls = {
        "store.npy": {"rows": hops},
        "some.npy": {"rows": hops, "nodes": NODES, "batch_size": 2},
        "shards.npy": {"rows": own, "batch_size": 30},
        "computed.npy": {"nodes": NODES},
        "blocks.npy": {},
    }
    for name, options in calls.items():
        with pytest.MonkeyPatch.context() as patch:
            if name == "blocks.npy":
                patch.setattr(computed_blocks, "_most_rows", lambda *_: 150)
            write_predictions(
                model, DATA, folder / name, probabilities=True, **options
            )
    several = make(FSGNN, K=1)
    write_predictions(several, DATA, folder / "several.csv", nodes=NODES)
    found = {name: np.load(folder / name) for name in calls}
    found["several.csv"] = (folder / "several.csv").read_text()
    return found


@pytest.mark.filterwarnings("ignore:the hop features of")
@pytest.mark.parametrize("size", [2, 3])
def test_ranks_write_the_file_of_one_process(tmp_path, size):
    folders = tmp_path / "one", tmp_path / "ranks"
    for folder in folders:
        block_aggregate(
            DATA.graph, DATA.feat, 2, out=folder / "hops", process_group=False
        )
    expected = write_all(folders[0])
    found = run_ranks(size, write_all, folders[1])[0]
    assert found.pop("several.csv") == expected.pop("several.csv")
    for name, own in expected.items():
        np.testing.assert_allclose(found[name], own, atol=1e-6, err_msg=name)
    assert len(stray(folders[1] / "hops")) == 6


class _Full:
    """A writer on a disk that gets full."""

    def __init__(self, *_):
        self.parts = 0

    def write(self, ids, found):
        self.parts += 1
        if self.parts == 2:
            raise OSError(errno.ENOSPC, "No space left on device")

    def close(self):
        pass


def fail(folder):
    rank = dist.get_rank()
    model = make(LCGPRGNN, K=2)
    hops = open_store(folder / "hops")

    def write(**options):
        options = {"rows": hops, "batch_size": 20, **options}
        name = options.pop("name", "p.npy")
        return attempt(
            lambda: write_predictions(model, DATA, folder / name, **options)
        )

    found = {
        "name": write(name="p.txt"),
        "batch_size": write(batch_size=5 + rank),
        "nodes": write(nodes=NODES[rank:]),
        "shard": write(rows=_shard(hops, 1 - rank)),
    }
    prediction_files._NpyWriter = _Full
    found["disk"] = write()
    return found


def _shard(hops, rank):
    own = hops.rows(torch.arange(400)[rank::2])
    own.shard = (rank, 2)
    return own


def test_a_failure_of_one_rank_ends_all(tmp_path):
    block_aggregate(DATA.graph, DATA.feat, 2, out=tmp_path / "hops")
    found = run_ranks(2, fail, tmp_path)
    for name, text in {
        "name": "should end in .csv",
        "batch_size": "batch_size is 5 on rank 0 and 6 on rank 1",
        "nodes": "nodes (digest) is",
        "shard": "rows is row shard",
        "disk": "No space left",
    }.items():
        for rank in range(2):
            assert text in found[rank][name][1], (name, rank)
    assert found[1]["disk"][0] == "RankFailed"
    assert stray(tmp_path / "hops") == []
