"""Products with a static matrix of nodes by nodes, as filters.

``g.adj_external() @ h``, a dense matrix of norms, or a matrix made of
``g.edges()``: whatever is computed from the graph alone is a filter, whose
edges are the entries of the matrix that are not zero.
"""

import operator
from typing import Any

import dgl
import torch

from .tracing.values import Value

#: Functions of a matrix and rows, by their names.
_PRODUCTS = frozenset({"_sparse_mm", "spmm", "mm", "matmul", "smm", "dsmm"})

#: Functions that return vectors of all nodes: eigenvectors, for instance.
_DECOMPOSITIONS = frozenset({
    "linalg_eigh", "linalg_eig", "linalg_svd", "linalg_qr", "svd", "qr",
    "svd_lowrank", "pca_lowrank", "lobpcg",
})  # fmt: skip
#: Functions that only turn a matrix, copy it or take a part of it.
_SAME_MATRIX = frozenset({
    "t", "T", "mT", "H", "mH", "transpose", "adjoint", "permute", "swapaxes",
    "contiguous", "clone", "to", "real", "float", "double", "getitem",
})  # fmt: skip


def is_of_vectors(matrix: Value) -> bool:
    """Return whether a matrix has vectors of a decomposition as its columns.

    Its columns do not belong to nodes, although it has as many of them.
    """
    while matrix.op == "call" and matrix.args and (
        matrix.name in _SAME_MATRIX and isinstance(matrix.args[0], Value)
    ):  # fmt: skip
        matrix = matrix.args[0]
    return matrix.op == "call" and matrix.name in _DECOMPOSITIONS


def is_product(value: Value) -> bool:
    """Return whether a value is a static matrix times rows of nodes."""
    if value.op != "call" or value.kwargs or len(value.args) != 2:
        return False
    matrix, rows = value.args
    if not isinstance(matrix, Value) or not isinstance(rows, Value):
        return False
    return (
        (value.target is operator.matmul or value.name in _PRODUCTS)
        and matrix.static
        and matrix.dims == ("N", "N")
        and not is_of_vectors(matrix)
        and matrix.example.is_floating_point()
        and rows.row_dim == 0
        and len(rows.dims) == 2
    )


def matrix_key(graph: str, matrix: Value) -> tuple:
    """Return the key of the graph that has an edge for each entry."""
    return ("matrix", graph, matrix, ())


def graph_of_matrix(matrix: torch.Tensor) -> dgl.DGLGraph:
    """Make the graph whose weighted sum over in-edges is a product."""
    target, source = _sparse(matrix).indices()
    return dgl.graph((source, target), num_nodes=len(matrix))


def matrix_entries(matrix: torch.Tensor) -> torch.Tensor:
    """Return the weights of the edges of :func:`graph_of_matrix`."""
    return _sparse(matrix).values()


def _sparse(matrix: torch.Tensor) -> Any:
    """Return a matrix as sorted entries, each of them once."""
    if matrix.layout is not torch.sparse_coo:
        matrix = matrix.to_sparse_coo()
    return matrix.coalesce()
