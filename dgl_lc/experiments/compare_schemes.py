"""The paper's figure on precomputation: naive on the CPU against blocks.

Normalisation and aggregation are timed separately, as in the paper. Ours
folds the normalisation into rows, so its first time is that of sorting the
edges.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import dgl
import numpy as np
import pandas as pd
import torch
from dgl import DGLError
from dgl.ops import copy_u_sum

from .._common.bytes import require_memory
from .._common.json_files import write_json
from ..data import power_law_graph
from ..precompute import block_aggregate
from ..precompute.planning.published import (
    Coefficients,
    Volumes,
    published_blocks,
)
from .environment import environment
from .originals import with_self_loops
from .plots import bars
from .results_folder import ResultsFolder, slug
from .tables import save_table
from .tasks import load_tasks

#: Computes the last hop from the features and K.
LastHop: TypeAlias = Callable[[torch.Tensor, int], torch.Tensor]

#: Prepares for a graph, a number of columns and a memory budget.
Scheme: TypeAlias = Callable[[dgl.DGLGraph, int, int], LastHop]


def reproduce_schemes(
    sources: list[str],
    node_counts: list[int],
    results: ResultsFolder,
    *,
    K: int,
    columns: int,
    memory: int,
    runs: int,
) -> None:
    """Compare the schemes on data sets and on generated graphs.

    Parameters
    ----------
    sources : list of str
        Data sets, whose graphs are used with random features.
    node_counts : list of int
        Numbers of nodes of power-law graphs with 16 times as many edges.
    results : ResultsFolder
        Where tables and figures are saved.
    K, columns, memory, runs : int
        As for :func:`compare_schemes`; ``columns`` is the number of random
        feature columns.
    """
    graphs = {}
    if sources:
        for data in load_tasks(sources, results).values():
            graphs[data.name] = data.graph
    for nodes in node_counts:
        graphs[f"power law {nodes}"] = power_law_graph(nodes, 16 * nodes)
    results.create()
    for name, g in graphs.items():
        print(f"{name}: normalisation, aggregation", flush=True)
        # The features, the hop before and the results that are compared.
        require_memory(
            16 * g.num_nodes() * columns,
            f"a comparison with columns={columns} on {name}",
            "choose fewer columns",
        )
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(g.num_nodes(), columns, generator=generator)
        compare_schemes(g, x, K, name, results.folder, memory, runs)


def compare_schemes(
    g: dgl.DGLGraph,
    x: torch.Tensor,
    K: int,
    name: str,
    folder: Path,
    memory: int,
    runs: int = 3,
) -> pd.DataFrame:
    """Time all schemes on a graph, and save a table and a figure.

    A scheme whose hop features differ from ours is an error.

    Parameters
    ----------
    g : DGLGraph
        The graph.
    x : Tensor
        The features.
    K : int
        The last hop.
    name : str
        Name of the graph in the title and in the names of the files.
    folder : Path
        Where to save.
    memory : int
        Bytes for which the published scheme chooses its blocks.
    runs : int, optional
        Number of runs, of which the fastest counts. Default: 3.
    """
    wanted = block_aggregate(g, x, K, hops=[K])[K]
    times: dict[str, dict[str, float]] = {}
    for scheme, prepare in SCHEMES.items():
        best = {"normalisation": float("inf"), "aggregation": float("inf")}
        for _ in range(runs):
            # A new graph each time, as a clone would share the formats that
            # DGL made for the previous run.
            fresh = dgl.graph(g.edges(), num_nodes=g.num_nodes())
            assert "csc" not in fresh.formats()["created"]
            start = time.perf_counter()
            last_hop = prepare(fresh, x.shape[1], memory)
            middle = time.perf_counter()
            found = last_hop(x, K)
            end = time.perf_counter()
            best["normalisation"] = min(best["normalisation"], middle - start)
            best["aggregation"] = min(best["aggregation"], end - middle)
            error = float((found - wanted).abs().max())
            if not error < 1e-3:
                raise DGLError(
                    f"the hop features of {scheme!r} differ from ours by "
                    f"{error:.1e}."
                )
        times[scheme] = best
        print(f"  {scheme:32}{best['normalisation']:8.2f} s"
              f"{best['aggregation']:8.2f} s", flush=True)  # fmt: skip
    ours = sum(times[OURS].values())
    frame = pd.DataFrame(
        {
            "scheme": scheme,
            "normalisation s": parts["normalisation"],
            "aggregation s": parts["aggregation"],
            "total s": sum(parts.values()),
            "relative to ours": sum(parts.values()) / ours,
        }
        for scheme, parts in times.items()
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


def _ours(g: dgl.DGLGraph, columns: int, memory: int) -> LastHop:
    g.create_formats_()
    return lambda x, K: block_aggregate(g, x, K, hops=[K], progress=False)[K]


def _entries(
    g: dgl.DGLGraph,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return S as the published code makes it: ids and value per entry."""
    looped = with_self_loops(g)
    source, target = looped.edges()
    norm = looped.in_degrees().float().pow(-0.5)
    return source, target, norm[target] * norm[source]


def _published(g: dgl.DGLGraph, columns: int, memory: int) -> LastHop:
    """Prepare Algorithm 1: edge blocks in COO, column blocks, hop by hop.

    Blocks are sorted once, in favour of this scheme: torch would otherwise
    sort them in every product.
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

    def last_hop(x: torch.Tensor, K: int) -> torch.Tensor:
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

    return last_hop


def _naive(g: dgl.DGLGraph, columns: int, memory: int) -> LastHop:
    """Prepare a sparse matrix of scipy, as the scripts of OGB and FSGNN."""
    import scipy.sparse as sp

    source, target, values = (t.numpy() for t in _entries(g))
    n = g.num_nodes()
    s = sp.csr_matrix((values, (target, source)), (n, n))

    def last_hop(x: torch.Tensor, K: int) -> torch.Tensor:
        found = x.numpy()
        for _ in range(K):
            found = np.asarray(s @ found)
        return torch.from_numpy(found)

    return last_hop


def _dgl(g: dgl.DGLGraph, columns: int, memory: int) -> LastHop:
    """Prepare DGL's own kernel, with the norms folded into rows."""
    looped = with_self_loops(g)
    looped.create_formats_()
    norm = looped.in_degrees().float().pow(-0.5).unsqueeze(1)

    def last_hop(x: torch.Tensor, K: int) -> torch.Tensor:
        for _ in range(K):
            x = copy_u_sum(looped, x * norm).mul_(norm)
        return x

    return last_hop


OURS = "dgl-lc"

#: The schemes by the names they have in tables and figures.
SCHEMES: dict[str, Scheme] = {
    "naive, scipy on the CPU": _naive,
    "published, blocks of COO": _published,
    "DGL copy_u_sum, norms folded": _dgl,
    OURS: _ours,
}
