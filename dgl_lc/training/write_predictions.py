"""Predictions for many nodes, streamed to a file in bounded memory."""

import itertools
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import psutil
import torch
from dgl import DGLError
from dgl.base import DGLWarning

from .._common.bytes import format_bytes, parse_bytes
from .._common.file_access import replace_buffered
from .._common.progress import progress_bar
from ..data import DiskData, NodeData
from ..nn.model import HopModel
from ..nn.several_filters import SeveralFilters
from ..node_rows import NodeRows, check_ids
from ..precompute.checks import has_weights
from ..precompute.planning.cpu import MemoryTooSmall
from ..row_programs.row_module import RowModule
from .model_rows import check_output, model_device
from .prediction_files import check_prediction_file, make_writer
from .row_model_task import count_classes, refuse_lacking
from .task_store import edge_weight, has_row
from .tensor_files import locked
from .trained_on import check_same_task

#: What can predict: a model of dgl_lc.nn, or an LC version.
Model = HopModel | RowModule


@dataclass(frozen=True)
class WrittenPredictions:
    """What :func:`write_predictions` did.

    Attributes
    ----------
    path : Path
        The file.
    nodes : int
        Predictions in it.
    computed : int
        Nodes whose hop features were not in the store, and were computed.
    blocks : int
        Calls of the precomputation that this took.
    """

    path: Path
    nodes: int
    computed: int
    blocks: int

    def __str__(self) -> str:
        text = f"{self.path}: predictions for {self.nodes:,} nodes"
        if self.computed:
            text += f"; hop features of {self.computed:,} were computed"
        return text


def write_predictions(
    model: Model,
    data: NodeData | DiskData,
    path: str | os.PathLike,
    *,
    nodes: torch.Tensor | None = None,
    rows: NodeRows | None = None,
    class_names: Sequence[str] | None = None,
    probabilities: bool = False,
    memory: int | str | None = None,
    batch_size: int = 16384,
    device: torch.device | str | None = None,
    progress: bool | None = None,
) -> WrittenPredictions:
    """Predict the classes of nodes, and write them to a file.

    The file is written under another name first, and is there whole or not
    at all; a file of that name is replaced.

    Parameters
    ----------
    model : HopModel or RowModule
        A model of ``dgl_lc.nn``, or an LC version, whose inputs have to be
        given as ``rows``. A model that was trained on features or classes of
        other names is an error, as far as the names are known.
    data : NodeData or DiskData
        The task: its graph and features, and the ids of its nodes.
    path : path
        The file. What it ends in says its kind. ``.csv`` and ``.parquet``
        are tables with the columns ``id`` (the user's own ids) and ``class``,
        and with ``p_`` and its name for each class where probabilities are
        asked for. ``.npy`` is an int64 array with the number of each class,
        or a float32 array with a row of probabilities for each node, in the
        order of ``nodes``.
    nodes : Tensor, optional
        Numbers of nodes, or a mask. Default: all nodes, in their order.
    rows : NodeRows, optional
        Hop features of this task that exist, such as a store. Those of other
        nodes are computed, and only those. Default: all are computed. Weights
        of edges are used if the model was trained with them; if that is not
        known, if rows was made with them, or the task has any.
    class_names : sequence of str, optional
        The name of each class. Default: classes are written as numbers.
    probabilities : bool, optional
        Whether to write the probability of each class. Default: False.
    memory : int or str, optional
        Bytes that computing hop features may take. If the hop features of all
        nodes do not fit, they are computed in blocks, each of which reads the
        graph again. Default: half of the memory that is available.
    batch_size : int, optional
        Nodes that the model predicts at a time. Default: 16384.
    device : torch.device, optional
        Device of the model. Default: the one where it is.
    progress : bool, optional
        Whether to show a progress bar. Default: in a terminal, after two
        seconds.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dgl_lc.data import block_model
    >>> from dgl_lc.nn import SGC
    >>> from dgl_lc.training import write_predictions
    >>> data = block_model(100, num_classes=3, num_feats=4)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "p.csv")
    ...     found = write_predictions(SGC(4, 3), data, path)
    ...     found.nodes, len(path.read_text().splitlines())
    (100, 101)
    """
    path = Path(path)
    check_prediction_file(path)
    if batch_size < 1:
        raise DGLError(f"batch_size={batch_size} should be at least 1.")
    budget = psutil.virtual_memory().available // 2
    if memory is not None:
        budget = parse_bytes(memory)
    if isinstance(model, RowModule):
        classes = count_classes(model, data, rows)
    else:
        check_same_task(model, data)
        classes = int(model.config["out_feats"])
    _check_names(classes, class_names)
    wanted = _Nodes.of(data, nodes, rows)
    if isinstance(model, RowModule) and wanted.num_lacking:
        raise refuse_lacking(wanted.num_lacking)
    weighted = _is_weighted(model, data, rows)
    if weighted and wanted.num_lacking and not has_weights(data.graph):
        raise DGLError(
            f"the model was trained with edge weights, or rows was made with "
            f"them, but {data.name} has none, so that the hop features of "
            f"{wanted.num_lacking:,} nodes can't be computed: give data with "
            f"edge weights."
        )
    blocks = 0
    if device is not None:
        model.to(device)
    columns = class_names or classes

    def write(file: BinaryIO) -> None:
        nonlocal blocks
        writer = make_writer(
            file, path.suffix, len(wanted), columns, probabilities
        )
        with progress_bar(len(wanted), "predict", progress, unit="node") as bar:
            for first, last, computed in _computed_blocks(
                model, data, wanted, budget, weighted, memory is not None
            ):
                blocks += 1
                for low in range(first, last, batch_size):
                    part = slice(low, min(low + batch_size, last))
                    ids = wanted.numbers(part)
                    found = _predict(
                        model, classes, ids, wanted.lacks(part), rows, computed
                    )
                    writer.write(data.ids_of(ids), found)
                    bar.update(len(ids))
        writer.close()

    training = model.training
    model.eval()
    try:
        with locked(path), torch.no_grad():
            # A killed run leaves a part, which the next one replaces.
            replace_buffered(path, write, path.with_name(f".{path.name}.part"))
    except OSError as error:
        raise DGLError(f"{path} could not be written: {error}.") from error
    finally:
        model.train(training)
    blocks = blocks if wanted.num_lacking else 0
    return WrittenPredictions(path, len(wanted), wanted.num_lacking, blocks)


class _Nodes:
    """The nodes to predict, and which of them have no row yet."""

    def __init__(
        self, count: int, nodes: torch.Tensor | None, lacking: torch.Tensor
    ):
        self._count, self._nodes, self._lacking = count, nodes, lacking
        self.num_lacking = int(lacking.sum())

    @classmethod
    def of(
        cls,
        data: NodeData | DiskData,
        nodes: torch.Tensor | None,
        rows: NodeRows | None,
    ) -> "_Nodes":
        count = total = data.graph.num_nodes()
        if nodes is not None:
            nodes = _check_nodes(nodes, total)
            count = len(nodes)
        if rows is None:
            return cls(count, nodes, torch.ones(count, dtype=torch.bool))
        lacking = torch.zeros(count, dtype=torch.bool)
        for low in range(0, count, _SPAN):
            high = min(low + _SPAN, count)
            ids = torch.arange(low, high) if nodes is None else nodes[low:high]
            lacking[low:high] = ~has_row(rows, ids)
        return cls(count, nodes, lacking)

    def __len__(self) -> int:
        return self._count

    def numbers(self, part: slice) -> torch.Tensor:
        """Return the numbers of some of the nodes."""
        if self._nodes is None:
            return torch.arange(part.start, part.stop)
        return self._nodes[part]

    def lacks(self, part: slice) -> torch.Tensor:
        """Tell for some of the nodes whether they have no row."""
        return self._lacking[part]

    def cut(self, most: int, begin: int = 0) -> list[tuple[int, int]]:
        """Cut the nodes from ``begin`` on into ranges.

        Each has at most so many rows to compute.
        """
        places = self._lacking[begin:].nonzero().squeeze(1)[most::most] + begin
        bounds = [begin, *places.tolist(), self._count]
        return list(itertools.pairwise(bounds))


#: Nodes that are looked up in a store at a time.
_SPAN = 1 << 20
#: More blocks are an error instead: each of them reads the graph.
_MOST_BLOCKS = 100


def _check_nodes(nodes: torch.Tensor, total: int) -> torch.Tensor:
    nodes = check_ids(nodes, "nodes", total)
    if len(nodes) == 0:
        raise DGLError("nodes is empty: give at least one node.")
    if int(nodes.max()) >= total:
        raise DGLError(
            f"nodes holds {int(nodes.max())}, but the graph has nodes 0 to "
            f"{total - 1}."
        )
    return nodes


def _check_names(classes: int, class_names: Sequence[str] | None) -> None:
    if class_names is not None and len(class_names) != classes:
        raise DGLError(
            f"class_names has {len(class_names)} entries, but the model has "
            f"{classes} classes."
        )


def _is_weighted(
    model: Model, data: NodeData | DiskData, rows: NodeRows | None
) -> bool:
    """Tell whether rows to compute need weights: as the model and its rows."""
    if isinstance(model, RowModule):
        return False
    if rows is not None:
        model.check_weighted(rows)
    for known in (model.weighted, model.weighted_of(rows)):
        if known is not None:
            return known
    return model.uses_weights and has_weights(data.graph)


def _computed_blocks(
    model: Model,
    data: NodeData | DiskData,
    wanted: _Nodes,
    budget: int,
    weighted: bool,
    is_limited: bool,
) -> Iterator[tuple[int, int, NodeRows | None]]:
    """Yield ranges of nodes, with the hop features that were computed.

    Blocks become smaller where they do not fit in the budget, down to a
    hundredth of the nodes.
    """
    if isinstance(model, RowModule):
        yield 0, len(wanted), None
        return
    # Such a model precomputes for one filter after the other.
    shares = 2 if isinstance(model, SeveralFilters) else 1
    memory = budget // shares if is_limited else None
    least = max(1, -(-wanted.num_lacking // _MOST_BLOCKS))
    most = max(least, min(_most_rows(model, data, budget), len(wanted)))
    blocks = wanted.cut(most)
    is_first = True
    while blocks:
        first, last = blocks[0]
        try:
            computed = _compute(
                model, data, wanted, first, last, weighted, memory
            )
        except MemoryTooSmall as error:
            if most == least:
                enough = error.enough * shares >> 20
                raise DGLError(
                    f"memory={format_bytes(budget)} is too small to compute "
                    f"hop features of {most:,} nodes at a time: {enough} MiB "
                    f"would be enough."
                ) from None
            most = max(least, most // 2)
            blocks = wanted.cut(most, first)
            continue
        if is_first and len(blocks) > 1:
            warnings.warn(
                f"the hop features of {wanted.num_lacking:,} nodes do not fit "
                f"in {format_bytes(budget)}: they are computed in "
                f"{len(blocks)} blocks, each of which reads the graph again. "
                f"A store, written with dgl-lc precompute, has them computed "
                f"once.",
                DGLWarning,
                # The caller of write_predictions.
                stacklevel=7,
            )
        is_first = False
        yield first, last, computed
        blocks = blocks[1:]


def _most_rows(
    model: HopModel, data: NodeData | DiskData, budget: int
) -> int:  # fmt: skip
    """Return the number of rows whose hop features take half the budget."""
    row = model.num_inputs * data.num_feats * data.feat.dtype.itemsize
    return max(1, budget // 2 // row)


def _compute(
    model: HopModel,
    data: NodeData | DiskData,
    wanted: _Nodes,
    first: int,
    last: int,
    weighted: bool,
    memory: int | None,
) -> NodeRows | None:
    """Compute the hop features of those nodes of a range that lack them."""
    part = slice(first, last)
    # A node may be asked for twice.
    ids = wanted.numbers(part)[wanted.lacks(part)].unique()
    if len(ids) == 0:
        return None
    options: dict[str, Any] = edge_weight(data.graph, weighted)
    if memory is not None:
        options["memory"] = memory
    if len(ids) < data.graph.num_nodes():
        options["nodes"] = ids
    feat: Any = data.feat
    return model.precompute(data.graph, feat, **options)


def _predict(
    model: Model,
    classes: int,
    ids: torch.Tensor,
    lacking: torch.Tensor,
    rows: NodeRows | None,
    computed: NodeRows | None,
) -> np.ndarray:
    """Return the probability of each class for some nodes."""
    found = np.empty((len(ids), classes), np.float32)
    device = model_device(model)
    for source, own in ((rows, ~lacking), (computed, lacking)):
        if source is None or not own.any():
            continue
        batch = source.rows(ids[own]).to(device)
        logits = check_output(model(None, batch))
        found[own.numpy()] = logits.float().softmax(dim=1).cpu().numpy()
    return found
