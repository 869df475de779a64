"""What turns a layer on plain hop tensors into one on hop features."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import dgl
import torch as th
from dgl import DGLError

from ..hops import FilterSpec, HopFeatures
from .compare_graph import ONE_FILTER, check_edges, check_rows
from .compare_weights import RECIPE, check_same_weights, check_weight
from .plain.lcgraphconv import name_hops, update_hops


class HopLayer:
    """Mixin for the layers of :mod:`dgl_lc.nn.plain`, on hop features.

    A layer calls ``_update_hops`` for its output. Here that takes hop
    features as well, and compares what they were made with to what the layer
    they replace would have computed on the graph.
    """

    #: The DGL layer that the layer replaces.
    replaces: str
    #: Whether that adds a self-loop to each node of the graph it is given.
    adds_self_loop: bool = False
    #: Whether it normalizes weights of edges with EdgeWeightNorm("both").
    normalizes_weights: bool = False

    def _norm_of_filter(self, weighted: bool) -> str:
        """Return the norm of the filter that the layer aggregates with.

        ``weighted`` says whether it aggregates with weights of edges.
        """
        raise NotImplementedError

    def _update_hops(
        self,
        update: Callable[..., Any],
        reads: Sequence[tuple[Any, int]],
        graph: dgl.DGLGraph | None,
        edge_weight: th.Tensor | None,
    ) -> Any:
        """Compute each hop of the output from some hops of the inputs.

        As :func:`~dgl_lc.nn.plain.lcgraphconv.update_hops`, and with hop
        features in ``reads``; a tensor beside them is hop 0.
        """
        check_weight(type(self).__name__, graph, edge_weight)

        def convert_and_update(*rows: Any) -> Any:
            return update(*[self._convert(part) for part in rows])

        inputs = {id(feat): feat for feat, _ in reads}.values()
        found = [feat for feat in inputs if isinstance(feat, HopFeatures)]
        if not found:
            if any(is_rows(feat) for feat in inputs):
                raise self._used_up()
            return update_hops(convert_and_update, reads, graph)
        if not all(isinstance(f, HopFeatures) or is_rows(f) for f in inputs):
            raise DGLError(
                f"{type(self).__name__} got both hop features and plain hop "
                f"tensors: give all inputs as hop features, or none."
            )
        for feat in found:
            self._check_filter(feat.filter, graph, edge_weight)
            if graph is not None:
                check_rows(type(self).__name__, feat, graph)
        readable = [
            {hop - offset for hop in hops_of(feat) if hop >= offset}
            for feat, offset in reads
        ]
        hops = sorted(readable[0].intersection(*readable[1:]))
        if not hops:
            raise self._too_few(reads)
        return convert_and_update(*[
            feat.select([hop + offset for hop in hops]).shift(offset)
            if isinstance(feat, HopFeatures)
            else feat
            for feat, offset in reads
        ])  # fmt: skip

    def _convert(self, rows: Any) -> Any:
        """Convert rows of fewer bits than the layer computes with."""
        if rows.dtype not in (th.float16, th.bfloat16) or is_autocast(rows):
            return rows
        own = cast(th.nn.Module, self).parameters()
        return rows.to(next((part.dtype for part in own), rows.dtype))

    def _check_filter(
        self,
        filter: FilterSpec,
        graph: dgl.DGLGraph | None,
        edge_weight: th.Tensor | None,
    ) -> None:
        """Refuse hop features of another filter than the layer's.

        With a graph, the filter has to be that of the layer it replaces, on
        this graph and with these weights. What is compared are counts of
        nodes, edges and self-loops, hashes of degrees, and sums of weights,
        if those of the hop features' graph are known: graphs with the same
        degree at every node, and weights in another order, are not found.
        Hop features made by hand, and stores of earlier versions, do not
        know their graph.
        """
        name = type(self).__name__
        if edge_weight is not None and not filter.weighted:
            options = RECIPE if self.normalizes_weights else "edge_weight="
            raise DGLError(
                f"{name}: edge_weight was given, but the hop features are of "
                f"a filter without weights: give {options} to "
                f"block_aggregate.{ONE_FILTER}"
            )
        norm = self._norm_of_filter(filter.weighted)
        if norm != filter.norm and not are_same(norm, filter):
            raise self._another_norm(norm, filter)
        if graph is None:
            return
        if filter.weighted and edge_weight is None:
            raise DGLError(
                f"{name}: the hop features were precomputed with edge "
                f"weights, but {self.replaces} computes without them if "
                f"edge_weight is not given: give it to the layer as well, or "
                f"edge_weight=False to block_aggregate.{ONE_FILTER}"
            )
        if filter.weighted and filter.self_loop and not self.adds_self_loop:
            raise DGLError(
                f"{name}: the hop features were precomputed with one "
                f"self-loop of weight 1 per node, but {self.replaces} takes "
                f"the graph's own, with their weights: give self_loop=False "
                f"to block_aggregate.{ONE_FILTER}"
            )
        check_edges(name, filter, graph, self.adds_self_loop)
        if edge_weight is not None:
            check_same_weights(
                name, filter, graph, edge_weight, self.normalizes_weights,
                self.adds_self_loop, ONE_FILTER,
            )  # fmt: skip

    def _another_norm(self, norm: str, filter: FilterSpec) -> DGLError:
        name = type(self).__name__
        if filter.weighted and self.normalizes_weights:
            return DGLError(
                f"{name} normalizes weights w itself, but the hop features "
                f"were precomputed with edge weights and norm="
                f"{filter.norm!r}: give {RECIPE} to block_aggregate."
                f"{ONE_FILTER}"
            )
        return DGLError(
            f"{name} has norm={norm!r}, but the hop features were precomputed "
            f"with norm={filter.norm!r}: give norm={norm!r} to "
            f"block_aggregate.{ONE_FILTER}"
        )

    def _too_few(self, reads: Sequence[tuple[Any, int]]) -> DGLError:
        # A layer may read several hops of one input, or of two inputs.
        inputs = {id(feat): feat for feat, _ in reads}
        parts = []
        for key, feat in inputs.items():
            needed = [hop for other, hop in reads if id(other) == key]
            parts.append(
                f"{name_hops(needed)} of hop features that have hops "
                f"{hops_of(feat)}"
            )
        if all(hop <= hops_of(feat)[-1] for feat, hop in reads):
            # The last hop exists, so that others were not kept.
            last = max(
                feat.K + max(feat._shifts)
                for feat in inputs.values()
                if isinstance(feat, HopFeatures)
            )
            advice = f"precompute with K={last} and without hops="
        else:
            advice = (
                "precompute more of them, with K= the number of times the "
                "model aggregates, and without hops="
            )
        return DGLError(
            f"{type(self).__name__} reads {' and '.join(parts)}: {advice}."
        )

    def _used_up(self) -> DGLError:
        name = type(self).__name__
        return DGLError(
            f"{name} needs hop features, got a tensor: precompute them with "
            f"dgl_lc.block_aggregate(g, x, K=…), K being the number of times "
            f"the model aggregates, and without hops=, or with hop K among "
            f"them. A tensor here is hop 0: its hops were used up by earlier "
            f"layers, or by meeting a plain tensor. Data that is joined to "
            f"the features, such as labels or zeros, is to be joined before "
            f"block_aggregate."
        )


def is_autocast(rows: Any) -> bool:
    """Tell whether torch chooses the types of operations on these rows."""
    try:
        return th.is_autocast_enabled(rows.device.type)
    except (TypeError, RuntimeError):
        # Before torch 2.4, and for devices without autocast.
        on_cpu = rows.device.type == "cpu"
        return (
            th.is_autocast_cpu_enabled() if on_cpu else th.is_autocast_enabled()
        )


def are_same(norm: str, filter: FilterSpec) -> bool:
    """Tell whether another norm gives the same filter, on a known graph."""
    return (
        {norm, filter.norm} == {"both", "in"}
        and filter.graph is not None
        and filter.graph.balanced
    )


def is_rows(feat: Any) -> bool:
    """Tell whether this is a plain tensor, with a row for each node."""
    return isinstance(feat, th.Tensor) and feat.dim() < 3


def hops_of(feat: Any) -> list[int]:
    """Return the hops of hop features; a plain tensor is hop 0."""
    return feat.hops if isinstance(feat, HopFeatures) else [0]
