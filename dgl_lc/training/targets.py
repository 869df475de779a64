"""What a model should give for the nodes that it is trained on."""

from dataclasses import dataclass
from typing import Any

import torch
from dgl import DGLError

from ..node_rows import NodeRows

#: How far the sum of probabilities may be from 1.
_SUM_ERROR = 1e-2


@dataclass(frozen=True)
class Targets:
    """A target for each of some rows, in their order.

    It has the few methods of a tensor that a loader of batches needs.

    Attributes
    ----------
    values : Tensor
        The class of each row, int64, or one or more numbers as a float row.
        Where a row is soft, its class is that of the largest probability.
    weight : Tensor or None
        How much each row counts; all count 1 if it is None.
    soft : Tensor or None
        Probabilities of classes, a row for each soft row.
    place : Tensor or None
        For each row its row of ``soft``, or -1 if it is not soft.
    """

    values: torch.Tensor
    weight: torch.Tensor | None = None
    soft: torch.Tensor | None = None
    place: torch.Tensor | None = None

    @property
    def classes(self) -> bool:
        """Whether the targets are classes, not numbers."""
        return self.values.dim() == 1

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, part: Any) -> "Targets":
        return self._each(lambda own: own[part])

    def index_select(self, dim: int, order: torch.Tensor) -> "Targets":
        """Take rows in another order."""
        return self._each(lambda own: own.index_select(dim, order))

    def pin_memory(self) -> "Targets":
        """Copy to memory that a GPU reads."""
        return self._each(lambda own: own.pin_memory())

    def to(self, device: Any, non_blocking: bool = False) -> "Targets":
        """Move to a device, with the probabilities of these rows alone."""
        found = self._each(
            lambda own: own.to(device, non_blocking=non_blocking)
        )
        if self.soft is None or self.place is None:
            return found
        # Half floats keep all of them small, and are exact as floats.
        which = self.place >= 0
        soft = self.soft[self.place[which]]
        place = which.cumsum(0).masked_fill(~which, 0) - 1
        if soft.dtype == torch.float16:
            soft = soft.float()
        return Targets(
            found.values, found.weight, soft.to(device), place.to(device)
        )

    def _each(self, change: Any) -> "Targets":
        """Change what has an entry for each row."""
        weight, place = (
            None if own is None else change(own)
            for own in (self.weight, self.place)
        )
        return Targets(change(self.values), weight, self.soft, place)


@dataclass(frozen=True)
class PseudoLabels:
    """Labels of all nodes, and probabilities of classes for some others.

    ``fit`` takes them as ``labels``; the nodes ``ids`` may then be among
    those of ``train``.

    Attributes
    ----------
    labels : Tensor
        An integer for each node of the graph.
    ids : Tensor
        Nodes without a label of their own.
    soft : Tensor
        A row of probabilities for each of them, of any float type.
    weight : float
        How much each of them counts in the loss; a labelled node counts 1.
    """

    labels: torch.Tensor
    ids: torch.Tensor
    soft: torch.Tensor
    weight: float = 1.0

    def __len__(self) -> int:
        return len(self.labels)


def make_targets(
    labels: Any, rows: NodeRows, ids: torch.Tensor, kind: str
) -> Targets:
    """Look up the targets of some nodes, checked.

    Parameters
    ----------
    labels : Tensor or PseudoLabels
        The labels of all nodes.
    rows : NodeRows
        The rows that the model reads.
    ids : Tensor
        The nodes.
    kind : str
        The name of the loss, or "own" for a function of the user's.
    """
    if isinstance(labels, PseudoLabels):
        return _with_pseudo(labels, rows, ids, kind)
    labels = torch.as_tensor(labels)
    numbers = labels.is_floating_point()
    if kind == "cross_entropy" and numbers and labels.dim() == 2:
        return _soft_targets(labels, rows, ids)
    if kind == "cross_entropy" or (
        kind == "own" and labels.dim() == 1 and not numbers
    ):
        return Targets(node_labels(labels, rows, ids))
    return Targets(_numbers(labels, rows, ids, kind))


def _soft_targets(
    labels: torch.Tensor, rows: NodeRows, ids: torch.Tensor
) -> Targets:
    _check_count(labels, rows, ids)
    soft = labels[ids]
    _check_probabilities(soft, ids, "labels")
    return Targets(soft.argmax(dim=1), None, soft, torch.arange(len(ids)))


def _with_pseudo(
    labels: PseudoLabels, rows: NodeRows, ids: torch.Tensor, kind: str
) -> Targets:
    if kind != "cross_entropy":
        raise DGLError(
            "probabilities of classes as labels are for loss='cross_entropy'."
        )
    order = labels.ids.argsort()
    known = labels.ids[order]
    place = torch.full_like(ids, -1)
    if len(known):
        near = torch.searchsorted(known, ids).clamp(max=len(known) - 1)
        place = torch.where(known[near] == ids, order[near], -1)
    pseudo = place >= 0
    if not pseudo.any():
        return Targets(node_labels(labels.labels, rows, ids))
    values = torch.empty_like(ids)
    values[~pseudo] = node_labels(labels.labels, rows, ids[~pseudo])
    values[pseudo] = labels.soft.argmax(dim=1)[place[pseudo]]
    weight = None
    if labels.weight != 1:
        weight = torch.where(pseudo, labels.weight, 1.0)
    return Targets(values, weight, labels.soft, place)


def _numbers(
    labels: torch.Tensor, rows: NodeRows, ids: torch.Tensor, kind: str
) -> torch.Tensor:
    """Return numbers as float rows, checked."""
    if labels.dim() not in (1, 2) or labels.is_complex():
        raise DGLError(
            f"labels should hold a number, or a row of numbers, for each node "
            f"with this loss, got {labels.dtype} of shape "
            f"{tuple(labels.shape)}."
        )
    _check_count(labels, rows, ids)
    found = labels[ids]
    if not found.is_floating_point() or found.dtype.itemsize < 4:
        found = found.float()
    found = found.view(len(found), -1)
    bad = ~found.isfinite()
    if kind == "bce":
        bad |= (found < 0) | (found > 1)
    if bad.any():
        place = int(bad.any(dim=1).nonzero()[0])
        value = float(found[place][bad[place]][0])
        wanted = "between 0 and 1" if kind == "bce" else "finite"
        raise DGLError(
            f"labels holds {value} for node {int(ids[place])}, and should be "
            f"{wanted} with this loss: leave nodes without a label out of the "
            f"split."
        )
    return found


def _check_probabilities(
    soft: torch.Tensor, ids: torch.Tensor, name: str
) -> None:
    wrong = ~((soft >= 0).all(1) & ((soft.sum(1) - 1).abs() < _SUM_ERROR))
    if wrong.any():
        node = int(ids[wrong.nonzero()[0, 0]])
        raise DGLError(
            f"{name} holds float rows, which are probabilities of classes for "
            f"the cross entropy, but those of node {node} are not: they should "
            f"be at least 0 and add up to 1. For several classes per node "
            f"choose loss='bce', for other numbers 'mse' or 'l1'."
        )


def _check_count(
    labels: torch.Tensor, rows: NodeRows, ids: torch.Tensor
) -> None:
    """Refuse labels that are not those of all nodes."""
    count = rows.shape[0]
    whole = rows.nodes is None
    last = int(ids.max()) if len(ids) else -1
    if (whole and len(labels) != count) or last >= len(labels):
        raise DGLError(
            f"labels has {len(labels)} entries; it should have one for each "
            f"node of the graph"
            + (f", {count}." if whole else ", labelled or not.")
        )


def node_labels(
    labels: torch.Tensor, rows: NodeRows, ids: torch.Tensor
) -> torch.Tensor:
    """Return the classes of some nodes, checked."""
    if not isinstance(labels, torch.Tensor):
        labels = torch.as_tensor(labels)
    if labels.dim() != 1 or labels.is_floating_point() or labels.is_complex():
        raise DGLError(
            f"labels should hold one integer for each node, got "
            f"{labels.dtype} of shape {tuple(labels.shape)}."
        )
    _check_count(labels, rows, ids)
    chosen = labels[ids].long()
    if len(chosen) and int(chosen.min()) < 0:
        node = int(ids[chosen.argmin()])
        raise DGLError(
            f"labels holds {int(chosen.min())} for node {node}: leave nodes "
            f"without a label out of the split."
        )
    return chosen
