"""Affine power iteration: rows that spread over the graph, with a restart."""

from collections.abc import Callable
from typing import Any

import dgl
import torch

from ..storage.disk_graph import DiskGraph
from .api import block_aggregate

#: Rows that are computed at a time.
_ROWS = 1 << 16


def propagate(
    graph: dgl.DGLGraph | DiskGraph,
    start: torch.Tensor,
    steps: int,
    alpha: float,
    after: Callable[[torch.Tensor], object],
    **options: Any,
) -> torch.Tensor:
    r"""Compute :math:`Y^{(t+1)} = \alpha S Y^{(t)} + (1 - \alpha) Y^{(0)}`.

    Beside ``start`` it takes the memory of two such tensors, of which one is
    counted in ``memory``.

    Parameters
    ----------
    graph : DGLGraph or DiskGraph
        The graph.
    start : Tensor
        :math:`Y^{(0)}`, a row for each node. It is not changed.
    steps : int
        The number of steps.
    alpha : float
        :math:`\alpha`.
    after : callable
        Is called with the result of each step, which it may change in place.
    **options
        The filter, and ``memory``, as for :func:`dgl_lc.block_aggregate`.

    Examples
    --------
    >>> import dgl, torch
    >>> g = dgl.graph(([0, 1], [1, 0]))
    >>> start = torch.tensor([[1.0], [0.0]])
    >>> propagate(g, start, 1, 0.5, id, norm="none", self_loop=False)
    tensor([[0.5000],
            [0.5000]])
    """
    found = start
    for _ in range(steps):
        found = block_aggregate(
            graph, found, 1, hops=[1], process_group=False, progress=False,
            **options,
        )[1]  # fmt: skip
        for own, first in zip(
            found.split(_ROWS), start.split(_ROWS), strict=True
        ):
            own.mul_(alpha).add_(first, alpha=1 - alpha)
        after(found)
    return found.clone() if found is start else found
