"""Label features: hop features of the labels of other nodes."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from dgl import DGLError

from .._common.bytes import parse_bytes
from ..hops import HopFeatures
from ..ranks.first_rank import on_first_rank
from ..ranks.group import Group
from ..storage.hop_store import open_hop_store
from .graph.adjacency import GraphLike
from .label_request import LabelRequest


def label_features(
    g: GraphLike,
    labels: torch.Tensor | np.ndarray,
    train: torch.Tensor | Sequence[int],
    K: int,
    *,
    parts: int = 5,
    num_classes: int | None = None,
    soft: tuple[torch.Tensor, torch.Tensor] | None = None,
    scale: bool = True,
    nodes: torch.Tensor | Sequence[int] | None = None,
    norm: str = "both",
    self_loop: bool = True,
    edge_weight: torch.Tensor | np.ndarray | str | bool | None = None,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    memory: int | str | None = None,
    out: str | os.PathLike | None = None,
    resume: bool = True,
    progress: bool | None = None,
    process_group: Group = None,
    **options: Any,
) -> HopFeatures:
    r"""Compute hop features :math:`S^1 Y, \dots, S^K Y` of the training labels.

    No node ever sees its own label, directly or on a way through the graph
    that leads back to it. The training nodes are split into parts at random.
    The rows of a part come from the labels of all other parts, and of no
    node of their own part; the rows of nodes outside ``train`` come from all
    labels of ``train``:

    .. math::
      L^{(k)}_v = \begin{cases}
        c_p\, (S^k Y_{\text{without part } p})_v & v \text{ in part } p \\
        (S^k Y)_v & v \text{ not in train}
      \end{cases}

    All rows are exact. Subtracting a node's own contribution from
    :math:`S^k Y` instead would leave its label in the rounding errors.

    Parameters
    ----------
    g : DGLGraph, DiskGraph, sparse matrix or pair
        The graph, as :func:`dgl_lc.block_aggregate` takes it.
    labels : Tensor
        A class for each node of the graph; those outside ``train`` are not
        read. Or a matrix with a row for each node and a column for each class,
        such as the zeros and ones of several labels per node.
    train : Tensor
        Ids, or a mask, of the nodes whose labels are used.
    K : int
        The last hop, 1 or more.
    parts : int, optional
        The number of parts, 2 or more. A training node sees the labels of
        all parts but its own: with 5 parts, 4/5 of the labels. The graph is
        read ``parts`` + 1 times. Many parts of a few nodes each are a warning:
        what a row lacks may then tell the labels of its part. Default: 5.
    num_classes : int, optional
        The number of classes. Default: one more than the largest label in
        train.
    soft : pair of Tensor, optional
        Ids of nodes outside ``train``, and a row of probabilities for each of
        them, such as the predictions of an earlier stage of self-training.
        They count as labels: the nodes are split into parts as well, so that
        none of them sees its own soft label.
    scale : bool, optional
        Whether to multiply the rows of part p by
        :math:`c_p = (N - 1) / (N - N_p)`, where N nodes have a label and
        :math:`N_p` of them are in part p. Over random splits, the mean of
        these rows is then :math:`S^k Y` without the node's own label, so that
        rows of labelled and of other nodes have one scale. With False
        :math:`c_p = 1`. Default: True.
    nodes : Tensor or sequence, optional
        Give only the rows of these ids, in this order, or of a mask. Default:
        all nodes.
    norm, self_loop, edge_weight
        The filter :math:`S`, as for :func:`dgl_lc.block_aggregate`.
    seed : int, optional
        Seed of the split. The split does not depend on the labels.
        Default: 0.
    dtype : torch.dtype, optional
        How label features are stored. Default: float32.
    memory : int or str, optional
        Bytes that may be allocated, the result included if it is kept in
        memory. The matrix of one-hot labels is never made as a whole.
    out : path, optional
        A folder: the result is kept there, and read from there when rows
        are asked for (:func:`dgl_lc.precompute.open_store`). A run that was
        killed resumes. Until it is finished, the folder takes twice the size
        of the result.
    resume, progress
        As for :func:`dgl_lc.block_aggregate`.
    process_group : ProcessGroup or False, optional
        The ranks that make this call together. With ``out`` rank 0 computes
        for all of them, otherwise each of them computes everything. False:
        this process alone.
    **options
        ``device`` and ``host_memory``, as for
        :func:`dgl_lc.block_aggregate`.

    Returns
    -------
    HopFeatures
        Hops 1 to K, with a column for each class.

    Note
    ----
    Soft labels have a leak of their own, which a split can't close: if they
    are predictions of a model that was trained on the label of v, a
    neighbour's soft label may tell v about its own label. It is closed if
    later stages use ``soft`` nodes as targets only, with the label features
    of the first stage.

    Examples
    --------
    >>> import dgl, torch
    >>> from dgl_lc.precompute import label_features
    >>> g = dgl.graph(([0, 1, 1, 2], [1, 0, 2, 1]))
    >>> labels = torch.tensor([0, 1, -1])
    >>> found = label_features(
    ...     g, labels, [0, 1], K=2, parts=2, norm="none", self_loop=False
    ... )
    >>> found[1]
    tensor([[0., 1.],
            [1., 0.],
            [0., 1.]])
    >>> found[2]
    tensor([[0., 0.],
            [0., 0.],
            [1., 0.]])
    """
    request = LabelRequest.of(
        g, labels, train, K, parts, num_classes, soft, scale, nodes, norm,
        self_loop, edge_weight, seed, dtype,
    )  # fmt: skip
    for name in options:
        if name not in ("device", "host_memory"):
            raise DGLError(f"label_features has no option {name!r}.")
    budget = None if memory is None else parse_bytes(memory)
    given = {**options, "progress": progress}
    if out is None:
        return request.in_memory(budget, given)
    folder = Path(out)
    return on_first_rank(
        process_group, "label_features",
        lambda: request.on_disk(folder, budget, resume, given),
        lambda: open_hop_store(folder),
    )  # fmt: skip
