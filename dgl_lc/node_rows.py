"""Rows of nodes: several matrices with a row for each of the same nodes."""

import copy
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, TypeVar

import numpy as np
import torch
from dgl import DGLError

from .row_blocks import ChosenRows, Room, RowBlock

#: Rows of the same kind as those they are taken from.
Rows = TypeVar("Rows", bound="NodeRows")


class NodeRows:
    """Several matrices, each with a row for each of the same nodes.

    ``rows[i]`` is the i-th matrix, and iterating gives all of them in order.
    :meth:`rows` gathers the rows of a batch of nodes into one stack.

    Parameters
    ----------
    tensors : sequence of Tensor
        The matrices, with as many rows each. Those of one shape and data type
        can be one :attr:`stack`.
    nodes : Tensor, optional
        The node of each row, or a mask of the nodes that have a row. Default:
        row i is node i.

    Attributes
    ----------
    nodes : Tensor or None
        The node of each row; None if row i is node i.
    shard : (int, int) or None
        The rank that holds these rows, and the number of ranks, if the rows
        asked for are spread over the ranks of a process group; None if these
        are all rows.

    Examples
    --------
    >>> import torch
    >>> from dgl_lc.node_rows import NodeRows
    >>> inputs = NodeRows([torch.eye(3), torch.zeros(3, 3)])
    >>> inputs
    NodeRows(count=2, rows=3, columns=3, dtype=torch.float32)
    >>> inputs.rows(torch.tensor([2, 0]))[0]
    tensor([[0., 0., 1.],
            [1., 0., 0.]])
    """

    shard: tuple[int, int] | None = None

    def __init__(
        self, tensors: Sequence[torch.Tensor], nodes: torch.Tensor | None = None
    ):
        parts = list(tensors)
        if not parts:
            raise DGLError("tensors is empty: give at least one matrix.")
        if any(len(part) != len(parts[0]) for part in parts):
            raise DGLError(
                f"tensors should have as many rows each, got "
                f"{[len(part) for part in parts]}."
            )
        if nodes is not None:
            nodes = check_ids(nodes, "nodes")
        if nodes is not None and len(nodes) != len(parts[0]):
            raise DGLError(
                f"nodes should name the node of each row, but it has "
                f"{len(nodes)} entries for {len(parts[0])} rows."
            )
        self._set_rows(parts, len(parts), nodes)

    def _set_rows(
        self,
        parts: list[torch.Tensor],
        count: int,
        nodes: torch.Tensor | None,
    ) -> None:
        """Set the rows of ``count`` matrices.

        ``parts`` holds the matrices one by one, or a single tensor with the
        rows of all of them, one matrix after the other.
        """
        self._parts = parts
        self._count = count
        self._num_rows = len(parts) * len(parts[0]) // count
        self.nodes = nodes
        # The nodes sorted, and the row of each, once they are looked up.
        self._order: tuple[torch.Tensor, torch.Tensor] | None = None

    def _with_rows(
        self: Rows, parts: list[torch.Tensor], nodes: torch.Tensor | None
    ) -> Rows:
        """Return the same matrices with the rows of other nodes."""
        found = copy.copy(self)
        found._set_rows(parts, self._count, nodes)
        found.shard = self._shard_of(nodes)
        return found

    def _shard_of(self, nodes: torch.Tensor | None) -> tuple[int, int] | None:
        """Tell of which shard the rows of these nodes are.

        The rows of the same nodes are the same shard; those of a batch are
        none.
        """
        return self.shard if nodes is self.nodes else None

    # The matrices

    def _tensor(self, place: int) -> torch.Tensor:
        if len(self._parts) == self._count:
            return self._parts[place]
        first = place * self._num_rows
        return self._parts[0][first : first + self._num_rows]

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The matrices, in order."""
        return [self._tensor(place) for place in range(self._count)]

    @property
    def stack(self) -> torch.Tensor:
        """The rows of all matrices as one tensor, matrix after matrix.

        The rows of a batch are one tensor already. Other matrices are
        concatenated once, and from then on are views of the stack.
        """
        if len(self._parts) > 1:
            if not self.same_shape:
                raise DGLError(
                    f"matrices of different shapes can't be one stack: they "
                    f"are {[tuple(part.shape) for part in self._parts]}. "
                    f"Iterate over them instead."
                )
            self._parts = [torch.cat(self._parts)]
        return self._parts[0]

    @property
    def same_shape(self) -> bool:
        """Whether all matrices have one shape and one data type."""
        first = self._parts[0]
        return all(
            part.shape == first.shape and part.dtype == first.dtype
            for part in self._parts[1:]
        )

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[torch.Tensor]:
        return (self._tensor(place) for place in range(self._count))

    def __getitem__(self, key: Any) -> Any:
        return self.tensors[key]

    @property
    def shape(self) -> torch.Size:
        """The shape of each matrix, or of the first if they differ."""
        return torch.Size((self._num_rows, *self._parts[0].shape[1:]))

    @property
    def dtype(self) -> torch.dtype:
        """The data type of the rows."""
        return self._parts[0].dtype

    @property
    def device(self) -> torch.device:
        """The device of the rows."""
        return self._parts[0].device

    @property
    def requires_grad(self) -> bool:
        """Whether any of the matrices requires a gradient."""
        return any(part.requires_grad for part in self._parts)

    @property
    def nbytes(self) -> int:
        """The bytes of all matrices together."""
        return sum(part.nbytes for part in self._parts)

    @property
    def row_bytes(self) -> int:
        """The bytes of the rows of one node."""
        return sum(
            own.shape[1:].numel() * own.element_size() for own in self.tensors
        )

    @property
    def on_disk(self) -> bool:
        """Whether rows are read from a disk, as far as that is known."""
        return False

    def _describe(self) -> str:
        rows, *columns = self.shape
        text = columns[0] if len(columns) == 1 else tuple(columns)
        return f"rows={rows}, columns={text}, dtype={self.dtype}"

    def __repr__(self) -> str:
        return f"NodeRows(count={len(self)}, {self._describe()})"

    # Rows of some nodes

    def rows(self: Rows, ids: torch.Tensor) -> Rows:
        """Gather the rows of these nodes, in this order, into one stack.

        Parameters
        ----------
        ids : Tensor
            Ids of nodes (not places of rows, where ``nodes`` is set), or
            a mask with an entry for each node.
        """
        ids = self.node_ids(ids)
        return self.take(self.positions(ids), ids)

    def node_ids(
        self, ids: Any, argument: str = "ids", num_nodes: int | None = None
    ) -> torch.Tensor:
        """Check ids of nodes, or turn a mask into ids.

        Where not all nodes have a row, ``num_nodes`` is the number of nodes
        of the graph, if that is known. It is not stored with the rows.
        """
        if self.nodes is None:
            return check_ids(ids, argument, self._num_rows)
        if num_nodes is None:
            least = int(self.nodes.max()) + 1 if len(self.nodes) else 0
            return check_ids(ids, argument, at_least=least)
        return check_ids(ids, argument, num_nodes)

    def positions(self, ids: torch.Tensor) -> torch.Tensor:
        """Find the rows of these nodes; a node without a row is an error."""
        ids = self.node_ids(ids)
        if self.nodes is None:
            if len(ids) and int(ids.max()) >= self._num_rows:
                raise DGLError(
                    f"ids holds {int(ids.max())}, but there are rows of nodes "
                    f"0 to {self._num_rows - 1} only."
                )
            return ids
        if self._order is None:
            self._order = torch.sort(self.nodes.cpu())
        nodes, order = self._order
        place = torch.searchsorted(nodes, ids).clamp(max=len(nodes) - 1)
        wrong = ids[nodes[place] != ids]
        if len(wrong):
            raise DGLError(
                f"ids holds {int(wrong[0])}{and_others(len(wrong))} without a "
                f"row: the rows are those of {len(nodes):,} "
                f"nodes. Precompute with these among nodes=."
            )
        return order[place]

    def take(
        self: Rows,
        places: torch.Tensor,
        nodes: torch.Tensor,
        out: torch.Tensor | None = None,
    ) -> Rows:
        """Gather rows by their places.

        Parameters
        ----------
        places : Tensor
            Places of rows, as :meth:`positions` gives them.
        nodes : Tensor
            The nodes whose rows these are.
        out : Tensor, optional
            The memory of the stack of all gathered rows. It can be given
            where all matrices have one shape and none requires a gradient.
            Default: new memory.
        """
        places = places.to(self.device)
        tensors = self.tensors
        if self.requires_grad or not self.same_shape:
            parts = [tensor.index_select(0, places) for tensor in tensors]
            return self._with_rows(parts, nodes)
        columns = self.shape[1:]
        if out is None:
            out = torch.empty(
                (len(tensors) * len(places), *columns),
                dtype=self.dtype, device=self.device,
            )  # fmt: skip
        for tensor, part in zip(
            tensors, out.view(len(tensors), len(places), *columns), strict=True
        ):
            torch.index_select(tensor, 0, places, out=part)
        return self._with_rows([out], nodes)

    def prefetch(self, places: torch.Tensor) -> None:
        """Announce rows that are needed soon; in memory nothing is done."""

    def read(
        self,
        places: torch.Tensor,
        room: Room,
        stopped: threading.Event | None = None,
    ) -> RowBlock:
        """Read rows by their places, to take batches from them.

        The block holds until the room is used again. Rows in memory are not
        copied.
        """
        return ChosenRows(self, places)

    def to(self: Rows, *args: Any, **kwargs: Any) -> Rows:
        """Move or convert the rows, as :meth:`torch.Tensor.to`."""
        parts = [part.to(*args, **kwargs) for part in self._parts]
        return self._with_rows(parts, self.nodes)

    def pin_memory(self: Rows) -> Rows:
        """Pin the rows in memory, as :meth:`torch.Tensor.pin_memory`."""
        parts = [part.pin_memory() for part in self._parts]
        return self._with_rows(parts, self.nodes)


class ModelInputs(NodeRows):
    """The inputs of a model that is not a function of the hops of one filter.

    ``precompute`` of such a model makes them, and loaders, ``fit`` and the
    model itself take them as they take hop features.

    Parameters
    ----------
    tensors : sequence of Tensor
        The inputs, in the order in which the model reads them.
    names : sequence of str
        What each input is. A model compares them with what it reads.
    nodes : Tensor, optional
        The node of each row. Default: row i is node i.

    Examples
    --------
    >>> import torch
    >>> from dgl_lc.node_rows import ModelInputs
    >>> ModelInputs([torch.eye(3), torch.zeros(3, 3)], ["X", "S X"])
    ModelInputs(['X', 'S X'], rows=3, columns=3, dtype=torch.float32)
    """

    #: What the names of filters in ``names`` mean, if that is known.
    filters: tuple[str, ...] | None = None

    def __init__(
        self,
        tensors: Sequence[torch.Tensor],
        names: Sequence[str],
        nodes: torch.Tensor | None = None,
    ):
        super().__init__(tensors, nodes)
        self.names = list(names)
        if len(self.names) != len(self):
            raise DGLError(
                f"names should have an entry for each of the {len(self)} "
                f"tensors, got {self.names}."
            )

    def __repr__(self) -> str:
        return f"ModelInputs({self.names}, {self._describe()})"


def and_others(count: int) -> str:
    """Say in a message that there are more than the one that is named.

    >>> and_others(1), and_others(3)
    ('', ', and 2 others,')
    """
    return "" if count == 1 else f", and {count - 1} others,"


def check_ids(
    ids: Any,
    argument: str,
    num_nodes: int | None = None,
    *,
    at_least: int = 0,
) -> torch.Tensor:
    """Return node ids, or those of a mask, as an int64 tensor on the CPU.

    Every function that takes ids of nodes takes them through this one, so
    that a mask means the same everywhere.

    Parameters
    ----------
    ids : Tensor, numpy.ndarray or sequence
        Ids in any order, or a mask: a bool for each node.
    argument : str
        Its name in messages.
    num_nodes : int, optional
        The number of nodes, which is the length of a mask. Default: not
        known; a mask then has ``at_least`` so many entries.

    Examples
    --------
    >>> check_ids([2, 0], "nodes", 4), check_ids([True, False], "nodes", 2)
    (tensor([2, 0]), tensor([0]))
    """
    if not isinstance(ids, torch.Tensor):
        ids = _to_tensor(ids, argument)
        if ids.numel() == 0 and ids.dtype != torch.bool:
            ids = ids.long()
    if ids.layout != torch.strided:
        raise DGLError(
            f"{argument} is sparse: give the ids, {argument}.to_dense()."
        )
    if ids.is_floating_point() or ids.is_complex():
        raise DGLError(f"{argument} should hold integer ids, got {ids.dtype}.")
    if ids.dim() != 1:
        raise DGLError(
            f"{argument} should have one dimension, got shape "
            f"{tuple(ids.shape)}: use {argument}.reshape(-1)."
        )
    if ids.dtype == torch.bool:
        return _ids_of_mask(ids, argument, num_nodes, at_least)
    if ids.dtype == torch.uint8 and len(ids) == num_nodes:
        _refuse_byte_mask(ids, argument)
    ids = ids.cpu().to(torch.int64)
    if len(ids) and int(ids.min()) < 0:
        raise DGLError(f"{argument} holds {int(ids.min())}, not a node id.")
    return ids


def _ids_of_mask(
    mask: torch.Tensor, argument: str, num_nodes: int | None, at_least: int
) -> torch.Tensor:
    if num_nodes is not None and len(mask) != num_nodes:
        raise DGLError(
            f"{argument} is a mask of {len(mask):,} entries, but there are "
            f"{num_nodes:,} nodes: give an entry for each node, or ids."
        )
    if len(mask) < at_least:
        raise DGLError(
            f"{argument} is a mask of {len(mask):,} entries, but there are "
            f"rows of nodes up to {at_least - 1:,}: give an entry for each "
            f"node of the graph, or ids."
        )
    return mask.cpu().nonzero().squeeze(1)


def _refuse_byte_mask(ids: torch.Tensor, argument: str) -> None:
    """Refuse what may be a mask of bytes, as older libraries make them."""
    if len(ids) > 2 and int(ids.max()) <= 1:
        raise DGLError(
            f"{argument} holds {len(ids):,} zeros and ones of type uint8, "
            f"which may be a mask or ids: convert it to bool or to int64."
        )


def _to_tensor(ids: Any, argument: str) -> torch.Tensor:
    given = ids
    try:
        if not _is_sequence(ids):
            raise TypeError(f"it is {ids!r}"[:60])
        if isinstance(ids, (list, tuple)) and not _is_uniform(ids):
            raise TypeError("it holds both bools and integers")
        if not isinstance(ids, (np.ndarray, list, tuple)):
            # A column of a data frame, among others.
            ids = np.asarray(ids)
        if isinstance(ids, np.ndarray):
            if ids.dtype.kind not in "biufc":
                raise TypeError(f"its values are of type {ids.dtype}")
            # Torch takes neither a foreign byte order nor negative strides,
            # and older versions not every unsigned type.
            integers = ids.dtype.kind in "iu" and ids.dtype != np.uint8
            native = np.int64 if integers else ids.dtype.newbyteorder("=")
            ids = np.ascontiguousarray(ids, dtype=native)
            # Torch has no read-only tensors, and NumPy calls an array of one
            # value contiguous, whatever its stride.
            if not ids.flags.writeable or min(ids.strides, default=0) < 0:
                ids = ids.copy()
        return torch.as_tensor(ids)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise DGLError(
            f"{argument} should be a tensor, an array or a list of node ids, "
            f"got {type(given).__name__}: {str(error).partition(chr(10))[0]}."
        ) from None


def _is_sequence(ids: Any) -> bool:
    """Tell whether these are values in an order: no number, text or set."""
    if isinstance(ids, np.ndarray):
        # A 0-dimensional array has iter() as well, which raises an error.
        return ids.ndim > 0
    unordered = (str, bytes, Mapping, Set)
    return isinstance(ids, Iterable) and not isinstance(ids, unordered)


def _is_uniform(ids: Sequence[Any]) -> bool:
    """Tell whether all or none are bools: torch reads a mix as integers."""
    bools = sum(isinstance(value, (bool, np.bool_)) for value in ids)
    return bools in (0, len(ids))
