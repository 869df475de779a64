"""What a rank does in tests under torchrun: precompute, train, predict.

Arguments: a folder for results, and options of block_aggregate as JSON.
"""

import json
import os
import sys
import time
from pathlib import Path

import dgl
import numpy as np
import torch
import torch.distributed as dist

from dgl_lc.nn import SGC
from dgl_lc.precompute import block_aggregate
from dgl_lc.precompute.sharded import rank_work
from dgl_lc.ranks import call as calls
from dgl_lc.training import fit, predict

NODES, COLUMNS = 3000, 48


def make():
    torch.manual_seed(0)
    ends = torch.randint(NODES, (2, 40_000))
    labels = torch.randint(3, (NODES,))
    feat = torch.randn(NODES, COLUMNS) + labels[:, None]
    return dgl.graph((ends[0], ends[1]), num_nodes=NODES), feat, labels


def main(folder, options):
    torch.set_num_threads(1)
    slow = options.pop("slow", 0.0)
    calls.SILENT_SECONDS = options.pop("silent", calls.SILENT_SECONDS)
    train = options.pop("train", False)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    (folder / f"pid-{rank}").write_text(str(os.getpid()))
    if rank == options.pop("hangs", None) and is_first_start():
        slow = 100.0
    for kind in (rank_work.CpuWork, rank_work.EdgeWork):
        _watch(kind, slow, folder / f"computed-{rank}")
    g, x, labels = make()
    hops = block_aggregate(g, x, 2, **options)
    nodes = torch.arange(NODES) if hops.nodes is None else hops.nodes
    found = {"nodes": nodes, "rows": torch.stack(list(hops))}
    if train:
        torch.manual_seed(1)
        model = SGC(COLUMNS, 3, K=2)
        ids = torch.arange(NODES)
        fit(
            model, hops, labels, ids[ids % 5 < 3], ids[ids % 5 == 3],
            batch_size=500, epochs=5,
            checkpoint=folder / "model.checkpoint",
        )  # fmt: skip
        found["logits"] = predict(model, hops)
    np.savez(
        folder / f"result-{rank}.npz",
        **{name: value.numpy() for name, value in found.items()},
    )
    dist.barrier()
    dist.destroy_process_group()


def is_first_start():
    """Tell whether torchrun has not restarted the ranks."""
    return os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"


def _watch(kind, seconds, log):
    """Wait before each unit of columns, and write down which it is."""
    run = kind.run

    def watched(self, sink, done):
        time.sleep(seconds)
        run(self, sink, done)
        with log.open("a") as file:
            file.write(f"{sink.first}\n")

    kind.run = watched


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
