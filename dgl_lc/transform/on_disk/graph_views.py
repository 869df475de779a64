"""Graphs that a model derives from one on disk, without a copy of it.

``dgl.add_self_loop`` and ``dgl.remove_self_loop`` change the diagonal of the
adjacency matrix alone, and ``dgl.reverse`` swaps the ends of edges.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
import torch

from ...storage.disk_graph import DiskGraph
from .. import causes
from ..refusals import refuse

#: Arguments of DGL's functions that change nothing here, by their places.
_ADD = {
    "edge_feat_names": (None,),
    "fill_data": (1.0, 1, None),
    "etype": (None,),
}
_REMOVE = {"etype": (None,)}
#: Functions from graph to graph for which no edges have to be written.
_VIEWS = ("reverse", "add_self_loop", "remove_self_loop")
#: What to write instead of functions that would need another graph on disk.
_INSTEAD = {
    "to_bidirected": "write the graph with build_disk_graph(add_reverse=True)",
    "to_simple": "remove multi-edges before build_disk_graph writes the graph",
    "khop_graph": "write the k-hop graph with build_disk_graph",
}


@dataclass(frozen=True)
class EdgeChunk:
    """Some edges of a graph, and their weights.

    Attributes
    ----------
    source, target : Tensor
        Both ends, as in the user's graph.
    weight : Tensor or None
        Weights of the edges in the graph, if it has any.
    """

    source: torch.Tensor
    target: torch.Tensor
    weight: torch.Tensor | None

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True)
class GraphView:
    """A graph on disk as a model derived it.

    Attributes
    ----------
    graph : DiskGraph
        The graph on disk.
    reversed : bool
        Whether the ends of edges are swapped.
    drops_loops : bool
        Whether the self-loops of the graph are left out.
    added_loops : int
        How many self-loops each node has beside those of the graph.
    """

    graph: DiskGraph
    reversed: bool = False
    drops_loops: bool = False
    added_loops: int = 0

    @classmethod
    def of(cls, key: Any, graphs: dict[str, DiskGraph]) -> "GraphView":
        """Follow what a model derived, or refuse it."""
        if isinstance(key, str):
            return cls(graphs[key])
        name, base, args, kwargs = key
        if name not in _VIEWS:
            _refuse_graph(name)
        view = cls.of(base, graphs)
        if name == "reverse":
            return replace(view, reversed=not view.reversed)
        if name == "add_self_loop":
            _check_arguments(name, _ADD, args, kwargs)
            return replace(view, added_loops=view.added_loops + 1)
        _check_arguments(name, _REMOVE, args, kwargs)
        return replace(view, drops_loops=True, added_loops=0)

    @property
    def has_loops(self) -> bool:
        """Whether it has self-loops of the graph itself."""
        return not self.drops_loops and bool(self.graph.loops.any())

    def num_edges(self) -> int:
        """Count the edges."""
        dropped = 0
        if self.drops_loops:
            dropped = int(self.graph.loops.sum(dtype=np.int64))
        added = self.added_loops * self.graph.num_nodes()
        return self.graph.num_edges() - dropped + added

    def degrees(self, name: str, at: np.ndarray | slice) -> np.ndarray:
        """Return the in_degrees or out_degrees of some nodes."""
        graph = self.graph
        if (name == "in_degrees") != self.reversed:
            if isinstance(at, slice):
                ends = graph.indptr[at.start : at.stop + 1]
                found = np.diff(ends)
            else:
                found = graph.indptr[at + 1] - graph.indptr[at]
        else:
            found = graph.out_edges[at].astype(np.int64)
        if self.drops_loops:
            found = found - graph.loops[at]
        return found + self.added_loops

    def describe(self) -> list[Any]:
        """Return what stands for the graph in keys."""
        return [
            self.graph.check_key(),
            self.reversed,
            self.drops_loops,
            self.added_loops,
        ]


#: What makes a graph that no function of DGL makes.
_NOT_OF_DGL = {
    "matrix": "a product with a matrix",
    "indexed": "a sum by indices that forward makes",
}


def _refuse_graph(name: str) -> NoReturn:
    """Refuse a graph whose edges are not those on disk."""
    what = _NOT_OF_DGL.get(name, f"dgl.{name}")
    advice = _INSTEAD.get(name, "write the graph that it stands for")
    refuse(
        causes.NOT_ON_DISK,
        "",
        what,
        "is not known for a graph on disk, whose edges would have to be "
        "written again",
        f"Derive the graph outside of forward: {advice}",
    )


def _check_arguments(
    name: str, plain: dict[str, tuple], args: tuple, kwargs: tuple
) -> None:
    given = dict(zip(plain, args, strict=False)) | dict(kwargs)
    for argument, value in given.items():
        if value not in plain.get(argument, ()):
            refuse(
                causes.NOT_ON_DISK,
                "",
                f"dgl.{name}({argument}={value!r})",
                "is not known for a graph on disk",
                "Use the default, or derive the graph before it is written",
            )


def edge_chunks(
    graph: DiskGraph, first: int, size: int, swapped: bool = False
) -> Iterator[EdgeChunk]:
    """Read the edges of a graph from a place on, in the order of its files.

    With ``swapped``, the graph on disk is the reverse of the user's.
    """
    indptr, m = graph.indptr, graph.num_edges()
    for low in range(first, m, size):
        high = min(low + size, m)
        source = torch.from_numpy(graph.indices[low:high].astype(np.int64))
        begin = int(np.searchsorted(indptr, low, "right")) - 1
        end = int(np.searchsorted(indptr, high, "left"))
        # The first and the last node may have edges outside of the chunk.
        ends = np.clip(np.array(indptr[begin : end + 1]), low, high)
        target = torch.repeat_interleave(
            torch.arange(begin, end), torch.from_numpy(np.diff(ends))
        )
        weight = None
        if graph.weights is not None:
            weight = torch.from_numpy(np.array(graph.weights[low:high]))
        if swapped:
            source, target = target, source
        yield EdgeChunk(source, target, weight)


def loop_chunks(
    num_nodes: int, size: int, weighted: bool
) -> Iterator[EdgeChunk]:
    """Give the self-loops that ``dgl.add_self_loop`` adds, one per node."""
    for low in range(0, num_nodes, size):
        nodes = torch.arange(low, min(low + size, num_nodes))
        weight = torch.ones(len(nodes)) if weighted else None
        yield EdgeChunk(nodes, nodes, weight)
