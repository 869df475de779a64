"""The steps of the original model, with its aggregations."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from ..feature_names import source_name
from ..filter_words import Diagonal, NormedAggregate, units_of
from ..find_filters import FilterFinder
from ..model_inputs import FilterNames
from ..pushed import Pushed
from ..tracing.values import Trace, Value, arguments_of, values_in
from .boxes import AGGREGATION, OPERATIONS, SOURCE, TIMES
from .model_steps import ModelStep
from .moved_aggregations import moved_aggregations
from .operation_texts import operation_text, shape_text, weight_size
from .value_order import in_order, number_of


@dataclass
class ModelSteps:
    """Steps in order, and those whose results are the model's."""

    steps: list[ModelStep] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)


class OriginalSteps:
    """Reads the steps of a model from its trace.

    What depends on the graph alone, and is a norm or an edge weight of a
    filter, is not drawn: the name of the filter stands for it.

    Attributes
    ----------
    marks : dict of Value to int
        Number of each aggregation, in the order in which they are computed.
    moved : dict
        For each input, by its value and word, the aggregations that were
        moved to it.
    """

    def __init__(self, model: nn.Module, pushed: Pushed) -> None:
        self._model, self._pushed = model, pushed
        trace = pushed.trace
        # The finder adds values to the trace that it is given.
        copied = Trace(list(trace.values), trace.guards, trace.output)
        self._filters = FilterFinder(copied)
        self._names = FilterNames(pushed.inputs)
        self._outputs = values_in(trace.output)
        every = in_order(self._outputs, self.sources)
        self._users: dict[Value, list[Value]] = {value: [] for value in every}
        for value in every:
            for source in self.sources(value):
                self._users[source].append(value)
        drawn = (value for value in every if value.op == "aggregate")
        ordered = sorted(drawn, key=number_of)
        self.marks = {value: n for n, value in enumerate(ordered, 1)}
        self.moved = moved_aggregations(pushed, self.sources)

    def steps(self, shallow_first: bool) -> ModelSteps:
        """List the steps, in one of two orders (see :func:`in_order`)."""
        found = ModelSteps()
        place: dict[Value, int] = {}
        for value in in_order(self._outputs, self.sources, shallow_first):
            args = tuple(place[source] for source in self.sources(value))
            place[value] = len(found.steps)
            found.steps.append(self.step(value, args))
        found.outputs = [place[value] for value in self._outputs]
        return found

    def step(self, value: Value, args: tuple[int, ...]) -> ModelStep:
        """Return the step of a value that takes these steps."""
        where, shape = value.where, shape_text(value)
        rows = ("N",) if "N" in value.dims else ()
        if value.op == "aggregate":
            name = self._filter_name(value)
            return ModelStep(
                AGGREGATION, name, where, args, shape=shape, rows=rows,
                marks=(self.marks[value],),
            )  # fmt: skip
        if not args:
            return ModelStep(
                SOURCE, _source_text(value), shape=shape, rows=rows
            )
        found = self._letter(value)
        if found is not None:
            sign = "÷" if found[1].inverse else TIMES
            text = f"{sign} {_factor_name(found[1].factor)}"
            return ModelStep(
                OPERATIONS, text, where, args, shape=shape, rows=rows,
                scale=True,
            )  # fmt: skip
        text = operation_text(value, self._model)
        size = weight_size(value, self._model)
        return ModelStep(OPERATIONS, text, where, args, size, shape, rows)

    def sources(self, value: Value) -> list[Value]:
        """Return the values that a value is drawn to be computed from."""
        found = self._letter(value)
        if found is not None:
            return [found[0]]
        return list(dict.fromkeys(self._arguments(value)))

    def _arguments(self, value: Value) -> Iterable[Value]:
        for arg in arguments_of(value):
            if not arg.data or arg.op == "number":
                continue
            of_edges = "E" in arg.dims and value.op == "aggregate"
            if of_edges and arg.op == "input" and value.args[0] is None:
                yield arg  # features of edges alone
            elif of_edges:
                yield from self._arguments(arg)
            else:
                yield arg

    def _letter(self, value: Value) -> tuple[Value, Any] | None:
        """Return (source, letter) if a value became a letter of words."""
        if value in self._pushed.needs:
            return None
        return self._filters.letter(value)

    def _filter_name(self, value: Value) -> str:
        """Return the name of the filter that an aggregation belongs to."""
        found = self._letter(value)
        if found is None:
            return value.name
        units = [
            unit
            for unit in self._names.units
            if isinstance(unit, NormedAggregate) and unit.aggregate == found[1]
        ]
        # With several norms, it is the one that all inputs have to which this
        # aggregation was moved, and whose norms are before and after it.
        words = [w for (_, w), moved in self.moved.items() if value in moved]
        before = self._norms(value, self.sources)
        after = self._norms(value, lambda v: self._users[v])
        for fits in (
            lambda unit: all(unit in units_of(word) for word in words),
            lambda unit: unit.left in after and unit.right in before,
        ):
            units = [unit for unit in units if fits(unit)] or units
        return " / ".join(self._names.units[unit] for unit in units) or "A"

    def _norms(
        self, value: Value, near: Callable[[Value], Iterable[Value]]
    ) -> set[Diagonal | None]:
        """Return the norms around an aggregation, up to the next ones."""
        found: set[Diagonal | None] = {None}
        seen: set[Value] = set()
        pending = list(near(value))
        while pending:
            other = pending.pop()
            if other in seen or other.op == "aggregate":
                continue
            seen.add(other)
            letter = self._letter(other)
            if letter is not None:
                found.add(letter[1])
            pending.extend(near(other))
        return found


def _source_text(value: Value) -> str:
    """Write what features, or values of the graph, are called."""
    if value.op == "graph":
        return str(value.target[1])
    return source_name(value)


def _factor_name(factor: Value) -> str:
    return source_name(factor) if factor.op == "input" else "norm"
