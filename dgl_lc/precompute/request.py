"""A call of ``block_aggregate``, checked."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import dgl
import numpy as np
import torch

from .._common.dtypes import ValueType, type_of
from .._common.rows import COPY_ROWS, copy_rows
from ..graph_counts import GraphCounts
from ..hops import FilterSpec
from ..storage.disk_features import DiskFeatures
from ..storage.disk_graph import DiskGraph
from ..storage.hop_store import StoreHead
from ..storage.keys import array_key
from ..storage.made_columns import MadeColumns
from . import checks as inputs
from .graph.adjacency import GraphLike
from .graph.count_graph import count_graph, sum_weights
from .graph.in_edges import in_edges


@dataclass(frozen=True)
class Request:
    """What the user asked for.

    Attributes
    ----------
    kept : list of int
        The hops to give back, ascending.
    nodes : Tensor or None
        The rows to give back; None for all.
    copies_nodes : bool
        Whether these are a copy, of another type, of what was given.
    weight : Tensor or None
        A number for each edge, in the order of the graph's edges; None for a
        filter without weights. Those of a graph on disk are mapped.
    shares_features : bool
        Whether the kernels can read the features where they are.
    source : Tensor, numpy.ndarray, DiskFeatures or MadeColumns
        The features as they were given: a memory map is known by its file.
    """

    graph: dgl.DGLGraph | DiskGraph
    feat: torch.Tensor | DiskFeatures | MadeColumns
    spec: FilterSpec
    weight: torch.Tensor | None
    nodes: torch.Tensor | None
    kept: list[int]
    dtype: torch.dtype
    copies_nodes: bool
    shares_features: bool
    source: torch.Tensor | np.ndarray | DiskFeatures | MadeColumns

    @classmethod
    def of(
        cls,
        g: GraphLike,
        feat: torch.Tensor | np.ndarray | DiskFeatures | MadeColumns,
        K: int,
        norm: str = "both",
        self_loop: bool = True,
        weight: torch.Tensor | np.ndarray | str | bool | None = None,
        nodes: torch.Tensor | Sequence[int] | None = None,
        hops: Sequence[int] | None = None,
        dtype: torch.dtype | None = None,
    ) -> "Request":
        """Check everything that can be checked without work."""
        g, weight = inputs.take_graph(g, feat, weight)
        on_disk = inputs.is_on_disk(feat)
        values = inputs.check_features(g, feat)
        kept = inputs.check_hops(K, hops)
        if kept[-1] > 0:
            # Hop 0 is the features, whatever the filter.
            inputs.warn_of_unused_weights(g, weight, stacklevel=3)
        weights = inputs.check_weight(g, weight)
        spec = inputs.check_spec(norm, self_loop, weights is not None)
        ids = inputs.check_nodes(g, nodes)
        dtype = inputs.check_dtype(dtype, values)
        shares = (
            not on_disk
            and isinstance(values, torch.Tensor)
            and _has_rows(values)
            and values.dtype == dtype
        )
        copies = ids is not None and not (
            isinstance(nodes, torch.Tensor)
            and ids.data_ptr() == nodes.data_ptr()
        )
        return cls(
            g, values, spec, weights, ids, kept, dtype, copies, shares, feat
        )

    def columns(self, first: int, last: int) -> torch.Tensor:
        """Some columns of features that the kernels can read."""
        assert isinstance(self.feat, torch.Tensor)
        return self.feat[:, first:last]

    def copy_columns(
        self,
        first: int,
        last: int,
        rows: torch.Tensor | None,
        target: torch.Tensor,
    ) -> None:
        """Copy some columns, of some rows or of all, to a target."""
        if isinstance(self.feat, torch.Tensor):
            copy_rows(self.feat[:, first:last], rows, target)
            return
        self.feat.copy_columns(first, last, rows, target)

    @property
    def reads_ahead(self) -> bool:
        """Whether :meth:`ask_ahead` does anything."""
        return isinstance(self.feat, DiskFeatures)

    def ask_ahead(self, first: int, last: int) -> None:
        """Have columns on disk read, for later."""
        if isinstance(self.feat, DiskFeatures):
            self.feat.ask_ahead(first, last)

    def is_finite(self, first: int, last: int) -> bool:
        """Tell whether some columns, and the weights, are finite numbers."""
        if isinstance(self.feat, torch.Tensor):
            parts = [self.feat[:, first:last]]
        elif isinstance(self.feat, MadeColumns):
            parts = []
        else:
            parts = [part for _, _, part in self.feat.parts(first, last)]
        if self.weight is not None:
            parts.append(self.weight)
        return all(
            bool(piece.isfinite().all())
            for part in parts
            for piece in part.split(COPY_ROWS)
        )

    @property
    def value_type(self) -> ValueType:
        """The type in which hop features are stored."""
        return type_of(self.dtype)

    @property
    def kind(self) -> str:
        """Its name."""
        return self.value_type.name

    @property
    def num_feats(self) -> int:
        """Columns of the features."""
        return self.feat.shape[1]

    @property
    def kept_rows(self) -> int:
        """Rows of each hop that are given back."""
        if self.nodes is None:
            return self.graph.num_nodes()
        return len(self.nodes)

    @property
    def shares_result(self) -> bool:
        """Whether hop 0 of a result in memory can be the features."""
        return self.shares_features and self.nodes is None

    @property
    def last(self) -> int:
        """The last hop that has to be computed."""
        return self.kept[-1]

    def store_head(self) -> StoreHead:
        """What a store of the result holds, and keys of what it depends on."""
        nodes = self.nodes
        made_from = {
            "graph": in_edges(self.graph).key(self.weight),
            "features": array_key(self.source),
            "nodes": None if nodes is None else array_key(nodes),
        }
        return StoreHead(
            self.kept_rows, self.num_feats, tuple(self.kept), self.kind,
            self.spec, nodes is not None, made_from,
        )  # fmt: skip

    def counts(self) -> GraphCounts | None:
        """Count the graph, whose edges were read for the hops; else None.

        Sums of weights that are no finite numbers are not kept.
        """
        if not self.last:
            return None
        found = count_graph(self.graph)
        if self.weight is None:
            return found
        sums = sum_weights(self.weight)
        return replace(found, weights=sums if sums.finite else None)

    @property
    def copies_weight(self) -> bool:
        """Whether weights have to be converted for the kernels.

        Those of a graph on disk are not: the kernels convert each weight
        where they read it, instead of an array as long as the edges.
        """
        if self.weight is None or isinstance(self.graph, DiskGraph):
            return False
        return (
            self.weight.dtype != self.value_type.torch_sums
            or self.weight.stride(0) != 1
        )

    def kernel_weight(self) -> np.ndarray | None:
        """Give the weights as the kernels take them, contiguous."""
        if self.weight is None:
            return None
        if not self.copies_weight:
            return self.weight.numpy()
        return self.weight.to(self.value_type.torch_sums).contiguous().numpy()


def _has_rows(feat: torch.Tensor) -> bool:
    """Whether the numbers of a row lie together."""
    return feat.stride(1) == 1 or feat.shape[1] == 1
