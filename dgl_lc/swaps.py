"""What takes the place of each DGL layer, and what DGL does with hop features.

Hop features are aggregated already, so nothing in DGL can act on them: a layer
that was left unswapped would aggregate again. Whatever it tries first, the
error says which layer it was and what to use in its place.
"""

import sys
from types import FrameType
from typing import Any

import torch
from dgl import DGLError

_TRANSFORM = (
    "give the model as written for dgl.nn, with its plain features, to "
    "dgl_lc.lc_transform"
)
_ATTENTION = "its filter is not constant (attention, gates)"
_EDGES = "its messages are functions of learned values and of edge features"
_NOT_LINEAR = "its aggregation is not linear"
_TYPES = "its weights differ from type to type of nodes or edges"
_READOUT = "it mixes all nodes of a graph"
_PAIRS = "it scores pairs of nodes"
_NEIGHBOURS = "it builds a graph from features"
_STRUCTURE = "it encodes the graph, not features of its nodes"
_EXPLAINER = "it computes a model again on changed graphs"

_OTHER_LAYER = "Use another layer, or keep the model on plain features"
_OUTPUT = "Apply it to the output of the model, which is a plain tensor"
_ONE_HOP = "Give it a plain tensor, such as hops[0]"


def _layer(name: str, note: str = "with the same arguments") -> str:
    return f"use dgl_lc.nn.{name} in its place, {note}"


def _dense(layer: str, swapped: str) -> str:
    return (
        f"write the model with dgl.nn.{layer} on dgl.graph((src, dst)) of the "
        f"matrix, whose rows are destinations (weights are normalised "
        f"differently), then use dgl_lc.nn.{swapped} in its place"
    )


def _none(reason: str, instead: str = _OTHER_LAYER) -> str:
    return f"it has no LC version, because {reason}. {instead}"


#: What to do instead of giving hop features to a module of dgl.nn.
SWAPS: dict[str, str] = {
    # Layers with a counterpart.
    "APPNPConv": _layer("LCAPPNPConv"),
    "GCN2Conv": _layer("LCGCN2Conv"),
    "GraphConv": _layer("LCGraphConv"),
    "SAGEConv": _layer(
        "LCSAGEConv",
        'with the same arguments (aggregators "mean" and "gcn"; the others '
        "are not linear)",
    ),
    "SGConv": _layer("LCSGConv"),
    "TAGConv": _layer("LCTAGConv"),
    # The same filter, but other parameters.
    "CuGraphSAGEConv": _layer(
        "LCSAGEConv", 'with aggregator "mean" and parameters of other names'
    ),
    # A matrix in place of the graph.
    "DenseGraphConv": _dense("GraphConv(…)", "LCGraphConv"),
    "DenseSAGEConv": _dense('SAGEConv(…, "gcn")', "LCSAGEConv"),
    # Constant filters that no layer of dgl_lc.nn has.
    "ChebConv": _TRANSFORM,
    "DenseChebConv": f"use ChebConv, and {_TRANSFORM}",
    "GINConv": f'{_TRANSFORM} (aggregators "sum" and "mean")',
    "GatedGraphConv": f"{_TRANSFORM} (one type of edges)",
    "LabelPropagation": "give it the labels, before training",
    "TWIRLSConv": f"{_TRANSFORM} (without attention)",
    "TWIRLSUnfoldingAndAttention": f"{_TRANSFORM} (without attention)",
    # Layers without an LC version.
    "AGNNConv": _none(_ATTENTION),
    "AtomicConv": _none(_NOT_LINEAR),
    "CFConv": _none(_EDGES),
    "CuGraphGATConv": _none(_ATTENTION),
    "CuGraphRelGraphConv": _none(_TYPES),
    "DGNConv": _none(_NOT_LINEAR),
    "DotGatConv": _none(_ATTENTION),
    "EGATConv": _none(_ATTENTION),
    "EGNNConv": _none(_EDGES),
    "EdgeConv": _none(_NOT_LINEAR),
    "EdgeGATConv": _none(_ATTENTION),
    "GATConv": _none(_ATTENTION),
    "GATv2Conv": _none(_ATTENTION),
    "GINEConv": _none(_EDGES),
    "GMMConv": _none(_EDGES),
    "GatedGCNConv": _none(_ATTENTION),
    "GroupRevRes": _none(
        "it computes its layer again for the gradient", "Use the layer alone"
    ),
    "HGTConv": _none(_ATTENTION),
    "HeteroGraphConv": _none(_TYPES),
    "NNConv": _none(_EDGES),
    "PNAConv": _none(_NOT_LINEAR),
    "RelGraphConv": _none(_TYPES),
    "TypedLinear": _none(_TYPES),
    # Modules that are not layers of a convolution.
    "AvgPooling": _none(_READOUT, _OUTPUT),
    "BiasedMHA": _none(_ATTENTION),
    "DeepWalk": _none(_STRUCTURE, _ONE_HOP),
    "DegreeEncoder": _none(_STRUCTURE, _ONE_HOP),
    "EGTLayer": _none(_ATTENTION),
    "EdgePredictor": _none(_PAIRS, _OUTPUT),
    "EdgeWeightNorm": (
        "give it the weights of edges, and its result to "
        "block_aggregate(edge_weight=…)"
    ),
    "GNNExplainer": _none(_EXPLAINER, _ONE_HOP),
    "GlobalAttentionPooling": _none(_READOUT, _OUTPUT),
    "GraphormerLayer": _none(_ATTENTION),
    "HeteroEmbedding": _none(_TYPES),
    "HeteroGNNExplainer": _none(_EXPLAINER, _ONE_HOP),
    "HeteroPGExplainer": _none(_EXPLAINER, _ONE_HOP),
    "HeteroSubgraphX": _none(_EXPLAINER, _ONE_HOP),
    "KNNGraph": _none(_NEIGHBOURS, _ONE_HOP),
    "LapPosEncoder": _none(_STRUCTURE, _ONE_HOP),
    "MaxPooling": _none(_READOUT, _OUTPUT),
    "MetaPath2Vec": _none(_STRUCTURE, _ONE_HOP),
    "PGExplainer": _none(_EXPLAINER, _ONE_HOP),
    "PathEncoder": _none(_STRUCTURE, _ONE_HOP),
    "RadiusGraph": _none(_NEIGHBOURS, _ONE_HOP),
    "SegmentedKNNGraph": _none(_NEIGHBOURS, _ONE_HOP),
    "Set2Set": _none(_READOUT, _OUTPUT),
    "SetTransformerDecoder": _none(_READOUT, _OUTPUT),
    "SetTransformerEncoder": _none(_READOUT, _OUTPUT),
    "SortPooling": _none(_READOUT, _OUTPUT),
    "SpatialEncoder": _none(_STRUCTURE, _ONE_HOP),
    "SpatialEncoder3d": _none(_STRUCTURE, _ONE_HOP),
    "SubgraphX": _none(_EXPLAINER, _ONE_HOP),
    "SumPooling": _none(_READOUT, _OUTPUT),
    "TransE": _none(_PAIRS, _OUTPUT),
    "TransR": _none(_PAIRS, _OUTPUT),
    "WeightAndSum": _none(_READOUT, _OUTPUT),
}

#: Modules of dgl.nn that are row-wise, or only call other modules. They act
#: on hop features; what they refuse is not their own.
ROWWISE = ("HeteroLinear", "JumpingKnowledge", "Sequential", "WeightBasis")

#: Frames between a module of DGL and hop features, or between two such
#: modules. Any other frame is the user's own code.
_BETWEEN = (
    "collections", "contextlib", "functools", "torch", "dgl_lc.hops",
    "dgl_lc.node_rows", "dgl_lc.rowwise", "dgl_lc.swaps",
)  # fmt: skip


def refuse_layer(name: str) -> DGLError:
    """Return the error for hop features that were given to a DGL layer.

    >>> print(refuse_layer("GraphConv"))
    dgl.nn.GraphConv was given hop features, which are aggregated already: use \
dgl_lc.nn.LCGraphConv in its place, with the same arguments.
    """
    advice = SWAPS.get(
        name,
        f"no layer of dgl_lc.nn takes its place; {_TRANSFORM}, which "
        f"transforms it or says why it can't",
    )
    return DGLError(
        f"dgl.nn.{name} was given hop features, which are aggregated "
        f"already: {advice}."
    )


def refuse_graph() -> DGLError:
    """Return the error for hop features that were given to a graph."""
    return DGLError(
        "a graph can't hold or aggregate hop features, which are aggregated "
        "already: give them to the model as an argument, and use layers of "
        "dgl_lc.nn; h.shift() takes the place of update_all if that applies "
        "the filter of block_aggregate, with the same norm and self-loops. "
        f"Otherwise {_TRANSFORM}."
    )


def refuse_loader() -> DGLError:
    """Return the error for hop features as a data set of torch."""
    return DGLError(
        "torch.utils.data would take the hops of hop features for samples: "
        "use dgl_lc.training.HopLoader(hops, nids, labels), which gives "
        "mini-batches of rows."
    )


def refuse_inside_dgl(frame: FrameType | None) -> DGLError | None:
    """Return the error for something that DGL does, or None.

    It names the DGL layer that the innermost call of DGL belongs to: of
    layers inside layers the outermost, as this is what the user wrote.

    Parameters
    ----------
    frame : frame or None
        The frame where hop features were used.
    """
    inside, layer = False, None
    while frame is not None:
        module = frame.f_globals.get("__name__") or ""
        if is_in(module, "dgl"):
            inside = True
            name = _layer_of(frame.f_locals.get("self"))
            if name is not None and (layer is None or name not in ROWWISE):
                layer = name
        elif not any(is_in(module, package) for package in _BETWEEN):
            break
        frame = frame.f_back
    if layer is not None:
        return None if layer in ROWWISE else refuse_layer(layer)
    return refuse_graph() if inside else None


def check_caller() -> None:
    """Refuse that DGL or a loader of torch reads hop features.

    It is called by each property of hop features, and looks at who reads the
    property. DGL has no use for hop features but to aggregate them.
    """
    # Frame 0 is this function, and frame 1 the property.
    frame = sys._getframe(2)
    module = frame.f_globals.get("__name__") or ""
    if not module.startswith(("dgl.", "torch.utils.data")):
        return
    if module.startswith("torch."):
        raise refuse_loader()
    error = refuse_inside_dgl(frame)
    if error is not None:
        raise error


def is_in(module: str, package: str) -> bool:
    """Tell whether a module is this package, or in it.

    >>> is_in("dgl.nn", "dgl"), is_in("dgl_lc.nn", "dgl")
    (True, False)
    """
    return module == package or module.startswith(package + ".")


def _layer_of(owner: Any) -> str | None:
    """Return the name of a DGL layer, or of that a user's class is made of."""
    if not isinstance(owner, torch.nn.Module):
        return None
    for kind in type(owner).__mro__:
        if is_in(kind.__module__, "dgl.nn"):
            return kind.__name__
    return None
