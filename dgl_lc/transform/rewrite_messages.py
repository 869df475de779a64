"""Rewriting sums of messages as filters and operations on nodes.

A message that a user computes for each edge is often a sum of terms, each of
them a fixed weight times a value of the edge's source or target:

- f(h_u), for any function f of each row, is f on nodes, then a copy to edges;
- W (w_e h_u), for linear functions, is w_e times (W h) of the source;
- the sum of w_e h_u over incoming edges is a filter applied to h;
- the sum of w_e h_v is h, scaled by the sum of the weights.

The trace is changed: aggregations of such messages become filters, products
and sums of nodes' values, which :mod:`.find_filters` and :mod:`.push` know.
"""

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from .evaluate import Evaluator
from .linearity import LINEAR, close
from .recognise import OperationKinds
from .refusals import LCError
from .tracing.model_call import ModelCall
from .tracing.values import (
    TRAINING,
    Trace,
    Value,
    after_parts,
    arguments_of,
    replace,
)


class Term(NamedTuple):
    """A term of a message: a weight times a value of one end of the edge.

    ``rows`` is the value of nodes, and ``end`` is "u" or "v"; for a static
    value of edges, ``rows`` is that value, and ``end`` is "e".
    """

    factor: float
    end: str
    rows: Value
    weight: Value | None = None


#: The terms of a message; None if it is not a sum of such terms.
Form = list[Term] | None


def rewrite_messages(trace: Trace, probe: ModelCall) -> None:
    """Rewrite aggregations of messages as filters, where that is possible."""
    _Rewriter(trace, probe).run()


class _OnExamples(Evaluator):
    """Computes values from the results of their arguments on the probe."""

    def run(self, value: Value) -> Any:
        return self._evaluate(value)

    def _argument(self, leaf: Any) -> Any:
        if leaf is TRAINING:
            return False
        return leaf.example if isinstance(leaf, Value) else leaf


class _Rewriter:
    """Finds the terms of messages, and writes them as values of nodes."""

    def __init__(self, trace: Trace, probe: ModelCall) -> None:
        self._trace = trace
        self._kinds = OperationKinds(probe.model, probe.num_nodes)
        self._compute = _OnExamples(probe).run
        self._number = next(v for v in trace.values if v.target == "N")
        self._graph: Any = None
        self._forms: dict[Any, dict[int, Form]] = {}
        self._made: list[Value] = []
        self._next_id = len(trace.values)

    def run(self) -> None:
        """Rewrite all aggregations of the trace."""
        values: list[Value] = []
        for value in self._trace.values:
            if value.op == "aggregate" and not value.static:
                self._rewrite(value)
                values.extend(self._made)
                self._made = []
            values.append(value)
        self._trace.values[:] = values
        for number, value in enumerate(values):
            value.id = number

    def _rewrite(self, value: Value) -> None:
        """Rewrite an aggregation, if its messages are a sum of terms."""
        self._graph, op, reduce = value.target
        if reduce != "sum" or value.row_dim is None or value.trouble:
            return
        left, right = value.args
        if op in ("copy_lhs", "mul", "div") and _is_filter(left, right):
            return
        try:
            terms = self._operands(op, (left, right), ("u", "e"), value.dims)
            if terms:
                with torch.no_grad():
                    self._write(value, terms)
        except LCError:
            # The aggregation is refused later, with a reason.
            self._made = []

    # The terms of a message

    def _form(self, value: Value) -> Form:
        """Return the terms of a value of edges."""
        known = self._forms.setdefault(self._graph, {})
        return after_parts(value, known, self._parts, self._terms)

    def _parts(self, value: Value) -> list[Value]:
        if value.static or value.op == "edges":
            return []
        return [v for v in arguments_of(value) if "E" in v.dims]

    def _terms(self, value: Value) -> Form:
        """Return the terms of a value, whose parts are known."""
        if value.trouble or value.dims[:1] != ("E",):
            return None
        if value.static:
            return [Term(1.0, "e", value)]
        if value.op == "edges":
            graph, op, left, right = value.target
            if graph != self._graph:
                return None
            return self._operands(op, value.args, (left, right), value.dims)
        if value.op not in ("call", "module") or value.draws:
            return None
        args, target = value.args, value.target
        if value.op == "call" and not value.kwargs:
            if target is operator.neg:
                return _scaled(self._known(args[0]), -1.0)
            name = _BINARY.get(target)
            if name is not None and len(args) == 2:
                found = self._combine(
                    name, *map(self._known, args), args, value.dims
                )
                if found is not None:
                    return found
        return self._through(value)

    def _known(self, arg: Any) -> Form:
        """Return the terms of an argument, which are known."""
        if not isinstance(arg, Value) or arg.dims[:1] != ("E",):
            return None
        return self._forms[self._graph].get(arg.id)

    def _operands(
        self, op: str, args: tuple, ends: tuple[str, str], dims: tuple
    ) -> Form:
        """Return the terms of an operation of DGL on the ends of edges."""
        forms: list[Form] = []
        for arg, end in zip(args, ends, strict=True):
            if not isinstance(arg, Value):
                forms.append(None)
            elif end == "e":
                forms.append(self._form(arg))
            else:
                forms.append([Term(1.0, end, arg)])
        if op == "copy_lhs":
            return forms[0]
        if op == "copy_rhs":
            return forms[1]
        return self._combine(op, *forms, args, dims)

    def _combine(
        self, op: str, a: Form, b: Form, args: tuple, dims: tuple
    ) -> Form:
        """Return the terms of a sum, a product or a quotient."""
        x, y = args
        if op in ("add", "sub"):
            if a is None or b is None:
                return None
            if any(arg.dims[1:] != dims[1:] for arg in args):
                return None
            sign = 1.0 if op == "add" else -1.0
            return [*a, *(_scaled(b, sign) or [])]
        if op == "mul" and a is not None:
            if type(y) in (int, float):
                return _scaled(a, float(y))
            weight = self._weight(b, y)
            if weight is not None and _same_width(x, dims):
                return self._weighted(a, weight)
        if op == "mul" and b is not None:
            if type(x) in (int, float):
                return _scaled(b, float(x))
            weight = self._weight(a, x)
            if weight is not None and _same_width(y, dims):
                return self._weighted(b, weight)
        if op == "div" and a is not None:
            if type(y) in (int, float) and y:
                return _scaled(a, 1.0 / y)
            weight = self._weight(b, y)
            if weight is not None and _same_width(x, dims):
                return self._weighted(a, self._inverse(weight))
        return None

    def _weight(self, form: Form, arg: Any) -> Value | None:
        """Return static numbers, one for each edge, if an operand is that."""
        if not isinstance(arg, Value) or not arg.static:
            return None
        if any(d != 1 for d in arg.dims[1:]) or not form or len(form) > 1:
            return None
        if arg.dims[0] == "E":
            return arg
        end = form[0].end
        op, place = ("copy_lhs", 0) if end == "u" else ("copy_rhs", 1)
        pair = (arg, None) if place == 0 else (None, arg)
        return self._new("edges", (self._graph, op, "u", "v"), pair, ("E",
                         *arg.dims[1:]), arg)  # fmt: skip

    def _weighted(self, form: Form, weight: Value) -> Form:
        """Multiply terms by a weight of each edge."""
        assert form is not None
        return [
            term._replace(
                weight=weight
                if term.weight is None
                else self._call(flat_product, (term.weight, weight), ("E",))
            )
            for term in form
        ]

    def _inverse(self, weight: Value) -> Value:
        return self._call(torch.reciprocal, (weight,), weight.dims)

    def _through(self, value: Value) -> Form:
        """Return the terms of a function of each row, if it is one.

        It is applied to values of nodes instead. If the message is more than
        a copy of one end's value, the function has to be linear.
        """
        parts = [v for v in arguments_of(value) if "E" in v.dims]
        forms = [self._known(part) for part in parts]
        if not isinstance(value.example, torch.Tensor) or not parts:
            return None
        if any(not form for form in forms):
            return None
        firsts = [form[0] for form in forms if form]
        plain = all(
            len(form or ()) == 1 and term[::3] == (1.0, None)
            for form, term in zip(forms, firsts, strict=True)
        )
        ends = {term.end for term in firsts}
        if plain and len(ends) == 1 and "e" not in ends:
            rows = {p: t.rows for p, t in zip(parts, firsts, strict=True)}
            made = self._on_nodes(value, rows)
            (end,) = ends
            return None if made is None else [Term(1.0, end, made)]
        if len(set(parts)) > 1:
            return None
        found = []
        for term in forms[0] or ():
            if term.end == "e":
                return None
            made = self._on_nodes(value, {parts[0]: term.rows})
            if made is None or self._kinds.of(made) != LINEAR:
                return None
            found.append(term._replace(rows=made))
        return found

    def _on_nodes(
        self, value: Value, rows: dict[Value, Value]
    ) -> Value | None:
        """Write an operation on edges as the same operation on nodes."""
        for part, source in rows.items():
            if source.row_dim != 0 or source.dims[1:] != part.dims[1:]:
                return None

        def move(leaf: Any) -> Any:
            if not isinstance(leaf, Value):
                return leaf
            if leaf.op == "number":
                return self._number
            return rows.get(leaf, leaf)

        args, kwargs = replace((value.args, value.kwargs), move)
        try:
            return self._new(
                value.op, value.target, args, ("N", *value.dims[1:]), value,
                kwargs,
            )  # fmt: skip
        except Exception:
            return None

    # Writing values

    def _write(self, value: Value, terms: list[Term]) -> None:
        """Turn an aggregation into a sum of filters."""
        parts = [self._sum(term, value) for term in terms]
        # Terms with one value and one filter are written once.
        total = parts[0]
        for part in parts[1:-1]:
            total = self._call(operator.add, (total, part), value.dims)
        last = (operator.add, (total, parts[-1]))
        if len(parts) == 1:
            last = (operator.mul, (total, 1.0))
            if total.op == "aggregate":
                value.target, value.args = total.target, total.args
                self._made.remove(total)
                return
        found = last[0](*(getattr(a, "example", a) for a in last[1]))
        if not close(found, value.example):
            self._made = []
            return
        value.op, value.target, value.args = "call", *last

    def _sum(self, term: Term, where: Value) -> Value:
        """Write the sum of a term over incoming edges."""
        rows, weight, dims = term.rows, term.weight, where.dims
        if term.end == "e":
            if weight is not None:
                rows = self._call(
                    operator.mul, (self._as_column(weight, rows), rows),
                    rows.dims,
                )  # fmt: skip
            made = self._aggregate("copy_rhs", (None, rows), dims)
        elif term.end == "u":
            if weight is None:
                made = self._aggregate("copy_lhs", (rows, None), dims)
            else:
                weight = self._as_column(weight, rows)
                made = self._aggregate("mul", (rows, weight), dims)
        else:
            column = ("N", *[1] * (len(dims) - 1))
            if weight is None:
                count = self._new(
                    "graph", (self._graph, "in_degrees"), (), ("N",), where
                )
                to = torch.Tensor.to
                dtype = rows.example.dtype
                count = self._call(to, (count, dtype), ("N",))
            else:
                flat = self._as_column(weight, None)
                count = self._aggregate("copy_rhs", (None, flat), ("N",))
            shape = (count, (-1, *column[1:]))
            count = self._call(torch.Tensor.reshape, shape, column)
            made = self._call(operator.mul, (rows, count), dims)
        if term.factor == 1:
            return made
        return self._call(operator.mul, (made, term.factor), dims)

    def _as_column(self, weight: Value, rows: Value | None) -> Value:
        """Return a weight with as many dimensions as the rows have."""
        ones = 0 if rows is None else len(rows.dims) - 1
        dims = ("E", *[1] * ones)
        if weight.dims == dims:
            return weight
        shape = (weight, (-1, *dims[1:]))
        return self._call(torch.Tensor.reshape, shape, dims)

    def _aggregate(self, op: str, args: tuple, dims: tuple) -> Value:
        target = (self._graph, op, "sum")
        like = next(arg for arg in args if arg is not None)
        return self._new("aggregate", target, args, dims, like)

    def _call(self, function: Callable, args: tuple, dims: tuple) -> Value:
        like = next(arg for arg in args if isinstance(arg, Value))
        return self._new("call", function, args, dims, like)

    def _new(
        self, op: str, target: Any, args: tuple, dims: tuple, like: Value,
        kwargs: dict | None = None,
    ) -> Value:  # fmt: skip
        """Add a value to the trace, with its result on the probe."""
        made = Value(
            self._next_id, op, target, args, kwargs or {}, like.where, None,
            data=True, dims=dims,
        )  # fmt: skip
        used = arguments_of(made)
        made.random = any(v.random for v in used)
        made.learned = any(v.learned for v in used)
        if op == "module":
            made.learned = like.learned
        made.example = self._compute(made)
        self._next_id += 1
        self._made.append(made)
        return made


_BINARY = {
    operator.add: "add", operator.sub: "sub", operator.mul: "mul",
    operator.truediv: "div",
}  # fmt: skip


def _scaled(form: Form, factor: float) -> Form:
    if form is None:
        return None
    return [term._replace(factor=factor * term.factor) for term in form]


def _same_width(arg: Value, dims: tuple) -> bool:
    """Return whether a product has the width of one of its factors."""
    return arg.dims[1:] == dims[1:]


def _is_filter(rows: Any, weight: Any) -> bool:
    """Return whether an aggregation is a filter as it is."""
    if not isinstance(rows, Value):
        return False
    return weight is None or (isinstance(weight, Value) and weight.static)


def flat_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Multiply two edge weights, whatever their shapes."""
    return a.reshape(-1) * b.reshape(-1)
