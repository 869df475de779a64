"""Collecting all problems of a model, for a report and for errors.

The model is traced again; this time, tracing goes on after each problem. All
values are then looked at, and the causes of problems are named.
"""

from dataclasses import replace

import torch

from . import causes
from .compare_traces import compare_values, first_difference, unify_guards
from .find_roots import Root, RootFinder
from .name_causes import Around, name_cause
from .push import check_outputs
from .recognise import OperationKinds
from .refusals import LCError, Problem
from .rewrite_messages import rewrite_messages
from .tracing.model_call import ModelCall
from .tracing.probes import make_probe
from .tracing.trace_model import trace
from .tracing.values import Trace, Value, values_in

#: Causes that a model's author knows by name come first, in this order, then
#: those of Python and torch, then those that may follow from others.
_LATER = (
    causes.NUMBER_OF_THE_GRAPH, causes.LEARNED_BRANCH, causes.OUTSIDE_TORCH,
    causes.GRADIENTS, causes.INTEGERS, causes.OTHER_IN_TRAINING,
    causes.OTHER_ON_OTHER_GRAPHS,
    causes.MIXED_NODES, causes.NO_ROWS_IN_OUTPUT, causes.FAILS_ON_PROBE,
    causes.INTERNAL,
)  # fmt: skip
_RANK = {cause.code: place for place, cause in enumerate(_LATER, 1)}


def collect_problems(
    call: ModelCall,
    seed: int,
    split_bias: bool,
    ignore_edge_dropout: bool,
    first: LCError,
) -> list[Problem]:
    """Return all problems of a model, those to solve first at the front.

    Parameters
    ----------
    first : LCError
        Error that lc_transform stopped at. It is among the problems, unless
        it follows from one of them.
    """
    how = split_bias, ignore_edge_dropout, True
    probe = make_probe(call, seed)
    traced = trace(probe, False, *how)
    other = trace(make_probe(call, seed + 1), False, *how)
    training = trace(make_probe(call, seed), True, *how)
    found = [*traced.problems, *other.problems, *training.problems]
    found += _differences(traced, other, training)
    found += _of_parameters(call, traced)
    rewrite_messages(traced, probe)
    finder = RootFinder(traced, OperationKinds(probe.model, probe.num_nodes))
    with torch.no_grad():
        roots = list(finder.find())
    around = Around(traced)
    found += [name_cause(root, around) for root in roots]
    if traced.finished and not found:
        found += _of_outputs(traced, finder)
    known = {(value.line, value.where) for value in finder.bad}
    for problem in first.problems:
        follows = any(
            where == problem.submodule
            and line is not None
            and (line.file, line.number) == (problem.file, problem.line)
            for line, where in known
        )
        if not found or not (follows or problem.code in _RANK):
            found.append(problem)
    return _ordered(_without_consequences(found))


def _differences(traced: Trace, other: Trace, training: Trace) -> list[Problem]:
    """Compare the traces as far as they are alike; return what differs."""
    found: list[Problem] = []
    place = first_difference(traced, training)
    if place is not None and training.finished and traced.finished:
        found.append(_in_training(traced, training, place))
    place = first_difference(traced, other)
    if place is not None:
        if traced.finished and other.finished:
            found.append(_on_other_graphs(traced, other, place))
        traced.values, traced.finished = traced.values[:place], False
    same = first_difference(traced, training) is None
    compare_values(traced, other, training if same else traced)
    try:
        unify_guards(traced, other, training if same else traced)
    except LCError as error:
        found += error.problems
    return found


def _in_training(traced: Trace, training: Trace, place: int) -> Problem:
    """Return the problem that the model does other things in training."""
    own = training.values[place:]
    drawn = next((value for value in own if value.draws), None)
    if drawn is not None and drawn.draws:
        # Names of sizes are known only for values of all traces.
        sizes = {v.example: v for v in training.values if v.op == "number"}
        drawn.dims = _dims(drawn, sizes)
        problem = _problem(
            causes.RANDOM_NUMBERS, drawn, "draws random numbers in training",
            "Use dropout, the only random function that can be transformed",
        )  # fmt: skip
        return name_cause(Root(drawn, problem), Around(training))
    value = own[0] if own else traced.values[place]
    return _problem(
        causes.OTHER_IN_TRAINING, value,
        "the model computes something else in training than in evaluation",
        "Let a module or F.dropout(…, training=self.training) make the "
        "difference",
    )  # fmt: skip


def _dims(value: Value, sizes: dict[int, Value]) -> tuple:
    """Return the sizes of a tensor: integers, or sizes of the graph."""
    shape = getattr(value.example, "shape", ())
    return tuple(
        ("N" if sizes[n].target == "N" else "E") if n in sizes else n
        for n in shape
    )


def _on_other_graphs(traced: Trace, other: Trace, place: int) -> Problem:
    longer = max((traced, other), key=lambda trace: len(trace.values))
    return _problem(
        causes.OTHER_ON_OTHER_GRAPHS, longer.values[place],
        "what the model computes depends on the size or the degrees of the "
        "graph",
        "Write a forward that does the same operations on every graph",
    )  # fmt: skip


def _problem(
    cause: causes.Cause, value: Value, reason: str, advice: str
) -> Problem:
    line = value.line
    return Problem(
        cause.code, value.where, value.name, reason, advice,
        line.file if line else "", line.number if line else 0,
        line.text if line else "",
    )  # fmt: skip


def _of_parameters(call: ModelCall, traced: Trace) -> list[Problem]:
    """Name parameters of the size of the graph, if the model failed."""
    failed = next(
        (p for p in traced.problems if p.code == causes.FAILS_ON_PROBE.code),
        None,
    )
    if failed is None:
        return []
    n = call.num_nodes
    edges = {graph.num_edges() for graph in call.graphs.values()}
    for value in traced.values:
        shape = tuple(getattr(value.example, "shape", ()))
        if value.learned and value.op == "call" and shape.count(n) > 1:
            return [
                _problem(
                    causes.LEARNED_ADJACENCY, value,
                    f"has shape {shape}, learned for each pair of your "
                    f"{n} nodes, so the filter is not constant",
                    "Use a fixed graph, given to the model",
                )
            ]  # fmt: skip
    used = {value.target for value in traced.values if value.op == "param"}
    found = []
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
            found.append(
                replace(
                    failed, code=causes.SIZE_OF_THE_GRAPH.code,
                    operation=f"the parameter {name}",
                    reason=f"has shape {tuple(tensor.shape)}, with a row for "
                    f"each {kinds[0]} of your graph: the model does not run "
                    f"on another graph, nor on a mini-batch of rows",
                    advice=advice,
                )
            )  # fmt: skip
    return found


def _of_outputs(traced: Trace, finder: RootFinder) -> list[Problem]:
    """Return the problem of an output without a row for each node."""
    if any(value in finder.bad for value in values_in(traced.output)):
        return []
    try:
        check_outputs(traced)
    except LCError as error:
        return error.problems
    return []


#: Causes that a problem follows from, if one of them was found.
_FOLLOWS_FROM = {
    causes.FAILS_ON_PROBE: (
        causes.SIZE_OF_THE_GRAPH, causes.LEARNED_ADJACENCY,
    ),
    causes.NUMBER_OF_THE_GRAPH: (
        causes.PICKED_NODES, causes.OUTSIDE_TORCH, causes.LEARNED_BRANCH,
    ),
    causes.OTHER_ON_OTHER_GRAPHS: (
        causes.LEARNED_BRANCH, causes.OUTSIDE_TORCH, causes.RANDOM_NUMBERS,
        causes.GRAPH_MADE_IN_FORWARD, causes.DROPPED_EDGES,
        causes.PICKED_NODES,
    ),
    causes.OTHER_IN_TRAINING: (
        causes.RANDOM_NUMBERS, causes.LEARNED_BRANCH, causes.DROPPED_EDGES,
        causes.GRAPH_MADE_IN_FORWARD,
    ),
}  # fmt: skip


def _without_consequences(problems: list[Problem]) -> list[Problem]:
    """Drop problems that follow from others, and repeated ones."""
    codes = {problem.code for problem in problems}
    dropped = {
        effect.code
        for effect, reasons in _FOLLOWS_FROM.items()
        if any(cause.code in codes for cause in reasons)
    }
    kept = [p for p in problems if p.code not in dropped]
    found: dict[tuple, Problem] = {}
    named = {(p.file, p.line) for p in kept if p.file and p.code not in _RANK}
    for p in kept:
        # A line with a cause that has a name needs no other explanation.
        if p.code not in _RANK or (p.file, p.line) not in named:
            found.setdefault((p.code, p.submodule, p.file, p.line), p)
    return list(found.values())


def _ordered(problems: list[Problem]) -> list[Problem]:
    """Put what a model's author can act on first, else keep the order."""
    return sorted(problems, key=lambda p: _RANK.get(p.code, 0))
