"""Filters of a model as calls of the engine on a graph on disk."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from ...storage.check_graph import check_weights
from ...storage.disk_graph import DiskGraph
from ...storage.edge_sources import EdgeSource, Slice, _collect
from ...storage.folder import HoldsSomethingElse, build
from ...storage.manifest import FolderKind, check_unchanged, read_manifest
from ...storage.npy_file import check_chunks, map_file
from ...storage.sort_edges import build_disk_graph
from ..filter_words import Aggregate, Diagonal, NormedAggregate
from .describe_values import spell
from .graph_views import GraphView, edge_chunks
from .static_values import At, StaticValues

WEIGHTS_KIND = FolderKind("edge weights", "lc.precompute(out=)")
_WEIGHTS = "weights.npy"


class _Powers(NamedTuple):
    """Powers of the degrees that a norm multiplies rows by."""

    left: float | None
    right: float | None
    of_sources: str = "out_degrees"


_POWERS = {
    "none": _Powers(None, None),
    "both": _Powers(-0.5, -0.5),
    "right": _Powers(-1.0, None),
    "left": _Powers(None, -1.0),
    "in": _Powers(-0.5, -0.5, "in_degrees"),
}
#: Bytes of weights after which what is written is kept.
_COMMIT = 1 << 28


@dataclass(frozen=True)
class Spec:
    """How the engine applies a filter.

    Attributes
    ----------
    norm, self_loop
        Options of :func:`dgl_lc.block_aggregate`.
    has_norms : bool
        Whether the engine applies the diagonals of the filter too.
    adds_loops : bool
        Whether a multiple of the rows themselves has to be added.
    """

    norm: str
    self_loop: bool
    has_norms: bool
    adds_loops: bool


class DiskEngine:
    """Finds the engine's options for filters on graphs on disk.

    Parameters
    ----------
    folder : Path
        Folder for graphs and weights that have to be written for it.
    """

    def __init__(
        self, values: StaticValues, folder: Path, progress: bool | None
    ) -> None:
        self._values, self._folder = values, folder
        self._progress = progress
        self._specs: dict[NormedAggregate, Spec] = {}
        self._graphs: dict[Aggregate, DiskGraph] = {}
        self._reversed: dict[int, DiskGraph] = {}

    def spec(self, unit: NormedAggregate) -> Spec:
        """Return the options for a filter."""
        if unit not in self._specs:
            self._specs[unit] = self._find_spec(unit)
        return self._specs[unit]

    def _find_spec(self, unit: NormedAggregate) -> Spec:
        letter = unit.aggregate
        view = self._values.view(letter.graph)
        plain = letter.weight is None or (
            self._values.edges.is_plain(letter.weight) and not letter.inverse
        )
        own = view.has_loops
        bare = unit.left is None and unit.right is None
        for self_loop, fits in (
            (False, view.added_loops == 0 and not view.drops_loops),
            (False, view.added_loops == 0 and not view.graph.loops.any()),
            (True, view.added_loops == 1 and not own and plain),
        ):
            if fits:
                norm = "none" if bare else find_norm(unit, self._values)
                found = norm is not None
                return Spec(norm or "none", self_loop, found, False)
        # Loops are dropped by replacing them by one loop of weight 1.
        return Spec("none", view.drops_loops, bare, True)

    def loops(self, letter: Aggregate, nodes: torch.Tensor) -> Any:
        """Return the multiple of its own row that each node gets."""
        view = self._values.view(letter.graph)
        replaced = 1.0 if view.drops_loops else 0.0
        if not view.added_loops:
            return -replaced
        weight = self._values.edges.loop_weights(letter, nodes)
        return view.added_loops * weight - replaced

    def prepare(self, letter: Aggregate) -> None:
        """Compute what `loops` needs for all nodes."""
        if letter.weight is not None:
            self._values.edges.prepare(letter.weight)

    def sizes(self, letter: Aggregate) -> tuple[DiskGraph, Any]:
        """Return a graph of the same size, and weights, for planning."""
        view = self._values.view(letter.graph)
        if letter.weight is None:
            return view.graph, False
        if view.graph.weights is not None:
            return view.graph, None
        empty = np.broadcast_to(np.zeros(1, np.float32), view.graph.num_edges())
        return WeightedDiskGraph(view.graph, empty, ""), None

    def graph(self, letter: Aggregate) -> tuple[DiskGraph, Any]:
        """Return the graph and the ``edge_weight`` that the engine takes."""
        view = self._values.view(letter.graph)
        if letter.weight is None:
            return self._oriented(view), False
        edges = self._values.edges
        if edges.is_plain(letter.weight) and not letter.inverse:
            return self._oriented(view), None
        if letter not in self._graphs:
            self._graphs[letter] = self._weighted(letter, view)
        return self._graphs[letter], None

    def _oriented(self, view: GraphView) -> DiskGraph:
        """Return the graph, or its reverse, which is written on disk."""
        graph = view.graph
        if not view.reversed:
            return graph
        if id(graph) not in self._reversed:
            path = self._folder / f"reverse-{len(self._reversed)}"
            left = self._values.memory.left("reversing the graph")
            memory: Any = {} if left is None else {"memory": left}

            def write(resume: bool) -> DiskGraph:
                return build_disk_graph(
                    _ReversedEdges(graph),
                    graph.num_nodes(),
                    path,
                    progress=self._progress,
                    resume=resume,
                    **memory,
                )

            self._reversed[id(graph)] = or_again(write)
        return self._reversed[id(graph)]

    def _weighted(self, letter: Aggregate, view: GraphView) -> DiskGraph:
        """Write the weights of a letter in the order of the graph's edges."""
        assert letter.weight is not None
        graph = self._oriented(view)
        value = letter.weight
        path = self._folder / f"weights-{len(self._graphs)}"
        made_from = {
            "graph": graph.check_key(),
            "weights": [*self.describe(letter)],
        }
        double = value.example.dtype == torch.float64
        dtype = np.dtype(np.float64 if double else np.float32)

        def write(resume: bool) -> None:
            options = {"dtype": dtype.name}
            with build(
                path,
                WEIGHTS_KIND,
                (_WEIGHTS,),
                made_from,
                options,
                resume=resume,
            ) as work:
                if work is not None:
                    file = work.array(_WEIGHTS, dtype)
                    kept = file.count
                    for part in self._parts(letter, view, graph, file.count):
                        file.append(part)
                        if (file.count - kept) * dtype.itemsize > _COMMIT:
                            kept = file.count
                            work.commit()
                    work.finish()

        or_again(write)
        self._values.forget()
        manifest = read_manifest(path, WEIGHTS_KIND)
        entry = manifest.files[_WEIGHTS]
        check_unchanged(path, manifest)
        check_chunks(path / _WEIGHTS, entry, range(len(entry.checksums or ())))
        text = f"{graph.check_key()} {manifest.key}"
        key = hashlib.sha256(text.encode()).hexdigest()
        return WeightedDiskGraph(graph, map_file(path / _WEIGHTS, entry), key)

    def _parts(
        self, letter: Aggregate, view: GraphView, graph: DiskGraph, first: int
    ) -> Iterator[np.ndarray]:
        edges, memory = self._values.edges, self._values.memory
        value = letter.weight
        assert value is not None
        graph.check_edges()
        edges.prepare(value)
        size = memory.chunk_rows(edges.chunk_bytes(value), "weights of edges")
        for chunk in edge_chunks(graph, first, size, swapped=view.reversed):
            found = edges.on(value, chunk)
            yield (1 / found if letter.inverse else found).numpy()

    def describe(self, letter: Aggregate) -> Iterator[Any]:
        """Yield what stands for a letter in keys."""
        yield self._values.view(letter.graph).describe()
        if letter.weight is not None:
            yield letter.inverse
            yield spell(letter.weight, self._values)


def or_again(write: Callable[[bool], Any]) -> Any:
    """Write a folder of intermediate results; what is out of date goes."""
    try:
        return write(True)
    except HoldsSomethingElse:
        return write(False)


def find_norm(unit: NormedAggregate, values: StaticValues) -> str | None:
    """Return the engine's name for the diagonals of a filter, if any.

    Diagonals are compared with powers of the degrees, in chunks of nodes.
    """
    left, right = unit.left, unit.right
    possible = [
        name
        for name, powers in _POWERS.items()
        if (powers.left is None) == (left is None)
        and (powers.right is None) == (right is None)
    ]
    key, n = unit.aggregate.graph, values.num_nodes
    parts = [d for d in (left, right) if d is not None]
    size = sum(values.chunk_bytes(d.factor) + 64 for d in parts)
    step = values.memory.chunk_rows(size + 64, "comparing norms with degrees")
    for low in range(0, n if parts else 0, step):
        at = slice(low, min(low + step, n))
        degrees = {
            name: torch.from_numpy(np.asarray(values.degrees(key, name, at)))
            for name in ("in_degrees", "out_degrees")
        }
        into, out = degrees["in_degrees"], degrees["out_degrees"]
        ends = [
            None if d is None else diagonal_at(d, at, values)
            for d in (left, right)
        ]
        for name in possible[:]:
            powers = _POWERS[name]
            same = _is_power(ends[0], into, powers.left, into) and _is_power(
                ends[1], degrees[powers.of_sources], powers.right, out
            )
            if not same:
                possible.remove(name)
        if not possible:
            break
    values.forget()
    return possible[0] if possible else None


def _is_power(
    values: torch.Tensor | None,
    degrees: torch.Tensor,
    power: float | None,
    edges: torch.Tensor,
) -> bool:
    """Tell whether numbers of nodes are this power of their degrees."""
    if values is None or power is None:
        return values is None and power is None
    # The factor of a node without edges has no effect.
    used = edges > 0
    expected = degrees[used].to(values).clamp(min=1) ** power
    return torch.allclose(values[used], expected, rtol=1e-6, atol=0)


def diagonal_at(
    diagonal: Diagonal, at: At, values: StaticValues
) -> torch.Tensor:
    """Return the factors of some nodes."""
    factor = values.rows(diagonal.factor, at).reshape(-1)
    return 1 / factor if diagonal.inverse else factor


class WeightedDiskGraph(DiskGraph):
    """A graph on disk with other weights, in the order of its edges."""

    def __init__(self, graph: DiskGraph, weights: np.ndarray, key: str) -> None:
        self.path, self.manifest = graph.path, graph.manifest
        self.indptr, self.indices = graph.indptr, graph.indices
        self.out_edges, self.loops = graph.out_edges, graph.loops
        self.weights = weights
        self._graph, self._key = graph, key
        self._is_checked = False

    @property
    def key(self) -> str:
        return self._key

    def check_key(self) -> str:
        self._graph.check_key()
        return self._key

    def check_edges(self) -> None:
        if not self._is_checked:
            self._graph.check_edges()
            assert self.weights is not None
            check_weights(self.weights, f"{self.path}, with computed weights")
            self._is_checked = True

    def check_counts(self) -> None:
        self._graph.check_counts()

    def check_rows(self, low: int, high: int) -> None:
        # The computed weights are looked at all together.
        self.check_edges()


class _ReversedEdges(EdgeSource):
    """The edges of a graph on disk, with their ends swapped."""

    def __init__(self, graph: DiskGraph) -> None:
        self._graph = graph
        self.what = f"the reverse of {graph.path}"
        self.num_edges = graph.num_edges()
        if graph.weights is not None:
            self.weight_type = graph.weights.dtype
        self.reader_bytes = 1 << 22

    def made_from(self) -> dict[str, Any]:
        return {"reverse of": self._graph.check_key()}

    def slices(self, buffers: Sequence[Slice]) -> Iterator[Slice]:
        self._graph.check_edges()
        width = len(buffers[0])

        def pieces() -> Iterator[Slice]:
            for chunk in edge_chunks(self._graph, 0, 1 << 16, swapped=True):
                found = [chunk.source, chunk.target, chunk.weight][:width]
                yield tuple(part.numpy() for part in found if part is not None)

        yield from _collect(pieces(), buffers)
