"""
Larger than memory
==================

Graph, features and hop features can be on disk, and every step then works
within a memory budget. So that it runs in seconds, this tutorial uses a graph
that would fit in memory easily, and a budget that is smaller than its features.
The calls are the same for a graph of billions of edges.
"""

# %%
# Files
# -----
# Edges and features as npy files, as another program may have written them.
# For csv and parquet files with ids of your own, there is ``dgl-lc prepare``.

import tempfile
from pathlib import Path

import dgl_lc  # isort: skip  # before dgl
import matplotlib.pyplot as plt
import numpy as np
import torch
from dgl import DGLError

from dgl_lc.data import block_model, build_disk_graph, write_features
from dgl_lc.nn import LCGCN
from dgl_lc.precompute import block_aggregate, open_store, plan
from dgl_lc.training import fit, predict

folder = Path(tempfile.mkdtemp())
data = block_model(40_000, num_feats=256)
num_nodes = data.graph.num_nodes()
np.save(folder / "edges.npy", torch.stack(data.graph.edges()).numpy())
np.save(folder / "features.npy", data.feat.numpy())
for path in sorted(folder.iterdir()):
    print(f"{path.name}: {path.stat().st_size / 2**20:.1f} MiB")

# %%
# Graph and features on disk
# --------------------------
# Edges are sorted by destination in bounded memory, and features are checked
# and written with checksums. If one of these calls is killed, the same call
# resumes. If its folder is complete, it is only opened.

g = build_disk_graph(
    folder / "edges.npy", num_nodes, folder / "graph", memory="64MiB"
)
feat = write_features(folder / "features.npy", folder / "feat", memory="64MiB")
print(g)
print(feat)

# %%
# The plan
# --------
# Before anything is computed, the plan says how the work will be cut. The
# scheme of the paper is shown next to it.

labelled = torch.cat([data.train, data.valid, data.test])[::4]
print(plan(g, feat, K=3, nodes=labelled, memory="32MiB", stored=True))

# %%
# More memory means wider blocks of columns, and fewer bytes that are moved:

budgets = [16, 24, 32, 48, 64, 96, 128]
moved, peaks = [], []
for mib in budgets:
    made = plan(g, feat, K=3, memory=f"{mib}MiB", stored=True)
    moved.append(made.bytes_moved / 2**20)
    peaks.append(made.peak_bytes / 2**20)
fig, ax = plt.subplots(figsize=(6, 3.2))
ax.plot(budgets, moved, marker="o", label="bytes moved")
ax.plot(budgets, peaks, marker="s", label="peak")
ax.set_xlabel("memory budget (MiB)")
ax.set_ylabel("MiB")
ax.set_ylim(bottom=0)
ax.grid(alpha=0.3)
ax.legend()
fig.tight_layout()

# %%
# A budget that is too small is an error before any work, which says how much
# is enough:

try:
    block_aggregate(g, feat, K=3, memory="1MiB", out=folder / "hops")
except DGLError as error:
    print(error)

# %%
# The precomputation
# ------------------
# The result goes to a folder, and only the rows of labelled nodes are kept.
# They are exact: each hop is computed at all rows that they depend on.

hops = block_aggregate(
    g, feat, K=3, nodes=labelled, memory="32MiB", out=folder / "hops"
)
print(hops)

# %%
# Training from disk
# ------------------
# Batches are read from the store row by row, and each row is compared with its
# checksum.

store = open_store(folder / "hops")
known = torch.zeros(num_nodes, dtype=torch.bool)
known[labelled] = True
train, valid, test = (
    nodes[known[nodes]] for nodes in (data.train, data.valid, data.test)
)
model = LCGCN(data.num_feats, 64, data.num_classes, num_layers=3, dropout=0.3)
found = fit(model, store, data.labels, train, valid, epochs=10, batch_size=1024)
logits = predict(model, store, test)
right = logits.argmax(dim=1) == data.labels[test]
print(found)
print(f"test accuracy: {right.float().mean():.3f}")
