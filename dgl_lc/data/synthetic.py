"""Generated graphs, of any size, seeded and fast."""

import dgl
import numpy as np
import torch
from dgl import DGLError


def power_law_graph(
    num_nodes: int,
    num_edges: int,
    *,
    exponent: float = 2.5,
    seed: int = 0,
) -> dgl.DGLGraph:
    r"""A random graph whose degrees follow a power law.

    Both ends of an edge are drawn at random, node i with weight
    :math:`i^{-1/(\gamma - 1)}`; nodes are then renamed at random. Every edge
    is there in both directions; there are no self-loops, and there are
    multi-edges.

    Parameters
    ----------
    num_nodes : int
        At least 2.
    num_edges : int
        An even number: both directions are counted.
    exponent : float
        :math:`\gamma` of the degrees' distribution, above 2.
    seed : int
        The same seed gives the same graph.

    Examples
    --------
    >>> from dgl_lc.data import power_law_graph
    >>> g = power_law_graph(1000, 8000)
    >>> g.num_nodes(), g.num_edges()
    (1000, 8000)
    """
    if num_nodes < 2:
        raise DGLError(f"num_nodes should be at least 2, got {num_nodes}.")
    if num_edges < 0 or num_edges % 2:
        raise DGLError(
            f"num_edges counts both directions and should be even, got "
            f"{num_edges}."
        )
    if exponent <= 2:
        raise DGLError(f"exponent should be above 2, got {exponent}.")
    rng = np.random.default_rng(seed)
    power = 1 / (1 - 1 / (exponent - 1))
    names = rng.permutation(num_nodes)

    def draw(count):
        # The inverse of the weights' cumulative sum, as an integral.
        ranks = num_nodes * rng.random(count) ** power
        return ranks.astype(np.int64)

    source, target = draw(num_edges // 2), draw(num_edges // 2)
    loops = source == target
    target[loops] = (target[loops] + 1) % num_nodes
    source, target = names[source], names[target]
    return dgl.graph(
        (
            torch.from_numpy(np.concatenate([source, target])),
            torch.from_numpy(np.concatenate([target, source])),
        ),
        num_nodes=num_nodes,
    )
