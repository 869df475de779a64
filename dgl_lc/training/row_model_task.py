"""Predicting a task with an LC version: its inputs come from a store."""

from typing import Any

import torch
from dgl import DGLError

from ..data import DiskData, NodeData
from ..hops import HopFeatures
from ..node_rows import NodeRows
from ..row_programs.row_module import RowModule
from .model_rows import check_output, model_device
from .trained_on import check_classes, check_features


def count_classes(
    model: RowModule, data: NodeData | DiskData, rows: NodeRows | None
) -> int:
    """Return the number of classes that an LC version predicts.

    Rows that are not those of its inputs, or not of the nodes of the task,
    are an error; so are features or classes of other names.
    """
    if rows is None or isinstance(rows, HopFeatures):
        needs = model._row_needs
        inputs = () if needs is None else needs.inputs
        raise DGLError(
            f"the model is an LC version, and needs inputs that were "
            f"precomputed for it ({', '.join(e.formula for e in inputs)}): "
            f"pass the folder that lc.precompute(..., out=folder) wrote, as "
            f"rows=open_store(folder) (--store folder in the shell)."
        )
    _check_nodes(data, rows)
    check_features(model, data)
    first = torch.tensor([0]) if rows.nodes is None else rows.nodes[:1]
    training = {name: part.training for name, part in model.named_modules()}
    try:
        with torch.no_grad():
            batch: Any = rows.rows(first).to(model_device(model))
            classes = check_output(model.eval()(None, batch)).shape[1]
    finally:
        for name, part in model.named_modules():
            part.training = training[name]
    check_classes(model, classes, data)
    return classes


def _check_nodes(data: NodeData | DiskData, rows: NodeRows) -> None:
    """Refuse rows that are not of the nodes of a task."""
    count = data.graph.num_nodes()
    if rows.nodes is None:
        good = rows.shape[0] == count
    else:
        good = int(rows.nodes.max()) < count
    if not good:
        raise DGLError(
            f"rows has inputs of other nodes than those of {data.name}, which "
            f"has {count:,}: pass inputs that were precomputed for its graph."
        )


def refuse_lacking(count: int) -> DGLError:
    """Make the error for nodes whose inputs are not in the store."""
    return DGLError(
        f"the store has no inputs of {count:,} of the nodes, and those of an "
        f"LC version can't be computed here: precompute them with "
        f"lc.precompute, or name nodes that the store has."
    )
