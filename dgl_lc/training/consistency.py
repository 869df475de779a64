"""Consistency between passes of a model with different masks of dropout."""

from dataclasses import dataclass, field
from typing import Any

import torch
from dgl import DGLError
from torch import nn


@dataclass(frozen=True)
class Consistency:
    r"""A loss that asks for the same output under different masks of dropout.

    An option of :func:`~dgl_lc.training.fit`, from `SCR: Training Graph
    Neural Networks with Consistency Regularization
    <https://arxiv.org/abs/2112.04319>`__. With probabilities
    :math:`p_i^{(s)}` of node i in pass s of S, their mean
    :math:`\bar p_i` and temperature T,

    .. math::
        q_{ic} = \bar p_{ic}^{1/T} / \sum_j \bar p_{ij}^{1/T}, \qquad
        L = \frac{1}{|B|} \sum_{i \in B} \frac{1}{S}
            \sum_s \lVert q_i - p_i^{(s)} \rVert^2

    is added to the loss, ``weight`` times. No gradient passes through q. B
    are the nodes of a batch, labelled or not, whose largest entry of
    :math:`\bar p_i` reaches ``threshold``. The loss of labels is the mean
    over passes.

    The authors' code differs in which nodes it takes: nodes without a label
    alone, of which a prediction without dropout is confident, chosen again
    every 10 or 20 epochs by a threshold that falls, such as from 0.9 to 0.8,
    after 100 or 150 epochs without this loss. Labels have a pass of their
    own. In stages of self-training the loss is this one, with T = 0.5 and a
    weight of 0.1. Their results in one stage are those of another loss, the
    divergence from a prediction of the same model, or of a mean of its
    weights over time (SCR-m), which is not here.

    Attributes
    ----------
    weight : float
        How much it counts beside the loss of labels. Default: 1.
    temperature : float
        T; below 1 it makes the mean sharper. Default: 0.5.
    passes : int
        S, the passes per batch. Default: 2.
    threshold : float
        Least probability of the most probable class. Default: 0, all nodes.
    unlabelled : Tensor or None
        Ids or mask of nodes without a label, of which each step draws some,
        with repetition. Default: training nodes alone.
    batch_size : int or None
        Nodes that are drawn in a step, of each rank if there are several.
        Default: that of ``fit``. A whole graph takes all of them.

    Examples
    --------
    >>> from dgl_lc.data import block_model
    >>> from dgl_lc.nn import LCGCN
    >>> from dgl_lc.training import Consistency, fit
    >>> data = block_model(300, seed=1)
    >>> model = LCGCN(data.num_feats, 16, data.num_classes, dropout=0.5)
    >>> hops = model.precompute(data.graph, data.feat)
    >>> found = fit(
    ...     model, hops, data.labels, data.train, data.valid, epochs=3,
    ...     consistency=Consistency(0.5, unlabelled=data.test),
    ... )
    >>> "train_consistency" in found.history
    True
    """

    weight: float = 1.0
    temperature: float = 0.5
    passes: int = 2
    threshold: float = 0.0
    unlabelled: Any = field(default=None, repr=False, compare=False)
    batch_size: int | None = None

    def check(self) -> None:
        """Refuse values that make no sense."""
        if not 0 <= self.weight < float("inf"):
            raise DGLError(
                f"consistency.weight={self.weight} should be at least 0."
            )
        if not 0 < self.temperature < float("inf"):
            raise DGLError(
                f"consistency.temperature={self.temperature} should be above 0."
            )
        if self.passes < 2:
            raise DGLError(
                f"consistency.passes={self.passes} should be at least 2."
            )
        if not 0 <= self.threshold <= 1:
            raise DGLError(
                f"consistency.threshold={self.threshold} should be between 0 "
                f"and 1."
            )
        if self.batch_size is not None and self.batch_size < 1:
            raise DGLError(
                f"consistency.batch_size={self.batch_size} should be at least "
                f"1."
            )

    def total(self, outputs: "Outputs") -> tuple[torch.Tensor, int]:
        """Add up the losses of rows, and count the rows."""
        labelled = torch.stack(outputs.labelled)
        total, count = self._total(labelled)
        if outputs.unlabelled:
            more, others = self._total(torch.stack(outputs.unlabelled))
            total, count = total + more, count + others
        return total, count

    def _total(self, logits: torch.Tensor) -> tuple[torch.Tensor, int]:
        shares = logits.softmax(dim=2)
        with torch.no_grad():
            mean = shares.mean(dim=0)
            # By logarithms, as powers of small numbers would be 0.
            sharp = (mean.log() / self.temperature).softmax(dim=1)
            sure = torch.ones(len(mean), dtype=torch.bool, device=mean.device)
            if self.threshold > 0 and len(mean):
                sure = mean.max(dim=1).values >= self.threshold
        losses = (shares - sharp).square().sum(dim=2).mean(dim=0)
        return losses[sure].sum(), int(sure.sum())


def check_consistency(given: Any, kind: str, of_classes: bool) -> None:
    """Refuse what is no Consistency, and losses without classes.

    Parameters
    ----------
    given : Consistency
        The option of ``fit``.
    kind : str
        The name of the loss, or "own".
    of_classes : bool
        Whether the targets are classes.
    """
    if not isinstance(given, Consistency):
        raise DGLError(
            f"consistency={given!r} should be a Consistency, such as "
            f"Consistency(weight=0.5)."
        )
    given.check()
    if kind not in ("cross_entropy", "own") or not of_classes:
        what = f"loss={kind!r}" if kind != "own" else "other labels"
        raise DGLError(
            f"consistency is for probabilities of classes, and not for {what}."
        )


@dataclass
class Outputs:
    """What the passes of a step give, for rows with and without a label."""

    labelled: list[torch.Tensor]
    unlabelled: list[torch.Tensor]


class Passes(nn.Module):
    """Calls a model several times on each batch.

    In one call, as DistributedDataParallel expects of a step.
    """

    def __init__(self, model: nn.Module, passes: int):
        super().__init__()
        self.model, self._passes = model, passes

    def forward(self, graph: Any, *batches: Any) -> list[list[Any]]:
        return [
            [self.model(graph, batch) for _ in range(self._passes)]
            for batch in batches
        ]
