"""The filter as a dense matrix: the oracle of tests and of the demo."""

import dgl
import numpy as np
import torch


def dense_filter(
    g: dgl.DGLGraph,
    *,
    norm: str = "both",
    self_loop: bool = True,
    edge_weight: torch.Tensor | None = None,
) -> np.ndarray:
    r"""The filter :math:`S` as a dense float64 matrix, from its formula.

    For small graphs: it takes 8 bytes for each pair of nodes.

    >>> import dgl
    >>> dense_filter(dgl.graph(([0, 1], [1, 0])))
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    n = g.num_nodes()
    source, target, ids = (
        ends.numpy() for ends in g.edges(form="all", order="srcdst")
    )
    pattern, values = np.zeros((n, n)), np.zeros((n, n))
    weight = 1.0 if edge_weight is None else edge_weight.double().numpy()[ids]
    np.add.at(pattern, (target, source), 1.0)
    np.add.at(values, (target, source), weight)
    if self_loop:
        np.fill_diagonal(pattern, 1.0)
        np.fill_diagonal(values, 1.0)
    in_degrees, out_degrees = pattern.sum(axis=1), pattern.sum(axis=0)

    def inverse(degrees: np.ndarray, power: float) -> np.ndarray:
        return np.where(degrees > 0, np.maximum(degrees, 1) ** -power, 0)

    left, right = np.ones(n), np.ones(n)
    if norm == "both":
        left, right = inverse(in_degrees, 0.5), inverse(out_degrees, 0.5)
    elif norm == "in":
        left = right = np.maximum(in_degrees, 1) ** -0.5
    elif norm == "right":
        left = inverse(in_degrees, 1.0)
    elif norm == "left":
        right = inverse(out_degrees, 1.0)
    return left[:, None] * values * right[None, :]
