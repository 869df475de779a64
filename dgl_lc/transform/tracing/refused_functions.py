"""Functions of DGL that are refused by name, where models call them."""

from collections.abc import Iterator
from typing import Any

import dgl

from .. import causes

#: Functions that draw random walks.
_WALKS = ("random_walk", "node2vec_random_walk")
#: Functions that compute features from a graph, by SciPy or NumPy.
_ENCODINGS = ("random_walk_pe", "svd_pe", "shortest_dist")
#: Functions that do so, with signs that are drawn at random.
_RANDOM_ENCODINGS = ("lap_pe", "laplacian_pe")

_BEFORE = "Compute it once, before the model is called, and pass it as features"

#: What is said of SetTransformerEncoder and its kind.
ATTENTION_OF_A_GRAPH = (
    causes.ATTENTION_OF_NODES,
    "attention between all nodes of a graph",
    "mixes nodes: each node attends to all others (SetTransformerEncoder), "
    "and a mini-batch has only some of them",
    "Use a fixed graph, given to the model, and no attention between nodes",
)


def refused_functions() -> Iterator[tuple[Any, ...]]:
    """Yield (module, name, cause, operation, reason, advice)."""
    for name in _WALKS:
        yield (
            dgl.sampling, name, causes.GRAPH_MADE_IN_FORWARD, name,
            "draws random walks, so that what a node sees is not constant",
            "Use all neighbours, or draw the walks before the model is called "
            "and pass a graph made of them",
        )  # fmt: skip
    for name in _RANDOM_ENCODINGS:
        if hasattr(dgl, name):
            yield (
                dgl, name, causes.RANDOM_NUMBERS, f"{name} (LaplacianPE)",
                "computes eigenvectors outside of torch, with signs that are "
                "drawn at random in each call", _BEFORE,
            )  # fmt: skip
    for name in _ENCODINGS:
        if hasattr(dgl, name):
            yield (
                dgl, name, causes.OUTSIDE_TORCH, name,
                "computes features of the graph outside of torch, where they "
                "can't be followed", _BEFORE,
            )  # fmt: skip
