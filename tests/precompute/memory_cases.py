"""Random calls whose memory is measured; run as a process of its own.

    python memory_cases.py CASES

CASES are pairs of a seed and of options that are not drawn, as JSON, such as
[[0, {}], [1, {"K": 2}]]. Prints a line of JSON for each call. How the process
allocates depends on its environment (:mod:`dgl_lc.testing.peak_memory`).
"""

import dgl_lc  # isort: skip  # noqa: F401  # first: it makes DGL importable
import json
import random
import sys
import tempfile

import dgl
import numpy as np
import pytest
import torch
from dgl import DGLError
from scipy import sparse

from dgl_lc.data import build_disk_graph, power_law_graph
from dgl_lc.precompute import block_aggregate
from dgl_lc.precompute.planning.cpu import choose_plan, least_bytes
from dgl_lc.precompute.request import Request
from dgl_lc.precompute.survey import survey
from dgl_lc.storage.disk_graph import DiskGraph
from dgl_lc.testing.peak_memory import peak_memory

#: What Python may take for its own objects in a call that is refused.
PYTHON = 1 << 19


def draw(rng):
    """Sizes, types and options of a call."""
    n = rng.choice([1_000, 30_000, 100_000, 250_000])
    K = rng.choice([0, 1, 2, 3])
    return {
        "n": n,
        "m": n * rng.choice([1, 4, 12]),
        "format": rng.choice(["coo", "csr", "csc"]),
        "given": rng.choice(["dgl", "dgl", "scipy", "torch", "pair"]),
        "index": rng.choice(["int32", "int64"]),
        "columns": rng.choice([1, 7, 32]),
        "K": K,
        "hops": rng.choice([None, [K]]),
        "share": rng.choice([None, None, 0.01, 0.5, 0.9]),
        "nodes_type": rng.choice(["int32", "int64"]),
        "feat": rng.choice(["float32", "float64"]),
        "dtype": rng.choice(["float32", "float64", "float16", "bfloat16"]),
        "weight": rng.choice([None, None, "float32", "float64"]),
        "stored": rng.choice([False, False, True]),
        "room": rng.choice([1.0, 1.0, 1.1, 1.5, 4.0]),
        "threads": rng.choice([1, 2, 4, 12]),
        "on_disk": rng.random() < 0.25,
    }


def as_torch(g):
    """Give a scipy matrix as a torch tensor that views its arrays."""
    if g.format == "coo":
        ends = torch.from_numpy(np.stack([g.row, g.col]).astype(np.int64))
        return torch.sparse_coo_tensor(ends, torch.from_numpy(g.data), g.shape)
    make = getattr(torch, f"sparse_{g.format}_tensor")
    arrays = (g.indptr, g.indices, g.data)
    return make(*map(torch.from_numpy, arrays), g.shape)


class Case:
    """A call with its arguments; a graph on disk is written to the folder."""

    def __init__(self, case, seed, folder):
        generator = torch.Generator().manual_seed(seed)
        self.case, self.seed, self.folder = case, seed, folder
        self.x = torch.rand(case["n"], case["columns"], generator=generator)
        self.x = self.x.to(getattr(torch, case["feat"]))
        nodes = weight = None
        if case["share"] is not None:
            nodes = torch.randperm(case["n"], generator=generator)
            nodes = nodes[: max(1, int(case["share"] * case["n"]))]
            nodes = nodes.to(getattr(torch, case["nodes_type"])).clone()
        if case["weight"] is not None:
            weight = torch.rand(case["m"], generator=generator)
            weight = weight.to(getattr(torch, case["weight"]))
        self.nodes, self.weight = nodes, weight
        self.dtype = getattr(torch, case["dtype"])
        if case["on_disk"]:
            self._write_graph()

    def _write_graph(self):
        edges = torch.stack(self._edges())
        np.save(f"{self.folder}/edges.npy", edges.numpy())
        weights = None
        if self.weight is not None:
            # The graph has them.
            weights = f"{self.folder}/weights.npy"
            np.save(weights, self.weight.numpy())
            self.weight = None
        build_disk_graph(
            f"{self.folder}/edges.npy", self.case["n"],
            f"{self.folder}/graph", weights=weights,
        )  # fmt: skip

    def graph(self):
        case = self.case
        if case["on_disk"]:
            return DiskGraph(f"{self.folder}/graph")
        u, v = self._edges()
        if case["given"] == "dgl":
            g = dgl.graph((u, v), num_nodes=case["n"])
            return g.formats(case["format"])
        if case["given"] == "pair":
            return u, v
        ones = np.ones(case["m"], np.float32)
        g = sparse.coo_array((ones, (u.numpy(), v.numpy())), (case["n"],) * 2)
        g = getattr(g, f"to{case['format']}")()
        if self.weight is not None:
            # A compressed matrix merges edges that occur twice.
            self.weight = self.weight[: g.nnz].clone()
        g.data[:] = 1
        return g if case["given"] == "scipy" else as_torch(g)

    def _edges(self):
        case = self.case
        g = power_law_graph(case["n"], case["m"], seed=self.seed)
        index = getattr(torch, case["index"])
        return tuple(ends.to(index) for ends in g.edges(order="eid"))

    def work(self):
        request = Request.of(
            self.graph(), self.x, self.case["K"], weight=self.weight,
            nodes=self.nodes, hops=self.case["hops"], dtype=self.dtype,
        )  # fmt: skip
        return survey(request, None, self.case["stored"]).work

    def run(self, g, memory, folder):
        return block_aggregate(
            g, self.x, self.case["K"], edge_weight=self.weight,
            nodes=self.nodes, hops=self.case["hops"], dtype=self.dtype,
            out=f"{folder}/hops" if self.case["stored"] else None,
            memory=memory,
        )  # fmt: skip


def measure(seed, options):
    with tempfile.TemporaryDirectory() as folder:
        return measure_in(folder, seed, options)


def measure_in(graph_folder, seed, options):
    rng = random.Random(seed)
    case = draw(rng) | options
    torch.set_num_threads(case["threads"])
    call = Case(case, seed, graph_folder)
    work = call.work()
    least = least_bytes(work)
    memory = int(least * case["room"])
    plan = choose_plan(None, work, memory)
    with tempfile.TemporaryDirectory() as folder:
        call.run(call.graph(), memory, folder)  # loads kernels and libraries
    g, results = call.graph(), []
    with tempfile.TemporaryDirectory() as folder:
        peak = peak_memory(
            lambda: results.append(call.run(g, memory, folder)),
            maps_files=case["stored"] or case["on_disk"],
        )
    refused = call.graph()
    too_little = least - 1 if work.all_rows else int(least * rng.random())

    def refuse():
        with pytest.raises(DGLError, match="is too small"):
            call.run(refused, max(1, too_little), "/nowhere")

    refuse_peak = peak_memory(refuse, maps_files=case["on_disk"])
    limit = 0 if work.all_rows or not work.K else too_little
    if work.copies_nodes:
        # Ids of another type are converted when they are checked.
        limit = max(limit, 8 * work.kept_rows)
    return {
        "seed": seed, "case": case, "memory": memory, "peak": peak,
        "plan": plan.peak_bytes, "refused": refuse_peak,
        "refused_limit": limit + PYTHON,
        "items": {i.label: size for i, size in plan.items.items() if size},
    }  # fmt: skip


def main():
    for seed, options in json.loads(sys.argv[1]):
        print(json.dumps(measure(seed, options)), flush=True)


if __name__ == "__main__":
    main()
