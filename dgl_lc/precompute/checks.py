"""Checking what the user gave, before any long work starts."""

import operator
import warnings
import weakref
from collections.abc import Sequence
from typing import Any

import dgl
import numpy as np
import torch
from dgl import DGLError
from dgl.base import DGLWarning

from .._common.dtypes import VALUE_TYPES, find_type
from ..hops import FilterSpec
from ..node_rows import check_ids
from ..storage.disk_features import DiskFeatures
from ..storage.disk_graph import DiskGraph
from ..storage.keys import memory_map
from ..storage.made_columns import MadeColumns
from ..storage.npy_file import tensor_of
from .graph.adjacency import GraphLike, as_graph

#: More hops than any model has: a typing error, not a request.
_MOST_HOPS = 65_535
#: Weights that are checked at a time.
_PIECE = 1 << 16
_NAMES = ", ".join(str(found.torch) for found in VALUE_TYPES.values())


def check_graph(graph: dgl.DGLGraph | DiskGraph, on_disk: bool = False) -> None:
    """One node type, one edge type, at least one node, on the CPU."""
    if on_disk and isinstance(graph, DiskGraph):
        if graph.num_nodes() == 0:
            raise DGLError("g has no nodes.")
        return
    if not isinstance(graph, dgl.DGLGraph):
        raise DGLError(
            f"g should be a DGLGraph in memory, got {type(graph).__name__}: "
            f"use g.to_dgl()."
        )
    if graph.is_block:
        raise DGLError(
            "g is a block (message flow graph): hop features are computed on "
            "the whole graph, give that and the rows you want as nodes=."
        )
    if not graph.is_homogeneous:
        raise DGLError(
            f"g is a heterograph with node types {graph.ntypes} and edge "
            f"types {graph.etypes}: take one relation with "
            f"dgl.edge_type_subgraph, or merge them with dgl.to_homogeneous."
        )
    if graph.num_nodes() == 0:
        raise DGLError("g has no nodes.")
    if graph.num_nodes() >= 2**31:
        raise DGLError(
            f"g has {graph.num_nodes():,} nodes; at most 2**31 - 1 are "
            f"supported."
        )
    if graph.device.type != "cpu":
        raise DGLError(
            f"g is on {graph.device}: use g.cpu(). The graph is kept in host "
            f"memory."
        )


def check_features(
    graph: dgl.DGLGraph | DiskGraph,
    feat: torch.Tensor | np.ndarray | DiskFeatures | MadeColumns,
) -> torch.Tensor | DiskFeatures | MadeColumns:
    """The features as a dense real tensor with a row for each node."""
    if isinstance(feat, (DiskFeatures, MadeColumns)):
        _check_num_rows(graph, feat)
        return feat
    if isinstance(feat, np.ndarray):
        feat = _from_numpy(feat, "feat")
    elif isinstance(feat, torch.Tensor) and feat.is_neg():
        feat = feat.resolve_neg()
    if not isinstance(feat, torch.Tensor):
        raise DGLError(
            f"feat should be a tensor or a NumPy array, got "
            f"{type(feat).__name__}."
        )
    if feat.layout != torch.strided:
        raise DGLError("feat is sparse: use feat.to_dense().")
    if feat.device.type != "cpu":
        raise DGLError(
            f"feat is on {feat.device} and g on the CPU: use feat.cpu()."
        )
    if feat.requires_grad:
        raise DGLError(
            "feat requires grad, but precomputation is not differentiable: "
            "give feat.detach() and train what comes after."
        )
    if find_type(feat.dtype) is None:
        raise DGLError(f"feat is {feat.dtype}: convert it to one of {_NAMES}.")
    if feat.dim() != 2:
        raise DGLError(
            f"feat should have two dimensions, (nodes, columns), got shape "
            f"{tuple(feat.shape)}."
        )
    _check_num_rows(graph, feat)
    if feat.shape[1] == 0:
        raise DGLError("feat has no columns.")
    return feat


def _check_num_rows(
    graph: dgl.DGLGraph | DiskGraph,
    feat: torch.Tensor | DiskFeatures | MadeColumns,
) -> None:
    if feat.shape[0] != graph.num_nodes():
        raise DGLError(
            f"feat has {feat.shape[0]} rows, but g has {graph.num_nodes()} "
            f"nodes."
        )


def is_on_disk(
    feat: torch.Tensor | np.ndarray | DiskFeatures | MadeColumns,
) -> bool:
    """Whether these are memory-mapped features: read in order, once.

    So are features that are made when they are read.
    """
    if isinstance(feat, (DiskFeatures, MadeColumns)):
        return True
    return memory_map(feat) is not None


def _from_numpy(array: np.ndarray, argument: str) -> torch.Tensor:
    if isinstance(array, np.ma.MaskedArray):
        raise DGLError(
            f"{argument} is a masked array: use {argument}.filled(value) to "
            f"say what stands for masked values."
        )
    if array.dtype.kind != "f" or array.dtype.itemsize > 8:
        raise DGLError(
            f"{argument} is a NumPy array of {array.dtype}: convert it to "
            f"float32, float64 or float16."
        )
    if not array.dtype.isnative:
        raise DGLError(
            f"{argument} has the foreign byte order {array.dtype.str!r}: use "
            f"{argument}.astype({array.dtype.newbyteorder('=').str!r})."
        )
    if any(step < 0 or step % array.itemsize for step in array.strides):
        raise DGLError(
            f"{argument} has a negative stride, or one that is no whole number "
            f"of values: use np.ascontiguousarray({argument})."
        )
    return tensor_of(array)


def check_hops(K: int, hops: Sequence[int] | None) -> list[int]:
    """The hops to keep, ascending."""
    try:
        if isinstance(K, bool):
            raise TypeError
        K = operator.index(K)
    except TypeError:
        raise DGLError(f"K should be an integer, got {K!r}.") from None
    if not 0 <= K <= _MOST_HOPS:
        raise DGLError(f"K should be from 0 to {_MOST_HOPS}, got {K}.")
    if hops is None:
        return list(range(K + 1))
    try:
        kept = sorted({operator.index(hop) for hop in hops})
    except TypeError:
        raise DGLError(
            f"hops should be a list of integers, got {hops!r}."
        ) from None
    if not kept or kept[0] < 0 or kept[-1] > K:
        raise DGLError(
            f"hops={list(hops)!r} should name at least one hop from 0 to K={K}."
        )
    return kept


def check_nodes(
    graph: dgl.DGLGraph | DiskGraph, nodes: Any
) -> torch.Tensor | None:
    """Return the ids asked for, or those of a mask; they may be repeated."""
    if nodes is None:
        return None
    nodes = check_ids(nodes, "nodes", graph.num_nodes()).contiguous()
    if nodes.numel() == 0:
        raise DGLError("nodes is empty: name at least one node, or omit it.")
    if int(nodes.max()) >= graph.num_nodes():
        raise DGLError(
            f"nodes holds {int(nodes.max())}, but g has nodes 0 to "
            f"{graph.num_nodes() - 1}."
        )
    return nodes


def take_graph(
    g: GraphLike, feat: Any, edge_weight: Any
) -> tuple[dgl.DGLGraph | DiskGraph, Any]:
    """Return a graph, checked, and the weights of its edges.

    The values of a matrix are weights where not all of them are one.
    """
    rows = getattr(feat, "shape", None)
    graph, values = as_graph(g, rows[0] if rows else None)
    check_graph(graph, on_disk=True)
    if edge_weight is False:
        return graph, False
    if values is not None and edge_weight is not None:
        raise DGLError(
            "edge_weight was given, and g is a matrix with values other than "
            "one, which are weights as well: omit edge_weight, give False to "
            "ignore the values, or set them to one."
        )
    return graph, edge_weight if values is None else values


def has_weights(graph: dgl.DGLGraph | DiskGraph) -> bool:
    """Tell whether a graph comes with a weight for each edge."""
    if isinstance(graph, DiskGraph):
        return graph.weights is not None
    return "weight" in graph.edata


_warned: weakref.WeakSet = weakref.WeakSet()


def warn_of_unused_weights(
    graph: dgl.DGLGraph | DiskGraph, weight: Any, stacklevel: int = 2
) -> None:
    """Warn, once for each graph, of weights that were not mentioned.

    As in GraphConv, weights in the edata of a graph are not used unless they
    are asked for. Those of a graph on disk are.
    """
    ambiguous = weight is None and isinstance(graph, dgl.DGLGraph)
    if ambiguous and has_weights(graph) and graph not in _warned:
        _warned.add(graph)
        warnings.warn(
            'g.edata["weight"] is not used: give edge_weight="weight" to use '
            "these weights, or edge_weight=False to ignore them.",
            DGLWarning,
            stacklevel=stacklevel + 1,
        )


def check_weight(
    graph: dgl.DGLGraph | DiskGraph, weight: Any
) -> torch.Tensor | None:
    """One real weight for each edge; those of a graph on disk are mapped."""
    if weight is False:
        return None
    if isinstance(graph, DiskGraph):
        return _weight_on_disk(graph, weight)
    if weight is None:
        return None
    if isinstance(weight, str):
        if weight not in graph.edata:
            raise DGLError(
                f"edge_weight={weight!r} is not in g.edata, which has "
                f"{sorted(graph.edata)}."
            )
        weight = graph.edata[weight]
    if isinstance(weight, np.ndarray):
        weight = _from_numpy(weight, "edge_weight")
    if not isinstance(weight, torch.Tensor):
        raise DGLError(
            f"edge_weight should be a tensor, a NumPy array, the name of one "
            f"in g.edata, or False for none, got {type(weight).__name__}."
        )
    if find_type(weight.dtype) is None:
        raise DGLError(
            f"edge_weight is {weight.dtype}: convert it to one of {_NAMES}."
        )
    if weight.layout != torch.strided:
        raise DGLError("edge_weight is sparse: use edge_weight.to_dense().")
    weight = weight.resolve_neg()
    if weight.requires_grad:
        raise DGLError(
            "edge_weight requires grad, but precomputation is not "
            "differentiable: give edge_weight.detach(). Learned weights "
            "cannot be precomputed."
        )
    if weight.device.type != "cpu":
        raise DGLError(
            f"edge_weight is on {weight.device} and g on the CPU: use "
            f"edge_weight.cpu()."
        )
    if weight.dim() == 2 and weight.shape[1] == 1:
        weight = weight.squeeze(1)
    if weight.shape != (graph.num_edges(),):
        raise DGLError(
            f"edge_weight has shape {tuple(weight.shape)}, but g has "
            f"{graph.num_edges()} edges: give one number for each."
        )
    _refuse_nan(weight)
    return weight


def _refuse_nan(weight: torch.Tensor) -> None:
    """Refuse a missing weight, which would spread over the graph."""
    # In pieces, as the budget has no room for a mask of all edges.
    for number, piece in enumerate(weight.split(_PIECE)):
        missing = piece.isnan()
        if missing.any():
            edge = number * _PIECE + int(missing.int().argmax())
            raise DGLError(
                f"edge_weight holds nan at edge {edge}: give every edge a "
                f"weight, or remove the edge."
            )


def _weight_on_disk(graph: DiskGraph, weight: Any) -> torch.Tensor | None:
    """The weights that the graph was written with."""
    if weight is not None and not (
        isinstance(weight, str) and weight == "weight"
    ):
        is_short = isinstance(weight, (str, bool))
        found = repr(weight) if is_short else type(weight).__name__
        raise DGLError(
            f"edge_weight of a graph on disk should be None or 'weight', for "
            f"the weights in its folder, or False for none, got {found}: its "
            f"edges are in an order of their own. Write the graph with "
            f"build_disk_graph(weights=), or use g.to_dgl()."
        )
    if graph.weights is not None:
        return tensor_of(graph.weights)
    if weight is not None:
        raise DGLError(
            f"edge_weight={weight!r}, but {graph} has no weights: write it "
            f"with build_disk_graph(weights=), or omit edge_weight."
        )
    return None


def check_dtype(
    dtype: torch.dtype | None,
    feat: torch.Tensor | DiskFeatures | MadeColumns,
) -> torch.dtype:
    """The type in which hop features are stored."""
    if dtype is None:
        return feat.dtype
    if isinstance(dtype, str):
        raise DGLError(
            f"dtype should be a type of torch, such as torch.float32, and is "
            f"the string {dtype!r}."
        )
    if not isinstance(dtype, torch.dtype) or find_type(dtype) is None:
        raise DGLError(f"dtype={dtype!r} is not one of {_NAMES}.")
    return dtype


def check_spec(norm: str, self_loop: bool, weighted: bool) -> FilterSpec:
    """The filter that was asked for."""
    if not isinstance(self_loop, (bool, np.bool_)):
        raise DGLError(f"self_loop should be True or False, got {self_loop}.")
    return FilterSpec(norm, bool(self_loop), weighted)
