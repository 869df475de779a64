"""Saying what the filters of a model are, in words.

A filter is known by its numbers, however the model computes them: they are
compared on a probe with powers of the degrees.
"""

import operator
from collections.abc import Callable
from typing import Any

import dgl
import torch

from .apply_words import diagonal_values, edge_weight
from .evaluate import Evaluator
from .feature_names import SAME_NUMBERS, made_of, source_name
from .filter_words import (
    Aggregate,
    Diagonal,
    NormedAggregate,
    Polynomial,
    Unit,
    Word,
)
from .model_inputs import FilterNames
from .terms import flat_product
from .tracing.values import Value

#: Names by the powers of the target's in-degree, and of the source's
#: out-degree or in-degree.
_KNOWN: tuple[tuple[str, float, str, float], ...] = (
    ("sum over in-neighbours", 0, "out", 0),
    ("mean over in-neighbours", -1, "out", 0),
    ("GraphConv both", -0.5, "out", -0.5),
    ("GraphConv left", 0, "out", -1),
    ("symmetric norm by in-degrees (as in TAGConv)", -0.5, "in", -0.5),
)

#: What is said of a graph that is derived from the model's.
_DERIVED = {
    "add_self_loop": "with self-loops",
    "remove_self_loop": "without self-loops",
    "reverse": "on the reversed graph",
    "to_simple": "with parallel edges merged",
    "to_bidirected": "in both directions",
    "khop_graph": "on the k-hop graph",
    "edge_subgraph": "on some of the edges",
    "remove_edges": "without some of the edges",
    "add_edges": "with added edges",
    "matrix": "as a product with a matrix",
    "indexed": "on edges that forward makes",
}

#: Polynomials of more terms are cut short.
_TERMS_SHOWN = 6


def describe_filters(names: FilterNames, evaluate: Evaluator) -> list[str]:
    """Write a line for each filter: ``S = mean over in-neighbours``.

    ``evaluate`` evaluates static values on a random probe.
    """
    return [
        f"{name} = {_describe(unit, names, evaluate)}"
        for unit, name in names.units.items()
    ]


def _describe(unit: Unit, names: FilterNames, evaluate: Evaluator) -> str:
    if isinstance(unit, NormedAggregate):
        return _aggregation(unit, evaluate)
    if isinstance(unit, Diagonal):
        return _factor(unit, evaluate)
    if unit.self_loops:
        return _with_loops(unit, evaluate)
    terms = [_term(c, word, names) for c, word in unit.terms]
    if len(terms) > _TERMS_SHOWN:
        terms = [*terms[: _TERMS_SHOWN - 2], "…", terms[-1]]
    return " + ".join(terms).replace("+ -", "- ")


def _term(coefficient: float, word: Word, names: FilterNames) -> str:
    """Write a term of a polynomial: ``0.09 S²``."""
    number = "" if coefficient == 1 and word else f"{coefficient:.4g} "
    return f"{number}{names.product(word) or 'I'}"


def _aggregation(unit: NormedAggregate, evaluate: Evaluator) -> str:
    """Name an aggregation with its norms by its edge values."""
    letter = unit.aggregate
    graph = evaluate.graph(letter.graph)
    source, target = (ends.long() for ends in graph.edges(order="eid"))
    values = torch.ones(graph.num_edges(), dtype=torch.float64)
    rounding = 0.0
    for diagonal, ends in ((unit.left, target), (unit.right, source)):
        if diagonal is not None:
            factor = diagonal_values(diagonal, evaluate)
            values *= factor[ends].double()
            rounding = max(rounding, _rounding(factor))
    where = _where(letter, evaluate)
    if letter.weight is None:
        found = _known(graph, values, rounding)
        return f"{found or _scaled(unit)}{where}"
    weights = edge_weight(letter, evaluate)
    rounding = max(rounding, _rounding(weights))
    found = _known(graph, values * weights.double(), rounding)
    if found:
        return f"{found}{where}"
    weighted = f", {_weighted(letter)}"
    return (
        f"{_known(graph, values, rounding) or _scaled(unit)}{where}{weighted}"
    )


def _rounding(numbers: torch.Tensor) -> float:
    """Return how far numbers of a type may be from those that are meant."""
    if not numbers.is_floating_point():
        return 0.0
    return 4 * torch.finfo(numbers.dtype).eps


def _known(graph: dgl.DGLGraph, values: torch.Tensor, rounding: float) -> str:
    """Return the name of a filter with these edge values, if it has one."""
    source, target = (ends.long() for ends in graph.edges(order="eid"))
    degrees = {
        "in": graph.in_degrees().double().clamp(min=1),
        "out": graph.out_degrees().double().clamp(min=1),
    }
    for name, left, kind, right in _KNOWN:
        expected = (
            degrees["in"][target] ** left * degrees[kind][source] ** right
        )
        if torch.allclose(values, expected, rtol=max(1e-4, rounding), atol=0):
            return name
    return ""


def _scaled(unit: NormedAggregate) -> str:
    """Say which ends of an edge have a factor that has no name."""
    ends = [
        end
        for end, diagonal in (("sources", unit.right), ("targets", unit.left))
        if diagonal is not None
    ]
    return f"sum over in-neighbours, with factors of {' and '.join(ends)}"


def _where(letter: Aggregate, evaluate: Evaluator) -> str:
    """Say which graph an aggregation is over, unless it is the only one."""
    graph: Any = letter.graph
    steps: list[str] = []
    while not isinstance(graph, str):
        steps.insert(0, graph[0])
        graph = graph[1]
    if "add_self_loop" in steps:
        # Removing old self-loops before makes the same graph.
        steps = [step for step in steps if step != "remove_self_loop"]
    words = [_DERIVED.get(step, step) for step in dict.fromkeys(steps)]
    if len(evaluate.call.graphs) > 1:
        words.append(f"of {graph}")
    return "".join(f", {word}" for word in words).replace(", on", " on")


def _weighted(letter: Aggregate) -> str:
    """Say what the edge weights are."""
    assert letter.weight is not None
    how = "divided by" if letter.inverse else "with"
    factors = _factors(letter.weight)
    masks = [mask for mask in map(_mask, factors) if mask]
    others = [factor for factor in factors if not _mask(factor)]
    text = f"over edges with {' and '.join(masks)}" if masks else ""
    if not others:
        return text
    column = _column(others[0])
    if len(others) == 1 and column[0].op == "input":
        how = "divided" if letter.inverse else "weighted"
        words = f"{how} by {source_name(others[0])}"
    else:
        made = dict.fromkeys(made_of(factor) for factor in others)
        which = "" if column[1] is None else f"column {column[1]} of "
        words = f"{how} {which}edge weights computed from {', '.join(made)}"
    return f"{text}, {words}" if text else words


def _column(weight: Value) -> tuple[Value, int | None]:
    """Return weights of several columns, and which one is taken of them."""
    number = None
    if weight.target is operator.getitem and len(weight.args) == 2:
        of, index = weight.args
        if isinstance(index, tuple) and type(index[-1]) is int:
            weight, number = of, index[-1]
    while weight.op == "call" and weight.name in SAME_NUMBERS:
        weight = weight.args[0]
    return weight, number


def _factors(weight: Value) -> list[Value]:
    """Return the factors of edge weights that are a product."""
    while weight.op == "call" and weight.name in SAME_NUMBERS:
        weight = weight.args[0]
    is_product = weight.target in (flat_product, operator.mul)
    if is_product and all(isinstance(arg, Value) for arg in weight.args):
        return [f for arg in weight.args for f in _factors(arg)]
    return [weight]


def _mask(weight: Value) -> str:
    """Name the edges of one type: ``etypes = 2``."""
    if weight.op != "call" or weight.target is not operator.eq:
        return ""
    types, number = weight.args
    if not isinstance(types, Value) or type(number) is not int:
        return ""
    return f"{source_name(types)} = {number}"


def _factor(unit: Diagonal, evaluate: Evaluator) -> str:
    """Name a factor for each node."""
    values = diagonal_values(unit, evaluate).double()
    graphs = evaluate.call.graphs
    counts: tuple[tuple[str, Callable], ...] = (
        ("in-degree", dgl.DGLGraph.in_degrees),
        ("out-degree", dgl.DGLGraph.out_degrees),
    )
    for key, graph in graphs.items():
        for name, count in counts:
            degrees = count(graph).double().clamp(min=1)
            of = f" in {key}" if len(graphs) > 1 else ""
            for power in (-0.5, -1, 0.5, 1):
                if torch.allclose(values, degrees**power, rtol=1e-4, atol=0):
                    return f"factor per node: {name}{of} to the power {power}"
    return f"factor per node, computed from {made_of(unit.factor)}"


def _with_loops(unit: Polynomial, evaluate: Evaluator) -> str:
    """Name D (A + I), an aggregation with the node itself."""
    (_, (norm,)), (_, (_, letter, *_)) = unit.terms
    where = _where(letter, evaluate)
    degrees = evaluate.graph(letter.graph).in_degrees().double()
    values = diagonal_values(norm, evaluate).double()
    kind = "sum over in-neighbours and the node itself, with factors of targets"
    if torch.allclose(values, 1 / (degrees + 1), rtol=1e-4, atol=0):
        kind = "mean over in-neighbours and the node itself"
    if letter.weight is not None:
        where += f", {_weighted(letter)}"
    return f"{kind}{where}"
