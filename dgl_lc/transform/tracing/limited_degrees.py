"""Random edges of probes whose degrees are not above those of a graph.

Degrees may choose rows of a table: ``nn.Embedding(32, 8)(g.in_degrees())`` runs
on the user's graph, but not on a probe with a node of degree 40.
"""

from collections.abc import Sequence

import dgl
import torch

Edges = tuple[torch.Tensor, torch.Tensor]

#: Shares of the edges that fit, which differ between probes.
_SHARES = (0.5, 0.6, 0.7, 0.8)


def largest_degree(graph: dgl.DGLGraph) -> int:
    """Return a degree that both the in- and the out-degrees reach."""
    if graph.num_nodes() == 0:
        return 0
    both = graph.in_degrees().max(), graph.out_degrees().max()
    return int(min(both))


def limited_edges(
    n: int, limit: int, seed: int, primes: Sequence[int],
    generator: torch.Generator,
) -> Edges | None:  # fmt: skip
    """Draw edges of n nodes, of which none has more than ``limit``.

    Every node has an edge in and an edge out; there are self-loops and
    multi-edges. Their number is one of ``primes``. None is returned if there
    is no such graph.
    """
    if limit < 2:
        return None
    cycle = torch.randperm(n, generator=generator)
    layers = [_loops_and_repeated(cycle)]
    for _ in range(min(limit - 2, 2 + seed)):
        # Each node has one edge in and one edge out, or a self-loop.
        order = torch.randperm(n, generator=generator)
        layers.append((torch.arange(n), order))
    u = torch.cat([source for source, _ in layers])
    v = torch.cat([target for _, target in layers])
    wanted = n + _SHARES[seed % len(_SHARES)] * len(u)
    count = next((p for p in primes if p > wanted), n + len(u) + 1)
    if count > n + len(u):
        return None
    kept = torch.randperm(len(u), generator=generator)[: count - n]
    return torch.cat([cycle, u[kept]]), torch.cat([cycle.roll(1), v[kept]])


def _loops_and_repeated(cycle: torch.Tensor) -> Edges:
    """Return self-loops of some nodes, and edges of a cycle for others."""
    a, b = len(cycle) // 3, 2 * len(cycle) // 3
    source = torch.cat([cycle[:a], cycle[a + 1 : b]])
    target = torch.cat([cycle[:a], cycle.roll(1)[a + 1 : b]])
    return source, target
