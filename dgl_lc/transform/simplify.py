"""Simplifying a trace before its filters are pushed.

A factor that is the same number for every node is a coefficient and not a
filter. A product with 0 vanishes from a sum, a factor of 1 vanishes, and all
rows of a tensor are the tensor.
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from .assumptions import IsNumber
from .evaluate import Evaluator
from .rewrite import Rewriter
from .tracing.values import Trace, Value, arguments_of


@dataclass(frozen=True)
class Simplified:
    """A trace, and what has to hold on a graph for it to be right."""

    trace: Trace
    assumptions: tuple[IsNumber, ...]


def simplify(trace: Trace, graphs: Sequence[Evaluator]) -> Simplified:
    """Simplify a trace; no value of the given one is changed.

    Parameters
    ----------
    graphs : sequence of Evaluator
        Calls on other graphs, the user's among them: a factor has to be the
        same number on all of them.
    """
    simplifier = _Simplifier(graphs)
    made = simplifier.rewrite(trace)
    return Simplified(made, tuple(simplifier.assumed))


class _Simplifier(Rewriter):
    """Replaces values by simpler ones that are the same."""

    def __init__(self, graphs: Sequence[Evaluator]) -> None:
        super().__init__()
        self._graphs = graphs
        self._zero: set[Value] = set()
        self._numbers: dict[Value, float | None] = {}
        self.assumed: dict[IsNumber, None] = {}

    def instead(self, value: Value) -> Value | None:
        """Return a simpler value that is the same, if a rule finds one."""
        rule = _RULES.get(value.target if value.op == "call" else value.op)
        if rule is None and value.op == "call" and value.name in _WITH_ALPHA:
            rule = _Simplifier._with_alpha
        return None if rule is None else rule(self, value)

    # Rules: each returns a simpler value, or None

    def _all_rows(self, value: Value) -> Value | None:
        """Replace ``x[:x.shape[0]]`` by x."""
        source, index = value.args
        if not isinstance(source, Value) or source.row_dim != 0:
            return None
        if not isinstance(source.example, torch.Tensor):
            return None
        first, *rest = index if isinstance(index, tuple) else (index,)
        every = [slice(None), slice(0, None), ...]
        if not isinstance(first, slice) or any(p not in every for p in rest):
            return None
        start, stop, step = first.start, first.stop, first.step
        of_nodes = isinstance(stop, Value) and stop.target == "N"
        if start in (None, 0) and step in (None, 1) and of_nodes:
            return source
        return None

    def _product(self, value: Value) -> Value | None:
        """Replace a factor that is one number, and drop a factor of 1."""
        a, b = value.args
        for rows, factor in ((a, b), (b, a)):
            if not _alike(rows, value) or rows is factor:
                continue
            if rows in self._zero:
                self._zero.add(value)
            number = self._number(factor)
            if number is not None:
                return self._scaled(value, rows, number)
            inner, number = self._without_number(factor)
            if number != 1:
                product = self._made(value, operator.mul, (rows, inner))
                return self._scaled(value, product, number)
        return None

    def _without_number(self, factor: Any) -> tuple[Any, float]:
        """Take a coefficient out of a static factor: ``h * (d / 2)``."""
        total = 1.0
        while isinstance(factor, Value) and factor.static:
            if factor.trouble or factor.op != "call" or factor.kwargs:
                break
            if factor.target is operator.neg:
                inner, number = factor.args[0], -1.0
            elif factor.target in (operator.mul, operator.truediv):
                inner, by = factor.args
                number = by if isinstance(by, (int, float)) else 0
                if number and factor.target is operator.truediv:
                    number = 1 / number
            else:
                break
            if not number or not _alike(inner, factor):
                break
            factor, total = inner, total * number
        return factor, total

    def _quotient(self, value: Value) -> Value | None:
        """Replace a divisor that is one number by a factor."""
        rows, divisor = value.args
        if not _alike(rows, value):
            return None
        if rows in self._zero:
            self._zero.add(value)
        number = self._number(divisor)
        if number is None or number == 0:
            return None
        return self._scaled(value, rows, number, operator.truediv)

    def _sum(self, value: Value) -> Value | None:
        """Drop terms that are 0."""
        if len(value.args) != 2 or value.kwargs:
            return None
        a, b = value.args
        if self._is_zero(b) and _alike(a, value):
            return a
        if not self._is_zero(a) or not _alike(b, value):
            return None
        if value.target is operator.add:
            return b
        return self._made(value, operator.neg, (b,))

    def _with_alpha(self, value: Value) -> Value | None:
        """Write ``torch.add(a, b, alpha=c)`` as ``a + c * b``."""
        if len(value.args) != 2 or set(value.kwargs) != {"alpha"}:
            return None
        a, b = value.args
        alpha = self._number(value.kwargs["alpha"])
        if alpha is None or not _alike(b, value):
            return None
        term = self._scaled(value, b, alpha)
        function = _WITH_ALPHA[value.name]
        total = replace(
            value, id=len(self.values), target=function, args=(a, term),
            kwargs={},
        )  # fmt: skip
        simpler = self._sum(total)
        if simpler is None:
            self.values.append(total)
            simpler = total
        return simpler

    def _keeps_zero(self, value: Value) -> None:
        """Note that an operation on zeros gives zeros."""
        source = value.args[0] if value.args else None
        if isinstance(source, Value) and source in self._zero:
            self._zero.add(value)

    def _aggregate(self, value: Value) -> Value | None:
        """Take a weight that all edges have out of an aggregation."""
        self._keeps_zero(value)
        graph, op, reduce = value.target
        source, weight = value.args
        if reduce != "sum" or op not in ("mul", "div"):
            return None
        number = self._number(weight)
        if number is None or not _alike(source, value):
            return None
        plain = self._made(
            value, (graph, "copy_lhs", reduce), (source, None), op="aggregate"
        )
        function = operator.mul if op == "mul" else operator.truediv
        return self._scaled(value, plain, number, function)

    # What the rules share

    def _scaled(
        self, value: Value, rows: Value, number: float,
        function: Callable = operator.mul,
    ) -> Value:  # fmt: skip
        """Return rows times a number, or divided by it."""
        # An earlier factor that is a number as well is multiplied with it.
        if rows.op == "call" and rows.target is operator.mul:
            inner, before = rows.args
            if isinstance(before, (int, float)) and function is operator.mul:
                rows, number = inner, before * number
        if number == 1:
            return rows
        made = self._made(value, function, (rows, number))
        if number == 0 and function is operator.mul:
            self._zero.add(made)
        return made

    def _made(
        self, value: Value, target: Any, args: tuple, op: str = "call"
    ) -> Value:
        """Add a value that is computed in another way than before."""
        made = replace(
            value, id=len(self.values), op=op, target=target, args=args,
            kwargs={},
        )  # fmt: skip
        self.values.append(made)
        if args[0] in self._zero:
            self._zero.add(made)
        return made

    def _is_zero(self, term: Any) -> bool:
        """Return whether a term of a sum is 0 in all its entries."""
        if isinstance(term, Value) and term in self._zero:
            return True
        return self._number(term) == 0

    def _number(self, factor: Any) -> float | None:
        """Return the number that a factor is in all its entries, if any."""
        if isinstance(factor, (int, float)) and not isinstance(factor, bool):
            return float(factor)
        if not isinstance(factor, Value) or factor.trouble:
            return None
        if factor not in self._numbers:
            self._numbers[factor] = self._find_number(factor)
        return self._numbers[factor]

    def _find_number(self, factor: Value) -> float | None:
        example = factor.example
        fits = isinstance(example, torch.Tensor) and example.numel() > 0
        if not fits or not example.is_floating_point():
            return None
        if not factor.data:
            constant = example.numel() == 1 and _is_constant(factor)
            return float(example) if constant else None
        if factor.op == "call" and factor.name in _RESHAPES:
            inner = factor.args[0]
            if isinstance(inner, Value) and inner.target in _FILLED:
                factor = inner
        if factor.op == "call" and factor.target in _FILLED:
            return _FILLED[factor.target](factor)
        # A constant tensor of the size of the features is not looked for:
        # this would compute it on the user's graph.
        one_each = all(d in ("N", "E", 1) for d in factor.dims)
        if not factor.static or not one_each or not factor.dims:
            return None
        first = example.flatten()[0]
        if not bool((example == first).all()):
            return None
        assumed = IsNumber(factor, float(first))
        if not all(assumed.holds(graph) for graph in self._graphs):
            return None
        self.assumed[assumed] = None
        return assumed.number


def _is_constant(value: Value) -> bool:
    """Return whether it is made of constants alone, and not of buffers."""
    if value.op != "call" or value.learned or value.random:
        return value.op == "const"
    return all(map(_is_constant, arguments_of(value)))


def _filled_with(factor: Value) -> float | None:
    """Return the number of ``torch.full``, if it is a plain one."""
    args: list[Any] = [*factor.args[1:], factor.kwargs.get("fill_value")]
    return float(args[0]) if type(args[0]) in (int, float) else None


#: Functions that change the shape or the type of a filled tensor.
_RESHAPES = frozenset({
    "to", "float", "double", "half", "reshape", "view", "unsqueeze", "expand",
})  # fmt: skip

#: Functions that fill a tensor with one number.
_FILLED: dict[Any, Callable[[Value], float | None]] = {
    torch.zeros: lambda factor: 0.0,
    torch.ones: lambda factor: 1.0,
    torch.full: _filled_with,
}

_WITH_ALPHA = {
    "add": operator.add, "add_": operator.add,
    "sub": operator.sub, "sub_": operator.sub,
}  # fmt: skip

#: The rule for each function, or for each kind of value.
_RULES: dict[Any, Callable[[_Simplifier, Value], Value | None]] = {
    operator.getitem: _Simplifier._all_rows,
    operator.mul: _Simplifier._product,
    operator.truediv: _Simplifier._quotient,
    operator.add: _Simplifier._sum,
    operator.sub: _Simplifier._sum,
    operator.neg: _Simplifier._keeps_zero,
    operator.matmul: _Simplifier._keeps_zero,
    "aggregate": _Simplifier._aggregate,
}


def _alike(rows: Any, result: Value) -> bool:
    """Return whether rows have the shape and the type of a result."""
    return (
        isinstance(rows, Value)
        and rows.data
        and rows.row_dim == 0
        and rows.dims == result.dims
        and isinstance(rows.example, torch.Tensor)
        and isinstance(result.example, torch.Tensor)
        and rows.example.is_floating_point()
        and rows.example.dtype == result.example.dtype
    )
