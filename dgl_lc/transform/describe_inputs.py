"""What inputs that are kept on disk depend on, as keys."""

from dataclasses import dataclass
from typing import Any

import torch
from dgl import DGLError

from .._common.digest import digest
from .._common.dtypes import find_type
from ..precompute.graph.in_edges import in_edges
from .apply_words import diagonal_values, edge_weight
from .evaluate import Evaluator
from .filter_words import Aggregate, Diagonal, Word
from .model_inputs import Input


@dataclass(frozen=True)
class InputKeys:
    """Keys of inputs, and the shape of a row of each.

    Attributes
    ----------
    keys : list
        For each input, keys of its features and of the filters of its word.
    shapes : list of list of int
        The shape of a row of each input.
    """

    keys: list[Any]
    shapes: list[list[int]]


def describe_inputs(
    inputs: list[Input], evaluate: Evaluator, dtype: torch.dtype | None
) -> InputKeys:
    """Compute keys over all numbers that inputs are made of.

    Graphs, features, edge weights and factors of nodes are read whole. An
    input that can't be stored is an error.
    """
    keys: dict[int, Any] = {}
    shapes: dict[int, list[int]] = {}
    for source in dict.fromkeys(entry.value for entry in inputs):
        rows = evaluate(source).detach()
        for number, entry in enumerate(inputs):
            if entry.value is source:
                _check(entry, rows)
                shapes[number] = list(rows.shape[1:])
                words = _describe(entry.word, evaluate)
                keys[number] = [digest(rows), words]
        evaluate.forget()
    numbers = range(len(inputs))
    return InputKeys([keys[n] for n in numbers], [shapes[n] for n in numbers])


def _check(entry: Input, rows: torch.Tensor) -> None:
    if find_type(rows.dtype) is None or rows[:1].numel() == 0:
        raise DGLError(
            f"out: the input {entry.formula} is {rows.dtype} of shape "
            f"{tuple(rows.shape)}, and only numbers with a fractional part "
            f"can be stored, at least one for each node. Omit out."
        )


def _describe(word: Word, evaluate: Evaluator) -> list[Any]:
    """Describe the letters of a word by keys of what they multiply by."""
    found: list[Any] = []
    for letter in word:
        if isinstance(letter, Diagonal):
            found.append(digest(diagonal_values(letter, evaluate)))
        elif isinstance(letter, Aggregate):
            weight = None
            if letter.weight is not None:
                weight = edge_weight(letter, evaluate)
            graph = evaluate.graph(letter.graph)
            found.append(in_edges(graph).key(weight))
        else:
            found.append(
                [
                    [coefficient, _describe(inner, evaluate)]
                    for coefficient, inner in letter.terms
                ]
            )
    return found
