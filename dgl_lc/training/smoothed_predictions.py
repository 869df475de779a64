"""Predictions that are corrected and smoothed, written to a file."""

import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from dgl import DGLError

from .._common.file_access import replace_buffered
from ..data import DiskData, NodeData
from ..precompute.checks import has_weights
from .computed_blocks import Model
from .correct_and_smooth import correct_and_smooth
from .output_kind import CLASSES, kind_of
from .prediction_columns import PredictionColumns
from .prediction_files import check_prediction_file, make_writer
from .task_store import edge_weight
from .tensor_files import locked
from .write_predictions import WrittenPredictions, write_predictions

#: Rows that are written at a time.
_ROWS = 1 << 16


def write_smoothed(
    model: Model,
    data: NodeData | DiskData,
    path: str | os.PathLike,
    *,
    nodes: torch.Tensor | None = None,
    class_names: Sequence[str] | None = None,
    memory: int | str | None = None,
    smoothing: dict[str, Any] | None = None,
    **options: Any,
) -> WrittenPredictions:
    """Predict all nodes, correct and smooth, and write the classes of some.

    The predictions of all nodes are in a file beside ``path`` until the
    result is written.

    Parameters
    ----------
    model, data, path, nodes, class_names, memory, **options
        As for :func:`dgl_lc.training.write_predictions`.
    smoothing : dict, optional
        Options of :func:`dgl_lc.training.correct_and_smooth`.
    """
    path = Path(path)
    check_prediction_file(path)
    if kind_of(model) != CLASSES:
        raise DGLError(
            f"correcting and smoothing is for models that predict one class "
            f"per node, and this one was trained on {kind_of(model)}: omit it."
        )
    if len(data.train) == 0:
        raise DGLError(
            f"correcting and smoothing needs the labels of training nodes, "
            f"and {data.name} has none: prepare it with labels and a split."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        prefix=f".{path.name}.", dir=path.parent
    ) as folder:
        every = Path(folder) / "all.npy"
        found = write_predictions(
            model, data, every, probabilities=True, memory=memory,
            process_group=False, **options,
        )  # fmt: skip
        weighted = has_weights(data.graph)
        scores = correct_and_smooth(
            np.load(every, mmap_mode="r"), data.graph, data.labels, data.train,
            probabilities=True, nodes=nodes, memory=memory,
            **edge_weight(data.graph, weighted), **(smoothing or {}),
        )  # fmt: skip
    ids = torch.arange(len(scores)) if nodes is None else nodes
    columns = PredictionColumns(class_names or scores.shape[1], False, CLASSES)

    def write(file: BinaryIO) -> None:
        writer = make_writer(file, path.suffix, len(scores), columns)
        for low in range(0, len(scores), _ROWS):
            own = slice(low, low + _ROWS)
            writer.write(data.ids_of(ids[own]), scores[own].numpy())
        writer.close()

    with locked(path):
        replace_buffered(path, write, path.with_name(f".{path.name}.part"))
    return replace(found, path=path, nodes=len(scores))
