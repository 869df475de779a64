"""The steps from features to inputs: which filters, in which order.

Words share the filters that are applied first: those on one feature matrix
are a tree. A run of one filter that the engine knows is one step. Any other
filter takes up to three: scaling, summing over edges, scaling.
"""

from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch

from ..filter_words import (
    Aggregate,
    Diagonal,
    NormedAggregate,
    Polynomial,
    Unit,
    Word,
    units_of,
)
from ..model_inputs import Input
from ..tracing.values import Value
from .engine_graphs import Spec


@dataclass
class Tree:
    """Words by the filter that comes next; ``wanted``: inputs that end here."""

    wanted: list[int] = field(default_factory=list)
    further: dict[Unit, "Tree"] = field(default_factory=dict)

    def add(self, word: Word, number: int) -> None:
        """Add the word of the input with this number."""
        branch = self
        for unit in reversed(units_of(word)):
            branch = branch.further.setdefault(unit, Tree())
        branch.wanted.append(number)


@dataclass(eq=False)
class PlannedStep:
    """A matrix, or several hops, that are computed and stored.

    Attributes
    ----------
    name : str
        Name of its folder.
    reads : list of StepRows
        Matrices that it is computed from.
    shape : tuple of int
        Shape of a row.
    dtype : torch.dtype
        Type in which it is stored.
    hops : list of int
        Hops that are kept.
    chosen : bool
        Whether it has the rows of the nodes asked for alone.
    inputs : list of int
        Numbers of the inputs that its hops are; none on the way to them.
    """

    name: str
    reads: list["StepRows"]
    shape: tuple[int, ...]
    dtype: torch.dtype
    hops: list[int]
    chosen: bool
    inputs: list[int]

    @property
    def columns(self) -> int:
        """The number of columns of a hop."""
        return prod(self.shape)

    def describe(self) -> list[Any]:
        """Return what stands for the step in keys."""
        return [type(self).__name__, self.hops, self.chosen, list(self.shape)]


@dataclass(eq=False)
class StepRows:
    """A matrix that steps read: a hop of a step, or features as given."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    step: PlannedStep | None = None
    hop: int = 0
    value: Value | None = None

    @property
    def chosen(self) -> bool:
        """Whether it has the rows of the nodes asked for alone."""
        return self.step is not None and self.step.chosen


@dataclass(eq=False)
class FilterStep(PlannedStep):
    """Applies a filter that the engine knows, once or several times."""

    unit: NormedAggregate
    spec: Spec
    times: int


@dataclass(frozen=True)
class Loops:
    """The multiple of its own row that a node gets, for its self-loops."""

    letter: Aggregate


@dataclass(eq=False)
class SumStep(PlannedStep):
    """Sums matrices with factors, then scales the rows of the sum."""

    terms: list[tuple[float | Loops, StepRows]]
    scale: Diagonal | None

    def describe(self) -> list[Any]:
        factors = [
            f if isinstance(f, float) else "loops" for f, _ in self.terms
        ]
        return [*super().describe(), factors, self.scale is not None]


@dataclass(eq=False)
class EvaluateStep(PlannedStep):
    """Computes features from those that were given, row by row."""

    value: Value
    #: Sums over edges in it, which were computed before.
    sums: dict[int, StepRows]


class Planner:
    """Plans the steps to some inputs.

    Parameters
    ----------
    values, engine
        What evaluates static values, and what knows the engine's filters.
    some_nodes : bool
        Whether the rows of some nodes are asked for, not of all.
    dtype : torch.dtype, optional
        Type in which all steps are stored. Default: that of the features.
    """

    def __init__(
        self,
        inputs: list[Input],
        values: Any,
        engine: Any,
        some_nodes: bool,
        dtype: torch.dtype | None,
    ) -> None:
        self._inputs = inputs
        self._values, self._engine = values, engine
        self._some_nodes, self._dtype = some_nodes, dtype
        self.steps: list[PlannedStep] = []
        self._known: dict[int, StepRows] = {}

    def plan(self) -> list[PlannedStep]:
        """Plan all steps, in the order in which they are done."""
        for source in dict.fromkeys(entry.value for entry in self._inputs):
            tree = Tree()
            for number, entry in enumerate(self._inputs):
                if entry.value is source:
                    tree.add(entry.word, number)
            as_is = _is_given(source) and source.example.is_floating_point()
            if tree.wanted and not tree.further and not as_is:
                self._evaluate(source, tree.wanted[0])
                tree.wanted = tree.wanted[1:]
                if not tree.wanted:
                    continue
            self._walk(tree, self._rows_of(source), None)
        return self.steps

    # Features

    def _rows_of(self, value: Value) -> StepRows:
        """Return features as given, or plan to compute them."""
        if value.id not in self._known:
            if _is_given(value):
                array = self._values.call.inputs[value.target]
                dtype = _dtype_of(array)
                shape = tuple(array.shape[1:])
                self._known[value.id] = StepRows(shape, dtype, value=value)
            elif self._values.in_steps(value):
                self._known[value.id] = self._sum(value)
            else:
                self._known[value.id] = self._evaluate(value, None)
        return self._known[value.id]

    def _evaluate(self, value: Value, number: int | None) -> StepRows:
        wide = self._values.wide_sums(value)
        sums = {v.id: self._rows_of(v) for v in wide}
        shape = tuple(int(d) for d in value.dims[1:])
        return self._add(
            EvaluateStep,
            [*sums.values()],
            shape,
            value.example.dtype,
            [0],
            number is not None,
            [] if number is None else [number],
            value=value,
            sums=sums,
        )

    def _sum(self, value: Value) -> StepRows:
        """Plan a sum over edges of features, which a model reads as such."""
        key, op, _ = value.target
        source, weight = value.args
        letter = Aggregate(key, weight, op == "div")
        if op == "copy_lhs":
            letter = Aggregate(key)
        unit = NormedAggregate(None, letter, None)
        return self._once(unit, self._rows_of(source), False, None)

    def _add(
        self,
        kind: type,
        reads: list[StepRows],
        shape: tuple[int, ...],
        dtype: torch.dtype,
        hops: list[int],
        chosen: bool,
        inputs: list[int],
        **more: Any,
    ) -> StepRows:
        name = f"input-{inputs[0]}" if inputs else f"step-{len(self.steps)}"
        chosen = chosen and self._some_nodes
        # Integers are categories, which keep their type.
        other = self._dtype if dtype.is_floating_point else None
        step = kind(
            name,
            reads,
            shape,
            other or dtype,
            hops,
            chosen,
            inputs,
            **more,
        )
        self.steps.append(step)
        return StepRows(shape, step.dtype, step, hops[-1])

    # Words

    def _walk(
        self,
        tree: Tree,
        rows: StepRows,
        collect: dict[int, StepRows] | None,
        chosen: bool = True,
    ) -> None:
        """Plan all words of a tree, from the rows at its root.

        Results become inputs, or are collected for a polynomial.
        """
        self._keep(tree.wanted, rows, collect)
        for unit, branch in tree.further.items():
            run = [branch]
            while list(run[-1].further) == [unit]:
                run.append(run[-1].further[unit])
            if self._is_direct(unit):
                end = self._run(unit, run, rows, collect, chosen)
            else:
                end = rows
                for k, part in enumerate(run, 1):
                    last = k == len(run) and not part.further
                    one = collect is None and len(part.wanted) == 1
                    own = last or not self._some_nodes
                    number = part.wanted[0] if one and own else None
                    end = self._once(unit, end, last and chosen, number)
                    if number is None:
                        self._keep(part.wanted, end, collect)
            if run[-1].further:
                self._walk(Tree([], run[-1].further), end, collect, chosen)

    def _run(
        self,
        unit: Any,
        run: list[Tree],
        rows: StepRows,
        collect: dict[int, StepRows] | None,
        chosen: bool,
    ) -> StepRows:
        """Plan a run of one filter as one call of the engine."""
        hops = [k for k, part in enumerate(run, 1) if part.wanted]
        numbers = [n for k in hops for n in run[k - 1].wanted]
        last, further = len(run), bool(run[-1].further)
        kept = sorted({*hops, last}) if further else hops
        in_order = (
            numbers == list(range(numbers[0], numbers[0] + len(hops)))
            if numbers
            else False
        )
        direct = (
            collect is None
            and in_order
            and kept == hops
            and not (further and self._some_nodes)
        )
        made = self._add(
            FilterStep,
            [rows],
            rows.shape,
            rows.dtype,
            kept,
            chosen and not further,
            numbers if direct else [],
            unit=unit,
            spec=self._engine.spec(unit),
            times=last,
        )
        if not direct:
            for k in hops:
                hop = StepRows(made.shape, made.dtype, made.step, k)
                self._keep(run[k - 1].wanted, hop, collect)
        return made

    def _keep(
        self,
        numbers: list[int],
        rows: StepRows,
        collect: dict[int, StepRows] | None,
    ) -> None:
        """Copy rows to inputs, or collect them."""
        for number in numbers:
            if collect is not None:
                collect[number] = rows
            else:
                self._sum_up([(1.0, rows)], None, True, number)

    def _sum_up(
        self,
        terms: list[tuple[float | Loops, StepRows]],
        scale: Diagonal | None,
        chosen: bool,
        number: int | None,
    ) -> StepRows:
        first = terms[0][1]
        return self._add(
            SumStep,
            [rows for _, rows in terms],
            first.shape,
            first.dtype,
            [0],
            chosen,
            [] if number is None else [number],
            terms=terms,
            scale=scale,
        )

    def _is_direct(self, unit: Unit) -> bool:
        """Tell whether the engine applies a filter as it is."""
        if not isinstance(unit, NormedAggregate):
            return False
        spec = self._engine.spec(unit)
        return spec.has_norms and not spec.adds_loops

    def _once(
        self, unit: Unit, rows: StepRows, chosen: bool, number: int | None
    ) -> StepRows:
        """Plan one application of a filter."""
        if isinstance(unit, Diagonal):
            return self._sum_up([(1.0, rows)], unit, chosen, number)
        if isinstance(unit, Polynomial):
            return self._polynomial(unit, rows, chosen, number)
        spec = self._engine.spec(unit)
        left, right = unit.left, unit.right
        if spec.has_norms:
            left = right = None
        if right is not None:
            rows = self._sum_up([(1.0, rows)], right, False, None)
        more = left is not None or spec.adds_loops
        inputs = [] if number is None or more else [number]
        summed = self._add(
            FilterStep,
            [rows],
            rows.shape,
            rows.dtype,
            [1],
            chosen,
            inputs,
            unit=unit,
            spec=spec,
            times=1,
        )
        if not more:
            return summed
        terms: list[tuple[float | Loops, StepRows]] = [(1.0, summed)]
        if spec.adds_loops:
            terms.append((Loops(unit.aggregate), rows))
        return self._sum_up(terms, left, chosen, number)

    def _polynomial(
        self, unit: Polynomial, rows: StepRows, chosen: bool, number: int | None
    ) -> StepRows:
        """Plan a polynomial, whose terms share filters as inputs do."""
        tree, found = Tree(), dict[int, StepRows]()
        for place, (_, word) in enumerate(unit.terms):
            tree.add(word, place)
        self._walk(tree, rows, found, chosen)
        terms = [
            (coefficient, found[place])
            for place, (coefficient, _) in enumerate(unit.terms)
        ]
        return self._sum_up(terms, None, chosen, number)  # type: ignore[arg-type]


def _is_given(value: Value) -> bool:
    """Tell whether a value is an argument of the call."""
    return value.op == "input" and isinstance(value.target, str)


def _dtype_of(array: Any) -> torch.dtype:
    dtype = array.dtype
    if isinstance(dtype, torch.dtype):
        return dtype
    return torch.from_numpy(array[:0].copy()).dtype
