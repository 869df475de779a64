"""Hop features: what the precomputation makes and the models eat."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from dgl import DGLError
from torch.utils._pytree import tree_map

from . import rowwise
from .rowwise import is_hops

NORMS = ("both", "right", "left", "none")


@dataclass(frozen=True)
class FilterSpec:
    """Which filter hop features were made with.

    Attributes
    ----------
    norm : str
        As in :class:`dgl.nn.GraphConv`. "both": by the square roots of the
        source's out-degree and the destination's in-degree; "right": by the
        in-degree; "left": by the out-degree; "none": not at all.
    self_loop : bool
        Whether every node has exactly one self-loop, or the graph's own.
    weighted : bool
        Whether messages are multiplied by edge weights.
    """

    norm: str = "both"
    self_loop: bool = True
    weighted: bool = False

    def __post_init__(self) -> None:
        if self.norm not in NORMS:
            raise DGLError(
                f"norm={self.norm!r} is not known: choose one of "
                f"{', '.join(map(repr, NORMS))}."
            )

    @property
    def num_diagonals(self) -> int:
        """How many of the two diagonals are not all ones."""
        return {"both": 2, "right": 1, "left": 1, "none": 0}[self.norm]


class HopFeatures:
    r"""Hop features :math:`S^k X` of some nodes, and functions of them.

    ``hops[k]`` is the tensor :math:`S^k X`, one row for each node;
    ``hops[1:3]`` are hop features again, of hops 1 and 2; ``hops[:, :5]``
    their first five columns. Iterating gives the tensors of the hops that
    are there, in order.

    Row-wise torch functions and modules (activations, dropout, linear layers,
    norms, arithmetic, ``cat`` on the feature axis …) act on all hops at once,
    as one call on the stack of their rows. Aggregation is a shift: if these
    are :math:`f(S^k X)`, then :meth:`shift` gives :math:`S f(S^{k-1} X)` with
    S swapped to the inside, :math:`f(S^k X)`, as hop k - 1. Values with
    different hops meet on those they share; hop 0 alone is a plain tensor,
    and a plain tensor with a row for each node counts as hop 0. Everything
    that might mix rows is refused.

    Parameters
    ----------
    tensors : sequence of Tensor
        One tensor for each hop, all of one shape.
    hops : sequence of int
        Which hops they are, ascending.
    filter : FilterSpec or None
        The filter they were made with; None for the inputs of a model of
        several filters, which are counted and not hops.
    nodes : Tensor, optional
        The node of each row; None if row i is node i.

    Examples
    --------
    >>> import dgl, torch
    >>> from dgl_lc.precompute import block_aggregate
    >>> g = dgl.graph(([0, 1, 2], [1, 2, 0]))
    >>> hops = block_aggregate(g, torch.eye(3), K=2)
    >>> hops
    HopFeatures(hops=[0, 1, 2], rows=3, columns=3, dtype=torch.float32)
    >>> hops[2]
    tensor([[0.2500, 0.2500, 0.5000],
            [0.5000, 0.2500, 0.2500],
            [0.2500, 0.5000, 0.2500]])
    >>> torch.relu(hops - 0.3).shift()[1]
    tensor([[0.0000, 0.0000, 0.2000],
            [0.2000, 0.0000, 0.0000],
            [0.0000, 0.2000, 0.0000]])
    """

    #: Marks the class for :func:`dgl_lc.rowwise.is_hops`.
    _hop_axis = True

    def __init__(
        self,
        tensors: Sequence[torch.Tensor],
        hops: Sequence[int],
        filter: FilterSpec | None,
        nodes: torch.Tensor | None = None,
    ):
        self._parts: list[torch.Tensor] | None = list(tensors)
        self._rows: torch.Tensor | None = None
        self._hops = tuple(hops)
        if len(self._parts) != len(self._hops):
            raise DGLError(
                f"{len(self._parts)} tensors were given for hops "
                f"{list(self._hops)}."
            )
        self._num_rows = len(self._parts[0])
        self.filter = filter
        self.nodes = nodes
        self._order: tuple[torch.Tensor, torch.Tensor] | None = None

    @classmethod
    def from_stack(
        cls,
        stack: torch.Tensor,
        hops: Sequence[int],
        filter: FilterSpec | None,
        nodes: torch.Tensor | None = None,
    ) -> "HopFeatures":
        """Hop features whose rows are one tensor, hop after hop."""
        found = cls.__new__(cls)
        found._parts, found._rows = None, stack
        found._hops = tuple(hops)
        found._num_rows = len(stack) // len(found._hops)
        found.filter, found.nodes = filter, nodes
        found._order = None
        return found

    # What they are

    @property
    def hops(self) -> list[int]:
        """The hops that are there."""
        return list(self._hops)

    @property
    def K(self) -> int:
        """The last hop that is there."""
        return self._hops[-1]

    @property
    def stack(self) -> torch.Tensor:
        """The rows of all hops as one tensor, hop after hop."""
        if self._rows is None:
            assert self._parts is not None
            if len(self._parts) == 1:
                self._rows = self._parts[0]
            else:
                self._rows = torch.cat(self._parts)
            self._parts = None
        return self._rows

    @property
    def shape(self) -> torch.Size:
        """The shape of each hop: rows and columns."""
        return torch.Size((self._num_rows, *self._any.shape[1:]))

    @property
    def ndim(self) -> int:
        """The dimensions of each hop."""
        return self._any.dim()

    @property
    def dtype(self) -> torch.dtype:
        """The type of the features."""
        return self._any.dtype

    @property
    def device(self) -> torch.device:
        """Where the features are."""
        return self._any.device

    @property
    def is_cuda(self) -> bool:
        """Whether the features are on a GPU."""
        return self._any.is_cuda

    @property
    def requires_grad(self) -> bool:
        """Whether a gradient is wanted."""
        return any(tensor.requires_grad for tensor in self)

    @property
    def nbytes(self) -> int:
        """Bytes of all hops together."""
        return sum(t.numel() * t.element_size() for t in self)

    @property
    def _any(self) -> torch.Tensor:
        if self._rows is not None:
            return self._rows
        assert self._parts is not None
        return self._parts[0]

    def dim(self) -> int:
        """The dimensions of each hop."""
        return self.ndim

    def size(self, dim: int | None = None):
        """The shape of each hop, or one size of it."""
        return self.shape if dim is None else self.shape[dim]

    def __len__(self) -> int:
        return len(self._hops)

    def __iter__(self) -> Iterator[torch.Tensor]:
        return (self._hop(place) for place in range(len(self._hops)))

    def __repr__(self) -> str:
        rows, *columns = self.shape
        text = columns[0] if len(columns) == 1 else tuple(columns)
        return (
            f"HopFeatures(hops={self.hops}, rows={rows}, columns={text}, "
            f"dtype={self.dtype})"
        )

    # Taking parts of them

    def _hop(self, place: int) -> torch.Tensor:
        if self._rows is None:
            assert self._parts is not None
            return self._parts[place]
        first = place * self._num_rows
        return self._rows[first : first + self._num_rows]

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, (bool, list, torch.Tensor)):
            raise DGLError(
                "h[ids] on hop features would pick hops, not rows: take a "
                "batch with hops.rows(ids)."
            )
        if isinstance(key, tuple) or key is Ellipsis:
            key = key if isinstance(key, tuple) else (key,)
            rowwise.check_columns(key, self.ndim)
            rows = self.stack[key]
            if len(rows) != len(self.stack):
                raise rowwise.refuse("h[…]", "changed the number of rows")
            return self.from_stack(rows, self._hops, self.filter, self.nodes)
        if isinstance(key, slice):
            wanted = range(*key.indices(self.K + 1))
            return self.select(sorted(set(wanted) & set(self._hops)))
        if key not in self._hops:
            raise DGLError(
                f"hop {key!r} is not there: these hop features have hops "
                f"{self.hops}."
            )
        return self._hop(self._hops.index(key))

    def select(self, hops: Sequence[int]) -> "HopFeatures":
        """Only these hops, in ascending order; nothing is copied."""
        lacking = [hop for hop in hops if hop not in self._hops]
        if lacking or not len(hops):
            raise DGLError(
                f"hops {lacking} are not there: these hop features have hops "
                f"{self.hops}. Precompute them with K={max(hops, default=0)} "
                f"or hops={list(hops)}."
            )
        places = [self._hops.index(hop) for hop in hops]
        if tuple(hops) == self._hops:
            return self
        if self._rows is not None and places[-1] - places[0] + 1 == len(hops):
            first = places[0] * self._num_rows
            rows = self._rows[first : first + len(hops) * self._num_rows]
            return self.from_stack(rows, hops, self.filter, self.nodes)
        return self._like([self._hop(place) for place in places], hops)

    def shift(self, by: int = 1) -> Any:
        """Aggregate ``by`` times: hop k becomes hop k - by.

        Hop 0 alone is given as a plain tensor.
        """
        if self.filter is None:
            raise DGLError(
                "these are the inputs of a model of several filters: there is "
                "no next hop to aggregate to."
            )
        later = [hop for hop in self._hops if hop >= by]
        if not later:
            raise DGLError(
                f"aggregating needs hop {by} or later, and these hop "
                f"features have hops {self.hops}: precompute more of them, "
                f"with K= the number of times the model aggregates."
            )
        found = self.select(later)
        if later == [by]:
            return found[by]
        shifted = [hop - by for hop in later]
        if found._rows is not None:
            return self.from_stack(
                found._rows, shifted, self.filter, self.nodes
            )
        return self._like(list(found), shifted)

    def rows(self, ids: torch.Tensor) -> "HopFeatures":
        """The rows of these nodes, in this order, gathered into one stack.

        Parameters
        ----------
        ids : Tensor
            Ids of nodes (not places of rows, where :attr:`nodes` is set).
        """
        return self.take(self.positions(ids), ids)

    def prefetch(self, places: torch.Tensor) -> None:
        """Rows that are wanted soon; in memory there is nothing to do."""

    def take(
        self,
        places: torch.Tensor,
        nodes: torch.Tensor,
        out: torch.Tensor | None = None,
    ) -> "HopFeatures":
        """Rows by their places, as :meth:`positions` gives them.

        ``out`` is where the stack of all hops goes.
        """
        places = places.to(self.device)
        tensors = list(self)
        if self.requires_grad:
            stack = torch.cat([tensor[places] for tensor in tensors])
            return self.from_stack(stack, self._hops, self.filter, nodes)
        count = len(places)
        if out is None:
            out = torch.empty(
                (len(self._hops) * count, *self.shape[1:]),
                dtype=self.dtype, device=self.device,
            )  # fmt: skip
        parts = out.view(len(tensors), count, *self.shape[1:])
        for tensor, part in zip(tensors, parts, strict=True):
            torch.index_select(tensor, 0, places, out=part)
        return self.from_stack(out, self._hops, self.filter, nodes)

    def positions(self, ids: torch.Tensor) -> torch.Tensor:
        """In which rows the nodes are; an error for a node without one."""
        ids = check_ids(ids, "ids")
        if self.nodes is None:
            if len(ids) and int(ids.max()) >= self._num_rows:
                raise DGLError(
                    f"ids holds {int(ids.max())}, but these hop features "
                    f"have nodes 0 to {self._num_rows - 1}."
                )
            return ids
        if self._order is None:
            self._order = torch.sort(self.nodes.cpu())
        nodes, order = self._order
        place = torch.searchsorted(nodes, ids).clamp(max=len(nodes) - 1)
        wrong = ids[nodes[place] != ids]
        if len(wrong):
            raise DGLError(
                f"ids holds {int(wrong[0])}, and {len(wrong) - 1} others, of "
                f"which these hop features have no row: they were "
                f"precomputed for {len(nodes):,} nodes (nodes=)."
            )
        return order[place]

    def to(self, *args, **kwargs) -> "HopFeatures":
        """Move or convert the features, as :meth:`torch.Tensor.to`."""
        if self._rows is not None:
            rows = self._rows.to(*args, **kwargs)
            return self.from_stack(rows, self._hops, self.filter, self.nodes)
        return self._like([t.to(*args, **kwargs) for t in self], self._hops)

    def pin_memory(self) -> "HopFeatures":
        """As :meth:`torch.Tensor.pin_memory`."""
        return self._like([t.pin_memory() for t in self], self._hops)

    def _like(self, tensors, hops) -> "HopFeatures":
        return HopFeatures(tensors, hops, self.filter, self.nodes)

    # Functions of them

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name, rule = rowwise.rule_for(func)
        found = [v for v in rowwise.flatten((args, kwargs)) if is_hops(v)]
        first = found[0]
        _check_alike(name, found)
        call = rowwise.Call(first.ndim, first._num_rows, args, kwargs)
        holds_rows = rule(call)
        hops = set(first._hops).intersection(*(h._hops for h in found))
        for value in rowwise.flatten((args, kwargs)):
            if isinstance(value, torch.Tensor) and holds_rows(value):
                hops &= {0}
        if not hops:
            raise DGLError(
                f"{name}: the values have no hop in common (hop features "
                f"with hops {[h.hops for h in found]}; a plain tensor is hop "
                f"0). Precompute more hops."
            )
        shared = sorted(hops)

        def stack(value):
            return value.select(shared).stack if is_hops(value) else value

        inplace = kwargs.get("inplace", False)
        if inplace:
            kwargs = {**kwargs, "inplace": False}
        args, kwargs = tree_map(stack, (args, kwargs))
        result = first._wrap(name, func(*args, **kwargs), shared)
        if inplace and is_hops(result):
            first._rows, first._parts = result.stack, None
            return first
        return result

    def _wrap(self, name: str, result: Any, hops: list[int]) -> Any:
        if isinstance(result, (list, tuple)):
            # torch.return_types want their items as one sequence.
            return type(result)([self._wrap(name, r, hops) for r in result])
        if not isinstance(result, torch.Tensor):
            return result
        if result.dim() == 0 or len(result) != len(hops) * self._num_rows:
            raise rowwise.refuse(name, "changed the number of rows")
        if hops == [0]:
            return result
        return self.from_stack(result, hops, self.filter, self.nodes)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(torch.Tensor, name):
            raise AttributeError(
                f"'HopFeatures' object has no attribute {name!r}"
            )
        method = getattr(torch.Tensor, name)
        if not callable(method):
            raise rowwise.refuse(f".{name}", "is not known to be row-wise")

        def call(*args, **kwargs):
            return self.__torch_function__(method, (), (self, *args), kwargs)

        return call

    def __bool__(self) -> bool:
        raise DGLError("hop features have no truth value.")

    __hash__ = object.__hash__


def _operator(name: str):
    method = getattr(torch.Tensor, name)

    def operate(self, *args):
        return HopFeatures.__torch_function__(method, (), (self, *args))

    operate.__name__ = name
    return operate


for _name in (
    "__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__",
    "__truediv__", "__rtruediv__", "__pow__", "__rpow__", "__neg__",
    "__abs__", "__matmul__", "__gt__", "__lt__", "__ge__", "__le__", "__eq__",
    "__ne__", "__invert__", "__and__", "__or__",
):  # fmt: skip
    setattr(HopFeatures, _name, _operator(_name))


def _check_alike(name: str, found: list[HopFeatures]) -> None:
    """Refuse values that belong to other nodes or to another filter."""
    first = found[0]
    for other in found[1:]:
        if other.filter != first.filter:
            raise DGLError(
                f"{name}: hop features of different filters meet: "
                f"{first.filter} and {other.filter}."
            )
        same = other.nodes is first.nodes or (
            other.nodes is not None
            and first.nodes is not None
            and torch.equal(other.nodes, first.nodes)
        )
        if not same or other._num_rows != first._num_rows:
            raise DGLError(f"{name}: hop features of different nodes meet.")
        if other.ndim != first.ndim:
            raise rowwise.refuse(
                name, f"of {first.ndim} and {other.ndim} dimensions"
            )


def check_ids(ids: Any, argument: str) -> torch.Tensor:
    """Node ids as a one-dimensional int64 tensor on the CPU."""
    if not isinstance(ids, torch.Tensor):
        ids = torch.as_tensor(ids)
        if ids.numel() == 0:
            ids = ids.long()
    if ids.dtype == torch.bool:
        raise DGLError(
            f"{argument} is a mask: give ids, such as "
            f"mask.nonzero().squeeze(1)."
        )
    if ids.is_floating_point() or ids.is_complex():
        raise DGLError(f"{argument} should hold integer ids, got {ids.dtype}.")
    if ids.dim() != 1:
        raise DGLError(
            f"{argument} should have one dimension, got shape "
            f"{tuple(ids.shape)}."
        )
    ids = ids.cpu().to(torch.int64)
    if len(ids) and int(ids.min()) < 0:
        raise DGLError(f"{argument} holds {int(ids.min())}, not a node id.")
    return ids
