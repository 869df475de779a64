"""Pushing filters through the model, down to its inputs.

A word is a product of letters: filters that are still to be applied to a
value. ``resolve(value, word)`` says what a value is once a word has been
swapped to its inside: an aggregation adds its letter to the word, a row-wise
operation is the same operation on its arguments at that word, and a static
value at a word is an input, to be precomputed.
"""

import operator
from dataclasses import dataclass, field
from typing import Any

import torch

from .evaluate import refuse_trouble
from .filter_words import Aggregate, Diagonal, Letter, Polynomial, Word, degree
from .linearity import LINEAR
from .recognise import OperationKinds
from .refusals import refuse
from .tracing.values import Trace, Value, leaves, values_in

#: What a value is a sum of: source -> word -> coefficient.
Form = dict[Value, dict[Word, float]]


@dataclass
class Pushed:
    """The model with its filters on its inputs.

    Attributes
    ----------
    needs : dict
        Row-wise operations, and the words they are needed at.
    inputs : list of (Value, Word)
        Static values, and the words they are needed at.
    folded : list of Polynomial
        Sums of filters that were made one filter.
    """

    trace: Trace
    kinds: OperationKinds
    needs: dict[Value, list[Word]] = field(default_factory=dict)
    inputs: list[tuple[Value, Word]] = field(default_factory=list)
    folded: list[Polynomial] = field(default_factory=list)
    ones: Value | None = None


#: Operations that only put rows together: their arguments are the inputs.
_TRANSPARENT = frozenset({"cat", "concat", "concatenate", "stack"})


class Pusher:
    """Decides, for every value and word, what is left of it.

    Parameters
    ----------
    fold : bool
        Make one filter of every polynomial with constant coefficients.
    exact_bias : bool
        Let a bias at a word be aggregated too, as S 1 b.
    """

    def __init__(
        self, trace: Trace, kinds: OperationKinds, fold: bool, exact_bias: bool
    ):
        self._trace = trace
        self._kinds = kinds
        self._fold = fold
        self._exact_bias = exact_bias
        self._forms: dict[int, Form] = {}
        self._attached: dict[int, bool] = {}
        self._letters: dict[int, tuple[Value, Letter] | None] = {}
        self.pushed = Pushed(trace, kinds)

    def push(self) -> Pushed:
        """Find all operations and inputs that the output needs."""
        pushed, needs = self.pushed, self.pushed.needs
        outputs = values_in(self._trace.output)
        if self._exact_bias:
            self.ones()
        _check_outputs(self._trace)
        for value in outputs:
            self._need(value, ())
        # Arguments have smaller ids, so one pass from the end will do.
        for value in reversed(self._trace.values):
            for word in needs.get(value, ()):
                for arg in values_in((value.args, value.kwargs)):
                    self._need(arg, word)
                if self.is_exact_bias(value, needs[value]):
                    self._need(self.ones(), word)
        pushed.inputs.sort(
            key=lambda item: (item[0].id, degree(item[1]), len(item[1]))
        )
        # In the order of the trace: a tuple comes before what is in it.
        for value in sorted(needs, key=lambda value: value.id):
            words = needs[value]
            words.sort(key=lambda word: (degree(word), len(word)))
            if value.op == "call" and value.target is operator.getitem:
                source = value.args[0]
                if not isinstance(source.example, torch.Tensor):
                    needs[value] = needs[source]
        if not pushed.inputs:
            refuse(
                "", "the output", "does not depend on the features",
                "Give the model its features: lc_transform(model, g, x)",
            )  # fmt: skip
        return pushed

    def _need(self, value: Value, word: Word) -> None:
        kind, value, word = self.resolve(value, word)
        if kind == "op":
            words = self.pushed.needs.setdefault(value, [])
            if word not in words:
                words.append(word)
        elif kind == "input" and (value, word) not in self.pushed.inputs:
            self.pushed.inputs.append((value, word))

    def ones(self) -> Value:
        """The column of ones, which a bias is a multiple of."""
        if self.pushed.ones is None:
            values = self._trace.values
            rows = next(v for v in values if v.target == "N")
            dtype = next(
                v.example.dtype
                for v in values
                if v.op in ("param", "input")
                and isinstance(v.example, torch.Tensor)
                and v.example.is_floating_point()
            )
            self.pushed.ones = Value(
                len(values), "call", torch.ones, ((rows, 1),),
                {"dtype": dtype}, "", torch.ones(rows.example, 1, dtype=dtype),
                data=True, dims=("N", 1),
            )  # fmt: skip
            values.append(self.pushed.ones)
        return self.pushed.ones

    def scales_rows(self, value: Value) -> bool:
        """Whether it multiplies each row by a static number."""
        found = self._letter(value)
        return found is not None and isinstance(found[1], Diagonal)

    def is_exact_bias(self, value: Value, words: list[Word]) -> bool:
        """Whether it is a bias that is to be aggregated at these words."""
        return self._exact_bias and any(words) and self.is_bias(value)

    def is_bias(self, value: Value) -> bool:
        """Whether it adds the same to every row."""
        if value.op != "call" or len(value.args) != 2:
            return False
        if value.target not in (operator.add, operator.sub):
            return False
        rows = [isinstance(a, Value) and a.data for a in value.args]
        return sum(rows) == 1 and value.args[rows.index(True)].row_dim == 0

    # What is left of a value at a word

    def resolve(self, value: Value, word: Word) -> tuple[str, Value, Word]:
        """("op" | "input" | "shared", value, word): where the word ends."""
        while True:
            if value.trouble:
                refuse_trouble(value)
            if not value.data:
                return "shared", value, ()
            step = self._step(value, word)
            if step is None:
                break
            value, letters = step
            word = word + letters
        if value.op == "number":
            return "shared", value, ()
        turned = value.row_dim not in (0, None)
        if value.static and not turned and not self._is_transparent(value):
            self._check_input(value, word)
            return "input", value, word
        if "E" in value.dims or value.op in ("edges", "softmax"):
            refuse(
                value.where, value.name,
                "is computed from learned or random values: attention, or "
                "any other learned edge weight, can't be precomputed",
                "Use fixed edge weights, or a model without attention",
            )  # fmt: skip
        self._kinds.of(value)  # refuses what is not row-wise
        return "op", value, word

    def _step(self, value: Value, word: Word) -> tuple[Value, Word] | None:
        """The next letter, and the value it is applied to."""
        folded = self._foldable(value)
        if folded is not None:
            origin, polynomial = folded
            if polynomial not in self.pushed.folded and not origin.static:
                self.pushed.folded.append(polynomial)
            return origin, (polynomial,)
        found = self._letter(value)
        if found is None:
            return None
        source, letter = found
        # Where nothing is to be swapped, scaling rows is row-wise; but a
        # norm after an aggregation is a part of its filter.
        free = isinstance(letter, Diagonal) and not word and not value.static
        if free and not self._is_attached(source):
            return None
        return source, (letter,)

    def _check_input(self, value: Value, word: Word) -> None:
        if value.row_dim != 0:
            refuse(
                value.where, value.name,
                f"mixes nodes, or its first dimension is not that of the "
                f"nodes (its shape is {value.dims})",
                "Compute it before the model, and give it as an attribute",
            )  # fmt: skip
        if word and not value.example.is_floating_point():
            refuse(
                value.where, value.name,
                "is made of integers (ids or categories), which can't be "
                "aggregated",
                "Give the model floating-point features, such as one-hot "
                "columns",
            )  # fmt: skip

    def _is_transparent(self, value: Value) -> bool:
        if value.op != "call" or value.name not in _TRANSPARENT:
            return False
        parts = values_in((value.args, value.kwargs))
        return value.row_dim is not None and all(
            part.data and part.row_dim is not None for part in parts
        )

    # Letters

    def _letter(self, value: Value) -> tuple[Value, Letter] | None:
        """The value is a letter, applied to another value."""
        if value.id not in self._letters:
            if value.op == "aggregate":
                self._letters[value.id] = self._aggregate(value)
            else:
                self._letters[value.id] = self._diagonal(value)
        return self._letters[value.id]

    def _aggregate(self, value: Value) -> tuple[Value, Letter] | None:
        graph, op, reduce = value.target
        source, weight = value.args
        if op == "copy_rhs" and isinstance(weight, Value):
            message = self._message(weight)
            if message is not None and message[2] == graph:
                source, weight, _ = message
                op = "copy_lhs" if weight is None else "mul"
        linear = (
            reduce == "sum"
            and op in ("copy_lhs", "mul", "div")
            and isinstance(source, Value)
            and source.row_dim == 0
            and source.example.is_floating_point()
            and (weight is None or _one_for_each_edge(weight))
        )
        if linear and source.data:
            if op == "copy_lhs" or _is_ones(weight):
                return source, Aggregate(graph)
            return source, Aggregate(graph, weight, op == "div")
        if value.static:
            return None
        reason, advice = self._why_not(value, op, reduce, source, weight)
        return refuse(value.where, f"message passing ({op}, {reduce})",
                      reason, advice)  # fmt: skip

    def _why_not(self, value, op, reduce, source, weight) -> tuple[str, str]:
        learned = isinstance(weight, Value) and not weight.static
        if learned and weight.random and not weight.learned:
            return (
                "edges are dropped at random, so the filter is not constant",
                "Set the edge dropout to 0, or give ignore_edge_dropout=True",
            )
        if learned and op == "copy_rhs":
            return (
                "the message is a learned value of the edge, other than a "
                "fixed weight times the source's",
                "Use copy_u, u_mul_e, or a product with static weights",
            )
        if learned and (weight.data or weight.learned):
            return (
                "edge weights are learned (attention, gates), so the filter "
                "is not constant",
                "Use fixed edge weights, or a model without attention",
            )
        if reduce != "sum":
            return (
                f"{reduce} over neighbours of a learned value is not a "
                f"linear filter",
                "Use sum or mean",
            )
        if isinstance(weight, Value) and not _one_for_each_edge(weight):
            return (
                "edge weights have several channels, a filter for each",
                "Use one weight for each edge",
            )
        return (
            f"the message {op!r} is not a linear function of the source",
            "Use copy_u or u_mul_e",
        )

    def _message(self, value: Value):
        """(source, weight, graph) of a value w_e * h_u, made by hand."""
        if value.op == "edges":
            graph, op, left, right = value.target
            if op == "copy_lhs" and left == "u":
                return value.args[0], None, graph
            if op == "mul" and (left, right) == ("u", "e"):
                return (*value.args, graph) if _fixed(value.args[1]) else None
            if op == "mul" and (left, right) == ("e", "u"):
                weight, source = value.args
                return (source, weight, graph) if _fixed(weight) else None
            return None
        if value.op != "call" or value.target is not operator.mul:
            return None
        for message, weight in (value.args, value.args[::-1]):
            if not isinstance(message, Value) or not _fixed(weight):
                continue
            found = self._message(message)
            if found is not None and not message.static:
                source, first, graph = found
                if first is not None:
                    weight = self._product(first, weight, value)
                return source, weight, graph
        return None

    def _product(self, a: Value, b: Value, where: Value) -> Value:
        made = Value(
            len(self._trace.values), "call", _flat_product, (a, b), {},
            where.where, _flat_product(a.example, b.example), data=True,
            dims=("E",),
        )  # fmt: skip
        self._trace.values.append(made)
        return made

    def _diagonal(self, value: Value) -> tuple[Value, Letter] | None:
        if value.op != "call" or len(value.args) != 2 or value.kwargs:
            return None
        divides = value.target is operator.truediv
        if not divides and value.target is not operator.mul:
            return None
        a, b = value.args
        if _scales(b, a, value):
            return a, Diagonal(b, divides)
        if not divides and _scales(a, b, value):
            return b, Diagonal(a)
        return None

    def _is_attached(self, value: Value) -> bool:
        """Whether it is an aggregation, up to linear operations on rows."""
        pending = [value]
        while pending:
            top = pending[-1]
            if top.id in self._attached:
                pending.pop()
                continue
            below = self._below(top)
            if isinstance(below, bool):
                self._attached[top.id] = below
                continue
            lacking = [v for v in below if v.id not in self._attached]
            if lacking:
                pending.extend(lacking)
            else:
                self._attached[top.id] = all(
                    self._attached[v.id] for v in below
                )
        return self._attached[value.id]

    def _below(self, value: Value) -> bool | list[Value]:
        if not value.data or value.row_dim is None or value.trouble:
            return False
        if self._foldable(value) is not None:
            return True
        found = self._letter(value)
        if found is not None:
            source, letter = found
            return True if isinstance(letter, Aggregate) else [source]
        if value.op not in ("call", "module") or value.static:
            return False
        if self._kinds.of(value) != LINEAR:
            return False
        return [v for v in values_in((value.args, value.kwargs)) if v.data]

    # Polynomials

    def _foldable(self, value: Value) -> tuple[Value, Polynomial] | None:
        """A sum of words of one value that should be one filter."""
        if not _is_float_rows(value):
            return None
        form = self._form(value)
        if len(form) != 1:
            return None
        ((source, words),) = form.items()
        if source is value or source.row_dim != 0:
            return None
        if len(words) == 1 and not (
            source.static and 1.0 not in words.values()
        ):
            return None
        if max(map(degree, words)) == 0:
            return None
        if source.static or self._fold or _is_normed(words):
            terms = sorted(
                ((c, w) for w, c in words.items()), key=lambda t: len(t[1])
            )
            return source, Polynomial(tuple(terms))
        return None

    def _form(self, value: Value) -> Form:
        pending = [value]
        while pending:
            top = pending[-1]
            if top.id in self._forms:
                pending.pop()
                continue
            lacking = [
                v for v in self._summands(top) if v.id not in self._forms
            ]
            if lacking:
                pending.extend(lacking)
            else:
                self._forms[top.id] = self._sum_up(top)
        return self._forms[value.id]

    def _summands(self, value: Value) -> list[Value]:
        """The values whose forms the form of this value is made of."""
        terms = self._terms(value)
        return [source for _, _, source in terms] if terms else []

    def _terms(self, value: Value) -> list[tuple[float, Word, Value]] | None:
        """(coefficient, letter, value): what a value is the sum of."""
        if not _is_float_rows(value) or value.trouble:
            return None
        found = self._letter(value)
        if found is not None:
            source, letter = found
            return [(1.0, (letter,), source)]
        if value.op != "call" or value.kwargs:
            return None
        target, args = value.target, value.args
        if target is operator.neg:
            return [(-1.0, (), args[0])]
        if len(args) != 2:
            return None
        rows = [_is_float_rows(a) and a.dims == value.dims for a in args]
        numbers = [type(a) in (int, float) for a in args]
        if target in (operator.add, operator.sub):
            sign = 1.0 if target is operator.add else -1.0
            if all(rows):
                return [(1.0, (), args[0]), (sign, (), args[1])]
            if rows[1] and numbers[0] and args[0] == 0:
                return [(sign, (), args[1])]
        if target is operator.mul and rows[0] and numbers[1]:
            return [(float(args[1]), (), args[0])]
        if target is operator.mul and rows[1] and numbers[0]:
            return [(float(args[0]), (), args[1])]
        if target is operator.truediv and rows[0] and numbers[1] and args[1]:
            return [(1.0 / args[1], (), args[0])]
        return None

    def _sum_up(self, value: Value) -> Form:
        terms = self._terms(value)
        if not terms:
            return {value: {(): 1.0}}
        total: Form = {}
        for coefficient, letters, source in terms:
            for origin, words in self._forms[source.id].items():
                sums = total.setdefault(origin, {})
                for word, factor in words.items():
                    longer = letters + word
                    sums[longer] = sums.get(longer, 0.0) + coefficient * factor
        return total


def _is_normed(words: dict[Word, float]) -> bool:
    """Whether it is diag (A + I): one aggregation, with self-loops."""
    if len(words) != 2 or len(set(words.values())) > 1:
        return False
    short, long = sorted(words, key=len)
    return (
        len(short) == 1
        and isinstance(short[0], Diagonal)
        and long[:1] == short
        and isinstance(long[1], Aggregate)
        and degree(long) == 1
    )


def _is_float_rows(value: Any) -> bool:
    return (
        isinstance(value, Value)
        and value.data
        and isinstance(value.example, torch.Tensor)
        and value.example.is_floating_point()
        and value.row_dim == 0
    )


def _fixed(weight: Any) -> bool:
    return (
        isinstance(weight, Value)
        and weight.static
        and _one_for_each_edge(weight)
    )


def _one_for_each_edge(weight: Any) -> bool:
    if not isinstance(weight, Value) or not weight.static:
        return False
    return weight.dims[:1] == ("E",) and all(d == 1 for d in weight.dims[1:])


def _is_ones(weight: Value | None) -> bool:
    """Whether edge weights are ones, made by torch.ones."""
    if weight is None or weight.op != "call":
        return False
    if weight.name in ("to", "float", "double", "reshape", "view"):
        return _is_ones(weight.args[0])
    return weight.target is torch.ones


def _scales(factor: Any, rows: Any, result: Value) -> bool:
    """Whether factor has one static number for each row."""
    if not isinstance(factor, Value) or not isinstance(rows, Value):
        return False
    if not factor.static or not rows.data or rows.row_dim != 0:
        return False
    one_each = factor.row_dim == 0 and all(d == 1 for d in factor.dims[1:])
    alike = len(factor.dims) == len(rows.dims) and rows.dims == result.dims
    scalar_rows = all(d == 1 for d in rows.dims[1:])
    if rows.static and scalar_rows:
        # Two norms, multiplied with each other: not a filter of features.
        return False
    return one_each and alike and rows.example.is_floating_point()


def _flat_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The product of two edge weights, whatever their shapes."""
    return a.reshape(-1) * b.reshape(-1)


def _check_outputs(trace: Trace) -> None:
    for leaf in leaves(trace.output):
        if not isinstance(leaf, Value):
            continue
        if not leaf.data:
            refuse(
                leaf.where, "the output",
                "holds a value that does not depend on the graph or the "
                "features",
                "Return values of nodes alone",
            )  # fmt: skip
        if leaf.row_dim is None and isinstance(leaf.example, torch.Tensor):
            refuse(
                leaf.where, "the output",
                f"of shape {leaf.dims} has no row for each node: it mixes "
                f"nodes (a readout, or a value for each edge)",
                "Transform the part of the model that gives a row for each "
                "node",
            )  # fmt: skip
