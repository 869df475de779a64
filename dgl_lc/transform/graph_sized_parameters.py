"""Naming parameters of the size of the graph, on which a model fails."""

import re
from dataclasses import replace

from torch import nn

from . import causes
from .refusals import Problem, problem_of
from .tracing.model_call import ModelCall, named_items
from .tracing.values import Trace


def of_parameters(call: ModelCall, traced: Trace) -> list[tuple[int, Problem]]:
    """Name parameters of the size of the graph, if the model failed."""
    failed = next(
        (p for _, p in traced.problems if p.code == causes.FAILS_ON_PROBE.code),
        None,
    )
    if failed is None:
        return []
    n = call.num_nodes
    for value in traced.values:
        shape = tuple(getattr(value.example, "shape", ()))
        if value.learned and value.op == "call" and shape.count(n) > 1:
            found = problem_of(
                causes.LEARNED_ADJACENCY, value,
                f"has shape {shape}, learned for each pair of your {n} "
                f"nodes, so the filter is not constant",
                "Use a fixed graph, given to the model",
            )  # fmt: skip
            return [(value.id, found)]
    misplaced = _in_another_dimension(call, failed)
    if misplaced is not None:
        return [(len(traced.values), misplaced)]
    used = {value.target for value in traced.values if value.op == "param"}
    named = dict(call.model.named_parameters())
    used |= _in_node_data(call, failed, named)
    own = [
        name
        for name in named
        if name in used
        or (failed.submodule and name.startswith(f"{failed.submodule}."))
    ]
    sized = _named(own, named, call, failed)
    return [(len(traced.values), problem) for problem in sized]


def _in_node_data(
    call: ModelCall, failed: Problem, named: dict[str, nn.Parameter]
) -> set[str]:
    """Return parameters that may be what could not be put into a graph.

    No function of torch is called if a parameter is assigned to ``g.ndata``,
    so that the trace does not have it.
    """
    counts = {"nodes": {call.num_nodes}}
    counts["edges"] = {graph.num_edges() for graph in call.graphs.values()}
    found = _LENGTHS.search(failed.reason)
    if found is None or int(found["rows"]) not in counts[found["kind"]]:
        return set()
    rows = int(found["rows"])
    return {name for name, own in named.items() if own.shape[:1] == (rows,)}


#: What DGL says about data of another length than the graph.
_LENGTHS = re.compile(
    r"number of features to match number of (?P<kind>nodes|edges)\b.*?"
    r"Got (?P<rows>\d+) and"
)


def _named(
    names: list[str], named: dict[str, nn.Parameter], call: ModelCall,
    failed: Problem,
) -> list[Problem]:  # fmt: skip
    """Name those of some parameters that have the size of the graph."""
    n = call.num_nodes
    edges = {graph.num_edges() for graph in call.graphs.values()}
    parameters = []
    for name in names:
        tensor = named[name]
        kinds = [
            kind
            for kind, sizes in (("node", {n}), ("edge", edges))
            if sizes & set(tensor.shape)
        ]
        if kinds:
            advice = (
                "Use features of nodes, given to the model, instead of "
                "learned embeddings"
                if kinds[0] == "node"
                else "Use fixed edge weights, such as g.edata"
            )
            parameters.append(
                replace(
                    failed, code=causes.SIZE_OF_THE_GRAPH.code,
                    operation=f"the parameter {name}",
                    reason=f"has shape {tuple(tensor.shape)}, with numbers "
                    f"for each {kinds[0]} of your graph: the model does not "
                    f"run on another graph, nor on a mini-batch of rows",
                    advice=advice,
                )
            )  # fmt: skip
    return parameters


def _in_another_dimension(call: ModelCall, failed: Problem) -> Problem | None:
    """Name an argument whose nodes are not in its first dimension."""
    n = call.num_nodes
    given = named_items(call.model, call.args, call.kwargs)
    for name, item in given:
        shape = tuple(getattr(item, "shape", ()))
        if shape and n in shape[1:] and shape[0] != n:
            dim = shape.index(n)
            return replace(
                failed, code=causes.WRONG_CALL.code,
                operation=f"the argument {name}",
                reason=f"has shape {shape}: your {n:,} nodes are in dimension "
                f"{dim}, and only rows in the first dimension are features of "
                f"nodes",
                advice=f"Pass {name}.transpose(0, {dim}), and let forward turn "
                f"it back: {name} = {name}.transpose(0, {dim})",
            )  # fmt: skip
    return None
