"""Base classes of the models: where their hop features come from."""

import os
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import dgl
import torch as th
import torch.nn.functional as F
from dgl import DGLError
from torch import nn

from ..hops import FilterSpec, HopFeatures
from ..node_rows import ModelInputs, NodeRows
from ..precompute import block_aggregate
from ..precompute.request import Request
from ..precompute.sinks import warn_if_unread
from ..storage.input_store import (
    InputsWriter,
    StoredInputs,
    open_inputs,
    write_inputs,
)
from .cache import InputCache

#: What the names of inputs of a weighted filter end in.
_WEIGHTED = ", with edge weights"
#: What the ``forward`` of a model takes as its features.
Features = NodeRows | Sequence[th.Tensor] | th.Tensor


class HopModel(nn.Module):
    r"""A model whose only use of the graph is a set of hop features.

    A subclass says which hops it needs (:attr:`hops`) and computes from their
    rows. Its ``forward(graph, feat)`` takes hop features, or a plain sequence
    of hop tensors, with any graph or None; or a graph and its features. In
    the latter case it precomputes once, and uses the result again for as long
    as the graph and the features stay the same.

    Parameters
    ----------
    in_feats : int
        Input feature size.
    hid_feats : int or None
        Columns of the hidden layers; None for a model that has none.
    out_feats : int
        Output feature size; the number of classes.
    norm : str
        The norm of the filter, as in :class:`dgl.nn.GraphConv`.
    self_loop : bool
        Whether the filter gives every node exactly one self-loop.
    """

    #: Names of the parameters that training should not decay.
    no_weight_decay: frozenset[str] = frozenset()
    #: Whether weights of edges can be a part of the model's filter.
    uses_weights: bool = True

    def __init__(
        self,
        in_feats: int,
        hid_feats: int | None,
        out_feats: int,
        norm: str = "both",
        self_loop: bool = True,
    ):
        super().__init__()
        hidden = {} if hid_feats is None else {"hid_feats": hid_feats}
        self._sizes = {
            "in_feats": in_feats, **hidden, "out_feats": out_feats
        }  # fmt: skip
        check_sizes(**self._sizes)
        self._in_feats = in_feats
        self.filter = FilterSpec(norm, self_loop)
        #: Whether the model was trained with edge weights; None if that is
        #: not known. Inputs of the other filter are refused.
        self.weighted: bool | None = None
        self._cache = InputCache()

    @property
    def hops(self) -> list[int]:
        """The hops the model needs, ascending."""
        raise NotImplementedError

    @property
    def num_inputs(self) -> int:
        """The number of feature matrices the model reads."""
        return len(self.hops)

    @property
    def config(self) -> dict[str, Any]:
        """The arguments that make such a model again."""
        return {
            **self._sizes,
            "norm": self.filter.norm,
            "self_loop": self.filter.self_loop,
        }

    def precompute(
        self, graph: dgl.DGLGraph, feat: th.Tensor, **options: Any
    ) -> NodeRows:
        r"""

        Description
        -----------
        Compute the hop features this model needs, and no others.

        Parameters
        ----------
        graph : DGLGraph, sparse matrix or pair
            The graph, as :func:`dgl_lc.block_aggregate` takes it.
        feat : torch.Tensor
            Its node features.
        **options
            As for :func:`dgl_lc.block_aggregate`: nodes, memory, dtype …

        Returns
        -------
        HopFeatures
            What :meth:`forward` takes.
        """
        return block_aggregate(
            graph, feat, self.hops[-1], hops=self.hops,
            norm=self.filter.norm, self_loop=self.filter.self_loop, **options,
        )  # fmt: skip

    def inputs(self, graph: dgl.DGLGraph | None, feat: Features) -> th.Tensor:
        r"""

        Description
        -----------
        Find the rows of the hops the model needs.

        Parameters
        ----------
        graph : DGLGraph or None
            The graph, if ``feat`` is a tensor of features; else not used.
        feat : NodeRows, sequence of torch.Tensor, or torch.Tensor
            What :meth:`forward` was given.

        Returns
        -------
        torch.Tensor
            Shape (hops, rows, columns).
        """
        if isinstance(feat, th.Tensor) and feat.dim() != 3:
            feat = self._from_graph(graph, feat)
        if isinstance(feat, NodeRows):
            rows = self._from_rows(feat)
        elif isinstance(feat, (list, tuple, th.Tensor)) and len(feat):
            rows = self._from_sequence(feat)
        else:
            raise DGLError(
                f"feat should be hop features, a sequence of hop tensors or, "
                f"with a graph, a tensor, got {type(feat).__name__}."
            )
        if rows.dim() != 2 or rows.shape[1] != self._in_feats:
            raise DGLError(
                f"feat has {tuple(rows.shape[1:])} columns, but "
                f"{type(self).__name__} was made with in_feats="
                f"{self._in_feats}."
            )
        if rows.dtype in (th.float16, th.bfloat16):
            # Hop features may be stored with fewer bits than the model
            # computes with.
            rows = rows.to(next(self.parameters()).dtype)
        return rows.view(self.num_inputs, -1, self._in_feats)

    def weighted_of(self, feat: Any) -> bool | None:
        """Tell whether inputs were made with edge weights; None if unknown."""
        if isinstance(feat, HopFeatures):
            return feat.filter.weighted
        return None

    def check_weighted(self, feat: NodeRows) -> None:
        """Refuse inputs of another filter than the model was trained on."""
        found = self.weighted_of(feat)
        if found is None or self.weighted in (None, found):
            return
        known, other = ("without", "with") if found else ("with", "without")
        option = False if found else "'weight'"
        raise DGLError(
            f"{type(self).__name__} was trained {known} edge weights, but "
            f"these hop features were made {other} them: precompute {known} "
            f"edge weights (edge_weight={option}), or train the model again."
        )

    def _from_rows(self, feat: NodeRows) -> th.Tensor:
        """Return the stack of the hops the model needs."""
        if not isinstance(feat, HopFeatures):
            raise DGLError(
                f"{type(self).__name__} reads hops of one filter, but feat is "
                f"{type(feat).__name__}: precompute with model.precompute(g, "
                f"x)."
            )
        found = FilterSpec(feat.filter.norm, feat.filter.self_loop)
        if found != self.filter:
            raise DGLError(
                f"{type(self).__name__} needs hop features of norm="
                f"{self.filter.norm!r}, self_loop={self.filter.self_loop}; "
                f"these are of norm={found.norm!r}, self_loop="
                f"{found.self_loop}. Make the model with the same, or "
                f"precompute with model.precompute(g, x)."
            )
        self.check_weighted(feat)
        lacking = [hop for hop in self.hops if hop not in feat.hops]
        if lacking:
            raise DGLError(
                f"{type(self).__name__} needs hops {self.hops}, and these hop "
                f"features lack {lacking} (they have {feat.hops}): precompute "
                f"with K={self.hops[-1]}, or with model.precompute(g, x)."
            )
        return feat.select(self.hops).stack

    def _from_sequence(
        self, feat: Sequence[th.Tensor] | th.Tensor
    ) -> th.Tensor:
        """Stack hop tensors: those needed, or all from hop 0 on."""
        needed = self.hops
        if len(feat) == len(needed):
            return stack_rows(feat)
        if len(feat) > needed[-1]:
            return stack_rows([feat[hop] for hop in needed])
        raise DGLError(
            f"feat is a sequence of {len(feat)} hop tensors, but "
            f"{type(self).__name__} needs hops {needed}: give those, or "
            f"hops 0 to {needed[-1]}."
        )

    def _from_graph(
        self, graph: dgl.DGLGraph | None, feat: th.Tensor
    ) -> NodeRows:
        """Precompute, or use what was precomputed before."""
        if not isinstance(graph, dgl.DGLGraph):
            raise DGLError(
                f"feat is a tensor, so {type(self).__name__} needs a DGLGraph "
                f"to precompute its hop features, got {type(graph).__name__}: "
                f"give one, or the hop features model.precompute(graph, feat)."
            )
        found = self._cache.get(graph, feat)
        options: dict[str, Any] = {}
        if self.weighted is not None:
            options["edge_weight"] = "weight" if self.weighted else False
            if found is not None and self.weighted_of(found) != self.weighted:
                found = None
        if found is None:
            # Hop 0 may be the very tensor that is given. If that were feat,
            # the cache would keep feat alive.
            same = feat.detach().requires_grad_(feat.requires_grad)
            found = self.precompute(graph, same, **options)
            self._cache.put(graph, feat, found)
        return found


class SeveralFilters(HopModel):
    """A model that reads features to which words of several filters are
    applied.

    It precomputes :class:`~dgl_lc.node_rows.ModelInputs`. A subclass says
    what its inputs are (:attr:`input_names`).
    """

    @property
    def input_names(self) -> list[str]:
        """What each input is; inputs of other names are refused."""
        raise NotImplementedError

    @property
    def num_inputs(self) -> int:
        """The number of feature matrices the model reads."""
        return len(self.input_names)

    @property
    def config(self) -> dict[str, Any]:
        """The arguments that make such a model again."""
        return {**self._sizes, "norm": self.filter.norm}

    def weighted_of(self, feat: Any) -> bool | None:
        """Tell whether inputs were made with edge weights; None if unknown."""
        if isinstance(feat, ModelInputs):
            return any(name.endswith(_WEIGHTED) for name in feat.names)
        return None

    def _names(self, weighted: bool | None) -> list[str]:
        """Name the inputs; the features are the same with any filter."""
        first, *filtered = self.input_names
        ending = _WEIGHTED if weighted else ""
        return [first, *(name + ending for name in filtered)]

    def _inputs(
        self,
        tensors: Sequence[th.Tensor],
        nodes: th.Tensor | None,
        weighted: bool = False,
    ) -> ModelInputs:
        return ModelInputs(tensors, self._names(weighted), nodes)

    def _store_inputs(
        self,
        graph: dgl.DGLGraph,
        feat: th.Tensor,
        out: str | os.PathLike,
        folders: Sequence[str],
        write_part: Callable[[InputsWriter, str], object],
        options: dict[str, Any],
    ) -> StoredInputs:
        """Have the parts of the inputs written that are not finished yet.

        ``options`` are those of :func:`dgl_lc.block_aggregate`.
        """
        head = Request.of(
            graph, feat, 0, weight=options.get("edge_weight"),
            nodes=options.get("nodes"), dtype=options.get("dtype"),
        ).store_head()  # fmt: skip
        with write_inputs(
            out, self._names(head.spec.weighted), folders,
            {**head.made_from, "dtype": head.kind},
            resume=options.get("resume", True),
        ) as writer:  # fmt: skip
            if writer.finished:
                warn_if_unread(Path(out), head.made_from, stacklevel=4)
            else:
                for folder in folders:
                    if folder not in writer.done:
                        write_part(writer, folder)
                        writer.commit(folder)
                writer.finish()
        return open_inputs(out)

    def _from_rows(self, feat: NodeRows) -> th.Tensor:
        """Return the stack of the inputs."""
        if not isinstance(feat, ModelInputs):
            raise DGLError(
                f"{type(self).__name__} reads {self.num_inputs} inputs of "
                f"several filters, but feat is {type(feat).__name__}: "
                f"precompute with model.precompute(g, x)."
            )
        self.check_weighted(feat)
        names = self._names(self.weighted_of(feat))
        for needed, found in zip_longest(names, feat.names):
            if needed != found:
                raise DGLError(
                    f"feat has the inputs of another model: where "
                    f"{type(self).__name__} reads {needed!r}, it has "
                    f"{found!r}. Precompute with model.precompute(g, x)."
                )
        return feat.stack

    def _from_sequence(
        self, feat: Sequence[th.Tensor] | th.Tensor
    ) -> th.Tensor:
        """Stack the inputs."""
        if len(feat) != self.num_inputs:
            raise DGLError(
                f"feat is a sequence of {len(feat)} tensors, but "
                f"{type(self).__name__} reads {self.num_inputs}: precompute "
                f"them with model.precompute(g, x)."
            )
        return stack_rows(feat)


def stack_rows(tensors: Sequence[th.Tensor] | th.Tensor) -> th.Tensor:
    """Stack the rows of all tensors; those of a 3-D tensor without a copy."""
    if isinstance(tensors, th.Tensor):
        return tensors.flatten(0, 1)
    return th.cat(list(tensors)) if len(tensors) > 1 else tensors[0]


_ACTIVATIONS: dict[str, Callable] = {
    "relu": F.relu, "elu": F.elu, "gelu": F.gelu, "silu": F.silu,
    "leaky_relu": F.leaky_relu, "tanh": th.tanh, "sigmoid": th.sigmoid,
}  # fmt: skip


def get_activation(activation: Callable | str) -> Callable:
    """Return an activation that is given by its name, or as it is.

    >>> get_activation("relu") is F.relu
    True
    """
    if callable(activation):
        return activation
    if activation not in _ACTIVATIONS:
        raise DGLError(
            f"activation={activation!r} is not known: give a function, or "
            f"one of {', '.join(map(repr, _ACTIVATIONS))}."
        )
    return _ACTIVATIONS[activation]


def activation_name(activation: Callable) -> str | None:
    """Return the name of an activation, or None if it has none."""
    known = [name for name, f in _ACTIVATIONS.items() if f is activation]
    return known[0] if known else None


def check_sizes(**sizes: int) -> None:
    """Refuse a size that is not a positive integer."""
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise DGLError(f"{name}={size!r} should be a positive integer.")


def check_last_hop(K: int) -> None:
    """Refuse a last hop that is not an integer, 0 or more."""
    if isinstance(K, bool) or not isinstance(K, int) or K < 0:
        raise DGLError(f"K={K!r} should be an integer, 0 or more.")


def reset_all(modules: Iterable[Any]) -> None:
    """Reinitialize the learnable parameters of all modules."""
    for module in modules:
        module.reset_parameters()
