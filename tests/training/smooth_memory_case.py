"""Correct and Smooth in little memory, as a process of its own.

    python smooth_memory_case.py FOLDER MEMORY

Prints the peak in bytes. All columns at a time would take 40 MB.
"""

import dgl_lc  # isort: skip  # noqa: F401  # first: it makes DGL importable
import sys

import numpy as np
import torch

from dgl_lc.data import build_disk_graph, power_law_graph
from dgl_lc.testing.peak_memory import peak_memory
from dgl_lc.training import correct_and_smooth

NODES, EDGES, CLASSES = 50_000, 600_000, 50


def main(folder, memory):
    g = power_law_graph(NODES, EDGES, seed=0)
    np.save(f"{folder}/edges.npy", torch.stack(g.edges()).numpy())
    graph = build_disk_graph(f"{folder}/edges.npy", NODES, f"{folder}/graph")
    del g
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(CLASSES, (NODES,), generator=generator)
    train = torch.randperm(NODES, generator=generator)[:1000]
    logits = torch.randn(NODES, CLASSES, generator=generator)
    steps = {"num_correction": 1, "num_smoothing": 1}

    def call():
        correct_and_smooth(
            logits, graph, labels, train, nodes=train, memory=int(memory),
            **steps,
        )  # fmt: skip

    # Compiles, and starts threads.
    call()
    print(peak_memory(call, maps_files=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
