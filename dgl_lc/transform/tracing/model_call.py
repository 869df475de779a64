"""Reading a call of the model: its graphs, and tensors with rows of them."""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import dgl
import torch
from torch import nn

from .. import causes
from ..refusals import refuse
from .call_checks import check_features, check_model, refuse_without_graph
from .call_leaves import call_leaves, named_leaves

#: Attributes that every module has.
_OF_MODULES = frozenset(vars(nn.Module()))


@dataclass
class ModelCall:
    """A call of the model: its arguments, and what belongs to the graph.

    Attributes
    ----------
    graphs : dict
        Graphs by name: "g", "g2" … for arguments, and the attribute's name
        ("graphs.0" for an item of a list) for one that the model holds.
    inputs : dict
        Tensors with a row for each node or edge, by name.
    attributes : dict
        Names of the graphs and inputs that the model holds, by their ids.
    originals : dict
        For a probe: the user's graphs that its graphs resemble, by name.
    """

    model: nn.Module
    args: tuple
    kwargs: dict
    graphs: dict[str, dgl.DGLGraph] = field(default_factory=dict)
    inputs: dict[str, torch.Tensor] = field(default_factory=dict)
    attributes: dict[int, str] = field(default_factory=dict)
    originals: dict[str, dgl.DGLGraph] = field(default_factory=dict)

    @property
    def num_nodes(self) -> int:
        return next(iter(self.graphs.values())).num_nodes()

    def of_nodes(self, name: str) -> bool:
        """Return whether an input has a row for each node, not each edge."""
        rows = self.inputs[name].shape[0]
        of_edges = any(g.num_edges() == rows for g in self.graphs.values())
        if rows != self.num_nodes:
            return False
        # With as many edges as nodes, only the name can tell.
        return not (of_edges and ("edge" in name or "weight" in name))


def read_call(model: nn.Module, args: tuple, kwargs: dict) -> ModelCall:
    """Find the graphs and the graph-sized tensors of a call."""
    check_model(model)
    check_features(args, kwargs)
    call = ModelCall(model, args, kwargs)
    given = [*_named(args, kwargs)]
    held = [*_held(model)]
    graphs = [item for item in given + held if _is_graph(item[1])]
    for name, graph in graphs:
        if not any(graph is known for known in call.graphs.values()):
            call.graphs[name] = graph
            _check_graph(name, graph)
    if not call.graphs:
        refuse_without_graph(model, args)
    sizes = {call.num_nodes}
    numbers = {
        name
        for name, item in held
        if isinstance(item, torch.Tensor) and item.numel() == 1
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
        if not isinstance(item, torch.Tensor) or item.dim() == 0:
            continue
        if name in numbers:
            # One number that the model holds is no row of a node.
            continue
        if item.shape[0] in sizes and not isinstance(item, nn.Parameter):
            call.inputs[name] = item
    call.attributes = {
        id(item): name
        for name, item in held
        if name in call.inputs or _is_graph(item)
    }
    return call


def differences(call: ModelCall, other: ModelCall) -> Iterator[str]:
    """Yield what two calls differ in, besides values of graph and features."""
    here, there = _arguments(call), _arguments(other)
    if len(here) != len(there):
        yield "the number of arguments"
        return
    for (name, one), (_, two) in zip(here, there, strict=True):
        if not _same(one, two):
            yield f"{name}, which was {_show(one)} and is {_show(two)}"


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
        several = not (isinstance(item, torch.Tensor) or _is_graph(item))
        for place, leaf in enumerate(call_leaves(item)):
            own = f"{name}[{place}]" if several and place else name
            rows = isinstance(leaf, torch.Tensor) and leaf.dim() > 0
            if rows or _is_graph(leaf):
                known = seen.setdefault(id(leaf), own)
                width = tuple(leaf.shape[1:]) if rows else ()
                kind = f" of {leaf.dtype} and width {width}" if rows else ""
                found.append((own, f"{known}{kind}"))
            else:
                found.append((own, leaf))
    return found


def _same(one: Any, two: Any) -> bool:
    if isinstance(one, torch.Tensor) or isinstance(two, torch.Tensor):
        one, two = torch.as_tensor(one), torch.as_tensor(two)
        return one.shape == two.shape and bool((one == two).all())
    return one is two or bool(one == two)


def _show(item: Any) -> str:
    text = item if isinstance(item, str) else repr(item)
    return text if len(text) < 60 else f"{text[:60]}…"


def _named(args: tuple, kwargs: dict) -> Iterator[tuple[str, Any]]:
    """Yield (name, item) for the graphs and tensors among the arguments."""
    counts = {"g": 0, "x": 0}
    for item in call_leaves(args):
        kind = "g" if _is_graph(item) else "x"
        if kind == "g" or isinstance(item, torch.Tensor):
            counts[kind] += 1
            number = counts[kind]
            yield kind if number == 1 else f"{kind}{number}", item
    for name, item in kwargs.items():
        for number, leaf in enumerate(call_leaves(item), 1):
            if _is_graph(leaf) or isinstance(leaf, torch.Tensor):
                yield name if leaf is item else f"{name}{number}", leaf


def _held(model: nn.Module) -> Iterator[tuple[str, Any]]:
    """Yield (name, item) for graphs and tensors that the model holds."""
    for prefix, module in model.named_modules():
        if type(module).__module__.startswith("torch.nn"):
            continue
        own = {k: v for k, v in vars(module).items() if k not in _OF_MODULES}
        for name, item in named_leaves({**own, **module._buffers}):
            if _is_graph(item) or isinstance(item, torch.Tensor):
                yield f"{prefix}.{name}" if prefix else name, item


def _is_graph(item: Any) -> bool:
    return isinstance(item, dgl.DGLGraph)


def _check_graph(name: str, graph: dgl.DGLGraph) -> None:
    """Refuse heterographs and blocks."""
    if graph.is_block or len(graph.ntypes) > 1 or len(graph.etypes) > 1:
        kind = "a block" if graph.is_block else "a heterograph"
        refuse(
            causes.UNSUPPORTED_GRAPH, "", f"the graph {name}", f"is {kind}",
            "Transform a model of a whole, homogeneous graph",
        )  # fmt: skip
