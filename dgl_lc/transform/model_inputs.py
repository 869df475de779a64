"""The inputs of the LC version: which filters, on which features."""

import keyword
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from ..hops import HopFeatures
from .evaluate import Evaluator
from .filter_words import Aggregate, Diagonal, Letter, Polynomial, Word
from .tracing.dgl_hooks import gspmm
from .tracing.values import Value


@dataclass(frozen=True)
class NormedAggregate:
    """An aggregation between two diagonals, either of which may be ones."""

    left: Diagonal | None
    aggregate: Aggregate
    right: Diagonal | None


Unit = NormedAggregate | Diagonal | Polynomial


def units_of(word: Word) -> tuple[Unit, ...]:
    """A word as filters: every norm goes to the aggregation it belongs to."""
    found: list[Unit] = []
    place = 0
    while place < len(word):
        letter = word[place]
        place += 1
        if not isinstance(letter, Aggregate):
            found.append(letter)
            continue
        left = right = None
        if found and isinstance(found[-1], Diagonal):
            left = found.pop()
        if place < len(word) and isinstance(word[place], Diagonal):
            # The norm before the next aggregation is that one's own.
            following = word[place + 1 : place + 2]
            its_own = following and isinstance(following[0], Aggregate)
            if left is None or not its_own:
                right = word[place]
                place += 1
        found.append(
            NormedAggregate(left, letter, right)  # type: ignore[arg-type]
        )
    return tuple(found)


@dataclass(frozen=True)
class Input:
    """What has to be precomputed: filters, applied to static features.

    Attributes
    ----------
    formula : str
        For a person: ``S² x``.
    name : str
        The argument of the LC version: ``s2_x``.
    columns : int
        How many numbers there are for each node.
    value, word : Value, Word
        The features, and the filters that are applied to them.
    """

    formula: str
    name: str
    columns: int
    value: Value
    word: Word

    def __str__(self) -> str:
        return self.formula


class FilterNames:
    """Names of filters, given as they come: S, S₂, …"""

    def __init__(self, inputs: Sequence[tuple[Value, Word]]):
        self.units: dict[Unit, str] = {}
        every = [unit for _, word in inputs for unit in units_of(word)]
        for kind, letter in (
            (NormedAggregate, "S"),
            (Polynomial, "P"),
            (Diagonal, "D"),
        ):
            mine = [u for u in dict.fromkeys(every) if isinstance(u, kind)]
            for number, unit in enumerate(mine, 1):
                several = str(number).translate(_BELOW)
                self.units[unit] = letter + (several if len(mine) > 1 else "")

    def formula(self, value: Value, word: Word) -> str:
        powers: list[list] = []
        for unit in units_of(word):
            if powers and powers[-1][0] == unit:
                powers[-1][1] += 1
            else:
                powers.append([unit, 1])
        parts = [
            self.units[unit] + (str(k).translate(_ABOVE) if k > 1 else "")
            for unit, k in powers
        ]
        return " ".join([*parts, source_name(value)])

    def describe(self) -> Iterator[str]:
        """What the names stand for."""
        for unit, name in self.units.items():
            yield f"{name} = {_describe(unit)}"


_ABOVE = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_BELOW = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_PLAIN = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉ .", "01234567890123456789__")


def name_inputs(inputs: Sequence[tuple[Value, Word]]) -> list[Input]:
    names = FilterNames(inputs)
    found: list[Input] = []
    used: set[str] = set()
    for value, word in inputs:
        formula = names.formula(value, word)
        # torch.fx writes variables in lower case.
        name = plain = _identifier(formula.translate(_PLAIN).lower())
        number = 2
        while name in used:
            name, number = f"{plain}_{number}", number + 1
        used.add(name)
        columns = prod(d for d in value.dims if isinstance(d, int))
        found.append(Input(formula, name, columns, value, word))
    return found


def _identifier(text: str) -> str:
    """A name that a variable of the generated code can have."""
    name = "".join(c for c in text if c.isalnum() or c == "_")
    taken = name in ("self", "torch", "operator", "device", "inf", "nan")
    if not name.isidentifier() or keyword.iskeyword(name) or taken:
        return f"input_{name}"
    return name


def source_name(value: Value) -> str:
    if value.op == "input":
        target = value.target
        return target if isinstance(target, str) else target[2]
    inner = [v for v in value.args if isinstance(v, Value) and v.data]
    if value.target is torch.ones:
        return "1"
    if len(inner) == 1 and inner[0].op != "number":
        return f"{value.name}({source_name(inner[0])})"
    return f"{value.name}({'…' if inner else ''})"


def _describe(unit: Unit) -> str:
    if isinstance(unit, NormedAggregate):
        parts = ["diag · " if unit.left else "", _adjacency(unit.aggregate),
                 " · diag" if unit.right else ""]  # fmt: skip
        return "".join(parts)
    if isinstance(unit, Diagonal):
        return f"diag({source_name(unit.factor)})"
    terms = []
    for coefficient, word in unit.terms:
        letters = " ".join(_describe(u) for u in units_of(word))
        terms.append(f"{coefficient:.4g} ({letters})" if word
                     else f"{coefficient:.4g} I")  # fmt: skip
    return " + ".join(terms)


def _adjacency(letter: Aggregate) -> str:
    graph: Any = letter.graph
    steps = []
    while not isinstance(graph, str):
        steps.append(graph[0])
        graph = graph[1]
    name = f"A({graph}{''.join(f', {s}' for s in reversed(steps))})"
    return name if letter.weight is None else f"weighted {name}"


# Applying letters the plain way, as DGL does


def apply_word(
    word: Word, rows: torch.Tensor, evaluate: Evaluator
) -> torch.Tensor:
    """A word, applied to features with a row for each node."""
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
    assert letter.weight is not None
    weight = evaluate(letter.weight).reshape(-1)
    return 1 / weight if letter.inverse else weight


def scale(
    diagonal: Diagonal, rows: torch.Tensor, evaluate: Evaluator
) -> torch.Tensor:
    factor = diagonal_values(diagonal, evaluate).to(rows)
    return rows * factor.reshape(-1, *[1] * (rows.dim() - 1))


def diagonal_values(diagonal: Diagonal, evaluate: Evaluator) -> torch.Tensor:
    factor = evaluate(diagonal.factor).reshape(-1)
    return 1 / factor if diagonal.inverse else factor


class InputRows(HopFeatures):
    """The inputs of an LC version, for some nodes.

    Iterating gives the tensors, in the order of ``lc.inputs``; loaders and
    ``fit`` take it as they take hop features.
    """

    @property
    def stack(self) -> torch.Tensor:
        """Only inputs of one shape can be one stack of rows."""
        return torch.cat(list(self))

    def take(
        self,
        places: torch.Tensor,
        nodes: torch.Tensor,
        out: torch.Tensor | None = None,
    ) -> "InputRows":
        # Inputs may differ in their columns: there is no one stack to fill.
        parts = [tensor[places.to(tensor.device)] for tensor in self]
        return InputRows(parts, self._hops, None, nodes)

    def __repr__(self) -> str:
        columns = [tuple(tensor.shape[1:]) for tensor in self]
        return f"InputRows(rows={self._num_rows}, columns={columns})"

    def _like(self, tensors, hops) -> "InputRows":
        return InputRows(tensors, hops, None, self.nodes)
