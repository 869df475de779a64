"""Applying words to features letter by letter, with the functions of DGL."""

import torch

from .evaluate import Evaluator
from .filter_words import Aggregate, Diagonal, Letter, Polynomial, Word
from .input_rows import InputRows
from .model_inputs import Input
from .tracing.graph_tracer import gspmm
from .tracing.values import Value


def apply_word(
    word: Word, rows: torch.Tensor, evaluate: Evaluator
) -> torch.Tensor:
    """Apply a word to features with a row for each node."""
    for letter in reversed(word):
        rows = _apply_letter(letter, rows, evaluate)
    return rows


def _apply_letter(
    letter: Letter, rows: torch.Tensor, evaluate: Evaluator
) -> torch.Tensor:
    if isinstance(letter, Diagonal):
        return scale(letter, rows, evaluate)
    if isinstance(letter, Polynomial):
        total = torch.zeros_like(rows)
        for coefficient, word in letter.terms:
            total = total + coefficient * apply_word(word, rows, evaluate)
        return total
    if rows.numel() == 0:
        return rows
    graph, rows = evaluate.graph(letter.graph), rows.contiguous()
    if letter.weight is None:
        return gspmm(graph._graph, "copy_lhs", "sum", rows, None)
    weight = edge_weight(letter, evaluate).to(rows)
    weight = weight.reshape(-1, *[1] * (rows.dim() - 1))
    return gspmm(graph._graph, "mul", "sum", rows, weight)


def edge_weight(letter: Aggregate, evaluate: Evaluator) -> torch.Tensor:
    """Return the weight of each edge, for a letter that has weights."""
    assert letter.weight is not None
    weight = evaluate(letter.weight).reshape(-1)
    return 1 / weight if letter.inverse else weight


def scale(
    diagonal: Diagonal, rows: torch.Tensor, evaluate: Evaluator
) -> torch.Tensor:
    """Multiply each row by the number of its node."""
    factor = diagonal_values(diagonal, evaluate).to(rows)
    return rows * factor.reshape(-1, *[1] * (rows.dim() - 1))


def diagonal_values(diagonal: Diagonal, evaluate: Evaluator) -> torch.Tensor:
    """Return the number of each node that a diagonal multiplies by."""
    factor = evaluate(diagonal.factor).reshape(-1)
    return 1 / factor if diagonal.inverse else factor


def precompute_plainly(inputs: list[Input], evaluate: Evaluator) -> InputRows:
    """Compute all inputs letter by letter: for probes, which are small.

    Words that end with the same letters share the products of these.
    """
    known: dict[tuple[Value, Word], torch.Tensor] = {}
    parts = []
    for value, word in ((entry.value, entry.word) for entry in inputs):
        start = 0
        while start < len(word) and (value, word[start:]) not in known:
            start += 1
        if start == len(word):
            known[value, ()] = evaluate(value).detach()
        rows = known[value, word[start:]]
        for place in reversed(range(start)):
            rows = _apply_letter(word[place], rows, evaluate)
            known[value, word[place:]] = rows
        parts.append(rows)
    return InputRows(parts)
