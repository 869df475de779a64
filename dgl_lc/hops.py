"""Hop features: what the precomputation makes and the models read."""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from dgl import DGLError
from torch.utils._pytree import tree_map

from . import rowwise, swaps
from .graph_counts import GraphCounts
from .label_recipe import LabelRecipe
from .needed_hops import (
    NOT_SHIFTED,
    Shifts,
    no_common_hop,
    precompute_with,
    too_many_hops,
)
from .node_rows import NodeRows
from .rowwise import is_hops

NORMS = ("both", "right", "left", "none", "in")


@dataclass(frozen=True)
class FilterSpec:
    """The filter that hop features were made with.

    Attributes
    ----------
    norm : str
        As in :class:`dgl.nn.GraphConv`. "both": by the square roots of the
        source's out-degree and the destination's in-degree; "right": by the
        in-degree; "left": by the out-degree; "none": not at all. And "in",
        as in :class:`dgl.nn.TAGConv`, ``SGConv`` and ``GCN2Conv``: by the
        square roots of the in-degrees of both, of which 0 counts as 1.
    self_loop : bool
        Whether every node has exactly one self-loop, or the graph's own.
    weighted : bool
        Whether messages are multiplied by edge weights.
    graph : GraphCounts or None
        The counts of the graph whose filter it is; None if they are not
        known. Equal filters may be of different graphs.
    """

    norm: str = "both"
    self_loop: bool = True
    weighted: bool = False
    graph: GraphCounts | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.norm not in NORMS:
            raise DGLError(
                f"norm={self.norm!r} is not known: choose one of "
                f"{', '.join(map(repr, NORMS))}."
            )

    @property
    def seen_graph(self) -> GraphCounts | None:
        """The counts of the graph as the filter sees it, if known."""
        return None if self.graph is None else self.graph.seen(self.self_loop)

    @property
    def num_diagonals(self) -> int:
        """The number of diagonals, of two, that are not all ones."""
        # That of "in" is one diagonal for both sides.
        return {"both": 2, "right": 1, "left": 1, "none": 0, "in": 1}[self.norm]


class HopFeatures(NodeRows):
    r"""Hop features :math:`S^k X` of some nodes, and functions of them.

    ``hops[k]`` is the tensor :math:`S^k X`, one row for each node;
    ``hops[1:3]`` are hop features again, of hops 1 and 2; ``hops[:, :5]``
    their first five columns. Iterating gives the tensors of all hops, in
    order. :meth:`rows` gives the rows of a batch of nodes.

    Row-wise torch functions and modules (activations, dropout, linear layers,
    norms, arithmetic, ``cat`` on the feature axis …) act on all hops at once,
    as one call on the stack of their rows. Aggregation is a shift: if these
    are :math:`f(S^k X)`, then :meth:`shift` gives :math:`S f(S^{k-1} X)` with
    S swapped to the inside, :math:`f(S^k X)`, as hop k - 1. Values with
    different hops meet on those they share; hop 0 alone is a plain tensor,
    and a plain tensor with a row for each node counts as hop 0. Everything
    that might mix rows is refused, and so is a factor or a mask per node.
    ``len(hops)`` is the number of hops; ``hops.shape[0]`` that of rows.

    Two mistakes are not found. A plain tensor that is added or concatenated
    counts as hop 0, so that the result is hop 0 alone. ``hops[:n]`` and
    ``hops[i]`` pick hops, also where rows were meant, if these hops exist.

    Parameters
    ----------
    tensors : sequence of Tensor
        One tensor for each hop, all of one shape.
    hops : sequence of int
        The number of each hop, ascending.
    filter : FilterSpec
        The filter that the hop features were made with.
    nodes : Tensor, optional
        The node of each row. Default: row i is node i.

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
    #: How often the values were aggregated that these were computed from.
    _shifts: Shifts = NOT_SHIFTED
    #: How they were made, if these are label features.
    label_recipe: LabelRecipe | None = None

    def __init__(
        self,
        tensors: Sequence[torch.Tensor],
        hops: Sequence[int],
        filter: FilterSpec,
        nodes: torch.Tensor | None = None,
    ):
        super().__init__(tensors, nodes)
        self._hops = _check_hops(hops)
        self.filter = filter
        if len(self._hops) != len(self):
            raise DGLError(
                f"{len(self)} tensors were given for hops {list(self._hops)}."
            )

    @staticmethod
    def from_stack(
        stack: torch.Tensor,
        hops: Sequence[int],
        filter: FilterSpec,
        nodes: torch.Tensor | None = None,
    ) -> "HopFeatures":
        """Make hop features of one tensor with the rows of all hops.

        Parameters
        ----------
        stack : Tensor
            The rows, hop after hop.
        hops, filter, nodes
            As for :class:`HopFeatures`.
        """
        if len(stack) % max(1, len(hops)):
            raise DGLError(
                f"stack has {len(stack)} rows, which is no multiple of the "
                f"number of hops, {len(hops)}."
            )
        return _make([stack], _check_hops(hops), filter, nodes)

    def _with_rows(
        self, parts: list[torch.Tensor], nodes: torch.Tensor | None
    ) -> Any:
        # Hop features that were read from a store are in memory: they are
        # not of the store's class.
        found = _make(parts, self._hops, self.filter, nodes, self._shifts)
        found.shard = self._shard_of(nodes)
        return found

    # Properties. DGL reads some of them before it aggregates.

    @property
    def shape(self) -> torch.Size:
        """The shape of each hop."""
        swaps.check_caller()
        return super().shape

    @property
    def dtype(self) -> torch.dtype:
        """The data type of the rows."""
        swaps.check_caller()
        return super().dtype

    @property
    def device(self) -> torch.device:
        """The device of the rows."""
        swaps.check_caller()
        return super().device

    @property
    def hops(self) -> list[int]:
        """The numbers of the hops, ascending."""
        return list(self._hops)

    @property
    def K(self) -> int:
        """The number of the last hop."""
        return self._hops[-1]

    @property
    def ndim(self) -> int:
        """The number of dimensions of each hop."""
        swaps.check_caller()
        return self._parts[0].dim()

    @property
    def is_cuda(self) -> bool:
        """Whether the features are on a GPU."""
        return self.device.type == "cuda"

    def dim(self) -> int:
        """Return the number of dimensions of each hop."""
        swaps.check_caller()
        return self.ndim

    def size(self, dim: int | None = None) -> Any:
        """Return the shape of each hop, or its size along a dimension."""
        swaps.check_caller()
        return self.shape if dim is None else self.shape[dim]

    def numel(self) -> int:
        """Return the number of elements of each hop."""
        return self.shape.numel()

    def __len__(self) -> int:
        swaps.check_caller()
        return self._count

    def __iter__(self) -> Iterator[torch.Tensor]:
        swaps.check_caller()
        return super().__iter__()

    def __repr__(self) -> str:
        return f"HopFeatures(hops={self.hops}, {self._describe()})"

    # Some of the hops or columns

    def __getitem__(self, key: Any) -> Any:
        swaps.check_caller()
        if isinstance(key, (bool, list, range, np.ndarray, torch.Tensor)):
            raise self._refuse_ids(key)
        if isinstance(key, tuple) or key is Ellipsis:
            key = key if isinstance(key, tuple) else (key,)
            rowwise.check_columns(key, self.ndim)
            rows = self.stack[key]
            if len(rows) != len(self.stack):
                raise rowwise.refuse("h[…]", "changed the number of rows")
            return self._with_rows([rows], self.nodes)
        if isinstance(key, slice):
            if isinstance(key.stop, int) and key.stop > self.K + 1:
                raise DGLError(
                    f"h[:{key.stop}] on hop features picks hops, of which the "
                    f"last is {self.K}: for rows, take a batch with "
                    f"hops.rows(ids)."
                )
            wanted = range(*key.indices(self.K + 1))
            return self.select([hop for hop in self._hops if hop in wanted])
        if key not in self._hops:
            raise DGLError(
                f"hop {key!r} does not exist: these hop features have hops "
                f"{self.hops}. For rows, take a batch with hops.rows(ids)."
            )
        return self._tensor(self._hops.index(key))

    def _refuse_ids(self, ids: Any) -> DGLError:
        """Return the error for ``h[ids]`` or ``h[mask]``."""
        if self._shifts != NOT_SHIFTED:
            return too_many_hops("h[ids]", self.hops, self._shifts)
        mask = isinstance(ids, bool) or rowwise.holds_bools(ids)
        if not mask and np.shape(ids)[:1] == (self._num_rows,):
            return DGLError(
                "h[ids] can't shuffle the rows of hop features: the hop "
                "features of shuffled features are others. Shuffle or change "
                "rows before, as block_aggregate(g, x[ids], K)."
            )
        return DGLError(
            "h[ids] on hop features would pick hops, not rows: take a batch "
            "with hops.rows(ids)."
        )

    def __setitem__(self, key: Any, value: Any) -> None:
        raise DGLError(
            "h[…] = … can't change hop features: rows of other hops depend on "
            "those that would change. Change the features before "
            "block_aggregate, or compute new values (torch.where(h > 0, h, 0), "
            "or h * c with a factor c for each column)."
        )

    def __delitem__(self, key: Any) -> None:
        raise DGLError(
            "del h[…] can't change hop features: use h.select(hops)."
        )

    def select(self, hops: Sequence[int]) -> "HopFeatures":
        """Select some hops, in ascending order, without a copy.

        Parameters
        ----------
        hops : sequence of int
            The numbers of the hops.
        """
        chosen = tuple(sorted(set(hops)))
        if not chosen:
            raise DGLError(
                f"no hop was selected: these hop features have hops "
                f"{self.hops}."
            )
        lacking = [hop for hop in chosen if hop not in self._hops]
        if lacking:
            raise DGLError(
                f"hops {lacking} do not exist: these hop features have hops "
                f"{self.hops}. Precompute with {precompute_with(chosen)}."
            )
        if chosen == self._hops:
            return self
        places = [self._hops.index(hop) for hop in chosen]
        first, last = places[0], places[-1] + 1
        if len(self._parts) == 1 and last - first == len(places):
            # What a stack holds side by side is a stack as well.
            rows = self._num_rows
            parts = [self._parts[0][first * rows : last * rows]]
        else:
            parts = [self._tensor(place) for place in places]
        found = _make(parts, chosen, self.filter, self.nodes, self._shifts)
        found.shard = self.shard
        return found

    def shift(self, by: int = 1) -> Any:
        """Aggregate ``by`` times: hop k becomes hop k - by.

        Hop 0 alone is returned as a plain tensor.
        """
        if by < 0:
            raise DGLError(f"by={by} should be 0 or more.")
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
        shifted = tuple(hop - by for hop in later)
        times = frozenset(count + by for count in self._shifts)
        return _make(found._parts, shifted, self.filter, self.nodes, times)

    # Functions of them

    @classmethod
    def __torch_function__(
        cls,
        func: Callable,
        types: Sequence[type],
        args: tuple = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        try:
            return cls._apply(func, args, kwargs or {})
        except Exception:
            refusal = swaps.refuse_inside_dgl(sys._getframe())
            if refusal is None:
                raise
            raise refusal from None

    @classmethod
    def _apply(cls, func: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Call a row-wise function on the stacks of the hops all values have.

        What it refuses inside a layer of DGL is refused as that layer.
        """
        found = [v for v in rowwise.flatten((args, kwargs)) if is_hops(v)]
        first = found[0]
        name = rowwise.name_of(func)
        if name == "numel":
            return first.numel()
        if rowwise.is_loss(name):
            raise too_many_hops(name, first.hops, first._shifts)
        if rowwise.reads_type_only(name, args):
            args, kwargs = tree_map(_stack_of(first._hops), (args, kwargs))
            return func(*args, **kwargs)
        rule = rowwise.rule_for(name)
        if kwargs.get("out") is not None:
            raise rowwise.refuse_in_place(name)
        _check_alike(name, found)
        hops = set(first._hops).intersection(*(h._hops for h in found))
        call = rowwise.Call(
            first.ndim, first._num_rows, tuple(sorted(hops)), args, kwargs
        )
        holds_rows = rule(call)
        plain = any(
            [
                holds_rows(value)
                for value in rowwise.flatten((args, kwargs))
                if isinstance(value, torch.Tensor)
            ]
        )
        if plain:
            hops &= {0}
        if not hops:
            raise no_common_hop(
                rowwise.written(name),
                [h.hops for h in found],
                [h._shifts for h in found],
                plain,
            )
        shared = tuple(sorted(hops))
        inplace = kwargs.get("inplace", False)
        if inplace:
            kwargs = {**kwargs, "inplace": False}
        args, kwargs = tree_map(_stack_of(shared), (args, kwargs))
        shifts = first._shifts.union(*(h._shifts for h in found))
        result = first._wrap(name, func(*args, **kwargs), shared, shifts)
        if inplace:
            # Only functions of one value can be in place.
            whole = is_hops(result)
            first._parts = [result.stack if whole else result]
            return first if whole else result
        return result

    def _wrap(
        self, name: str, result: Any, hops: tuple[int, ...], shifts: Shifts
    ) -> Any:
        if isinstance(result, (list, tuple)):
            # torch.return_types take their items as one sequence.
            return type(result)(
                [self._wrap(name, r, hops, shifts) for r in result]
            )
        if not isinstance(result, torch.Tensor):
            return result
        if result.dim() == 0 or len(result) != len(hops) * self._num_rows:
            raise rowwise.refuse(name, "changed the number of rows")
        if hops == (0,):
            return result
        return _make([result], hops, self.filter, self.nodes, shifts)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(torch.Tensor, name):
            raise AttributeError(
                f"'HopFeatures' object has no attribute {name!r}"
            )
        method = getattr(torch.Tensor, name)
        if not callable(method):
            raise rowwise.refuse(f".{name}", "is not known to be row-wise")

        def call(*args: Any, **kwargs: Any) -> Any:
            return self.__torch_function__(method, (), (self, *args), kwargs)

        return call

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        raise rowwise.refuse_value_of_one_tensor("__array__")

    def __bool__(self) -> bool:
        raise DGLError("hop features have no truth value.")

    __hash__ = object.__hash__


def _make(
    parts: list[torch.Tensor],
    hops: tuple[int, ...],
    filter: FilterSpec,
    nodes: torch.Tensor | None,
    shifts: Shifts = NOT_SHIFTED,
) -> HopFeatures:
    """Make hop features in memory of their tensors or of one stack."""
    found = HopFeatures.__new__(HopFeatures)
    found._set_rows(parts, len(hops), nodes)
    found._hops, found.filter, found._shifts = hops, filter, shifts
    return found


def _stack_of(hops: tuple[int, ...]) -> Callable[[Any], Any]:
    """Make a function that gives the rows of these hops of hop features."""
    return lambda value: value.select(hops).stack if is_hops(value) else value


def _check_hops(hops: Sequence[int]) -> tuple[int, ...]:
    """Return the hops; they have to ascend, because they are looked up."""
    found = tuple(hops)
    if not found or found[0] < 0 or list(found) != sorted(set(found)):
        raise DGLError(
            f"hops={list(found)} should be numbers of hops, 0 or more, "
            f"ascending."
        )
    return found


def _operator(name: str) -> Callable:
    """Make an operator of hop features of that of tensors."""
    method = getattr(torch.Tensor, name)

    def operate(self: HopFeatures, *args: Any) -> Any:
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
    sign = rowwise.written(name)
    for other in found[1:]:
        if other.filter != first.filter:
            raise DGLError(
                f"{sign}: hop features of different filters meet: "
                f"{first.filter} and {other.filter}. All hop features of a "
                f"model need one filter; dgl_lc.lc_transform derives the LC "
                f"version of a model with several, as written for dgl.nn."
            )
        one, two = first.filter.seen_graph, other.filter.seen_graph
        if one is not None and two is not None and one != two:
            told = f"one with {one}, the other with {two}"
            if str(one) == str(two):
                told = f"both with {one}, but with other degrees of nodes"
            raise DGLError(
                f"{sign}: hop features of different graphs meet: {told}, as "
                f"their filter sees them."
            )
        same = other.nodes is first.nodes or (
            other.nodes is not None
            and first.nodes is not None
            and torch.equal(other.nodes, first.nodes)
        )
        if not same or other._num_rows != first._num_rows:
            raise DGLError(f"{sign}: hop features of different nodes meet.")
        if other.ndim != first.ndim:
            raise rowwise.refuse(
                name, f"of {first.ndim} and {other.ndim} dimensions"
            )
