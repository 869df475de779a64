"""Graphs on which all filters of a model only reorder the nodes.

There, aggregation commutes with everything, so that the LC version and the
model can be compared as they are. Not every filter has such a graph.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from .apply_words import apply_word
from .assumptions import check_assumptions
from .evaluate import Evaluator, check_guards
from .filter_words import Aggregate, Diagonal, Polynomial, Word
from .linearity import LINEAR
from .pushed import Pushed
from .refusals import LCError, first_line
from .tracing.model_call import ModelCall
from .tracing.probes import make_probe
from .tracing.values import Value, arguments_of


@dataclass(frozen=True)
class Attempt:
    """A graph to compare on, or the reason why it is of no use."""

    graph: str
    probe: ModelCall
    reason: str = ""


def permutation_graphs(call: ModelCall, pushed: Pushed) -> Iterator[Attempt]:
    """Yield graphs on which filters may only reorder the nodes.

    The best comes first: on a graph of self-loops or without edges, words
    that differ can't be told apart.
    """
    crossed = {
        word
        for value, words in pushed.needs.items()
        for word in words
        if word and pushed.kinds[value] != LINEAR
    }
    weights = _inputs_of_filters(crossed)
    for kind, name in (
        ("permutation", "a permutation graph"),
        ("loops", "a graph of self-loops"),
        ("no edges", "a graph without edges"),
    ):
        for ones in dict.fromkeys((frozenset(), weights)):
            probe = make_probe(call, 3, kind, ones)
            with_weights = f"{name} with weights of 1" if ones else name
            reason = _why_not(probe, pushed, crossed)
            yield Attempt(with_weights, probe, reason)


def _inputs_of_filters(words: set[Word]) -> frozenset:
    """Return the names of features that filters are made of."""
    found: set = set()
    pending = [value for word in words for value in _values_of(word)]
    seen = set(pending)
    while pending:
        value = pending.pop()
        if value.op == "input":
            found.add(value.target)
        new = [v for v in arguments_of(value) if v not in seen]
        seen.update(new)
        pending.extend(new)
    return frozenset(found)


def _values_of(word: Word) -> Iterator[Value]:
    """Yield the factors and the edge weights of a word."""
    for letter in word:
        if isinstance(letter, Diagonal):
            yield letter.factor
        elif isinstance(letter, Polynomial):
            for _, term in letter.terms:
                yield from _values_of(term)
        elif letter.weight is not None:
            yield letter.weight


def _why_not(probe: ModelCall, pushed: Pushed, crossed: set[Word]) -> str:
    """Return why a comparison on a probe would say nothing, if so."""
    evaluate = Evaluator(probe)
    try:
        check_guards(pushed.trace.guards, evaluate)
        check_assumptions(pushed.assumptions, evaluate)
    except LCError as error:
        return f"{error.operation} {error.reason.split(',')[0]}"
    except Exception as error:
        return f"the model does not run there: {first_line(error)}"
    for word in sorted(crossed, key=len):
        try:
            permutes = _permutes(word, evaluate)
        except Exception as error:
            return f"the model does not run there: {first_line(error)}"
        if not permutes:
            return _what_differs(word, evaluate)
    return ""


def _what_differs(word: Word, evaluate: Evaluator) -> str:
    """Say why a word does not only reorder the nodes."""
    differ = [x for x in word if not _permutes((x,), evaluate)]
    sums = [x for x in differ if isinstance(x, Polynomial)]
    if any(x.self_loops for x in sums):
        return "a filter adds self-loops"
    if sums:
        return "the folded sum of filters is not a permutation there"
    aggregates = [x for x in differ if isinstance(x, Aggregate)]
    if any(map(_adds_loops, aggregates)):
        return "a filter adds self-loops"
    if any(x.weight is not None for x in aggregates):
        return "a filter has edge weights"
    if any(isinstance(x, Diagonal) for x in differ):
        return "a filter has factors of nodes"
    return "a filter does not only reorder the nodes there"


def _adds_loops(letter: Aggregate) -> bool:
    """Return whether the graph of an aggregation got self-loops."""
    graph = letter.graph
    while not isinstance(graph, str):
        if graph[0] == "add_self_loop":
            return True
        graph = graph[1]
    return False


def _permutes(word: Word, evaluate: Evaluator) -> bool:
    """Return whether a word only reorders the nodes."""
    matrix = apply_word(word, torch.eye(evaluate.call.num_nodes), evaluate)
    ones = torch.isclose(matrix, torch.ones(()), atol=1e-5)
    zeros = torch.isclose(matrix, torch.zeros(()), atol=1e-5)
    return bool(
        (ones | zeros).all()
        and (ones.sum(0) == 1).all()
        and (ones.sum(1) == 1).all()
    )
