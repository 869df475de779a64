"""
Transform a model and read its report
=====================================

:func:`dgl_lc.transform.lc_transform` takes a model of your own with the
arguments of a call, and returns its LC version. This tutorial transforms a
model with a jumping connection and message passing written by hand, reads the
report, trains the result, and looks at a model that is refused.
"""

# %%
# A model
# -------

import dgl_lc  # isort: skip  # before dgl
import dgl
import dgl.function as fn
import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from dgl.nn import GATConv, GraphConv
from torch import nn

from dgl_lc.data import block_model
from dgl_lc.training import fit, predict

torch.manual_seed(0)
data = block_model(3_000, num_feats=32)
g, x = dgl.add_self_loop(dgl.remove_self_loop(data.graph)), data.feat


class Model(nn.Module):
    """A layer of DGL, a mean over neighbours by hand, and a jump."""

    def __init__(self):
        super().__init__()
        self.conv = GraphConv(32, 64)
        self.fc = nn.Linear(64, 64)
        self.out = nn.Linear(128, data.num_classes)

    def forward(self, graph, feat):
        """Compute the scores of the classes."""
        h1 = F.relu(self.conv(graph, feat))
        with graph.local_scope():
            graph.ndata["h"] = self.fc(h1)
            graph.update_all(fn.copy_u("h", "m"), fn.mean("m", "h"))
            h2 = F.relu(graph.ndata["h"])
        return self.out(torch.cat([h1, h2], dim=1))


model = Model()

# %%
# The transformation
# ------------------
# The model runs on small random graphs, and what it computes is recorded. Then
# aggregations are swapped with what comes before them, until they are applied
# to the features.

lc = dgl_lc.lc_transform(model, g, x)
print(lc.report)

# %%
# How to read it:
#
# - **inputs** are what has to be computed once: the features after one
#   filter, and after both. The lines below name the filters.
# - **cost** is the size of these inputs.
# - **commuted** and **not exact** say what aggregation was swapped with. For
#   linear operations that changes nothing; for the others the LC version is a
#   different function.
# - **checked** is how the result was compared with the model.
#
# The picture shows the model at the left and its LC version at the right.

lc

# %%
# How different is it?
# --------------------
# The drift is measured on this graph, with the weights of the model, which are
# still random:

print(lc.report.drift)

# %%
# The LC version is a module of plain torch. Its code can be read:

print(lc.code)

# %%
# Training
# --------
# The inputs are computed once. ``lc.module`` shares the parameters of the
# model.

inputs = lc.precompute(g, x)
found = fit(lc.module, inputs, data.labels, data.train, data.valid, epochs=15)
logits = predict(lc.module, inputs, data.test)
right = logits.argmax(dim=1) == data.labels[data.test]
print(found)
print(f"test accuracy: {right.float().mean():.3f}")

# %%
# ``found.history`` is a pandas frame with a row for each epoch:

history = found.history
fig, ax = plt.subplots(figsize=(6, 3))
for column in history.columns:
    if "accuracy" in column:
        ax.plot(history.index + 1, history[column], label=column)
ax.set_xlabel("epoch")
ax.set_ylabel("accuracy")
ax.grid(alpha=0.3)
ax.legend()
fig.tight_layout()

# %%
# A model that is refused
# -----------------------
# Attention has no LC version. :func:`dgl_lc.transform.lc_explain` lists
# every cause of a refusal, each with a code; :doc:`Errors by code </lc_errors>`
# has a section for each code.


class Attention(nn.Module):
    """A layer of attention, and a norm over all nodes."""

    def __init__(self):
        super().__init__()
        self.gat = GATConv(32, 8, num_heads=2)
        self.out = nn.Linear(16, data.num_classes)

    def forward(self, graph, feat):
        """Compute the scores of the classes."""
        h = self.gat(graph, feat).flatten(1)
        h = h - h.mean(0)
        return self.out(h)


print(dgl_lc.lc_explain(Attention(), g, x))
