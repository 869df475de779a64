r"""Filters: :math:`S = diag(left)\,(A + I)\,diag(right)`, never as a matrix.

The two diagonals are applied to rows before and after the sum, so that an
unweighted filter has no values: its edges are all there is.
"""

from collections.abc import Iterator

import numpy as np

from ..._common.threads import ranges
from ...hops import FilterSpec
from .edge_kernels import fill_diagonal
from .in_edges import EdgeBlock, InEdges


def diagonals(
    edges: InEdges, spec: FilterSpec, dtype: type
) -> tuple[np.ndarray, np.ndarray]:
    """The left and the right diagonal; empty arrays stand for ones.

    A node of degree 0 gets 0, never inf or NaN.
    """
    power = -0.5 if spec.norm == "both" else -1.0
    left: np.ndarray = np.empty(0, dtype)
    right = left
    if spec.norm in ("both", "right"):
        left = np.empty(edges.num_nodes, dtype)
        fill_diagonal(edges.indptr, edges.loops, spec.self_loop, power, left)
    if spec.norm in ("both", "left"):
        right = np.empty(edges.num_nodes, dtype)
        fill_diagonal(
            edges.out_edges, edges.loops, spec.self_loop, power, right
        )
    if np.array_equal(left, right):
        # A graph in both directions: one is enough.
        right = left
    return left, right


class Filter:
    """A filter ready to be applied, as ``num_blocks`` edge blocks.

    Sorted edges that are at hand are used as they are; where they would not
    fit in memory (more than one block of a graph that DGL has not sorted)
    each block is sorted anew whenever it is needed.
    """

    def __init__(
        self,
        edges: InEdges,
        spec: FilterSpec,
        dtype: type,
        weight: np.ndarray | None = None,
        num_blocks: int = 1,
    ):
        self.spec = spec
        self.edges = edges
        self.left, self.right = diagonals(edges, spec, dtype)
        self.drop_loops = spec.self_loop and bool(edges.loops.any())
        bounds = ranges(edges.num_edges, num_blocks)
        self.bounds = np.array([0] + [end for _, end in bounds], np.int64)
        self._weight = np.empty(0, dtype) if weight is None else weight
        self._whole = None
        if num_blocks == 1 or not edges.owned:
            self._whole = edges.whole(self._weight)
        else:
            edges.unload()

    def blocks(self) -> Iterator[EdgeBlock]:
        """The edge blocks, in order."""
        room = None
        for begin, end in zip(self.bounds[:-1], self.bounds[1:], strict=True):
            if self._whole is not None:
                yield self._whole
                continue
            block = self.edges.sort(
                int(begin), int(end), self._weight, into=room
            )
            # The first block is the largest; its arrays serve the others.
            room = room or block
            yield block
