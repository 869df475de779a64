"""Graphs that are made while the model runs: what they are, and what to do."""

from typing import NoReturn

from .. import causes
from ..refusals import Line, refuse

#: Functions of DGL that drop edges at random.
_DROP_EDGES = frozenset({"DropEdge", "drop_edge"})
#: Functions of DGL that connect nodes by their features.
_BY_FEATURES = frozenset({
    "KNNGraph", "SegmentedKNNGraph", "RadiusGraph", "knn_graph",
    "segmented_knn_graph", "radius_graph",
})  # fmt: skip
#: Functions of DGL that change the nodes or edges of a graph.
_CHANGE = frozenset({
    "add_edges", "remove_edges", "add_nodes", "remove_nodes",
})  # fmt: skip
#: Functions of DGL that remove or change nodes at random.
_DROP_NODES = frozenset({"DropNode", "NodeShuffle", "FeatMask"})


def refuse_hidden_graph(
    submodule: str, name: str, function: str = "", line: Line | None = None
) -> NoReturn:
    """Refuse a graph that is neither an argument nor an attribute."""
    reads = f"{function} reads" if function else "forward reads"
    refuse(
        causes.WRONG_CALL, submodule, f"the graph {name}",
        f"is neither an argument nor an attribute of the model: {reads} it "
        f"from a global name or an enclosing function, where no other graph "
        f"can take its place while the model is traced",
        f"Pass the graph to forward, lc_transform(model, {name}, x), or hold "
        f"it on the model, self.graph = {name}, and let forward read "
        f"self.graph", line,
    )  # fmt: skip


def refuse_made_graph(
    submodule: str, function: str, line: Line | None
) -> NoReturn:
    """Refuse message passing on a graph that a function of DGL made."""
    operation = f"{function} makes a graph" if function else "message passing"
    if function in _DROP_EDGES:
        refuse(
            causes.DROPPED_EDGES, submodule, function,
            "edges are dropped at random, so the filter is not constant",
            "Remove it, or pass ignore_edge_dropout=True to transform the "
            "model as if it did not drop edges", line,
        )  # fmt: skip
    if function in _BY_FEATURES:
        refuse(
            causes.GRAPH_MADE_IN_FORWARD, submodule, operation,
            "connects nodes by their features while the model runs: message "
            "passing on a graph that is built or sampled in forward has no "
            "constant filter",
            "Build the graph once, from the features that the model is given, "
            "and pass it to the model", line,
        )  # fmt: skip
    if function == "AddEdge":
        refuse(
            causes.GRAPH_MADE_IN_FORWARD, submodule, function,
            "adds edges at random, so the filter is not constant",
            "Remove it, or add the edges once, before the model is called",
            line,
        )  # fmt: skip
    if function in _CHANGE:
        refuse(
            causes.GRAPH_MADE_IN_FORWARD, submodule, function,
            "changes the nodes or edges of a graph in forward: message "
            "passing on a graph that is built or sampled in forward has no "
            "constant filter",
            "Change the graph once, before the model is called; "
            "dgl.add_self_loop, dgl.remove_self_loop, dgl.reverse and "
            "dgl.add_reverse_edges may stay, and so may dgl.remove_edges(g, "
            "ids) and dgl.add_edges(g, u, v) with ids that are not random",
            line,
        )  # fmt: skip
    if function == "batch":
        refuse(
            causes.GRAPH_MADE_IN_FORWARD, submodule, operation,
            "joins graphs in forward, so that rows of all of them lie below "
            "each other",
            "Use one graph, with the heads or copies of a node side by side: "
            "columns, h.view(N, heads, -1), are aggregated all at once", line,
        )  # fmt: skip
    if "sampl" in function or "walk" in function:
        refuse(
            causes.GRAPH_MADE_IN_FORWARD, submodule, operation,
            "samples neighbours: message passing on a graph that is built or "
            "sampled in forward has no constant filter",
            "Use all neighbours: the LC version is trained on batches of rows, "
            "without sampling", line,
        )  # fmt: skip
    if "topk" in function:
        refuse(
            causes.PICKED_NODES, submodule, function,
            "keeps the neighbours with the largest values, which are learned, "
            "so the filter is not constant",
            "Keep all neighbours, or pick them by given features before the "
            "model is called", line,
        )  # fmt: skip
    if function in _DROP_NODES:
        refuse(
            causes.RANDOM_NUMBERS, submodule, function,
            "changes nodes at random, so the filter is not constant",
            "Use nn.Dropout on the features instead", line,
        )  # fmt: skip
    refuse(
        causes.GRAPH_MADE_IN_FORWARD, submodule, operation,
        "runs on a graph that is built or sampled in forward, so that its "
        "filter is not constant",
        "Pass the graph to the model, or derive it with dgl.add_self_loop, "
        "dgl.remove_self_loop, dgl.reverse, or by a fixed mask: "
        "dgl.edge_subgraph(g, mask, relabel_nodes=False)", line,
    )  # fmt: skip
