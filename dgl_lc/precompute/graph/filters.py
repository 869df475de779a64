r"""Filters: :math:`S = diag(left)\,(A + I)\,diag(right)`, never as a matrix.

The two diagonals are applied to rows before and after the sum, so that an
unweighted filter has no values: its edges are all there is.
"""

from collections.abc import Iterator

import numpy as np

from ..._common.bytes import zeros
from ..._common.threads import ranges, run_parallel
from ...hops import FilterSpec
from .edge_kernels import are_equal, fill_diagonal
from .edge_reader import SLICE
from .in_edges import EdgeBlock, InEdges
from .sort_space import SortSpace

#: Rows whose degrees are raised to a power at a time.
_ROWS = 1 << 16


def diagonals(
    edges: InEdges, spec: FilterSpec, dtype: np.dtype | type
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Make the left and the right diagonal; None stands for ones.

    A node of degree 0 gets 0, never inf or NaN; with norm="in" it gets 1,
    because it may be the source of edges. A graph in both directions has one
    diagonal, given twice.
    """
    power = -0.5 if spec.norm in ("both", "in") else -1.0
    left = right = None
    if spec.norm in ("both", "right", "in"):
        left = _diagonal(
            edges.indptr, edges.loops, spec, power, int(spec.norm == "in"),
            dtype,
        )  # fmt: skip
    if spec.norm == "in":
        return left, left
    if spec.norm in ("both", "left"):
        right = _diagonal(edges.out_edges, edges.loops, spec, power, 0, dtype)
    if left is not None and right is not None and are_equal(left, right):
        right = left
    return left, right


def _diagonal(
    degrees: np.ndarray,
    loops: np.ndarray,
    spec: FilterSpec,
    power: float,
    least: int,
    dtype: np.dtype | type,
) -> np.ndarray:
    """Compute :func:`fill_diagonal` on all threads."""
    found = zeros(len(loops), dtype)
    # One more of the degrees, where they are begins of rows.
    more = len(degrees) - len(loops)
    parts = ranges(len(loops), max(1, len(loops) // _ROWS))

    def fill(_: int, part: int) -> None:
        first, last = parts[part]
        fill_diagonal(
            degrees[first : last + more], loops[first:last], spec.self_loop,
            power, least, found[first:last],
        )  # fmt: skip

    run_parallel(fill, len(parts))
    return found


def diagonal_bytes(num_nodes: int, num_diagonals: int, itemsize: int) -> int:
    """Count the bytes that :func:`diagonals` allocates."""
    return num_diagonals * itemsize * num_nodes


def block_bytes(num_edges: int, weight_size: int) -> int:
    """Count the bytes of sorted edges; ``weight_size`` is 0 without any."""
    return num_edges * (4 + weight_size)


class Filter:
    """A filter ready to be applied, as ``num_blocks`` edge blocks.

    Sorted edges that exist are used as they are; where they would not fit
    in memory (more than one block of a graph that DGL has not sorted) each
    block is sorted again whenever it is needed. ``places`` are the first and
    last (exclusive) edge, by destination, of a filter with only some of them;
    degrees stay those of the whole graph.
    """

    def __init__(
        self,
        edges: InEdges,
        spec: FilterSpec,
        dtype: np.dtype | type,
        weight: np.ndarray | None = None,
        num_blocks: int = 1,
        places: tuple[int, int] | None = None,
    ):
        self.spec = spec
        self.edges = edges
        self.left, self.right = diagonals(edges, spec, dtype)
        self.drop_loops = spec.self_loop and bool(edges.loops.any())
        first, last = places or (0, edges.num_edges)
        ends = [first + end for _, end in ranges(last - first, num_blocks)]
        self.bounds = np.array([first, *ends], np.int64)
        self._weight = weight
        self._whole: EdgeBlock | None = None
        self._room: EdgeBlock | None = None
        self.space: SortSpace | None = None
        if num_blocks == 1 or not edges.owned:
            if places is None:
                self._whole = edges.whole(weight)
            else:
                self._whole = edges.part(first, last, weight)
        else:
            edges.unload()
            self.space = SortSpace(edges.num_nodes, min(SLICE, edges.num_edges))

    @property
    def whole(self) -> EdgeBlock:
        """All edges, of a filter in one block."""
        assert self._whole is not None
        return self._whole

    def blocks(self) -> Iterator[EdgeBlock]:
        """Give the edge blocks, in order; each one overwrites the last."""
        for begin, end in zip(self.bounds[:-1], self.bounds[1:], strict=True):
            if self._whole is not None:
                yield self._whole
                continue
            block = self.edges.sort(
                int(begin), int(end), self._weight,
                into=self._room, space=self.space,
            )  # fmt: skip
            # The first block is the largest; its arrays serve the others.
            self._room = self._room or block
            yield block
