"""
Swap the layers of a script
===========================

A GCN that was written for DGL becomes its LC version when one import is
replaced, and one import and one call are added. This tutorial trains both, on
the same graph, and compares their accuracy over time.
"""

# %%
# The task
# --------
# A generated graph with communities: the features alone do not tell the
# classes apart, so that a model needs the graph.

import time

import dgl_lc  # isort: skip  # before dgl
import dgl
import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from dgl import DGLError
from dgl import nn as dglnn
from torch import nn

from dgl_lc import block_aggregate
from dgl_lc import nn as lcnn
from dgl_lc.data import block_model
from dgl_lc.training import HopLoader

torch.manual_seed(0)
data = block_model(6_000, num_feats=64)
g, x, labels = dgl.add_self_loop(data.graph), data.feat, data.labels
print(data)

# %%
# The model
# ---------
# Which layer it uses is an argument here, so that one class serves both. In a
# script of your own you would change the import instead:
# ``from dgl_lc.nn import LCGraphConv as GraphConv``.


class GCN(nn.Module):
    """A GCN of two layers, as one writes it with DGL."""

    def __init__(self, layer):
        super().__init__()
        self.conv1 = layer(data.num_feats, 64)
        self.conv2 = layer(64, data.num_classes)

    def forward(self, graph, feat):
        """Compute the scores of the classes."""
        h = F.dropout(F.relu(self.conv1(graph, feat)), 0.5, self.training)
        return self.conv2(graph, h)


# %%
# The original
# ------------
# Each step computes all nodes and edges.


def accuracy(logits, nodes):
    """Compare the largest scores with the labels."""
    return (logits.argmax(dim=1) == labels[nodes]).float().mean().item()


def train_original(epochs=40):
    """Train on the whole graph; return seconds and validation accuracies."""
    model = GCN(dglnn.GraphConv)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    course, start = [], time.perf_counter()
    for _ in range(epochs):
        model.train()
        logits = model(g, x)
        loss = F.cross_entropy(logits[data.train], labels[data.train])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            found = accuracy(model(g, x)[data.valid], data.valid)
        course.append((time.perf_counter() - start, found))
    return course


original = train_original()
print(f"original: {original[-1][1]:.3f} after {original[-1][0]:.1f} s")

# %%
# The LC version
# --------------
# The added line: two layers of ``GraphConv`` read hop 2. ``self_loop=False``
# takes the edges of the graph as they are, as the layers of DGL do. The first
# call on a machine compiles kernels, so a small graph goes first.

warm_up = block_aggregate(block_model(100).graph, torch.rand(100, 64), K=2)

start = time.perf_counter()
hops = block_aggregate(g, x, K=2, hops=[2], self_loop=False)  # the added line
precomputed = time.perf_counter() - start
print(f"{hops}: {precomputed:.2f} s")

# %%
# After that, no graph is needed. A step reads the rows of its batch.


def train_lc(epochs=10):
    """Train on mini-batches of rows; return seconds and accuracies."""
    model = GCN(lcnn.LCGraphConv)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    loader = HopLoader(hops, data.train, labels, batch_size=512, shuffle=True)
    valid = hops.rows(data.valid)
    course, start = [], time.perf_counter() - precomputed
    for _ in range(epochs):
        model.train()
        for batch, target in loader:
            loss = F.cross_entropy(model(None, batch), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            found = accuracy(model(None, valid), data.valid)
        course.append((time.perf_counter() - start, found))
    return course


swapped = train_lc()
print(f"LC version: {swapped[-1][1]:.3f} after {swapped[-1][0]:.1f} s")

# %%
# Both over time
# --------------
# The precomputation is part of the LC version's time. An epoch of the original
# is one step, and an epoch of the LC version is several.

fig, ax = plt.subplots(figsize=(6, 3.5))
for name, course in (("original", original), ("LC version", swapped)):
    seconds, accuracies = zip(*course, strict=True)
    ax.plot(seconds, accuracies, marker=".", label=name)
ax.set_xlabel("seconds")
ax.set_ylabel("validation accuracy")
ax.grid(alpha=0.3)
ax.legend()
fig.tight_layout()

# %%
# What can go wrong
# -----------------
# A layer compares the filter and the graph of the hop features with its own.
# Here the hop features are means over neighbours, which these layers don't
# compute:

wrong = block_aggregate(g, x, K=2, hops=[2], self_loop=False, norm="right")
try:
    GCN(lcnn.LCGraphConv)(g, wrong)
except DGLError as error:
    print(error)
