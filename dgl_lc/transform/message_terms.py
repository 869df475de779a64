"""Finding the terms of a message: fixed weights times values of nodes.

A message that a user computes for each edge is often a sum of terms, each of
them a fixed weight times a value of the edge's source or target:

- f(h_u), for any function f of each row, is f on nodes, then a copy to edges;
- W (w_e h_u), for linear functions, is w_e times (W h) of the source;
- a bias b, or any other value that does not depend on nodes, is b itself.
"""

import dataclasses
import operator
from typing import Any, NamedTuple

import torch
from torch import nn

from .linearity import LINEAR
from .made_values import MadeValues
from .recognise import OperationKinds
from .scattered_edges import Ends, copied_rows, of_edges
from .tracing.typed_products import typed_product
from .tracing.values import Value, after_parts, arguments_of, replace


class Term(NamedTuple):
    """A term of a message: a weight times a value of one end of the edge.

    ``rows`` is the value of nodes, and ``end`` is "u" or "v"; for a static
    value of edges, ``rows`` is that value, and ``end`` is "e". For a bias,
    which is the same on every edge, ``rows`` is the bias, and ``end`` is "1".
    """

    factor: float
    end: str
    rows: Value
    weight: Value | None = None


#: The terms of a message; None if it is not a sum of such terms.
Form = list[Term] | None


class TermFinder:
    """Finds the terms of messages that are sent on one graph."""

    def __init__(
        self, graph: Any, values: MadeValues, kinds: OperationKinds,
        ends: Ends | None = None,
    ) -> None:  # fmt: skip
        self._graph, self._values, self._kinds = graph, values, kinds
        self._ends = ends
        self._forms: dict[int, Form] = {}

    def of(self, value: Value) -> Form:
        """Return the terms of a value of edges."""
        return after_parts(value, self._forms, self._parts, self._terms)

    def _parts(self, value: Value) -> list[Value]:
        if value.op not in ("call", "module"):
            return []
        return [v for v in arguments_of(value) if of_edges(v)]

    def _terms(self, value: Value) -> Form:
        """Return the terms of a value, whose parts are known."""
        if value.trouble or not of_edges(value):
            return None
        copied = copied_rows(value, self._ends)
        if copied is not None and copied[0] == self._graph:
            _, end, rows = copied
            return [Term(1.0, end, rows)]
        if value.static:
            moved = self._through(value) if value.op == "call" else None
            return moved or [Term(1.0, "e", value)]
        if value.op == "edges":
            graph, op, left, right = value.target
            if graph != self._graph:
                return None
            return self.of_operands(op, value.args, (left, right), value.dims)
        if value.op not in ("call", "module") or value.draws:
            return None
        args, target = value.args, value.target
        if target is typed_product:
            return self._typed(*args)
        if value.name in ("cat", "concat", "concatenate"):
            return self._through(value) or self._joined(value)
        if value.op == "call" and not value.kwargs:
            if target is operator.neg:
                return _scaled(self._known(args[0]), -1.0)
            if target in (torch.where, torch.Tensor.where) and len(args) == 3:
                return self._where(*args, value.dims)
            name = _BINARY.get(target)
            if name is not None and len(args) == 2:
                found = self._combine(
                    name, [*map(self._known, args)], args, value.dims
                )
                if found is not None:
                    return found
        return self._through(value)

    def _known(self, arg: Any) -> Form:
        """Return the terms of an argument, which are known."""
        if not isinstance(arg, Value) or not of_edges(arg):
            return None
        return self._forms.get(arg.id)

    def of_operands(
        self, op: str, args: tuple, ends: tuple[str, str], dims: tuple
    ) -> Form:
        """Return the terms of an operation of DGL on the ends of edges."""
        forms: list[Form] = []
        for arg, end in zip(args, ends, strict=True):
            if not isinstance(arg, Value):
                forms.append(None)
            elif end == "e":
                forms.append(self.of(arg))
            else:
                forms.append([Term(1.0, end, arg)])
        if op == "copy_lhs":
            return forms[0]
        if op == "copy_rhs":
            return forms[1]
        return self._combine(op, forms, args, dims)

    def _combine(
        self, op: str, forms: list[Form], args: tuple, dims: tuple
    ) -> Form:
        """Return the terms of a sum, a product or a quotient."""
        (a, b), (x, y) = forms, args
        if op in ("add", "sub"):
            a, b = a or _bias(x), b or _bias(y)
            if a is None or b is None:
                return None
            of_edges = [arg for arg in args if arg.data]
            if any(len(arg.dims) != len(dims) for arg in of_edges):
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
        if of_edges(arg):
            return arg
        end = form[0].end
        op, place = ("copy_lhs", 0) if end == "u" else ("copy_rhs", 1)
        pair = (arg, None) if place == 0 else (None, arg)
        target = (self._graph, op, "u", "v")
        dims = ("E", *arg.dims[1:])
        return self._values.make("edges", target, pair, dims, arg)

    def _weighted(self, form: Form, weight: Value) -> Form:
        """Multiply terms by a weight of each edge."""
        found: list[Term] = []
        for term in form or ():
            its = weight
            if term.weight is not None:
                pair = (term.weight, weight)
                its = self._values.call(flat_product, pair, ("E",))
            found.append(term._replace(weight=its))
        kept = [
            t for t in found if t.weight and not self._values.is_zero(t.weight)
        ]
        return kept or found

    def _typed(
        self, rows: Value, weights: Value, types: Any, blocks: tuple | None
    ) -> Form:
        """Return the terms of a product with the matrix of an edge's type."""
        form = self._known(rows)
        if not form or any(term.end in "e1" for term in form):
            return None
        if not isinstance(types, Value) or types.dims != ("E",):
            return None
        found: list[Term] = []
        call = self._values.call
        for number in range(len(weights.example)):
            own = call(operator.eq, (types, number), ("E",))
            mask = call(torch.Tensor.to, (own, rows.example.dtype), ("E",))
            shape = tuple(weights.example.shape[1:])
            matrix = call(operator.getitem, (weights, number), shape)
            for term in self._weighted(form, mask) or ():
                made = self._times(term.rows, matrix, blocks)
                found.append(term._replace(rows=made))
        kept = [t for t in found if t.weight and t.weight.example.any()]
        return kept or found

    def _times(self, rows: Value, matrix: Value, blocks: tuple | None) -> Value:
        """Write the product of rows of nodes and a matrix, or its blocks."""
        call = self._values.call
        if blocks is None:
            out = matrix.dims[-1]
            return call(operator.matmul, (rows, matrix), ("N", out))
        number, width, out = blocks
        matrix = call(torch.Tensor.reshape, (matrix, blocks), blocks)
        parts = tuple(
            call(operator.getitem, (matrix, block), (width, out))
            for block in range(number)
        )
        dims = (number * width, number * out)
        whole = call(torch.block_diag, parts, dims)
        return call(operator.matmul, (rows, whole), ("N", number * out))

    def _where(self, condition: Any, a: Any, b: Any, dims: tuple) -> Form:
        """Return the terms of a choice for each edge, by a static mask."""
        found: list[Term] = []
        for arg, chosen in ((a, True), (b, False)):
            form = self._known(arg)
            if _is_zero(arg):
                continue
            if form is None or not _same_width(arg, dims):
                return None
            if self._weight([Term(1.0, "e", condition)], condition) is None:
                return None
            mask = condition
            if not chosen:
                mask = self._values.call(torch.logical_not, (mask,), mask.dims)
            dtype = arg.example.dtype
            mask = self._values.call(torch.Tensor.to, (mask, dtype), mask.dims)
            found.extend(self._weighted(form, mask) or ())
        return found or None

    def _inverse(self, weight: Value) -> Value:
        return self._values.call(torch.reciprocal, (weight,), weight.dims)

    def _through(self, value: Value) -> Form:
        """Return the terms of a function of each row, if it is one.

        It is applied to values of nodes instead. If the message is more than
        a copy of one end's value, the function has to be linear.
        """
        parts = [v for v in arguments_of(value) if of_edges(v)]
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
        if plain and len(ends) == 1 and not ends & {"e", "1"}:
            rows = {p: t.rows for p, t in zip(parts, firsts, strict=True)}
            made = self._on_nodes(value, rows)
            (end,) = ends
            return None if made is None else [Term(1.0, end, made)]
        if len(set(parts)) > 1 or value.static:
            return None
        found: list[Term] = []
        split = self._without_bias(value)
        for term in forms[0] or ():
            if term.end in "e1":
                return None
            rows = {parts[0]: term.rows}
            if split is not None and not found and term[::3] == (1.0, None):
                # The bias of a layer is added once, with the first term.
                made = self._on_nodes(value, rows)
            else:
                made = self._on_nodes(split[0] if split else value, rows)
                if made is not None and self._kinds.of(made) != LINEAR:
                    return None
                if split is not None and not found:
                    found.append(Term(1.0, "1", split[1]))
            if made is None:
                return None
            found.append(term._replace(rows=made))
        return found

    def _without_bias(self, value: Value) -> tuple[Value, Value] | None:
        """Return (layer without a bias, bias) of a linear layer with one."""
        linear = nn.functional.linear
        if value.op == "module":
            module = self._kinds.module(value)
            if not isinstance(module, nn.Linear) or module.bias is None:
                return None
            weight = self._values.parameter(f"{value.target}.weight", value)
            bias = self._values.parameter(f"{value.target}.bias", value)
            args = (value.args[0], weight)
        elif value.target is linear and len(value.args) == 3:
            args, bias = value.args[:2], value.args[2]
        else:
            return None
        if not isinstance(bias, Value) or bias.data:
            return None
        layer = dataclasses.replace(
            value, op="call", target=linear, args=args, kwargs={}
        )
        return layer, bias

    def _joined(self, value: Value) -> Form:
        """Return the terms of joined columns, each beside columns of zeros."""
        dim = value.kwargs.get("dim", (*value.args, 0, 0)[1])
        if len(value.dims) != 2 or dim not in (1, -1):
            return None
        parts = value.args[0]
        widths = [part.dims[-1] for part in parts]
        found: list[Term] = []
        for place, part in enumerate(parts):
            form = self._known(part)
            if not form or any(term.end in "e1" for term in form):
                return None
            around = (sum(widths[:place]), sum(widths[place + 1 :]))
            for term in form:
                pad = (term.rows, around)
                dims = ("N", sum(widths))
                made = self._values.call(nn.functional.pad, pad, dims)
                found.append(term._replace(rows=made))
        return found

    def _on_nodes(self, value: Value, rows: dict[Value, Value]) -> Value | None:
        """Write an operation on edges as the same operation on nodes."""
        for part, source in rows.items():
            if source.row_dim != 0 or source.dims[1:] != part.dims[1:]:
                return None

        def move(leaf: Any) -> Any:
            if not isinstance(leaf, Value):
                return leaf
            if leaf.op == "number":
                return self._values.number
            return rows.get(leaf, leaf)

        args, kwargs = replace((value.args, value.kwargs), move)
        try:
            return self._values.make(
                value.op, value.target, args, ("N", *value.dims[1:]), value,
                kwargs,
            )  # fmt: skip
        except Exception:
            return None


_BINARY = {
    operator.add: "add", operator.sub: "sub", operator.mul: "mul",
    operator.truediv: "div",
}  # fmt: skip


def _scaled(form: Form, factor: float) -> Form:
    if form is None:
        return None
    return [term._replace(factor=factor * term.factor) for term in form]


def _bias(arg: Any) -> Form:
    """Return the term of a value that is the same on every edge."""
    if not isinstance(arg, Value) or arg.data or arg.random or arg.trouble:
        return None
    if not isinstance(arg.example, torch.Tensor):
        return None
    return [Term(1.0, "1", arg)]


def _same_width(arg: Value, dims: tuple) -> bool:
    """Return whether a product has the width of one of its factors."""
    return arg.dims[1:] == dims[1:]


def _is_zero(arg: Any) -> bool:
    """Return whether it is the number zero, or a tensor made by zeros."""
    if isinstance(arg, Value):
        return arg.op == "call" and arg.target is torch.zeros
    return type(arg) in (int, float) and arg == 0


def flat_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Multiply two edge weights, whatever their shapes."""
    return a.reshape(-1) * b.reshape(-1)
