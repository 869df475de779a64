"""
Distributed, in two terminals
=============================

Several processes, on one machine or on many, share a precomputation and then
the training. They are started by torch's own launcher. This tutorial starts
two "machines" by hand, one in each of two terminals, and shows that the result
is that of a single process.
"""

# %%
# A task on disk
# --------------
# All processes read the same folder.

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import dgl_lc  # isort: skip  # before dgl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch

from dgl_lc.data import block_model, prepare
from dgl_lc.precompute import open_store

folder = Path(tempfile.mkdtemp())
data = block_model(5_000, num_feats=32)
split = {"train": data.train, "valid": data.valid, "test": data.test}
task = prepare(
    torch.stack(data.graph.edges()).numpy(),
    data.feat.numpy(),
    folder / "task",
    labels=data.labels.numpy(),
    split={name: nodes.numpy() for name, nodes in split.items()},
)
print(task)

# %%
# Two terminals
# -------------
# On two real machines, type this in a terminal of each, with the name of the
# first machine for HOST::
#
#     torchrun --nnodes 2 --nproc-per-node 1 --rdzv-backend c10d \
#         --rdzv-endpoint HOST:29400 \
#         -m dgl_lc precompute --data task --hops 3 --out hops
#
# Here both terminals are on this machine. The function below starts the same
# command twice, as two terminals would, and waits for both.


def free_port():
    """Find a port that no other program uses."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def in_two_terminals(*command):
    """Run a command of dgl-lc as two nodes of torchrun; print both outputs."""
    launch = [
        sys.executable, "-m", "torch.distributed.run", "--nnodes", "2",
        "--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-endpoint",
        f"127.0.0.1:{free_port()}", "-m", "dgl_lc", *command,
    ]  # fmt: skip
    started = [
        subprocess.Popen(
            launch,
            cwd=folder,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(2)
    ]
    for number, process in enumerate(started, 1):
        output, _ = process.communicate()
        print(f"terminal {number}, exit code {process.returncode}:")
        print("\n".join(line for line in output.splitlines() if line.strip()))


in_two_terminals("precompute", "--data", "task", "--hops", "3", "--out", "hops")

# %%
# Rank 0, the first process, prints for both. Both compute: ranks claim blocks
# of columns one by one, and write one store together.
#
# The same numbers
# ----------------
# A single process, with the same command, computes the same bits.

done = subprocess.run(
    [sys.executable, "-m", "dgl_lc", "precompute", "--data", "task",
     "--hops", "3", "--out", "alone"],
    cwd=folder, check=True, capture_output=True,
)  # fmt: skip
together, alone = open_store(folder / "hops"), open_store(folder / "alone")
for hop in range(4):
    same = torch.equal(together[hop], alone[hop])
    print(f"hop {hop}: {'the same bits' if same else 'different'}")

# %%
# Training
# --------
# ``--batch-size`` is that of each rank: two ranks with batches of 512 take the
# same steps as one process with batches of 1024, up to rounding, if the model
# has neither dropout nor batch norm.

in_two_terminals(
    "train", "--data", "task", "--store", "hops", "--model", "LCGPRGNN",
    "--hops", "3", "--epochs", "15", "--batch-size", "512", "--dropout", "0",
    "--save", "model.pt", "--history", "two.csv",
)  # fmt: skip
done = subprocess.run(
    [sys.executable, "-m", "dgl_lc", "train", "--data", "task", "--store",
     "hops", "--model", "LCGPRGNN", "--hops", "3", "--epochs", "15",
     "--batch-size", "1024", "--dropout", "0", "--history", "one.csv"],
    cwd=folder, check=True, capture_output=True,
)  # fmt: skip

# %%
# The losses of both runs lie on the same curve:

one, two = (pd.read_csv(folder / f"{name}.csv") for name in ("one", "two"))
column = next(name for name in one.columns if "loss" in name)
fig, ax = plt.subplots(figsize=(6, 3.2))
ax.plot(one[column], label="one process", linewidth=4, alpha=0.4)
ax.plot(two[column], label="two ranks", linestyle="--")
ax.set_xlabel("epoch")
ax.set_ylabel(column)
ax.grid(alpha=0.3)
ax.legend()
fig.tight_layout()
print(f"largest difference: {np.abs(one[column] - two[column]).max():.1e}")
