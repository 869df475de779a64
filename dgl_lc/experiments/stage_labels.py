"""Label features of each stage of a self-training."""

import os
from pathlib import Path

import torch
from dgl import DGLError

from ..data import DiskData, NodeData
from ..labelled_rows import LabelledRows
from ..nn.model import HopModel
from ..node_rows import NodeRows
from ..precompute import with_labels
from ..training import Fit
from ..training.label_inputs import compute_labels, open_label_store


def stage_folder(first: str | os.PathLike, stage: int) -> Path:
    """Return the folder of a stage's label features.

    >>> str(stage_folder("labels", 1)), str(stage_folder("labels", 2))
    ('labels', 'labels-stage2')
    """
    path = Path(first)
    if stage == 1:
        return path
    return path.with_name(f"{path.name}-stage{stage}")


def check_later_stages(
    first: str | os.PathLike, checkpoint: str | os.PathLike | None
) -> None:
    """Refuse label features of later stages of another run, before any work.

    Without a checkpoint it is known only after the first stage whether they
    are those of this run.

    Parameters
    ----------
    first : path
        The folder of the first stage.
    checkpoint : path or None
        The file of finished stages.
    """
    later = stage_folder(first, 2)
    if not later.exists():
        return
    if checkpoint is None or not Path(checkpoint).exists():
        raise DGLError(
            f"{later} has the label features of an earlier run: name another "
            f"folder as label_store, or begin again with resume=False, which "
            f"replaces them."
        )


class StageLabels:
    """Inputs of each stage, with the soft labels of nodes that have joined.

    It is ``inputs`` of :func:`dgl_lc.training.self_train`. Label features of
    a stage are in a folder of their own, so that the stage whose weights are
    kept finds its own again, also in another process.

    Parameters
    ----------
    model : HopModel
        A model with ``label_feats``.
    data : NodeData or DiskData
        The task, which is not inductive.
    rows : NodeRows
        Hop features.
    folder : path
        Where the label features of the first stage are written; see
        :func:`stage_folder` for those of later ones.
    nodes : Tensor or None
        Nodes whose label features are computed; None for all.
    memory : int or str, optional
        Memory budget of the computation.
    resume : bool, optional
        Whether label features of later stages that are there may be used:
        they are then compared with those asked for. If not, they are written
        again. Default: True.
    """

    def __init__(
        self,
        model: HopModel,
        data: NodeData | DiskData,
        rows: NodeRows,
        folder: str | os.PathLike,
        nodes: torch.Tensor | None,
        memory: int | str | None = None,
        resume: bool = True,
    ):
        if getattr(data, "inductive", False):
            raise DGLError(
                f"soft_labels: {data.name} is inductive, so that nodes without "
                f"a label are not seen in training. Omit it."
            )
        self._model, self._data, self._rows = model, data, rows
        self._folder, self._nodes, self._memory = folder, nodes, memory
        self._resume = resume
        #: Stages whose label features are those of this run.
        self._written = {1}

    def __call__(
        self,
        stage: int,
        ids: torch.Tensor | None,
        probabilities: torch.Tensor | None,
    ) -> LabelledRows:
        """Compute the inputs of a stage, or open them."""
        soft = None
        if ids is not None and probabilities is not None:
            soft = (ids, probabilities)
        # The recipe of an earlier stage says nothing about this one.
        self._model.label_recipe = None
        labels = compute_labels(
            self._model, self._data, self._nodes, soft=soft,
            memory=self._memory, out=stage_folder(self._folder, stage),
            resume=self._resume or stage in self._written,
        )  # fmt: skip
        self._written.add(stage)
        return with_labels(self._rows, labels)

    def of_best(self, found: Fit) -> LabelledRows:
        """Open the inputs of the stage whose weights the model has."""
        stage = int(found.history.stage[found.best_epoch])
        folder = stage_folder(self._folder, stage)
        labels = open_label_store(folder, self._model, self._data)
        return with_labels(self._rows, labels)
