"""The label features of a task that a model reads."""

import os
import warnings
from typing import Any

import dgl
import torch
from dgl import DGLError
from dgl.base import DGLWarning

from ..data import DiskData, NodeData
from ..hops import HopFeatures
from ..nn.model import HopModel
from ..precompute import label_features, open_store
from ..precompute.label_request import recipe_key
from ..storage.disk_graph import DiskGraph
from ..storage.hop_store import StoredHops
from .output_kind import CLASSES, kind_of
from .task_store import check_graph_key, edge_weight


def reads_labels(model: Any) -> bool:
    """Tell whether a model reads label features."""
    return isinstance(model, HopModel) and model.label_branch is not None


def compute_labels(
    model: HopModel,
    data: NodeData | DiskData,
    nodes: torch.Tensor | None = None,
    graph: dgl.DGLGraph | DiskGraph | None = None,
    **options: Any,
) -> HopFeatures:
    """Compute the label features that a model reads, for a task.

    They are made as those that the model was trained with, if it was; else
    with the model's filter.

    Parameters
    ----------
    model : HopModel
        A model with ``label_feats``.
    data : NodeData or DiskData
        The task, whose training labels are used.
    nodes : Tensor, optional
        The nodes whose rows are computed. Default: all nodes.
    graph : optional
        Another graph than that of the task, such as the training subgraph.
    **options
        Other options of :func:`dgl_lc.precompute.label_features`.
    """
    branch = model.label_branch
    assert branch is not None
    graph = data.graph if graph is None else graph
    _check_task(model, data)
    recipe = model.label_recipe
    weighted = None if model.uses_weights else False
    filter: Any = model.filter
    if recipe is not None:
        weighted = recipe.weighted
        filter = recipe
        options = {
            "parts": recipe.parts, "seed": recipe.seed, "scale": recipe.scale,
            **options,
        }  # fmt: skip
    return label_features(
        graph, data.labels, data.train, branch.label_hops,
        num_classes=branch.label_feats, nodes=nodes, norm=filter.norm,
        self_loop=filter.self_loop, **edge_weight(graph, weighted), **options,
    )  # fmt: skip


def _check_task(model: HopModel, data: NodeData | DiskData) -> None:
    """Refuse a task that does not have the labels the model reads."""
    branch, recipe = model.label_branch, model.label_recipe
    assert branch is not None
    if len(data.train) == 0:
        raise DGLError(
            f"the model reads label features, and {data.name} has no training "
            f"nodes with labels: prepare it with labels and a split."
        )
    if data.num_classes != branch.label_feats:
        raise DGLError(
            f"the model reads label features of {branch.label_feats} classes, "
            f"but {data.name} has {data.num_classes}."
        )
    if recipe is None:
        return
    if recipe.soft:
        raise DGLError(
            "the model was trained with label features of soft labels, which "
            "the data does not have: give label_rows (--label-store in the "
            "shell), a store of those label features."
        )
    if recipe.labels != recipe_key(data.labels, data.train):
        if kind_of(model) != CLASSES:
            raise DGLError(
                f"the model was trained on {kind_of(model)}, and its label "
                f"features were not made of the classes of {data.name}: give "
                f"label_rows (--label-store in the shell), a store of them."
            )
        warnings.warn(
            f"the training labels of {data.name} are not those that the model "
            f"was trained with: its label features are made of the labels of "
            f"{data.name}.",
            DGLWarning,
            stacklevel=3,
        )


def open_label_store(
    path: str | os.PathLike, model: HopModel, data: NodeData | DiskData
) -> StoredHops:
    """Open a store of the label features that a model reads, for a task.

    A store of other labels, of another graph or made with other options than
    those of the training is an error that says which.
    """
    branch, known = model.label_branch, model.label_recipe
    assert branch is not None
    if not os.path.exists(path):
        raise DGLError(
            f"{path} does not exist: name the folder that dgl-lc train "
            f"--label-store, or label_features, has written."
        )
    rows = open_store(path)
    recipe = rows.label_recipe if isinstance(rows, StoredHops) else None
    if recipe is None or not isinstance(rows, StoredHops):
        raise DGLError(
            f"{path} is not a store of label features: name the folder that "
            f"dgl-lc train --label-store, or label_features, has written."
        )
    if recipe.num_classes != branch.label_feats:
        raise DGLError(
            f"{path} has label features of {recipe.num_classes} classes, but "
            f"the model reads {branch.label_feats}."
        )
    if branch.label_hops > recipe.K:
        raise DGLError(
            f"{path} has label features of hops 1 to {recipe.K}, but the model "
            f"reads 1 to {branch.label_hops}."
        )
    if known is not None:
        for name in ("labels", "parts", "seed", "scale", "norm", "self_loop",
                     "weighted"):  # fmt: skip
            one, other = getattr(recipe, name), getattr(known, name)
            if one != other:
                what = f"{name}={one!r}, and not {other!r}"
                raise DGLError(
                    f"{path} is not what the model was trained with: it was "
                    f"made with "
                    f"{'other labels' if name == 'labels' else what}."
                )
    if not recipe.soft and recipe.labels != recipe_key(data.labels, data.train):
        raise DGLError(
            f"{path} was not made from the training labels of {data.name}: "
            f"name another folder, or compute it again."
        )
    check_graph_key(rows, path, data)
    return rows
