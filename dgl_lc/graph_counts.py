"""The counts of a graph that hop features remember."""

import math
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

#: Hashes are sums modulo this.
MODULUS = 2**64


class DegreeHashes(NamedTuple):
    """Sums over nodes v of ``mix(v)`` times a number of edges, modulo 2**64.

    ``mix`` is :func:`dgl_lc.precompute.graph.edge_kernels.mix`. Graphs with
    another degree at any node have other sums, except by a chance of 2**-64.
    They are linear in the degrees, so that those of a graph with more
    self-loops follow from them.

    Attributes
    ----------
    in_edges, out_edges, loops : int
        The hash of the in-degrees, out-degrees and numbers of self-loops.
    nodes : int
        The hash for one edge per node.
    """

    in_edges: int
    out_edges: int
    loops: int
    nodes: int

    def add_loops(self, more: int) -> "DegreeHashes":
        """Return the hashes if nodes have more self-loops, given by a hash."""
        in_edges, out_edges, loops, nodes = self
        sums = (in_edges + more, out_edges + more, loops + more, nodes)
        return DegreeHashes(*(part % MODULUS for part in sums))


class WeightSums(NamedTuple):
    """The sum of the weights of edges, and the sum of their squares."""

    weights: float
    squares: float

    def add_ones(self, count: int) -> "WeightSums":
        """Return the sums with so many more weights of 1."""
        return WeightSums(self.weights + count, self.squares + count)

    @property
    def finite(self) -> bool:
        """Whether both are numbers."""
        return all(map(math.isfinite, self))


@dataclass(frozen=True)
class GraphCounts:
    """What is known of the graph that hop features were computed on.

    Two graphs with other counts are not the same. It holds no graph, so that
    it can be copied and stored, and keeps none alive.

    Attributes
    ----------
    num_nodes, num_edges : int
        Nodes and edges.
    num_loops, num_looped : int
        Self-loops, and nodes that have at least one.
    balanced : bool
        Whether every node has as many edges out as in, as in a graph in both
        directions.
    degrees : DegreeHashes or None
        Hashes of the degrees of all nodes; None if they are not known. They
        are compared if both graphs' are known.
    weights : WeightSums or None
        Sums of the edge weights of the filter; None for a filter without
        weights, or if they are not known. They are not compared here.

    Examples
    --------
    >>> counts = GraphCounts(3, 5, 1, 1, False)
    >>> counts.seen(self_loop=True)
    GraphCounts(num_nodes=3, num_edges=7, num_loops=3, num_looped=3,
                balanced=False)
    """

    num_nodes: int
    num_edges: int
    num_loops: int
    num_looped: int
    balanced: bool
    degrees: DegreeHashes | None = field(
        default=None, compare=False, repr=False
    )
    weights: WeightSums | None = field(default=None, compare=False, repr=False)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GraphCounts):
            return NotImplemented
        if None not in (self.degrees, other.degrees):
            return self._counts == other._counts and (
                self.degrees == other.degrees
            )
        return self._counts == other._counts

    @property
    def _counts(self) -> tuple[int, ...]:
        return (
            self.num_nodes, self.num_edges, self.num_loops, self.num_looped,
            self.balanced,
        )  # fmt: skip

    @property
    def one_loop_each(self) -> bool:
        """Whether every node has exactly one self-loop."""
        return self.num_loops == self.num_looped == self.num_nodes

    def seen(self, self_loop: bool) -> "GraphCounts":
        """Count the graph as a filter sees it.

        With ``self_loop`` each node has one self-loop instead of its own.
        """
        if not self_loop:
            return self
        n = self.num_nodes
        others = self.num_edges - self.num_loops
        degrees, weights = self.degrees, self.weights
        if degrees is not None:
            degrees = degrees.add_loops(degrees.nodes - degrees.loops)
        if weights is not None:
            # The sums without the graph's own self-loops are not known.
            weights = None if self.num_loops else weights.add_ones(n)
        return replace(
            self, num_edges=others + n, num_loops=n, num_looped=n,
            degrees=degrees, weights=weights,
        )  # fmt: skip

    def add_loops(self) -> "GraphCounts":
        """Count the graph after ``dgl.add_self_loop``, with weights of 1."""
        n = self.num_nodes
        degrees, weights = self.degrees, self.weights
        if degrees is not None:
            degrees = degrees.add_loops(degrees.nodes)
        if weights is not None:
            weights = weights.add_ones(n)
        return replace(
            self, num_edges=self.num_edges + n, num_loops=self.num_loops + n,
            num_looped=n, degrees=degrees, weights=weights,
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """Return what :meth:`from_json` reads."""
        found = {name: getattr(self, name) for name in _COUNTS}
        if self.degrees is not None:
            found["degrees"] = [f"{part:016x}" for part in self.degrees]
        if self.weights is not None:
            found["weights"] = list(self.weights)
        return found

    @staticmethod
    def from_json(found: Any) -> "GraphCounts":
        """Read what a file says; a ValueError if that can't be."""
        if not isinstance(found, dict) or not set(_COUNTS) <= set(found) <= set(
            _COUNTS
        ) | set(_OPTIONAL):
            raise ValueError("these are not the counts of a graph")
        *sizes, balanced = (found[name] for name in _COUNTS)
        if not all(type(size) is int for size in sizes):
            raise ValueError(f"{found} can't be")
        counts = GraphCounts(
            **{name: found[name] for name in _COUNTS},
            degrees=_read_degrees(found),
            weights=_read_weights(found),
        )
        sums = counts.weights
        good = (
            type(balanced) is bool
            and 1 <= counts.num_nodes < 2**31
            and 0 <= counts.num_looped <= counts.num_nodes
            and counts.num_looped <= counts.num_loops <= counts.num_edges
            and (counts.num_loops == 0 or counts.num_looped > 0)
            and (sums is None or _can_be(sums, counts.num_edges))
        )
        if not good:
            raise ValueError(f"{found} can't be")
        return counts

    def __str__(self) -> str:
        loops = "self-loop" if self.num_loops == 1 else "self-loops"
        nodes = "node" if self.num_looped == 1 else "nodes"
        return (
            f"{self.num_nodes:,} nodes, {self.num_edges:,} edges and "
            f"{self.num_loops:,} {loops} (at {self.num_looped:,} {nodes})"
        )


_OPTIONAL = ("degrees", "weights")
_COUNTS = tuple(
    part.name for part in fields(GraphCounts) if part.name not in _OPTIONAL
)


def _read_degrees(found: dict[str, Any]) -> DegreeHashes | None:
    if "degrees" not in found:
        return None
    parts = found["degrees"]
    good = (
        isinstance(parts, list)
        and len(parts) == len(DegreeHashes._fields)
        and all(
            isinstance(part, str)
            and len(part) == 16
            and set(part) <= set("0123456789abcdef")
            for part in parts
        )
    )
    if not good:
        raise ValueError(f"degrees {parts!r} can't be")
    return DegreeHashes(*(int(part, 16) for part in parts))


def _read_weights(found: dict[str, Any]) -> WeightSums | None:
    if "weights" not in found:
        return None
    parts = found["weights"]
    good = (
        isinstance(parts, list)
        and len(parts) == len(WeightSums._fields)
        and all(type(part) is float for part in parts)
    )
    if not good:
        raise ValueError(f"weights {parts!r} can't be")
    return WeightSums(*parts)


def _can_be(sums: WeightSums, count: int) -> bool:
    """Tell whether so many numbers have these sums."""
    most = math.sqrt(count * max(sums.squares, 0.0))
    return (
        sums.finite
        and sums.squares >= 0
        # Rounding may make a sum larger than the squares allow.
        and abs(sums.weights) <= most * (1 + 1e-6)
    )
