"""Correct and Smooth: predictions that are improved by the training labels."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import dgl
import numpy as np
import psutil
import torch
from dgl import DGLError

from .._common.bytes import format_bytes, parse_bytes
from ..precompute import plan
from ..precompute.checks import check_nodes, check_weight, take_graph
from ..precompute.graph.adjacency import GraphLike
from ..precompute.label_columns import (
    WRITE_BYTES,
    LabelColumns,
    label_columns,
)
from ..precompute.planning.cpu import MemoryTooSmall
from ..precompute.propagate import propagate
from ..storage.disk_graph import DiskGraph
from ..storage.npy_file import tensor_of

#: Rows that are computed at a time.
_ROWS = 1 << 15
#: Errors that spread are not scaled by more than this.
_MOST_SCALE = 1000.0
#: How far probabilities may be below 0 or above 1.
_ROUNDING = 1e-3


def correct_and_smooth(
    logits: torch.Tensor | np.ndarray,
    g: GraphLike,
    labels: torch.Tensor,
    train: torch.Tensor,
    *,
    correction_alpha: float = 0.8,
    num_correction: int = 50,
    smoothing_alpha: float = 0.8,
    num_smoothing: int = 50,
    scale: float | None = None,
    probabilities: bool = False,
    norm: str | tuple[str, str] = "both",
    self_loop: bool = False,
    edge_weight: torch.Tensor | np.ndarray | str | bool | None = None,
    nodes: torch.Tensor | Sequence[int] | None = None,
    memory: int | str | None = None,
) -> torch.Tensor:
    r"""Improve predictions by the labels of the training nodes.

    From `Combining Label Propagation and Simple Models Out-performs Graph
    Neural Networks <https://arxiv.org/abs/2010.13993>`__. First the errors
    :math:`E` at the training nodes spread over the graph, and are added to
    the predictions :math:`Z`. Then the predictions spread, with those of the
    training nodes replaced by their labels:

    .. math::
      E^{(t+1)} = \alpha S E^{(t)} + (1 - \alpha) E^{(0)}, \quad
      \hat Z = Z + s \odot E^{(T)}

      Y^{(0)} = \hat Z \text{ with labels at train}, \quad
      Y^{(t+1)} = \alpha' S Y^{(t)} + (1 - \alpha') Y^{(0)}

    Each column is computed on its own, so that columns are cut into blocks
    that fit in ``memory``. Where there are several blocks, and ``scale`` is
    not given, errors spread twice: their size at each node is that of all
    columns together.

    Parameters
    ----------
    logits : Tensor or numpy.ndarray
        The output of a model for all nodes of the graph, in their order. It
        may be a ``numpy.memmap``.
    g : DGLGraph, DiskGraph, sparse matrix or pair
        The graph, as :func:`dgl_lc.block_aggregate` takes it.
    labels : Tensor
        A class for each node of the graph; those outside ``train`` are not
        read. Or a matrix with a row for each node and a column for each
        class.
    train : Tensor
        Ids, or a mask, of the nodes whose labels are used. In a transductive
        task these may include validation nodes, for the test nodes.
    correction_alpha, smoothing_alpha : float, optional
        :math:`\alpha` and :math:`\alpha'`, 0 to 1. Choose them by the
        accuracy on validation nodes. Default: 0.8.
    num_correction, num_smoothing : int, optional
        The numbers of steps; 0 omits the part. Default: 50.
    scale : float, optional
        s. Training nodes then keep their error in every step. Default: for
        each node its own, so that the errors that arrive are as large as the
        mean error of the training nodes.
    probabilities : bool, optional
        Whether ``logits`` holds probabilities already. Default: False, the
        softmax of its rows is taken.
    norm : str or pair of str, optional
        The norm of the filter :math:`S`, as for
        :func:`dgl_lc.block_aggregate`; of a pair the first is for errors, the
        second for predictions. The authors' DAD, DA and AD are "both",
        "right" and "left", on a graph with edges in both directions. Default:
        "both".
    self_loop, edge_weight
        Other options of the filter. Default: the edges as they are.
    nodes : Tensor or sequence, optional
        Give only the rows of these ids, in this order, or of a mask. Default:
        all nodes.
    memory : int or str, optional
        Bytes that may be allocated, the result included. Default: half of
        what is available.

    Returns
    -------
    Tensor
        A row for each node. The largest entry is the predicted class; rows
        do not sum to one.

    Examples
    --------
    >>> import dgl, torch
    >>> from dgl_lc.training import correct_and_smooth
    >>> g = dgl.graph(([0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]))
    >>> logits = torch.zeros(4, 2)
    >>> labels = torch.tensor([0, -1, -1, 1])
    >>> found = correct_and_smooth(logits, g, labels, [0, 3])
    >>> found.argmax(dim=1)
    tensor([0, 0, 1, 1])
    """
    rates = {
        "correction_alpha": correction_alpha,
        "smoothing_alpha": smoothing_alpha,
    }
    for name, value in rates.items():
        if not 0 <= value <= 1:
            raise DGLError(f"{name}={value!r} should be between 0 and 1.")
    if scale is not None and not 0 <= scale < math.inf:
        raise DGLError(f"scale={scale!r} should be a number, 0 or more.")
    steps = {"num_correction": num_correction, "num_smoothing": num_smoothing}
    for name, count in steps.items():
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise DGLError(f"{name}={count!r} should be an integer, 0 or more.")
    norms = (norm, norm) if isinstance(norm, str) else tuple(norm)
    if len(norms) != 2:
        raise DGLError(f"norm={norm!r} should be one norm, or a pair of them.")
    graph, weight = take_graph(g, logits, edge_weight)
    check_weight(graph, weight)
    rows = _ClassColumns.of(logits, graph.num_nodes(), probabilities)
    columns = label_columns(
        labels, train, None, graph.num_nodes(), rows.values.shape[1], 1, 0,
        rows.dtype,
    )  # fmt: skip
    filter = {"self_loop": self_loop, "edge_weight": weight}
    ids = check_nodes(graph, nodes)
    given = None if memory is None else parse_bytes(memory)
    work = _Smoothing.of(graph, rows, columns, filter, norms, ids, given)
    sizes = None
    if scale is None and num_correction:
        sizes = work.error_scales(num_correction, correction_alpha)
    found = torch.empty(work.num_rows, rows.values.shape[1], dtype=rows.dtype)
    for first, last in work.blocks():
        block = rows.columns(first, last)
        if num_correction:
            spread = work.spread_errors(
                first, last, block, num_correction, correction_alpha,
                fixed=scale is not None,
            )  # fmt: skip
            _add(block, spread, scale if sizes is None else sizes)
            del spread
        if num_smoothing:
            block = work.smooth(first, block, num_smoothing, smoothing_alpha)
        found[:, first:last] = block if ids is None else block[ids]
    return found


@dataclass(frozen=True)
class _ClassColumns:
    """Predictions of all nodes, and what makes probabilities of them."""

    values: torch.Tensor
    dtype: torch.dtype
    #: The largest logit of each row, and the sum of exponentials, if they are
    #: logits.
    highest: torch.Tensor | None
    total: torch.Tensor | None

    @classmethod
    def of(
        cls, logits: Any, num_nodes: int, probabilities: bool
    ) -> "_ClassColumns":
        if isinstance(logits, np.ndarray):
            logits = tensor_of(logits)
        values = torch.as_tensor(logits)
        if values.dim() != 2 or not values.is_floating_point():
            raise DGLError(
                f"logits should be floating-point numbers of shape (nodes, "
                f"classes), got {values.dtype} of shape {tuple(values.shape)}."
            )
        if len(values) != num_nodes:
            raise DGLError(
                f"logits has {len(values):,} rows, but g has {num_nodes:,} "
                f"nodes: predict all nodes, in their order."
            )
        if values.requires_grad:
            raise DGLError("logits requires grad: give logits.detach().")
        kind = values.dtype if values.dtype == torch.float64 else torch.float32
        highest = total = None
        if not probabilities:
            highest, total = torch.empty(2, num_nodes, dtype=kind)
        for low in range(0, num_nodes, _ROWS):
            own = values[low : low + _ROWS].to(kind)
            if not own.isfinite().all():
                raise DGLError(
                    f"logits holds a number that is not finite in rows {low} "
                    f"to {low + len(own) - 1}."
                )
            if probabilities and not _are_shares(own):
                raise DGLError(
                    f"logits holds numbers below 0 or above 1 in rows {low} to "
                    f"{low + len(own) - 1}, which are no probabilities: omit "
                    f"probabilities=True, or give logits.softmax(1)."
                )
            if highest is not None and total is not None:
                part = slice(low, low + _ROWS)
                highest[part] = own.amax(dim=1)
                own = (own - highest[part, None]).exp_()
                total[part] = own.sum(dim=1)
        return cls(values, kind, highest, total)

    def columns(self, first: int, last: int) -> torch.Tensor:
        """Compute probabilities of some classes, for all nodes."""
        found = torch.empty(len(self.values), last - first, dtype=self.dtype)
        for low in range(0, len(found), _ROWS):
            part = slice(low, low + _ROWS)
            found[part] = self.values[part, first:last]
            if self.highest is not None and self.total is not None:
                own = found[part]
                own.sub_(self.highest[part, None]).exp_()
                own.div_(self.total[part, None])
        return found


@dataclass(frozen=True)
class _Smoothing:
    """Columns that spread over a graph, block by block."""

    graph: dgl.DGLGraph | DiskGraph
    rows: _ClassColumns
    labels: LabelColumns
    filter: dict[str, Any]
    norms: tuple[str, ...]
    num_rows: int
    width: int
    #: The budget of the steps.
    memory: int

    @classmethod
    def of(
        cls,
        graph: dgl.DGLGraph | DiskGraph,
        rows: _ClassColumns,
        labels: LabelColumns,
        filter: dict[str, Any],
        norms: tuple[str, ...],
        nodes: torch.Tensor | None,
        given: int | None,
    ) -> "_Smoothing":
        """Choose how many columns spread at a time."""
        n, classes = rows.values.shape
        count = n if nodes is None else len(nodes)
        budget = given
        if budget is None:
            budget = psutil.virtual_memory().available // 2
        size = rows.dtype.itemsize
        fixed = size * (count * classes + 4 * n) + WRITE_BYTES
        fixed += sum(own.nbytes for own in labels.nodes) + 4 * size * _ROWS
        width = classes
        while True:
            # Predictions, errors and what is spread; the result of a step is
            # a part of its own budget. Rows are computed a few at a time.
            left = budget - fixed - size * width * (3 * n + 2 * _ROWS)
            enough: int | None = None
            if left > 0:
                try:
                    feat = torch.empty(n, width, dtype=rows.dtype)
                    for norm in norms:
                        plan(
                            graph, feat, 1, hops=[1], norm=norm, memory=left,
                            **filter,
                        )  # fmt: skip
                    return cls(
                        graph, rows, labels, filter, norms, count, width, left
                    )
                except MemoryTooSmall as error:
                    enough = error.enough + budget - left
            if width == 1:
                needed = "" if enough is None else (
                    f": {-(-enough // 2**20)} MiB would be enough for one "
                    f"column at a time"
                )  # fmt: skip
                raise DGLError(
                    f"memory={format_bytes(budget)} is too small{needed}. Give "
                    f"more, or fewer nodes."
                )
            width = -(-width // 2)

    def blocks(self) -> Iterator[tuple[int, int]]:
        """Yield the first and the last column of each block."""
        classes = self.rows.values.shape[1]
        for first in range(0, classes, self.width):
            yield first, min(first + self.width, classes)

    def _spread(
        self, place: int, start: torch.Tensor, steps: int, alpha: float,
        after: Any,
    ) -> torch.Tensor:  # fmt: skip
        return propagate(
            self.graph, start, steps, alpha, after, norm=self.norms[place],
            memory=self.memory, **self.filter,
        )  # fmt: skip

    def _errors(
        self, first: int, last: int, block: torch.Tensor
    ) -> torch.Tensor:
        """Return labels minus predictions at training nodes, else zeros."""
        found = torch.zeros_like(block)
        self.labels.copy_columns(first, last, None, found)
        for ids in self.labels.nodes[0].ids.split(_ROWS):
            found[ids] -= block[ids]
        return found

    def spread_errors(
        self,
        first: int,
        last: int,
        block: torch.Tensor,
        steps: int,
        alpha: float,
        fixed: bool,
    ) -> torch.Tensor:
        """Let errors spread; those of training nodes may stay fixed."""
        start = self._errors(first, last, block)
        train = self.labels.nodes[0].ids

        def reset(found: torch.Tensor) -> None:
            for ids in train.split(_ROWS):
                found[ids] = start[ids]

        def clamp(found: torch.Tensor) -> None:
            found.clamp_(-1, 1)

        return self._spread(0, start, steps, alpha, reset if fixed else clamp)

    def error_scales(self, steps: int, alpha: float) -> torch.Tensor:
        """Compute by what the errors at each node are multiplied."""
        train = self.labels.nodes[0].ids
        found = torch.zeros(len(self.rows.values), dtype=self.rows.dtype)
        total = 0.0
        for first, last in self.blocks():
            block = self.rows.columns(first, last)
            errors = self._errors(first, last, block)
            for ids in train.split(_ROWS):
                total += float(errors[ids].abs().sum(dtype=torch.float64))
            del errors
            spread = self.spread_errors(
                first, last, block, steps, alpha, fixed=False
            )
            for own, rows in zip(
                found.split(_ROWS), spread.split(_ROWS), strict=True
            ):
                own.add_(rows.abs().sum(dim=1))
        scales = (total / len(train)) / found
        scales[~(scales <= _MOST_SCALE)] = 1.0
        return scales

    def smooth(
        self, first: int, block: torch.Tensor, steps: int, alpha: float
    ) -> torch.Tensor:
        """Let predictions spread, with labels at training nodes."""
        last = first + block.shape[1]
        for own in self.labels.nodes:
            for places in torch.arange(len(own.ids)).split(_ROWS):
                ids = own.ids[places]
                block[ids] = 0
                own.write(places, ids, first, last, 1.0, block)

        def clamp(found: torch.Tensor) -> None:
            found.clamp_(0, 1)

        return self._spread(1, block, steps, alpha, clamp)


def _are_shares(values: torch.Tensor) -> bool:
    """Tell whether all values are from 0 to 1, up to rounding."""
    return bool(((values >= -_ROUNDING) & (values <= 1 + _ROUNDING)).all())


def _add(
    block: torch.Tensor,
    spread: torch.Tensor,
    scale: torch.Tensor | float | None,
) -> None:
    """Add errors, each row multiplied by its scale, to predictions."""
    assert scale is not None
    for low in range(0, len(block), _ROWS):
        part = slice(low, low + _ROWS)
        own = scale[part, None] if isinstance(scale, torch.Tensor) else scale
        block[part] += spread[part] * own
