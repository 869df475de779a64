"""Naming parameters of the size of the graph, on which a model fails."""

from dataclasses import replace

from . import causes
from .refusals import Problem, problem_of
from .tracing.model_call import ModelCall
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
    edges = {graph.num_edges() for graph in call.graphs.values()}
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
    used = {value.target for value in traced.values if value.op == "param"}
    parameters = []
    for name, tensor in call.model.named_parameters():
        inside = failed.submodule and name.startswith(f"{failed.submodule}.")
        if name not in used and not inside:
            continue
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
                    reason=f"has shape {tuple(tensor.shape)}, with a row for "
                    f"each {kinds[0]} of your graph: the model does not run "
                    f"on another graph, nor on a mini-batch of rows",
                    advice=advice,
                )
            )  # fmt: skip
    return [(len(traced.values), problem) for problem in parameters]
