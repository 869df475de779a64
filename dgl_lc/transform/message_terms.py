"""Finding the terms of a message: fixed weights times values of nodes.

A message that a user computes for each edge is often a sum of terms, each of
them a fixed weight times a value of the edge's source or target:

- f(h_u), for any function f of each row, is f on nodes, then a copy to edges;
- W (w_e h_u), for linear functions, is w_e times (W h) of the source;
- a bias b, or any other value that does not depend on nodes, is b itself;
- W f_e, for a static value f of edges, is W on nodes, after the sum of f;
- E[t_e], for a learned table E and types of edges, is E times the number of
  edges of each type (:mod:`.edge_tables`).
"""

import operator
from typing import Any

import torch
from torch import nn

from ..row_programs.typed_products import typed_product
from .edge_columns import terms_of_columns
from .edge_tables import (
    channel_terms,
    lookup_term,
    on_table,
    product_terms,
    typed_terms,
)
from .end_products import end_products, sums_of_columns
from .linearity import LINEAR
from .made_values import MadeValues
from .recognise import OperationKinds
from .refusals import LCError
from .scattered_edges import Ends, copied_rows, of_edges
from .terms import (
    Form,
    Term,
    bias_term,
    is_zero,
    joined_terms,
    on_bias,
    on_rows,
    same_width,
    scaled,
    sum_of_edges,
    summed_term,
    weighted,
    without_bias,
)
from .tracing.values import Value, after_parts, arguments_of, replace


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
        if not value.static:
            return self._split(value)
        try:
            found = self._split_static(value)
        except LCError:
            found = None
        return found or [Term(1.0, "e", value)]

    def _split_static(self, value: Value) -> Form:
        """Return the terms of the two ends in a static value, if it has any.

        A layer on the message is then one on nodes, after filters.
        """
        if not isinstance(value.example, torch.Tensor):
            return None
        moved = self._through(value) if value.op == "call" else None
        if moved is None and value.example.is_floating_point():
            moved = self._split(value)
        plain = moved and all(term.end in "uve" for term in moved)
        return moved if plain else None

    def _split(self, value: Value) -> Form:
        """Return the terms of an operation, whose parts are known."""
        if value.op == "edges":
            graph, op, left, right = value.target
            if graph != self._graph:
                return None
            return self.of_operands(op, value.args, (left, right), value.dims)
        if value.op not in ("call", "module") or value.draws:
            return None
        args, target = value.args, value.target
        if target is typed_product:
            rows, *others = args
            return typed_terms(self._values, self._known(rows), rows, *others)
        module = self._kinds.module(value) if value.op == "module" else None
        looked_up = lookup_term(value, self._values, module)
        if looked_up is not None:
            return looked_up
        if value.name in ("matmul", "bmm") and len(args) == 2:
            a, b = map(self._known, args)
            found = self._products(operator.matmul, a, b, args, value.dims)
            if found is not None:
                return found
        if value.name in ("cat", "concat", "concatenate"):
            return self._through(value) or joined_terms(
                self._values, value, self._known
            )
        if value.op == "call" and not value.kwargs:
            if value.name == "square" or (
                value.name == "pow" and len(args) == 2 and args[1] == 2
            ):
                a = self._known(args[0])
                found = end_products(
                    self._values, self._graph, a, a, value.dims
                )
                return found or self._through(value)
            if target is operator.neg:
                return scaled(self._known(args[0]), -1.0)
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
            a, b = a or bias_term(x), b or bias_term(y)
            if a is None or b is None:
                return None
            if any(arg.data and len(arg.dims) != len(dims) for arg in args):
                return None
            sign = 1.0 if op == "add" else -1.0
            return [*a, *(scaled(b, sign) or [])]
        if op == "dot" and a is not None and b is not None:
            wide = ("E", *torch.broadcast_shapes(x.dims[1:], y.dims[1:]))
            found = end_products(self._values, self._graph, a, b, wide)
            return sums_of_columns(self._values, found)
        if op == "mul" and a is not None:
            if type(y) in (int, float):
                return scaled(a, float(y))
            weight = self._weight(b, y)
            if weight is not None and same_width(x, dims):
                return weighted(self._values, a, weight)
            if b is not None:
                found = end_products(self._values, self._graph, a, b, dims)
                if found is not None:
                    return found
            if isinstance(y, Value) and of_edges(y) and y.static:
                return channel_terms(self._values, a, y, dims)
        if op == "mul" and b is not None:
            if type(x) in (int, float):
                return scaled(b, float(x))
            weight = self._weight(a, x)
            if weight is not None and same_width(y, dims):
                return weighted(self._values, b, weight)
            if isinstance(x, Value) and of_edges(x) and x.static:
                return channel_terms(self._values, b, x, dims)
        if op == "mul":
            return self._products(operator.mul, a, b, args, dims)
        if op == "div" and a is not None:
            if type(y) in (int, float) and y:
                return scaled(a, 1.0 / y)
            weight = self._weight(b, y)
            if weight is not None and same_width(x, dims):
                return weighted(self._values, a, self._inverse(weight))
        return None

    def _products(
        self, function: Any, a: Form, b: Form, args: tuple, dims: tuple
    ) -> Form:
        """Return the terms of a product with learned rows, in either order."""
        pairs = [(a, b, args[1])]
        if function is operator.mul:
            pairs.append((b, a, args[0]))
        for nodes, rows, arg in pairs:
            if rows and any(term.end == "s" for term in rows):
                # A layer on features of edges: a filter for each column.
                rows = terms_of_columns(self._values, self._kinds, arg)
            found = product_terms(self._values, function, nodes, rows, dims)
            if found is not None:
                return found
        return None

    def _weight(self, form: Form, arg: Any) -> Value | None:
        """Return static numbers, one for each edge, if an operand is that."""
        if not isinstance(arg, Value) or not arg.static:
            return None
        if any(d != 1 for d in arg.dims[1:]) or not form:
            return None
        if of_edges(arg):
            return arg
        if len(form) > 1:
            return None
        end = form[0].end
        op, place = ("copy_lhs", 0) if end == "u" else ("copy_rhs", 1)
        pair = (arg, None) if place == 0 else (None, arg)
        target = (self._graph, op, "u", "v")
        dims = ("E", *arg.dims[1:])
        return self._values.make("edges", target, pair, dims, arg)

    def _where(self, condition: Any, a: Any, b: Any, dims: tuple) -> Form:
        """Return the terms of a choice for each edge, by a static mask."""
        found: list[Term] = []
        for arg, chosen in ((a, True), (b, False)):
            form = self._known(arg)
            if is_zero(arg):
                continue
            if form is None or not same_width(arg, dims):
                return None
            if self._weight([Term(1.0, "e", condition)], condition) is None:
                return None
            mask = condition
            if not chosen:
                mask = self._values.call(torch.logical_not, (mask,), mask.dims)
            dtype = arg.example.dtype
            mask = self._values.call(torch.Tensor.to, (mask, dtype), mask.dims)
            chosen_terms = weighted(self._values, form, mask)
            if chosen_terms is None:
                return None
            found.extend(chosen_terms)
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
        found = self._on_terms(value, parts, [form or [] for form in forms])
        if found is None and parts[0].static and not value.static:
            # A static value of edges may be taken as it is.
            whole = [Term(1.0, "e", parts[0])]
            found = self._on_terms(value, parts, [whole])
        return found

    def _on_terms(
        self, value: Value, parts: list[Value], forms: list[list[Term]]
    ) -> Form:
        """Apply a function of each row to the terms of its arguments."""
        firsts = [form[0] for form in forms]
        plain = all(
            len(form) == 1 and form[0][::3] == (1.0, None) for form in forms
        )
        ends = {term.end for term in firsts}
        if plain and len(ends) == 1 and ends <= {"u", "v"}:
            rows = {p: t.rows for p, t in zip(parts, firsts, strict=True)}
            made = self._on_nodes(value, rows)
            (end,) = ends
            return None if made is None else [Term(1.0, end, made)]
        if len(set(parts)) > 1:
            return None
        if plain and ends == {"t"}:
            made = self._on_table(value, parts[0], firsts[0].rows)
            return None if made is None else [firsts[0]._replace(rows=made)]
        found: list[Term] = []
        module = self._kinds.module(value) if value.op == "module" else None
        split, has_bias = without_bias(self._values, value, module), False
        for term in forms[0]:
            if value.static and term.end in "1e":
                return None
            if term.end == "1":
                # Whether the function is linear is seen at the other terms.
                layer = split[0] if split else value
                made = on_bias(self._values, layer, parts[0], term.rows)
                if made is None or len(forms[0]) == 1:
                    return None
                found.append(term._replace(rows=made))
                continue
            if term.end == "t":
                layer = split[0] if split else value
                made = self._on_table(layer, parts[0], term.rows)
                unseen = all(t.end in "1t" for t in forms[0])
                if made is None or (unseen and value.name not in _SHAPES):
                    return None
                found.append(term._replace(rows=made))
                continue
            if term.end == "e":
                if not term.rows.example.is_floating_point():
                    return None
                term = self._sum_first(term)
            rows = {parts[0]: term.rows}
            copied = not parts[0].static and term[::3] == (1.0, None)
            copied = copied and term.end != "s"
            if split is not None and not has_bias and copied:
                # The bias of a layer is added once, with the first term.
                made = self._on_nodes(value, rows)
            else:
                layer = split[0] if split else value
                made = self._on_nodes(layer, rows)
                if made is not None and self._kinds.of(made) != LINEAR:
                    return None
                if split is not None and not has_bias:
                    found.append(Term(1.0, "1", split[1]))
            has_bias = True
            if made is None:
                return None
            if term.summed is None:
                found.append(term._replace(rows=made))
            else:
                found.append(self._on_sum(layer, parts[0], term))
        return found

    def _sum_first(self, term: Term) -> Term:
        """Turn a static value of edges into one that is summed first."""

        def summed(weight: Value | None) -> Value:
            return sum_of_edges(self._values, self._graph, term.rows, weight)

        return summed_term(term.factor, term.weight, summed)

    def _on_sum(self, layer: Value, part: Value, term: Term) -> Term:
        """Apply a linear function to a sum over edges."""

        def function(rows: Value) -> Value:
            made = self._on_nodes(layer, {part: rows})
            assert made is not None
            return made

        return on_rows(term, function)

    def _on_table(
        self, value: Value, part: Value, table: Value
    ) -> Value | None:
        """Apply a function of each row to the rows of a table."""
        if value.op == "module":
            module = self._kinds.module(value)
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                # Its statistics would be those of the table.
                return None
        return on_table(self._values, value, part, table)

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


#: Functions that give rows another shape, and are linear.
_SHAPES = frozenset({"reshape", "view", "unsqueeze", "squeeze", "flatten"})

_BINARY = {
    operator.add: "add", operator.sub: "sub", operator.mul: "mul",
    operator.truediv: "div",
}  # fmt: skip
