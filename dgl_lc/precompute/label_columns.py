"""One-hot labels as features that are made column block by column block.

The matrix of all of them would have a row for each node, and a column for
each class: 76 GB for ogbn-papers100M, nearly all zeros.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from dgl import DGLError

from .._common.digest import digest
from ..node_rows import check_ids
from ..storage.made_columns import MadeColumns
from ..storage.npy_file import tensor_of

#: Rows that are written at a time.
_ROWS = 1 << 15
#: Bytes that writing columns takes for itself, beside a few rows.
WRITE_BYTES = 8 * 8 * _ROWS


@dataclass(frozen=True)
class LabelledNodes:
    """Nodes with labels: a class each, or a row of numbers each.

    Attributes
    ----------
    ids : int64 Tensor
        The nodes, ascending.
    part : int32 Tensor
        The part of each of them.
    classes : int32 Tensor or None
        The class of each of them.
    rows : Tensor or None
        Rows of numbers, one column for each class.
    row_of : int64 Tensor or None
        The place of each node's row in ``rows``.
    """

    ids: torch.Tensor
    part: torch.Tensor
    classes: torch.Tensor | None = None
    rows: torch.Tensor | None = None
    row_of: torch.Tensor | None = None

    def key(self) -> str:
        """Compute a text that stands for all labels."""
        found = [digest(self.ids)]
        if self.classes is not None:
            found.append(digest(self.classes))
        if self.rows is not None and self.row_of is not None:
            # In pieces: all rows together may be too many for a copy.
            pieces = hashlib.blake2b(digest_size=16)
            for places in self.row_of.split(_ROWS):
                own = self.rows.index_select(0, places)
                pieces.update(digest(own).encode())
            found.append(pieces.hexdigest())
        return "-".join(found)

    @property
    def nbytes(self) -> int:
        """The bytes of what was made for these nodes."""
        made = (self.ids, self.part, self.classes, self.row_of)
        return sum(tensor.nbytes for tensor in made if tensor is not None)

    def write(
        self,
        places: torch.Tensor,
        at: torch.Tensor,
        first: int,
        last: int,
        value: float,
        target: torch.Tensor,
    ) -> None:
        """Write labels of the nodes at these places to rows of a target."""
        if self.classes is not None:
            found = self.classes[places].long() - first
            inside = (found >= 0) & (found < last - first)
            target[at[inside], found[inside]] = value
            return
        assert self.rows is not None
        assert self.row_of is not None
        chosen = self.rows[:, first:last].index_select(0, self.row_of[places])
        target[at] = (chosen.to(torch.float64) * value).to(target.dtype)


@dataclass(frozen=True)
class LabelColumns(MadeColumns):
    """The labels of some nodes as features; rows of other nodes are zeros.

    Attributes
    ----------
    shape, dtype
        As of :class:`~dgl_lc.storage.made_columns.MadeColumns`.
    nodes : tuple of LabelledNodes
        The nodes with labels, none of them twice.
    without : int or None
        The part whose labels are left out; None for all labels.
    value : float
        What stands for a label; rows of numbers are multiplied by it.
    """

    shape: tuple[int, int]
    dtype: torch.dtype
    nodes: tuple[LabelledNodes, ...]
    without: int | None = None
    value: float = 1.0

    def leave_out(self, part: int, value: float) -> "LabelColumns":
        """Return the labels of all other parts."""
        return replace(self, without=part, value=value)

    @property
    def key(self) -> str:
        """A text that stands for the content."""
        found = "+".join(
            f"{own.key()} {digest(own.part)}" for own in self.nodes
        )
        return (
            f"labels {found} classes={self.shape[1]} without={self.without} "
            f"value={self.value!r}"
        )

    def copy_columns(
        self,
        first: int,
        last: int,
        rows: torch.Tensor | None,
        target: torch.Tensor,
    ) -> None:
        """Write columns first to last, of some rows or of all, to a target."""
        target.zero_()
        for own in self.nodes:
            for places, at in self._find(own, rows):
                if self.without is not None:
                    kept = own.part[places] != self.without
                    places, at = places[kept], at[kept]
                if len(places):
                    own.write(places, at, first, last, self.value, target)

    def _find(
        self, own: LabelledNodes, rows: torch.Tensor | None
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield places of labelled nodes, and their rows in the target."""
        if rows is None:
            for low in range(0, len(own.ids), _ROWS):
                at = own.ids[low : low + _ROWS]
                yield torch.arange(low, low + len(at)), at
            return
        if len(own.ids) == 0:
            return
        for low in range(0, len(rows), _ROWS):
            ids = rows[low : low + _ROWS].long()
            places = torch.searchsorted(own.ids, ids)
            places.clamp_(max=len(own.ids) - 1)
            at = (own.ids[places] == ids).nonzero().squeeze(1)
            yield places[at], at + low


def label_columns(
    labels: torch.Tensor | np.ndarray,
    train: torch.Tensor,
    soft: tuple[torch.Tensor, torch.Tensor] | None,
    num_nodes: int,
    num_classes: int | None,
    parts: int,
    seed: int,
    dtype: torch.dtype,
) -> LabelColumns:
    """Check labels, split the nodes that have one, and make the features."""
    if isinstance(labels, np.ndarray):
        labels = tensor_of(labels)
    labels = torch.as_tensor(labels)
    _check_num_rows(labels, num_nodes)
    ids = _check_nodes(train, "train", num_nodes)
    wide = labels.dim() == 2
    if wide and not labels.is_floating_point():
        _check_integers(labels, ids, num_classes)
    count = _count_classes(labels, ids, num_classes)
    if len(ids) < parts:
        raise DGLError(
            f"parts={parts} is more than the {len(ids):,} nodes of train: "
            f"give fewer parts."
        )
    part = split_parts(len(ids), parts, seed)
    if wide:
        _check_values(labels, ids, "labels")
        found = [LabelledNodes(ids, part, None, labels, ids)]
    else:
        found = [LabelledNodes(ids, part, labels[ids].to(torch.int32))]
    if soft is not None:
        found.append(_soft_nodes(soft, ids, num_nodes, count, parts, seed))
    return LabelColumns((num_nodes, count), dtype, tuple(found))


def split_parts(
    count: int, parts: int, seed: int, stream: int = 0
) -> torch.Tensor:
    """Split so many nodes into parts of equal size, up to one, at random.

    It depends on the number of nodes and the seed alone. If it depended on
    the labels, as a stratified split does, a node's label would have a say in
    which labels its own row sees.

    >>> split_parts(5, 2, seed=0).bincount().tolist()
    [3, 2]
    """
    state = np.random.SeedSequence([seed, stream])
    generator = torch.Generator()
    generator.manual_seed(int(state.generate_state(1, np.uint64)[0]))
    order = torch.randperm(count, generator=generator)
    return (order % parts).to(torch.int32)


def _check_num_rows(labels: torch.Tensor, num_nodes: int) -> None:
    if labels.dim() not in (1, 2) or labels.is_complex():
        raise DGLError(
            f"labels should hold a class for each node, or a row of numbers "
            f"for each node, got {labels.dtype} of shape "
            f"{tuple(labels.shape)}."
        )
    if labels.dim() == 1 and (
        labels.is_floating_point() or labels.dtype == torch.bool
    ):
        raise DGLError(
            f"labels should hold an integer for each node, got "
            f"{labels.dtype}: convert classes to int64, with -1 for nodes "
            f"without a label."
        )
    if len(labels) != num_nodes:
        raise DGLError(
            f"labels has {len(labels):,} entries, but g has {num_nodes:,} "
            f"nodes: give one for each node, labelled or not."
        )


def _check_nodes(ids: torch.Tensor, argument: str, count: int) -> torch.Tensor:
    """Return ids of nodes, ascending and each of them once."""
    ids = check_ids(ids, argument, count).unique()
    if len(ids) == 0:
        raise DGLError(f"{argument} is empty: give at least one node.")
    if int(ids[-1]) >= count:
        raise DGLError(
            f"{argument} holds {int(ids[-1])}, but g has nodes 0 to "
            f"{count - 1}."
        )
    return ids


def _count_classes(
    labels: torch.Tensor, ids: torch.Tensor, num_classes: int | None
) -> int:
    """Return the number of classes, checked."""
    if num_classes is not None and (
        isinstance(num_classes, bool)
        or not isinstance(num_classes, int)
        or num_classes < 1
    ):
        raise DGLError(
            f"num_classes={num_classes!r} should be a positive integer."
        )
    if labels.dim() == 2:
        if num_classes not in (None, labels.shape[1]):
            raise DGLError(
                f"num_classes={num_classes}, but labels has "
                f"{labels.shape[1]} columns: omit num_classes."
            )
        if labels.shape[1] == 0:
            raise DGLError("labels has no columns.")
        return labels.shape[1]
    found = labels[ids]
    if int(found.min()) < 0:
        node = int(ids[found.argmin()])
        raise DGLError(
            f"labels holds {int(found.min())} for node {node} of train: leave "
            f"nodes without a label out of train."
        )
    most = int(found.max())
    if num_classes is None:
        return most + 1
    if most >= num_classes:
        node = int(ids[found.argmax()])
        raise DGLError(
            f"labels holds {most} for node {node} of train, but num_classes="
            f"{num_classes}: classes are 0 to {num_classes - 1}."
        )
    return num_classes


def _check_integers(
    labels: torch.Tensor, ids: torch.Tensor, num_classes: int | None
) -> None:
    """Refuse a matrix of integers that are classes, or stand for none."""
    for some in ids.split(_ROWS):
        rows = labels.index_select(0, some).long()
        if rows.shape[1] == 1 and (
            num_classes not in (None, 1) or int(rows.max()) > 1
        ):
            raise DGLError(
                "labels has one column of classes, but a matrix has a column "
                "for each class: give labels[:, 0]."
            )
        if rows.numel() and int(rows.min()) < 0:
            place = int((rows < 0).any(dim=1).int().argmax())
            raise DGLError(
                f"labels holds {int(rows[place].min())} for node "
                f"{int(some[place])} of train, and a matrix holds what each "
                f"class counts: leave nodes without a label out of train."
            )


def _check_values(
    rows: torch.Tensor, places: torch.Tensor, argument: str
) -> None:
    """Refuse numbers that are not finite."""
    if not rows.is_floating_point():
        return
    for some in places.split(_ROWS):
        wrong = ~rows.index_select(0, some).isfinite().all(dim=1)
        if wrong.any():
            place = int(some[int(wrong.int().argmax())])
            raise DGLError(
                f"{argument} holds a number that is not finite in row "
                f"{place}: give a number for each class, or leave the node "
                f"out."
            )


def _soft_nodes(
    soft: tuple[torch.Tensor, torch.Tensor],
    train: torch.Tensor,
    num_nodes: int,
    num_classes: int,
    parts: int,
    seed: int,
) -> LabelledNodes:
    """Check rows of probabilities, given for some nodes."""
    if not isinstance(soft, (tuple, list)) or len(soft) != 2:
        raise DGLError(
            "soft should be a pair: ids of nodes, and a row of probabilities "
            "for each of them."
        )
    given = check_ids(soft[0], "soft[0]", num_nodes)
    rows = torch.as_tensor(soft[1])
    if rows.shape != (len(given), num_classes):
        raise DGLError(
            f"soft[1] has shape {tuple(rows.shape)}, and should have a row "
            f"for each of {len(given):,} nodes and a column for each of "
            f"{num_classes} classes."
        )
    ids, order = given.sort()
    if len(ids) and int(ids[-1]) >= num_nodes:
        raise DGLError(
            f"soft[0] holds {int(ids[-1])}, but g has nodes 0 to "
            f"{num_nodes - 1}."
        )
    if len(ids) > 1 and bool((ids[1:] == ids[:-1]).any()):
        raise DGLError("soft[0] names a node twice: give each node once.")
    both = torch.isin(ids, train)
    if both.any():
        raise DGLError(
            f"soft[0] holds node {int(ids[int(both.int().argmax())])}, which "
            f"is in train: a node has a label or a soft label, not both."
        )
    _check_values(rows, order, "soft[1]")
    part = split_parts(len(ids), parts, seed, stream=1)
    return LabelledNodes(ids, part, None, rows, order)
