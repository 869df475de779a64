"""Calls of lc.precompute whose memory is measured; a process of its own.

    python disk_memory_cases.py FOLDER NAME …

Prints a line of JSON for each case: the least memory that is not refused, and
the peak of a call with it.
"""

import dgl_lc  # isort: skip  # noqa: F401  # first: it makes DGL importable
import json
import shutil
import sys
from pathlib import Path

import dgl
import torch
from dgl import DGLError
from transform.on_disk.disk_cases import (
    Model,
    OnDisk,
    gcn,
    normalised,
    odd_power,
    there_and_back,
    weighted_by_degrees,
    weighted_by_sums,
    with_loops,
)

from dgl_lc import lc_transform
from dgl_lc.testing.peak_memory import peak_memory

SIZES = {"n": 150_000, "m": 900_000}
#: What Python may take for its own objects in a call that is refused.
PYTHON = 1 << 20


def scaled_features(self, g, x):
    """Features that are computed whole, where the graph is in memory."""
    norm = g.in_degrees().float().clamp(min=1).pow(-0.5).unsqueeze(1)
    return dgl.ops.copy_u_sum(g, self.fc(torch.tanh(x) * norm)) * norm


#: Model, options of the graph, and where graph, features and result are.
CASES = {
    "gcn": (gcn, {}, "disk"),
    "gcn, loops": (lambda: with_loops(gcn()), {}, "disk"),
    "odd power": (lambda: Model(odd_power), {}, "disk"),
    "normalised": (lambda: Model(normalised), {}, "disk"),
    "reverse": (lambda: Model(there_and_back), {}, "disk"),
    "degrees": (lambda: Model(weighted_by_degrees), {}, "disk"),
    "sums": (lambda: Model(weighted_by_sums), {"weights": True}, "disk"),
    "held gcn, loops": (lambda: with_loops(gcn()), {}, "memory"),
    "held odd power": (lambda: Model(odd_power), {}, "memory"),
    "held features": (lambda: Model(scaled_features), {}, "memory"),
    "held degrees": (lambda: Model(weighted_by_degrees), {}, "memory"),
    "stored odd power": (lambda: Model(odd_power), {}, "stored"),
}


def measure(name, folder):
    make, options, where = CASES[name]
    folder.mkdir()
    task = OnDisk(folder, **options, **SIZES)
    lc = lc_transform(make(), task.sample, task.sample_x)
    out = folder / "s"

    def call(memory):
        graph, feat = task.graph, task.features
        if where != "disk":
            # A new object: the edges that DGL sorts are kept with a graph.
            graph, feat = graphs.pop(), task.x
        more = {} if where == "memory" else {"out": out}
        return lc.precompute(graph, feat, memory=memory, **more)

    graphs = []

    def prepare():
        shutil.rmtree(out, ignore_errors=True)
        if where != "disk":
            u, v = task.g.edges(order="eid")
            graphs.append(dgl.graph((u, v), num_nodes=SIZES["n"]))

    prepare()
    call(None)  # loads kernels and libraries
    memory, refused = 4 << 20, 0
    while True:
        prepare()
        results = []

        def attempt(memory=memory, results=results):
            try:
                results.append(call(memory))
            except DGLError as error:
                if "memory" not in str(error):
                    raise

        peak = peak_memory(attempt, maps_files=True)
        if results:
            return {"case": name, "memory": memory, "peak": peak,
                    "refused": refused}  # fmt: skip
        if peak > memory + PYTHON:
            refused = max(refused, peak - memory)
        memory = int(memory * 1.2)


def main():
    folder, *names = sys.argv[1:]
    for number, name in enumerate(names or CASES):
        found = measure(name, Path(folder) / str(number))
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
