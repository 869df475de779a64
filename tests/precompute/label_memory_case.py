"""Label features of many classes in little memory, as a process of its own.

    python label_memory_case.py FOLDER MEMORY DISK

MEMORY and DISK are the budgets of a call whose result is in memory, and of
one whose result is on disk. Prints the peaks of both in bytes. The one-hot
labels would take 34 MB.
"""

import dgl_lc  # isort: skip  # noqa: F401  # first: it makes DGL importable
import sys

import numpy as np
import torch

from dgl_lc.data import build_disk_graph, power_law_graph
from dgl_lc.precompute import label_features
from dgl_lc.testing.peak_memory import peak_memory

NODES, EDGES, CLASSES = 50_000, 600_000, 172


def main(folder, memory, disk):
    g = power_law_graph(NODES, EDGES, seed=0)
    np.save(f"{folder}/edges.npy", torch.stack(g.edges()).numpy())
    graph = build_disk_graph(f"{folder}/edges.npy", NODES, f"{folder}/graph")
    del g
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(CLASSES, (NODES,), generator=generator)
    nodes = torch.randperm(NODES, generator=generator)[:1500]
    train = nodes[:1000].clone()
    small = {"num_classes": CLASSES, "nodes": nodes[:20].clone()}
    # Compiles, and starts threads.
    label_features(graph, labels, train, 3, **small)
    for budget, out in ((memory, None), (disk, f"{folder}/labels")):

        def call(budget=budget, out=out):
            label_features(
                graph, labels, train, 3, num_classes=CLASSES, nodes=nodes,
                memory=int(budget), out=out,
            )  # fmt: skip

        print(peak_memory(call, maps_files=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
