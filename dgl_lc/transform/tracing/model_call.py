"""Reading a call of the model: its graphs, and tensors with rows of them."""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import prod
from typing import Any

import dgl
import numpy as np
import torch
from torch import nn

from ...storage.disk_features import DiskFeatures
from ...storage.disk_graph import DiskGraph
from .. import causes
from ..refusals import refuse
from .argument_names import check_arguments, named_arguments
from .call_checks import (
    check_features,
    check_in_memory,
    check_model,
    refuse_without_graph,
)
from .call_leaves import call_leaves, named_leaves

#: Inputs that may be of nodes or edges, of which all choices are tried.
_MOST_UNCLEAR = 3
#: Attributes that every module has.
_OF_MODULES = frozenset(vars(nn.Module()))


@dataclass
class ModelCall:
    """A call of the model: its arguments, and what belongs to the graph.

    Attributes
    ----------
    graphs : dict
        Graphs by name: the name of the argument, or the attribute's name
        ("graphs.0" for an item of a list) for one that the model holds.
    inputs : dict
        Tensors with a row for each node or edge, by name. Features on disk
        and NumPy arrays may take their place in ``lc.precompute``.
    attributes : dict
        Names of the graphs and inputs that the model holds, by their ids.
    originals : dict
        For a probe: the user's graphs that its graphs resemble, by name.
    limits_degrees : bool
        Whether probes have no larger degrees than the graphs of this call.
    resembles : bool
        Whether probes have self-loops, parallel edges and nodes without
        incoming edges if the graphs of this call have them, and only then.
    of_edges : frozenset of str
        Names of inputs with a row for each edge, on a graph with as many edges
        as nodes.
    """

    model: nn.Module
    args: tuple
    kwargs: dict
    graphs: dict[str, Any] = field(default_factory=dict)
    inputs: dict[str, Any] = field(default_factory=dict)
    attributes: dict[int, str] = field(default_factory=dict)
    originals: dict[str, dgl.DGLGraph] = field(default_factory=dict)
    limits_degrees: bool = False
    resembles: bool = False
    of_edges: frozenset[str] = frozenset()

    @property
    def num_nodes(self) -> int:
        return next(iter(self.graphs.values())).num_nodes()

    @property
    def on_disk(self) -> bool:
        """Whether a graph or features of the call are on disk."""
        items = [*self.graphs.values(), *self.inputs.values()]
        return any(
            not isinstance(x, (dgl.DGLGraph, torch.Tensor)) for x in items
        )

    def of_nodes(self, name: str) -> bool:
        """Return whether an input has a row for each node, not each edge."""
        if self.inputs[name].shape[0] != self.num_nodes:
            return False
        # With as many edges as nodes, only the name can tell.
        named = "edge" in name or "weight" in name or name in self.of_edges
        return not (self._may_be_of_edges(name) and named)

    def _may_be_of_edges(self, name: str) -> bool:
        rows = self.inputs[name].shape[0]
        return any(g.num_edges() == rows for g in self.graphs.values())

    def other_readings(self) -> Iterator["ModelCall"]:
        """Yield calls in which other inputs have a row for each edge.

        With as many edges as nodes, inputs may be those of nodes or of edges.
        The last ones of the call are the first to be read as those of edges.
        """
        unclear = [
            name
            for name in reversed(self.inputs)
            if self.of_nodes(name) and self._may_be_of_edges(name)
        ]
        for count in range(1, len(unclear) + 1):
            for names in combinations(unclear[:_MOST_UNCLEAR], count):
                yield replace(self, of_edges=frozenset(names))


def read_call(
    model: nn.Module, args: tuple, kwargs: dict, may_be_on_disk: bool = False
) -> ModelCall:
    """Find the graphs and the graph-sized tensors of a call.

    With ``may_be_on_disk``, graphs and features on disk and NumPy arrays may
    take the places of graphs and tensors.
    """
    check_model(model)
    check_features(model, args, kwargs, may_be_on_disk)
    call = ModelCall(model, args, kwargs)
    held = [*_held(model)]
    given = _apart(named_items(model, args, kwargs), held)
    if not may_be_on_disk:
        check_in_memory(given + held)
    # An array that a model holds is its own, unless it is mapped from a file.
    held = [item for item in held if not _is_own_array(item[1])]
    graphs = [item for item in given + held if _is_graph(item[1])]
    for name, graph in graphs:
        if not any(graph is known for known in call.graphs.values()):
            call.graphs[name] = graph
            _check_graph(name, graph)
    if not call.graphs:
        refuse_without_graph(model, args, kwargs)
    check_arguments(model, args, kwargs)
    sizes = {call.num_nodes}
    numbers = {
        name for name, item in held if _is_array(item) and prod(item.shape) == 1
    }
    for name, graph in call.graphs.items():
        if graph.num_nodes() != call.num_nodes:
            refuse(
                causes.UNSUPPORTED_GRAPH, "", f"the graph {name}",
                f"has {graph.num_nodes()} nodes, but another graph has "
                f"{call.num_nodes}",
                "Pass graphs that have the same nodes",
            )  # fmt: skip
        sizes.add(graph.num_edges())
    for name, item in given + held:
        if not _is_array(item) or len(item.shape) == 0:
            continue
        if name in numbers:
            # One number that the model holds is no row of a node.
            continue
        if item.shape[0] in sizes and not isinstance(item, nn.Parameter):
            call.inputs[name] = item
    _check_learned(call, args, kwargs)
    call.attributes = {
        id(item): name
        for name, item in held
        if name in call.inputs or _is_graph(item)
    }
    return call


def _check_learned(call: ModelCall, args: tuple, kwargs: dict) -> None:
    """Refuse parameters among the arguments, which would not be trained."""
    for name, item in named_items(call.model, args, kwargs):
        if isinstance(item, nn.Parameter):
            refuse(
                causes.SIZE_OF_THE_GRAPH, "", f"the argument {name}",
                "is a parameter (nn.Parameter): arguments are precomputed as "
                "they are, and would not be trained",
                f"Pass {name}.detach() if it is not trained, or let the model "
                f"compute it from features",
            )  # fmt: skip


def differences(call: ModelCall, other: ModelCall) -> Iterator[str]:
    """Yield what two calls differ in, besides values of graph and features."""
    here, there = _arguments(call), _arguments(other)
    if len(here) != len(there):
        yield "the number of arguments"
        return
    for (name, one), (_, two) in zip(here, there, strict=True):
        if not _same(one, two):
            yield f"{name}, which was {_show(one)} and is {_show(two)}"


#: The type of features on disk, which may have any precision.
_FLOATS = "floating-point numbers"


@dataclass(frozen=True)
class _Rows:
    """A graph or rows among the arguments; ``name`` of the first such one."""

    name: str
    dtype: str
    width: tuple[int, ...]

    def is_like(self, other: "_Rows") -> bool:
        """Return whether the other one may take its place."""
        types = {self.dtype, other.dtype}
        same_type = len(types) == 1 or (
            _FLOATS in types and any("float" in t for t in types - {_FLOATS})
        )
        return same_type and (self.name, self.width) == (
            other.name, other.width
        )  # fmt: skip

    def __str__(self) -> str:
        if not self.dtype:
            return self.name
        return f"{self.name} of {self.dtype} and width {self.width}"


def _arguments(call: ModelCall) -> list[tuple[str, Any]]:
    """Return (name, description) of all arguments.

    A graph or tensor is described by the name of the first argument that it
    is: one object for two arguments must not become two objects later.
    """
    try:
        bound = inspect.signature(call.model.forward).bind(
            *call.args, **call.kwargs
        )
        bound.apply_defaults()
        arguments = dict(bound.arguments)
    except (TypeError, ValueError):
        arguments = {"args": call.args, **call.kwargs}
    seen: dict[int, str] = {}
    found: list[tuple[str, Any]] = []
    for name, item in arguments.items():
        several = not (_is_array(item) or _is_graph(item))
        for place, leaf in enumerate(call_leaves(item)):
            own = f"{name}[{place}]" if several and place else name
            rows = _is_array(leaf) and len(leaf.shape) > 0
            if rows or _is_graph(leaf):
                known = seen.setdefault(id(leaf), own)
                width = tuple(leaf.shape[1:]) if rows else ()
                kind = _type(leaf) if rows else ""
                found.append((own, _Rows(known, kind, width)))
            else:
                found.append((own, leaf))
    return found


def _type(array: Any) -> str:
    """Return the data type of rows.

    Features on disk may have another precision than those of the sample that
    the model was traced on.
    """
    if isinstance(array, torch.Tensor):
        return str(array.dtype)
    floating = isinstance(array, DiskFeatures) or array.dtype.kind == "f"
    return _FLOATS if floating else f"torch.{array.dtype}"


def _same(one: Any, two: Any) -> bool:
    if isinstance(one, _Rows) and isinstance(two, _Rows):
        return one.is_like(two)
    if isinstance(one, torch.Tensor) or isinstance(two, torch.Tensor):
        one, two = torch.as_tensor(one), torch.as_tensor(two)
        return one.shape == two.shape and bool((one == two).all())
    return one is two or bool(one == two)


def _show(item: Any) -> str:
    plain = isinstance(item, (str, _Rows))
    text = str(item) if plain else repr(item)
    return text if len(text) < 60 else f"{text[:60]}…"


def named_items(
    model: nn.Module, args: tuple, kwargs: dict
) -> Iterator[tuple[str, Any]]:
    """Yield (name, item) for the graphs and tensors among the arguments.

    They have the names that forward gives them; those of ``*args`` are "g" and
    "x", and have numbers after the first.
    """
    counts = {"g": 0, "x": 0}
    for name, argument in named_arguments(model, args, kwargs):
        for number, leaf in enumerate(call_leaves(argument), 1):
            kind = "g" if _is_graph(leaf) else "x"
            if kind == "x" and not _is_array(leaf):
                continue
            counts[kind] += 1
            if name is None:
                count = counts[kind]
                yield kind if count == 1 else f"{kind}{count}", leaf
            else:
                yield name if leaf is argument else f"{name}{number}", leaf


def _apart(
    given: Iterator[tuple[str, Any]], held: list[tuple[str, Any]]
) -> list[tuple[str, Any]]:
    """Give arguments other names than those of what the model holds."""
    taken = {name for name, _ in held}
    found: list[tuple[str, Any]] = []
    for name, item in given:
        while name in taken:
            name = f"{name}_given"
        taken.add(name)
        found.append((name, item))
    return found


def _held(model: nn.Module) -> Iterator[tuple[str, Any]]:
    """Yield (name, item) for graphs and tensors that the model holds."""
    for prefix, module in model.named_modules():
        if type(module).__module__.startswith("torch.nn"):
            continue
        own = {k: v for k, v in vars(module).items() if k not in _OF_MODULES}
        for name, item in named_leaves({**own, **module._buffers}):
            if _is_graph(item) or _is_array(item):
                yield f"{prefix}.{name}" if prefix else name, item


def _is_graph(item: Any) -> bool:
    return isinstance(item, (dgl.DGLGraph, DiskGraph))


def _is_array(item: Any) -> bool:
    return isinstance(item, (torch.Tensor, DiskFeatures, np.ndarray))


def _is_own_array(item: Any) -> bool:
    return isinstance(item, np.ndarray) and not isinstance(item, np.memmap)


def _check_graph(name: str, graph: dgl.DGLGraph | DiskGraph) -> None:
    """Refuse heterographs and blocks."""
    if isinstance(graph, DiskGraph):
        return
    if graph.is_block or len(graph.ntypes) > 1 or len(graph.etypes) > 1:
        kind = "a block" if graph.is_block else "a heterograph"
        refuse(
            causes.UNSUPPORTED_GRAPH, "", f"the graph {name}", f"is {kind}",
            "Transform a model of a whole, homogeneous graph",
        )  # fmt: skip
