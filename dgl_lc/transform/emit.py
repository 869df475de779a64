"""Writing the LC version: a module without a graph.

Each operation is called once, on the stacked rows of all words that it is
needed at. The module has the user's submodules, parameters and buffers under
their own names; its code reads like the user's, with aggregations gone.
"""

import copy
import keyword
import operator
import re
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn

from .filter_words import Word
from .push import Pushed, Pusher
from .recognise import TRAINING
from .refusals import refuse
from .stacked_rows import stack_words, take_words
from .tracing.values import Value, replace, values_in


def emit(model: nn.Module, pusher: Pusher, names: list[str]) -> "LCModule":
    """The LC version of a model.

    Parameters
    ----------
    model : nn.Module
        Whose submodules, parameters and buffers are shared.
    pusher : Pusher
        After :meth:`Pusher.push`.
    names : list of str
        Of the inputs, for the code.
    """
    emitter = _Emitter(model, pusher, names)
    for value in pusher.pushed.trace.values:
        if value in pusher.pushed.needs:
            emitter.operation(value)
    emitter.output()
    return emitter.module()


class _Emitter:
    def __init__(self, model: nn.Module, pusher: Pusher, names: list[str]):
        self._model = model
        self._pusher = pusher
        self._pushed: Pushed = pusher.pushed
        self._graph = fx.Graph()
        self._constants: dict[str, torch.Tensor] = {}
        self._done: dict[Value, fx.Node] = {}
        self._shared: dict[Any, fx.Node] = {}
        self._stacks: dict[tuple, fx.Node] = {}
        self._inputs = {
            key: self._graph.placeholder(name)
            for key, name in zip(self._pushed.inputs, names, strict=True)
        }

    # Operations

    def operation(self, value: Value) -> None:
        """The call of an operation, at all words it is needed at."""
        words = self._pushed.needs[value]
        if self._pusher.is_exact_bias(value, words):
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

    def _call(self, value, args, kwargs, name) -> fx.Node:
        target = value.target
        if getattr(target, "__name__", "") == "__get__":
            prop = target.__self__.__name__
            return self._graph.create_node(
                "call_function", getattr, (args[0], prop), {}, name
            )
        method = getattr(target, "__name__", "")
        if getattr(torch.Tensor, method, None) is target and args:
            return self._graph.create_node(
                "call_method", method, args, kwargs, name
            )
        return self._graph.create_node(
            "call_function", target, args, kwargs, name
        )

    def _argument(self, leaf: Any, words: list[Word], user: Value) -> Any:
        if leaf is TRAINING:
            if leaf not in self._shared:
                self._shared[leaf] = self._graph.get_attr("training")
            return self._shared[leaf]
        if not isinstance(leaf, Value):
            return leaf
        if leaf.op == "number":
            return self._num_rows(words, user)
        return self.at(leaf, words)

    def _num_rows(self, words: list[Word], user: Value) -> fx.Node:
        """How many rows there are, where the model says how many nodes."""
        rows = [
            v
            for v in values_in((user.args, user.kwargs))
            if v.data and v.row_dim is not None
        ]
        if not rows:
            first = next(iter(self._inputs.values()))
            one = self._graph.call_method("size", (first, 0))
            return self._graph.call_function(operator.mul, (one, len(words)))
        node = self.at(rows[0], words)
        return self._graph.call_method("size", (node, rows[0].row_dim))

    def _exact_bias(self, value: Value, words: list[Word]) -> fx.Node:
        """``h + b`` at a word: the bias is aggregated like everything."""
        ones = self.at(self._pusher.ones(), words)
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

    def at(self, value: Value, words: list[Word]) -> fx.Node:
        """The rows of a value at some words, stacked."""
        found = [self._pusher.resolve(value, word) for word in words]
        kind, first, _ = found[0]
        if kind == "shared":
            return self._constant(first)
        key = tuple((v, word) for _, v, word in found)
        if key not in self._stacks:
            self._stacks[key] = self._stack(found, value)
        return self._stacks[key]

    def _stack(self, found: list[tuple], value: Value) -> fx.Node:
        kinds = {kind for kind, _, _ in found}
        values = {v for _, v, _ in found}
        if kinds == {"op"} and len(values) == 1:
            (source,) = values
            return self._take(source, [word for _, _, word in found])
        parts = [
            self._inputs[v, word] if kind == "input" else self._take(v, [word])
            for kind, v, word in found
        ]
        if len(parts) == 1:
            return parts[0]
        dim = value.row_dim
        options: dict[str, Any] = {"dim": dim} if dim else {}
        return self._graph.create_node(
            "call_function", stack_words, (parts,), options, "rows"
        )

    def _take(self, value: Value, words: list[Word]) -> fx.Node:
        """Some of the words at which an operation was called."""
        node, there = self._done[value], self._pushed.needs[value]
        places = [there.index(word) for word in words]
        if places == list(range(len(there))):
            return node
        dim = value.row_dim
        options = {"dim": dim} if dim else {}
        return self._graph.create_node(
            "call_function", take_words, (node, places),
            {"of": len(there), **options}, node.name,
        )  # fmt: skip

    def _constant(self, value: Value) -> fx.Node:
        """A parameter, or what is computed from parameters alone."""
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
        result = replace(
            self._pushed.trace.output,
            lambda leaf: (
                self.at(leaf, [()]) if isinstance(leaf, Value) else leaf
            ),
        )
        self._graph.output(result)

    def module(self) -> "LCModule":
        root = nn.Module()
        _share(self._model, root)
        for name, tensor in self._constants.items():
            root.register_buffer(name, tensor, persistent=False)
        name = f"{type(self._model).__name__}LC"
        made = _build(root, self._graph, name, self._model.training)
        made.no_weight_decay = getattr(
            self._model, "no_weight_decay", frozenset()
        )
        return made


class LCModule(fx.GraphModule):
    """The LC version as a module: ``module(*rows)``, without a graph."""

    #: Parameters that training should not decay: the model's.
    no_weight_decay: frozenset[str] = frozenset()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # Training calls a model with (graph, features).
        if len(args) == 2 and args[0] is None:
            args = tuple(args[1])
        args, kwargs = replace((args, kwargs), self._widened)
        return super().__call__(*args, **kwargs)

    def _widened(self, rows: Any) -> Any:
        """Rows that are stored with fewer bits, as the parameters are."""
        halves = (torch.float16, torch.bfloat16)
        if not isinstance(rows, torch.Tensor) or rows.dtype not in halves:
            return rows
        kinds = (p.dtype for p in self.parameters() if p.is_floating_point())
        return rows.to(next(kinds, rows.dtype))

    def __reduce__(self):
        # torch.fx would run the code to find the graph, and training would
        # be what it happens to be then.
        def named(leaf: Any) -> Any:
            return _Name(leaf.name) if isinstance(leaf, fx.Node) else leaf

        nodes = [
            (n.op, n.target, replace((n.args, n.kwargs), named), n.name)
            for n in self.graph.nodes
        ]
        parts = [dict(getattr(self, kind)) for kind in _KINDS]
        unsaved = set(self._non_persistent_buffers_set)
        state = type(self).__name__, self.training, self.no_weight_decay
        return _from_parts, (nodes, parts, unsaved, *state)

    def __deepcopy__(self, memo: dict) -> "LCModule":
        root = nn.Module()
        _share(self, root)
        for kind in _KINDS:
            setattr(root, kind, copy.deepcopy(getattr(self, kind), memo))
        graph = copy.deepcopy(self.graph)
        name = type(self).__name__
        made = _build(root, graph, name, self.training)
        made.no_weight_decay = self.no_weight_decay
        memo[id(self)] = made
        return made


@dataclass(frozen=True)
class _Name:
    """Stands for a node of a graph that is stored."""

    name: str


def _from_parts(nodes, parts, unsaved, name, training, no_weight_decay):
    """An LC version that was pickled."""
    graph = fx.Graph()
    made: dict[str, fx.Node] = {}

    def node(leaf: Any) -> Any:
        return made[leaf.name] if isinstance(leaf, _Name) else leaf

    for op, target, arguments, variable in nodes:
        args, kwargs = replace(arguments, node)
        made[variable] = graph.create_node(op, target, args, kwargs, variable)
    root = nn.Module()
    for kind, part in zip(_KINDS, parts, strict=True):
        getattr(root, kind).update(part)
    root._non_persistent_buffers_set |= unsaved
    module = _build(root, graph, name, training)
    module.no_weight_decay = no_weight_decay
    return module


#: What torch.fx keeps on a module.
_FX = ("meta", "_graph", "_code")
_KINDS = ("_modules", "_parameters", "_buffers")


def _build(
    root: nn.Module, graph: fx.Graph, name: str, training: bool
) -> LCModule:
    made = LCModule(root, graph, name)
    # Also what no operation uses: the state_dict is the user's.
    _share(root, made)
    made.training = training
    return made


def _share(model: nn.Module, onto: nn.Module) -> None:
    """Give a module what another has, under the same names."""
    for kind in _KINDS:
        getattr(onto, kind).clear()
        for name, item in getattr(model, kind).items():
            if name in _FX or hasattr(fx.GraphModule, name):
                refuse(
                    "", f"the attribute {name!r}",
                    "has a name that torch.fx uses itself",
                    "Rename it",
                )  # fmt: skip
            getattr(onto, kind)[name] = item
    onto._non_persistent_buffers_set |= model._non_persistent_buffers_set


def _variable(value: Value) -> str:
    """What to call a value in the code."""
    name = value.name.strip("_")
    if value.op == "module":
        name = str(value.target)
    elif value.where:
        name = f"{value.where}_{name}"
    name = re.sub(r"\W", "_", name)
    if name[0].isdigit() or keyword.iskeyword(name):
        name = f"layer_{name}"
    return name
