"""The paper's figure on precomputation: naive on the CPU against blocks.

Normalisation and aggregation are timed apart, as there; ours folds the
normalisation into rows, so that sorting the edges is what stands for it.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dgl
import numpy as np
import pandas as pd
import torch
from dgl import DGLError
from dgl.ops import copy_u_sum

from ..precompute import block_aggregate
from ..precompute.disk_folder import write_json
from ..precompute.published import Coefficients, Volumes, published_blocks
from .plots import bars
from .recorded_run import environment
from .tables import save_table
from .tasks import slug

#: A way prepares itself for a graph, columns and memory, and gives a function
#: of features and K: the last hop.
Way = Callable[[dgl.DGLGraph, int, int], Callable[[torch.Tensor, int], Any]]


def compare_blocks(
    g: dgl.DGLGraph,
    x: torch.Tensor,
    K: int,
    name: str,
    folder: Path,
    memory: int,
    runs: int = 3,
) -> pd.DataFrame:
    """Time all ways on a graph, check that they agree, save table and figure.

    ``memory`` is what the published scheme's block counts are solved for.
    """
    wanted = block_aggregate(g, x, K, hops=[K])[K]
    times: dict[str, dict[str, float]] = {}
    for way, prepare in WAYS.items():
        best = {"normalisation": float("inf"), "aggregation": float("inf")}
        for _ in range(runs):
            # A graph that nothing is known of yet; a clone would share
            # what was made of the last one.
            fresh = dgl.graph(g.edges(), num_nodes=g.num_nodes())
            assert "csc" not in fresh.formats()["created"]
            start = time.perf_counter()
            step = prepare(fresh, x.shape[1], memory)
            middle = time.perf_counter()
            found = step(x, K)
            end = time.perf_counter()
            best["normalisation"] = min(best["normalisation"], middle - start)
            best["aggregation"] = min(best["aggregation"], end - middle)
            error = float((found - wanted).abs().max())
            if not error < 1e-3:
                raise DGLError(f"{way} gives other hop features: {error:.1e}")
        times[way] = best
        print(f"  {way:32}{best['normalisation']:8.2f} s"
              f"{best['aggregation']:8.2f} s", flush=True)  # fmt: skip
    ours = sum(times[OURS].values())
    frame = pd.DataFrame(
        {
            "way": way,
            "normalisation s": parts["normalisation"],
            "aggregation s": parts["aggregation"],
            "in all s": sum(parts.values()),
            "times ours": sum(parts.values()) / ours,
        }
        for way, parts in times.items()
    )
    path = folder / f"cpu-vs-blocks-{slug(name)}"
    save_table(frame, path)
    write_json(path.with_name(f"{path.name}.json"), {"K": K, **environment()})
    title = (
        f"{name}: {g.num_nodes():,} nodes, {g.num_edges():,} edges, "
        f"{x.shape[1]} columns, K={K}"
    )
    bars(times, path.with_name(f"{path.name}.png"), title)
    print(f"  saved: {path}.csv, .md, .png")
    return frame


def _ours(g, columns, memory):
    g.create_formats_()
    return lambda x, K: block_aggregate(g, x, K, hops=[K], progress=False)[K]


def _entries(g):
    """S as the published code makes it: ids and values of every entry."""
    looped = dgl.add_self_loop(dgl.remove_self_loop(g))
    source, target = looped.edges()
    norm = looped.in_degrees().float().pow(-0.5)
    return source, target, norm[target] * norm[source]


def _published(g, columns, memory):
    """Algorithm 1: edge blocks in COO, column blocks, a hop at a time.

    Blocks are sorted once, in its favour: torch would do so at every product.
    """
    n = g.num_nodes()
    volumes = Volumes.of(n, g.num_edges(), columns)
    _, b, c = published_blocks(volumes, Coefficients(), memory, columns)
    source, target, values = _entries(g)
    size = -(-len(values) // b)
    blocks = [
        torch.sparse_coo_tensor(
            torch.stack([target[i : i + size], source[i : i + size]]),
            values[i : i + size], (n, n), check_invariants=False,
        ).coalesce()
        for i in range(0, len(values), size)
    ]  # fmt: skip

    def hops(x, K):
        width = -(-x.shape[1] // c)
        for _ in range(K):
            columns = []
            for first in range(0, x.shape[1], width):
                part = x[:, first : first + width].contiguous()
                total = torch.zeros_like(part)
                for block in blocks:
                    total += torch.spmm(block, part)
                columns.append(total)
            x = torch.cat(columns, dim=1)
        return x

    return hops


def _naive(g, columns, memory):
    """As OGB's and FSGNN's scripts: a sparse matrix of scipy on the CPU."""
    import scipy.sparse as sp

    source, target, values = (t.numpy() for t in _entries(g))
    n = g.num_nodes()
    s = sp.csr_matrix((values, (target, source)), (n, n))

    def hops(x, K):
        found = x.numpy()
        for _ in range(K):
            found = np.asarray(s @ found)
        return torch.from_numpy(found)

    return hops


def _dgl(g, columns, memory):
    """DGL's own kernel, with the norms folded into rows."""
    looped = dgl.add_self_loop(dgl.remove_self_loop(g))
    looped.create_formats_()
    norm = looped.in_degrees().float().pow(-0.5).unsqueeze(1)

    def hops(x, K):
        for _ in range(K):
            x = copy_u_sum(looped, x * norm).mul_(norm)
        return x

    return hops


OURS = "dgl-lc"
WAYS: dict[str, Way] = {
    "naive, scipy on the CPU": _naive,
    "published, blocks of COO": _published,
    "DGL copy_u_sum, norms folded": _dgl,
    OURS: _ours,
}
