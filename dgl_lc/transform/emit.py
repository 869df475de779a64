"""Writing the LC version: a module without a graph.

Each operation is called once, on the stacked rows of all words that it is
needed at. The module has the user's submodules, parameters and buffers under
their own names; its code reads like the user's, without aggregations.
"""

import keyword
import operator
import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx, nn

from ..row_programs.by_training import if_training
from ..row_programs.stacked_rows import stack_words, take_words
from .filter_words import Word
from .lc_module import LCModule, build_module, share_parts
from .pushed import Place, Pushed
from .tracing.values import (
    TRAINING,
    ByTraining,
    Value,
    arguments_of,
    replace,
)


def emit(model: nn.Module, pushed: Pushed, names: list[str]) -> LCModule:
    """Write the LC version of a model.

    Parameters
    ----------
    model : nn.Module
        The model whose submodules, parameters and buffers are shared.
    pushed : Pushed
        The model with its filters on its inputs.
    names : list of str
        Names of the inputs in the code.
    """
    emitter = _Emitter(model, pushed, names)
    for value in pushed.trace.values:
        if value in pushed.needs:
            emitter.operation(value)
    emitter.output()
    return emitter.module()


class _Emitter:
    """Writes the operations of an LC version into a graph of torch.fx."""

    def __init__(
        self, model: nn.Module, pushed: Pushed, names: list[str]
    ) -> None:
        self._model = model
        self._pushed = pushed
        self._graph = fx.Graph()
        self._constants: dict[str, torch.Tensor] = {}
        self._done: dict[Value, fx.Node] = {}
        self._shared: dict[Any, fx.Node] = {}
        self._stacks: dict[tuple, fx.Node] = {}
        self._inputs = {
            key: self._graph.placeholder(name)
            for key, name in zip(pushed.inputs, names, strict=True)
        }

    # Operations

    def operation(self, value: Value) -> None:
        """Write the call of an operation, for all words it is needed at."""
        words = self._pushed.needs[value]
        if value in self._pushed.exact_biases:
            self._done[value] = self._exact_bias(value, words)
            return
        args, kwargs = replace(
            (value.args, value.kwargs),
            lambda leaf: self._argument(leaf, words, value),
        )
        name = _variable(value)
        if value.op == "module":
            made = self._graph.create_node(
                "call_module", value.target, args, kwargs, name
            )
        else:
            made = self._call(value, args, kwargs, name)
        self._done[value] = made
        made.meta["value"] = value

    def _call(
        self, value: Value, args: tuple, kwargs: dict, name: str
    ) -> fx.Node:
        """Write the call of a function, a method or a property."""
        target = value.target
        if getattr(target, "__name__", "") == "__get__":
            prop = target.__self__.__name__
            return self._graph.create_node(
                "call_function", getattr, (args[0], prop), {}, name
            )
        if target is torch.zeros and value.data:
            # Rows of zeros belong on the device of the inputs.
            shape = args[0] if args else kwargs["size"]
            shape = shape if isinstance(shape, (tuple, list)) else args
            first = next(iter(self._inputs.values()))
            return self._graph.create_node(
                "call_method", "new_zeros", (first, tuple(shape)),
                {"dtype": value.example.dtype}, name,
            )  # fmt: skip
        method = getattr(target, "__name__", "")
        if getattr(torch.Tensor, method, None) is target and args:
            return self._graph.create_node(
                "call_method", method, args, kwargs, name
            )
        return self._graph.create_node(
            "call_function", target, args, kwargs, name
        )

    def _argument(self, leaf: Any, words: Sequence[Word], user: Value) -> Any:
        """Return an argument of an operation at some words."""
        if leaf is TRAINING:
            if leaf not in self._shared:
                self._shared[leaf] = self._graph.get_attr("training")
            return self._shared[leaf]
        if isinstance(leaf, ByTraining):
            flag = self._argument(TRAINING, words, user)
            both = leaf.in_training, leaf.in_evaluation
            return self._graph.call_function(if_training, (flag, *both))
        if not isinstance(leaf, Value):
            return leaf
        if leaf.op == "number" or leaf.count is not None:
            return self._num_rows(words, user, leaf.count or 1)
        return self.at(leaf, words)

    def _num_rows(
        self, words: Sequence[Word], user: Value, times: int
    ) -> fx.Node:
        """Write the number of rows, where the model has that of nodes."""
        rows = [v for v in arguments_of(user) if v.data and v.node_rows]
        if rows:
            node = self.at(rows[0], words)
            dim, each = rows[0].node_rows or (0, 1)
            found = self._graph.call_method("size", (node, dim))
        else:
            first = next(iter(self._inputs.values()))
            found = self._graph.call_method("size", (first, 0))
            times, each = times * len(words), 1
        for function, number in ((operator.floordiv, each),
                                 (operator.mul, times)):  # fmt: skip
            if number != 1:
                found = self._graph.call_function(function, (found, number))
        return found

    def _exact_bias(self, value: Value, words: Sequence[Word]) -> fx.Node:
        """Write ``h + b`` at words: the bias is aggregated too, as S 1 b."""
        assert self._pushed.ones is not None
        ones = self.at(self._pushed.ones, words)
        places = [self._argument(a, words, value) for a in value.args]
        rows = [isinstance(a, Value) and a.data for a in value.args]
        bias = rows.index(False)
        more = value.example.dim() - 2
        if more > 0:
            shape = (-1, *[1] * (more + 1))
            ones = self._graph.call_method("reshape", (ones, shape))
        places[bias] = self._graph.call_function(
            operator.mul, (ones, places[bias])
        )
        return self._graph.create_node(
            "call_function", value.target, tuple(places), {}, _variable(value)
        )

    # Values at words

    def at(self, value: Value, words: Sequence[Word]) -> fx.Node:
        """Return the rows of a value at some words, stacked."""
        found = [self._pushed.place(value, word) for word in words]
        kind, first, _ = found[0]
        if kind == "shared":
            return self._constant(first)
        key = tuple((v, word) for _, v, word in found)
        if key not in self._stacks:
            self._stacks[key] = self._stack(found, value)
        return self._stacks[key]

    def _stack(self, found: list[Place], value: Value) -> fx.Node:
        """Stack rows of operations and inputs."""
        kinds = {kind for kind, _, _ in found}
        values = {v for _, v, _ in found}
        if kinds == {"op"} and len(values) == 1:
            (source,) = values
            return self._take(source, [word for _, _, word in found])
        parts = [
            self._input(v, word) if kind == "input" else self._take(v, [word])
            for kind, v, word in found
        ]
        if len(parts) == 1:
            return parts[0]
        dim = value.node_rows[0] if value.node_rows else 0
        options: dict[str, Any] = {"dim": dim} if dim else {}
        return self._graph.create_node(
            "call_function", stack_words, (parts,), options, "rows"
        )

    def _input(self, value: Value, word: Word) -> fx.Node:
        """Return an input, or write a sum of inputs."""
        if (value, word) not in self._inputs:
            terms = [
                self._inputs[item]
                if factor == 1
                else self._graph.call_function(
                    operator.mul, (self._inputs[item], factor)
                )
                for factor, item in self._pushed.sums[value, word]
            ]
            total = terms[0]
            for term in terms[1:]:
                total = self._graph.call_function(operator.add, (total, term))
            self._inputs[value, word] = total
        return self._inputs[value, word]

    def _take(self, value: Value, words: Sequence[Word]) -> fx.Node:
        """Return the rows of an operation at some of its words."""
        node, there = self._done[value], self._pushed.needs[value]
        places = [there.index(word) for word in words]
        if places == list(range(len(there))):
            return node
        dim = value.node_rows[0] if value.node_rows else 0
        options = {"dim": dim} if dim else {}
        return self._graph.create_node(
            "call_function", take_words, (node, places),
            {"of": len(there), **options}, node.name,
        )  # fmt: skip

    def _constant(self, value: Value) -> fx.Node:
        """Write a parameter, or what is computed from parameters alone."""
        if value in self._shared:
            return self._shared[value]
        if value.op == "param":
            made = self._graph.get_attr(value.target)
        elif value.op == "const":
            name = f"_constant_{len(self._constants)}"
            self._constants[name] = value.example
            made = self._graph.get_attr(name)
        else:
            args, kwargs = replace(
                (value.args, value.kwargs),
                lambda leaf: self._argument(leaf, [()], value),
            )
            if value.op == "module":
                made = self._graph.call_module(value.target, args, kwargs)
            else:
                made = self._call(value, args, kwargs, _variable(value))
        self._shared[value] = made
        return made

    # The module

    def output(self) -> None:
        """Write what the module returns."""
        result = replace(
            self._pushed.trace.output,
            lambda leaf: (
                self.at(leaf, [()]) if isinstance(leaf, Value) else leaf
            ),
        )
        self._graph.output(result)

    def module(self) -> LCModule:
        """Make the module of what was written."""
        root = nn.Module()
        share_parts(self._model, root)
        for name, tensor in self._constants.items():
            root.register_buffer(name, tensor, persistent=False)
        name = f"{type(self._model).__name__}LC"
        made = build_module(root, self._graph, name, self._model.training)
        made.no_weight_decay = getattr(
            self._model, "no_weight_decay", frozenset()
        )
        return made


def _variable(value: Value) -> str:
    """Return the name of a value in the code."""
    name = value.name.strip("_")
    if value.op == "module":
        name = str(value.target)
    elif value.where:
        name = f"{value.where}_{name}"
    name = re.sub(r"\W", "_", name)
    if name[0].isdigit() or keyword.iskeyword(name) or name == "self":
        name = f"layer_{name}"
    return name
