"""Transforms of DGL: those that draw at random, and those that do not.

Graphs that are drawn at random are refused. Graphs that are computed from
another one are derived on the user's graph again.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, NamedTuple

import dgl
from dgl.transforms import module as transforms

from .. import causes
from ..causes import Cause

_OUTSIDE = "Apply it to the graph before the model is called"


class Refused(NamedTuple):
    """A function of DGL that is refused: why, and what to do."""

    cause: Cause
    reason: str
    advice: str


#: Transforms of dgl.transforms, by the names of their classes.
TRANSFORMS: dict[str, Refused] = {
    "DropEdge": Refused(
        causes.DROPPED_EDGES,
        "drops edges at random, so that the filter is not constant",
        "Remove it from forward, or pass ignore_edge_dropout=True",
    ),
    "DropNode": Refused(
        causes.SHUFFLED_NODES,
        "drops nodes at random, so that neither the filter nor the rows are "
        "constant",
        "Remove it from forward, or apply dropout to the features",
    ),
    "AddEdge": Refused(
        causes.GRAPH_MADE_IN_FORWARD,
        "adds edges at random, so that the filter is not constant",
        _OUTSIDE,
    ),
    "FeatMask": Refused(
        causes.RANDOM_NUMBERS,
        "masks columns of the features at random",
        "Apply nn.Dropout to the features instead",
    ),
    "NodeShuffle": Refused(
        causes.SHUFFLED_NODES, "shuffles the nodes at random", _OUTSIDE
    ),
}

#: Transforms of dgl.transforms that compute a graph from another one.
COMPUTED = ("PPR", "HeatKernel", "GDC", "AddReverse")

#: Functions of dgl.sampling.
SAMPLING = (
    "sample_neighbors", "sample_labors", "select_topk", "random_walk",
    "node2vec_random_walk", "global_uniform_negative_sampling",
)  # fmt: skip

SAMPLED = Refused(
    causes.GRAPH_MADE_IN_FORWARD,
    "samples the graph in forward, so that its filter is not constant",
    "Use the whole graph: the LC version saves memory by mini-batches of "
    "nodes instead",
)


def random_transforms() -> Iterator[tuple[type, Refused]]:
    """Yield the transforms of this DGL that draw random numbers."""
    for name, refused in TRANSFORMS.items():
        if hasattr(transforms, name):
            yield getattr(transforms, name), refused


def sampling_functions() -> Iterator[str]:
    """Yield the names of the sampling functions of this DGL."""
    for name in SAMPLING:
        if hasattr(dgl.sampling, name):
            yield name


def computed_graphs() -> Iterator[type]:
    """Yield the transforms of this DGL that compute a graph from another."""
    for name in COMPUTED:
        if hasattr(transforms, name):
            yield getattr(transforms, name)


def compute_graph(
    name: str, options: tuple, graph: dgl.DGLGraph
) -> dgl.DGLGraph:
    """Apply a transform of the same options to another graph."""
    kind = getattr(transforms, name)
    made = kind.__new__(kind)
    vars(made).update(dict(options))
    return made(graph)


@contextmanager
def keeping_edges(keep: bool) -> Iterator[None]:
    """Let DropEdge drop nothing in this block and thread, if ``keep``."""
    if not keep:
        yield
        return
    original: Callable = transforms.DropEdge.__call__
    thread = threading.get_ident()

    @wraps(original)
    def call(self: Any, graph: dgl.DGLGraph) -> dgl.DGLGraph:
        if threading.get_ident() == thread:
            return graph.clone()
        return original(self, graph)

    transforms.DropEdge.__call__ = call
    try:
        yield
    finally:
        transforms.DropEdge.__call__ = original
