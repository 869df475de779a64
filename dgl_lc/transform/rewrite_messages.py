"""Rewriting sums of messages as filters and operations on nodes.

:mod:`.message_terms` finds the terms of a message. Summed over the incoming
edges of a node,

- the terms w_e h_u are a filter, applied to h;
- the terms w_e h_v are h, scaled by the sum of the weights;
- the terms w_e b, of a bias, are b, scaled by the sum of the weights;
- the terms W f_e, of a layer on static values of edges, are W of their sum;
- the terms E[t_e], of a table, are E times the number of edges of each type;
- products of both ends, h_u * h_v, are h_v times the sum of h_u
  (:mod:`.end_products`).

The trace is changed: aggregations of such messages become filters, products
and sums of nodes' values, which :mod:`.find_filters` and :mod:`.push` know.
So do products with a static matrix, and sums by ``index_add``.
"""

import operator
from typing import Any

import torch

from .categories import count_categories
from .edge_tables import sum_of_rows
from .linearity import close
from .made_values import MadeValues
from .matrix_filters import is_product, matrix_entries, matrix_key
from .message_terms import TermFinder
from .picked_edges import is_write, written_edges
from .recognise import OperationKinds
from .refusals import LCError
from .scattered_edges import Ends, edges_of, scattered
from .terms import Form, Term, as_column, sum_of_edges
from .tracing.model_call import ModelCall
from .tracing.values import Trace, Value, arguments_of, values_in


def rewrite_messages(trace: Trace, probe: ModelCall) -> None:
    """Rewrite aggregations of messages as filters, where that is possible."""
    _Rewriter(trace, probe).run()


class _Rewriter:
    """Writes sums of messages as values of nodes."""

    def __init__(self, trace: Trace, probe: ModelCall) -> None:
        self._trace, self._model = trace, probe.model
        self._kinds = OperationKinds(probe.model, probe.num_nodes)
        self._values = MadeValues(trace, probe)
        self._graph: Any = None
        #: The parts of sums that aggregations became.
        self._parts: dict[Value, list[Value]] = {}

    def run(self) -> None:
        """Rewrite all aggregations of the trace."""
        values: list[Value] = []
        for value in self._trace.values:
            if value.data and not value.trouble:
                self._rewrite(value)
                values.extend(self._values.take())
            values.append(value)
            if value.learned and not value.trouble:
                with torch.no_grad():
                    count_categories(value, self._values, self._model)
                values.extend(self._values.take())
        self._trace.values[:] = _used(self._trace, values)
        for number, value in enumerate(self._trace.values):
            value.id = number

    def _rewrite(self, value: Value) -> None:
        """Rewrite an aggregation, if its messages are a sum of terms."""
        try:
            with torch.no_grad():
                if value.op == "aggregate":
                    self._aggregation(value)
                elif is_write(value):
                    self._written_edges(value)
                elif is_product(value):
                    self._product(value)
                elif value.row_dim:
                    self._scale_other_dim(value)
                elif (
                    value.args
                    and isinstance(value.args[0], Value)
                    and (value.args[0] in self._parts)
                ):
                    self._scale_parts(value)
                else:
                    self._scatter(value)
        except LCError:
            # The value is refused later, with a reason.
            self._values.drop()

    def _aggregation(self, value: Value) -> None:
        """Rewrite an aggregation of DGL."""
        self._graph, op, reduce = value.target
        left, right = value.args
        if reduce != "sum" or value.row_dim is None:
            return
        if op in ("copy_lhs", "mul", "div") and _is_filter(left, right):
            return
        terms = self._terms().of_operands(
            op, (left, right), ("u", "e"), value.dims
        )
        self._write(value, terms)

    def _scale_parts(self, value: Value) -> None:
        """Scale each part of a sum of messages, as in a mean.

        A norm next to a filter is a part of it, and beside a sum it is not.
        """
        if value.target not in (operator.mul, operator.truediv):
            return
        source, factor = value.args
        if not _is_column(factor, 0) or value.dims != source.dims:
            return
        scaled = [
            self._values.call(value.target, (part, factor), value.dims)
            for part in self._parts[source]
            if part.dims == source.dims
        ]
        if len(scaled) == len(self._parts[source]):
            self._add_up(value, scaled)

    def _scale_other_dim(self, value: Value) -> None:
        """Scale rows of nodes in another dimension as in the first one.

        So that a norm of shape (1, N, 1) is a part of a filter, too.
        """
        if value.target not in (operator.mul, operator.truediv):
            return
        if len(value.args) != 2 or value.kwargs:
            return
        rows, factor = value.args
        dim = value.row_dim
        assert dim is not None
        if value.target is operator.mul and _is_column(rows, dim):
            rows, factor = factor, rows
        if not _is_column(factor, dim) or not isinstance(rows, Value):
            return
        if rows.dims != value.dims or len(factor.dims) != len(rows.dims):
            return

        def swap(leaf: Value) -> Value:
            dims = list(leaf.dims)
            dims[0], dims[dim] = dims[dim], dims[0]
            swapped = (leaf, 0, dim)
            return self._values.call(torch.transpose, swapped, tuple(dims))

        first, column = swap(rows), swap(factor)
        made = self._values.call(value.target, (first, column), first.dims)
        value.op, value.target = "call", torch.transpose
        value.args, value.kwargs = (made, 0, dim), {}

    def _written_edges(self, value: Value) -> None:
        """Rewrite a write into some edges as a choice for all edges."""
        rows = len(value.example)
        count = next(
            (v for v in self._trace.values
             if _is_edges(v) and v.example == rows), None,
        )  # fmt: skip
        chosen = written_edges(value, self._values, self._kinds, count)
        if chosen is not None:
            found = torch.where(*(v.example for v in chosen))
            self._replace(value, found, ("call", torch.where, chosen))

    def _product(self, value: Value) -> None:
        """Rewrite the product of a static matrix and rows of nodes."""
        matrix, rows = value.args
        self._graph = matrix_key(self._users_graph(), matrix)
        entries = self._values.call(matrix_entries, (matrix,), ("E",))
        self._write(value, [Term(1.0, "u", rows, entries)])

    def _scatter(self, value: Value) -> None:
        """Rewrite a sum of messages by ``index_add`` or ``scatter_add``."""
        found = scattered(value)
        if found is None:
            return
        index, messages = found
        sent = edges_of(self._users_graph(), index, messages)
        if sent is not None:
            self._graph, ends = sent
            self._write(value, self._terms(ends).of(messages))

    def _terms(self, ends: Ends | None = None) -> TermFinder:
        """Return what finds the terms of messages on the present graph."""
        return TermFinder(self._graph, self._values, self._kinds, ends)

    def _users_graph(self) -> str:
        """Return the name of a graph of the user's."""
        name = next(v.target[1] for v in self._trace.values if _is_edges(v))
        while not isinstance(name, str):
            name = name[1]
        return name

    def _write(self, value: Value, terms: Form) -> None:
        """Turn an aggregation into a sum of filters."""
        if not terms or (value.static and not _is_one_filter(terms)):
            self._values.drop()
            return
        parts = [self._sum(term, value) for term in terms]
        if len(parts) == 1 and parts[0].op == "aggregate":
            found, last = parts[0].example, parts[0]
            written = (last.op, last.target, last.args)
            self._replace(value, found, written)
        elif self._add_up(value, parts) and len(parts) > 1:
            self._parts[value] = parts

    def _add_up(self, value: Value, parts: list[Value]) -> bool:
        """Turn a value into a sum of others, if it is one."""
        total: Any = parts[0]
        for part in parts[1:-1]:
            wide = torch.broadcast_shapes(total.dims[1:], part.dims[1:])
            total = self._values.call(operator.add, (total, part), ("N", *wide))
        pair = (total, parts[-1]) if len(parts) > 1 else (total, 1.0)
        function = operator.add if len(parts) > 1 else operator.mul
        found = function(*(getattr(arg, "example", arg) for arg in pair))
        return self._replace(value, found, ("call", function, pair))

    def _replace(
        self, value: Value, found: torch.Tensor, written: tuple
    ) -> bool:
        """Write a value in another way, if the result is the same."""
        if not close(found, value.example):
            # A rule above is wrong for this message, or needs other shapes.
            self._values.drop()
            return False
        value.op, value.target, value.args = written
        value.kwargs = {}
        return True

    def _sum(self, term: Term, where: Value) -> Value:
        """Write the sum of a term over incoming edges."""
        rows, weight = term.rows, term.weight
        dims = ("N", *rows.dims[1:])
        if term.end == "1":
            # One in-edge more is one more bias.
            ones = (1,) * (len(where.dims) - 1)
            total = self._total(weight, where, ones, rows.example.dtype)
            dims = ("N", *torch.broadcast_shapes(ones, rows.dims))
            made = self._values.call(operator.mul, (total, rows), dims)
        elif term.end == "v":
            ones = (1,) * (len(rows.dims) - 1)
            total = self._total(weight, where, ones, rows.example.dtype)
            made = self._values.call(operator.mul, (rows, total), dims)
        elif term.end == "e":
            made = sum_of_edges(self._values, self._graph, rows, weight)
        elif term.end == "s":
            made = rows
        elif term.end == "t":
            made = sum_of_rows(self._values, self._graph, term)
            dims = made.dims
        elif weight is None:
            made = self._aggregate("copy_lhs", (rows, None), dims)
        else:
            pair = (rows, as_column(self._values, weight, rows))
            made = self._aggregate("mul", pair, dims)
        if term.factor == 1:
            return made
        return self._values.call(operator.mul, (made, term.factor), dims)

    def _total(
        self, weight: Value | None, where: Value, ones: tuple[int, ...],
        dtype: torch.dtype,
    ) -> Value:  # fmt: skip
        """Write the sum of the weights of a node's in-edges, as a column.

        ``ones`` are the sizes of its other dimensions.
        """
        if weight is None:
            target = (self._graph, "in_degrees")
            count = self._values.make("graph", target, (), ("N",), where)
            pair = (count, dtype)
            total = self._values.call(torch.Tensor.to, pair, ("N",))
        else:
            flat = as_column(self._values, weight, None)
            total = self._aggregate("copy_rhs", (None, flat), ("N",))
        reshape = torch.Tensor.reshape
        return self._values.call(reshape, (total, (-1, *ones)), ("N", *ones))

    def _aggregate(self, op: str, args: tuple, dims: tuple) -> Value:
        return self._values.aggregate(self._graph, op, args, dims)


#: Operations whose results are left out if nothing depends on them.
_COMPUTED = frozenset({
    "call", "module", "edges", "aggregate", "softmax", "graph",
})  # fmt: skip


def _used(trace: Trace, values: list[Value]) -> list[Value]:
    """Return the values that the output or a branch depends on.

    Messages that became filters are left out. If the model did not reach its
    end, all values are returned.
    """
    pending = values_in(trace.output)
    if not pending:
        return values
    pending += [guard.value for guard in trace.guards]
    kept = [v for v in values if v.op not in _COMPUTED]
    pending += values_in([v.target for v in kept])
    used: set[Value] = set()
    while pending:
        value = pending.pop()
        if value not in used:
            used.add(value)
            pending += arguments_of(value)
            if isinstance(value.counted, Value):
                pending.append(value.counted)
            # Keys of graphs may have values in them, such as masks of edges.
            pending += values_in(value.target)
    return [v for v in values if v in used or v.op not in _COMPUTED]


def _is_one_filter(terms: list[Term]) -> bool:
    """Return whether terms are one filter, applied to values of sources."""
    return len(terms) == 1 and terms[0].end == "u" and terms[0].factor == 1


def _is_filter(rows: Any, weight: Any) -> bool:
    """Return whether an aggregation is a filter as it is."""
    if not isinstance(rows, Value):
        return False
    if weight is None:
        return True
    one_each = isinstance(weight, Value) and all(
        d == 1 for d in weight.dims[1:]
    )
    return one_each and weight.static


def _is_column(factor: Any, dim: int | None) -> bool:
    """Return whether it is static, with one number for each node."""
    if not isinstance(factor, Value) or not factor.static:
        return False
    others = [size for place, size in enumerate(factor.dims) if place != dim]
    return factor.row_dim == dim and all(size == 1 for size in others)


def _is_edges(value: Value) -> bool:
    """Return whether it is the number of edges of a graph."""
    return value.op == "number" and value.target != "N"
