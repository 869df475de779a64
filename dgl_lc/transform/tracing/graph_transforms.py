"""Transforms of DGL in forward: computed graphs, and dropped edges.

A graph that is computed from another one, such as PPR's, is computed again on
the user's graph. Dropped edges may be ignored.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import dgl
from dgl.transforms import module as transforms

#: Transforms of dgl.transforms that compute a graph from another one.
COMPUTED = ("PPR", "HeatKernel", "GDC", "AddReverse")


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
