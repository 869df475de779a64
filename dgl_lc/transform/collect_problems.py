"""Collecting all problems of a model, for a report and for errors.

The model is traced again; this time, tracing continues after each problem. All
values are then looked at, and the causes of problems are named.
"""

import torch
from torch import nn

from . import causes, name_layouts  # noqa: F401 (adds its rules)
from .compare_traces import compare_values, first_difference, unify_guards
from .find_roots import Root, RootFinder
from .graph_sized_parameters import of_parameters
from .name_causes import Around, name_cause
from .problem_order import RANK, in_order, without_consequences
from .push import check_outputs
from .recognise import OperationKinds
from .refusals import LCError, Problem, problem_of
from .rewrite_messages import rewrite_messages
from .tracing.model_call import ModelCall
from .tracing.probes import make_probe
from .tracing.trace_model import trace
from .tracing.values import Trace, Value, values_in
from .training_dropout import add_training_dropout

#: A problem, and the place of its value among all values.
Placed = tuple[int, Problem]


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
    add_training_dropout(traced, other, training, probe.model)
    found += _differences(traced, other, training, probe.model)
    found += of_parameters(call, traced)
    rewrite_messages(traced, probe)
    finder = RootFinder(traced, OperationKinds(probe.model, probe.num_nodes))
    with torch.no_grad():
        roots = list(finder.find())
    around = Around(traced, probe.model)
    found += [(root.value.id, name_cause(root, around)) for root in roots]
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
        if not found or not (follows or problem.code in RANK):
            found.append((len(traced.values), problem))
    found.sort(key=lambda placed: placed[0])
    return in_order(without_consequences([p for _, p in found]))


def _differences(
    traced: Trace, other: Trace, training: Trace, model: nn.Module
) -> list[Placed]:
    """Compare the traces as far as they are alike; return what differs."""
    found: list[Placed] = []
    place = first_difference(traced, training)
    if place is not None and training.finished and traced.finished:
        found.append((place, _in_training(traced, training, place, model)))
    place = first_difference(traced, other)
    if place is not None:
        if traced.finished and other.finished:
            found.append((place, _on_other_graphs(traced, other, place)))
        traced.values, traced.finished = traced.values[:place], False
    same = first_difference(traced, training) is None
    compare_values(traced, other, training if same else traced)
    try:
        unify_guards(traced, other, training if same else traced)
    except LCError as error:
        found += [(len(traced.values), p) for p in error.problems]
    return found


def _in_training(
    traced: Trace, training: Trace, place: int, model: nn.Module
) -> Problem:
    """Return the problem that the model does other things in training."""
    own = training.values[place:]
    drawn = next((value for value in own if value.draws), None)
    if drawn is not None and drawn.draws:
        # Names of sizes are known only for values of all traces.
        sizes = {v.example: v for v in training.values if v.op == "number"}
        drawn.dims = _dims(drawn, sizes)
        problem = problem_of(
            causes.RANDOM_NUMBERS, drawn, "draws random numbers in training",
            "Use dropout, the only random function that can be transformed",
        )  # fmt: skip
        return name_cause(Root(drawn, problem), Around(training, model))
    value = own[0] if own else traced.values[place]
    return problem_of(
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
    return problem_of(
        causes.OTHER_ON_OTHER_GRAPHS, longer.values[place],
        "what the model computes depends on the size or the degrees of the "
        "graph",
        "Write a forward that does the same operations on every graph",
    )  # fmt: skip


def _of_outputs(traced: Trace, finder: RootFinder) -> list[Placed]:
    """Return the problem of an output without a row for each node."""
    if any(value in finder.bad for value in values_in(traced.output)):
        return []
    try:
        check_outputs(traced)
    except LCError as error:
        return [(len(traced.values), p) for p in error.problems]
    return []
