"""Random edges of probes that have what a graph of the user's has.

A forward may ask whether its graph has self-loops, parallel edges or nodes
without incoming edges, and do something else then. Where the branch of the
user's graph is not that of random graphs, probes are made that take it.
"""

from dataclasses import dataclass

import dgl
import torch

Edges = tuple[torch.Tensor, torch.Tensor]

#: Number of nodes without incoming edges, of self-loops if not all nodes have
#: one, and of parallel edges.
_SOME = 5


@dataclass(frozen=True)
class EdgeFacts:
    """What a forward may ask of the edges of a graph."""

    parallel: bool
    some_loops: bool
    all_loops: bool
    bare_nodes: bool


def facts_of(graph: dgl.DGLGraph) -> EdgeFacts:
    """Look at the edges of a graph."""
    u, v = graph.edges()
    loops = len(u[u == v].unique())
    return EdgeFacts(
        parallel=graph.is_multigraph,
        some_loops=loops > 0,
        all_loops=loops == graph.num_nodes(),
        bare_nodes=bool((graph.in_degrees() == 0).any()),
    )


def resembling_edges(
    n: int, count: int, facts: EdgeFacts, generator: torch.Generator
) -> Edges:
    """Draw edges that have the same facts; their number is ``count``.

    All nodes have an edge in, unless some are to have none, and there is a
    hub. The number has to be larger than 3 n.
    """
    cycle = torch.randperm(n, generator=generator)
    # The first ones are kept: what has to be there comes before the rest.
    u, v = torch.randint(0, n, (2, 6 * count), generator=generator)
    v[: count // 8] = cycle[-1]
    u = torch.cat([cycle, cycle, u])
    v = torch.cat([cycle, cycle.roll(1), v])
    keep = torch.ones(len(u), dtype=torch.bool)
    if not facts.all_loops:
        keep[: n - _SOME if facts.some_loops else n] = False
    if not facts.some_loops:
        keep &= u != v
    if facts.bare_nodes:
        keep &= ~torch.isin(v, cycle[:_SOME])
    ids = torch.tensor(list(dict.fromkeys((u * n + v)[keep].tolist())))
    if facts.parallel:
        ids = torch.cat([ids[-_SOME:], ids])
        ids[:_SOME] = ids[_SOME : 2 * _SOME]
    return ids[:count] // n, ids[:count] % n
