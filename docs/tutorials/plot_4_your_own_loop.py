"""
A training loop of your own
===========================

:func:`dgl_lc.training.fit` is convenient, but you do not need it. After the
precomputation, an LC version is a model on rows, and any loop of torch trains
it. This tutorial writes one with a schedule, label smoothing and an average of
the weights, and compares models that read the same hop features.
"""

# %%
# Hop features, once
# ------------------
# All hops from 0 to 4 are kept, so that several models can read them.

import dgl_lc  # isort: skip  # before dgl
import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch.optim.swa_utils import AveragedModel

from dgl_lc import block_aggregate
from dgl_lc.data import block_model
from dgl_lc.nn import LCGCN, LCGPRGNN, SGC, SIGN
from dgl_lc.training import HopLoader

torch.manual_seed(0)
data = block_model(4_000, num_feats=64)
hops = block_aggregate(data.graph, data.feat, K=4)
print(hops)

# %%
# The loaders
# -----------
# A :class:`dgl_lc.training.HopLoader` gathers rows. It takes the place of
# torch's DataLoader, and of samplers. Seed and epoch determine the order.

train = HopLoader(hops, data.train, data.labels, batch_size=512, shuffle=True)
valid = HopLoader(hops, data.valid, data.labels)
batch, labels = next(iter(train))
print(batch, labels.shape)

# %%
# The loop
# --------


@torch.no_grad()
def evaluate(model, loader):
    """Compute the accuracy on the nodes of a loader."""
    model.eval()
    right = total = 0
    for batch, labels in loader:
        right += (model(None, batch).argmax(dim=1) == labels).sum().item()
        total += len(labels)
    return right / total


def train_model(model, epochs=10):
    """Train a model; return the validation accuracy after each epoch."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    average = AveragedModel(model)
    course = []
    for _ in range(epochs):
        model.train()
        for batch, labels in train:
            logits = model(None, batch)
            loss = F.cross_entropy(logits, labels, label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
        average.update_parameters(model)
        course.append(evaluate(average, valid))
    return course


sizes = data.num_feats, 32, data.num_classes
models = {
    "SGC, hop 4": SGC(data.num_feats, data.num_classes, K=4),
    "LCGCN, hop 2": LCGCN(*sizes, dropout=0.5),
    "LCGPRGNN, hops 0 to 4": LCGPRGNN(*sizes, K=4, dropout=0.5),
    "SIGN, hops 0 to 4": SIGN(*sizes, K=4, dropout=0.5),
}
courses = {name: train_model(model) for name, model in models.items()}
for name, course in courses.items():
    print(f"{name}: {max(course):.3f}")

# %%
# Models compared
# ---------------
# The features were aggregated once, for all of them.

fig, ax = plt.subplots(figsize=(6, 3.5))
for name, course in courses.items():
    ax.plot(range(1, len(course) + 1), course, marker=".", label=name)
ax.set_xlabel("epoch")
ax.set_ylabel("validation accuracy")
ax.grid(alpha=0.3)
ax.legend()
fig.tight_layout()

# %%
# What the model learned about hops
# ---------------------------------
# GPRGNN learns a coefficient for each hop.

gamma = models["LCGPRGNN, hops 0 to 4"].gamma.detach()
fig, ax = plt.subplots(figsize=(6, 2.6))
ax.bar(range(len(gamma)), gamma)
ax.set_xlabel("hop")
ax.set_ylabel("coefficient")
fig.tight_layout()
