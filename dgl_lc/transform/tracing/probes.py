"""Probes: small random graphs and features in the likeness of the user's.

A probe has the user's feature widths and types, and sizes of its own: other
prime numbers of nodes and edges for every probe, none of which is a width
of the model, so that a size can be told from everything else.
"""

import copy
import inspect
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import dgl
import numpy as np
import torch
from torch import nn

from ..refusals import LCError, refuse
from .dgl_hooks import GraphTracer, run
from .values import Trace, leaves, replace

_PRIMES = [
    p for p in range(41, 8000) if all(p % d for d in range(2, int(p**0.5) + 1))
]  # fmt: skip


@dataclass
class ModelCall:
    """A call of the model: its arguments, and what belongs to the graph.

    Attributes
    ----------
    graphs : dict
        The graphs by name: "g", "g2" … among the arguments, or the name of
        the attribute that holds one.
    inputs : dict
        Tensors with a row for each node or edge, by name.
    attributes : dict
        Those of the graphs and inputs that the model holds, by their ids.
    """

    model: nn.Module
    args: tuple
    kwargs: dict
    graphs: dict[str, dgl.DGLGraph] = field(default_factory=dict)
    inputs: dict[str, torch.Tensor] = field(default_factory=dict)
    attributes: dict[int, str] = field(default_factory=dict)

    @property
    def num_nodes(self) -> int:
        return next(iter(self.graphs.values())).num_nodes()

    def of_nodes(self, name: str) -> bool:
        """Whether an input has a row for each node, not for each edge."""
        rows = self.inputs[name].shape[0]
        of_edges = any(g.num_edges() == rows for g in self.graphs.values())
        if rows != self.num_nodes:
            return False
        # As many edges as nodes: the name decides.
        return not (of_edges and ("edge" in name or "weight" in name))


def read_call(model: nn.Module, args: tuple, kwargs: dict) -> ModelCall:
    """Find the graphs and the graph-sized tensors of a call."""
    if not isinstance(model, nn.Module):
        refuse(
            "", type(model).__name__, "is not a torch.nn.Module",
            "Give the model, then what it is called with: "
            "lc_transform(model, g, x)",
        )  # fmt: skip
    call = ModelCall(model, args, kwargs)
    given = [*_named(args, kwargs)]
    held = [*_held(model)]
    graphs = [item for item in given + held if _is_graph(item[1])]
    for name, graph in graphs:
        if not any(graph is known for known in call.graphs.values()):
            call.graphs[name] = graph
            _check_graph(name, graph)
    if not call.graphs:
        refuse(
            "", "the call", "has no graph among its arguments, nor is there "
            "one among the model's attributes",
            "Give what the model is called with: lc_transform(model, g, x)",
        )  # fmt: skip
    sizes = {call.num_nodes}
    numbers = {
        name
        for name, item in held
        if isinstance(item, torch.Tensor) and item.numel() == 1
    }
    for name, graph in call.graphs.items():
        if graph.num_nodes() != call.num_nodes:
            refuse(
                "", f"the graph {name}",
                f"has {graph.num_nodes()} nodes, and another "
                f"{call.num_nodes}",
                "Give graphs of the same nodes",
            )  # fmt: skip
        sizes.add(graph.num_edges())
    for name, item in given + held:
        if not isinstance(item, torch.Tensor) or item.dim() == 0:
            continue
        if name in numbers:
            # A number that the model holds, not a row of one node.
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
    """What two calls of one model differ in, other than graph and features."""
    here, there = _arguments(call), _arguments(other)
    if len(here) != len(there):
        yield "the number of arguments"
        return
    for (name, one), (_, two) in zip(here, there, strict=True):
        if not _same(one, two):
            yield f"{name}, which was {_show(one)} and is {_show(two)}"


def _arguments(call: ModelCall) -> list[tuple[str, Any]]:
    """The arguments by name. A graph or tensor that was there before is
    its name: what was given once may not be two things later."""
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
        for place, leaf in enumerate(leaves(item)):
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
    """The graphs and tensors among the arguments, with names."""
    counts = {"g": 0, "x": 0}
    for item in leaves(args):
        kind = "g" if _is_graph(item) else "x"
        if kind == "g" or isinstance(item, torch.Tensor):
            counts[kind] += 1
            number = counts[kind]
            yield kind if number == 1 else f"{kind}{number}", item
    for name, item in kwargs.items():
        for number, leaf in enumerate(leaves(item), 1):
            if _is_graph(leaf) or isinstance(leaf, torch.Tensor):
                yield name if leaf is item else f"{name}{number}", leaf


def _held(model: nn.Module) -> Iterator[tuple[str, Any]]:
    """The graphs and tensors, parameters aside, that the model holds."""
    for prefix, module in model.named_modules():
        if type(module).__module__.startswith("torch.nn"):
            continue
        for name, item in [*vars(module).items(), *module._buffers.items()]:
            if _is_graph(item) or isinstance(item, torch.Tensor):
                yield f"{prefix}.{name}" if prefix else name, item


def _is_graph(item: Any) -> bool:
    return isinstance(item, dgl.DGLGraph)


def _check_graph(name: str, graph: dgl.DGLGraph) -> None:
    if graph.is_block or len(graph.ntypes) > 1 or len(graph.etypes) > 1:
        kind = "a block" if graph.is_block else "a heterograph"
        refuse(
            "", f"the graph {name}", f"is {kind}",
            "Only homogeneous, whole graphs have constant filters here: "
            "transform the model of a homogeneous graph",
        )  # fmt: skip


def make_probe(call: ModelCall, seed: int, kind: str = "random") -> ModelCall:
    """A call like the user's, on a small graph, of a copy of the model.

    Parameters
    ----------
    seed : int
        The same seed makes the same probe again.
    kind : str
        "random": degrees of 1 to many, with self-loops and multi-edges;
        "permutation": one edge into and one out of every node, no
        self-loops; "loops": one self-loop for every node.
    """
    generator = torch.Generator().manual_seed(seed)
    primes = _free_primes(call)
    n = _num_nodes(call.num_nodes, seed, primes)
    num_edges: dict[int, int] = {}
    graphs: dict[str, dgl.DGLGraph] = {}
    for number, (name, graph) in enumerate(call.graphs.items()):
        m = graph.num_edges()
        if m not in num_edges:
            # Average degrees that differ between probes, and between graphs.
            wanted = (3 + seed + number) * n
            count = next(p for p in primes if p > wanted)
            num_edges[m] = count if kind == "random" else n
        edges = _edges(n, num_edges[m], kind, generator)
        graphs[name] = _like(graph, edges, n)
    inputs = {}
    for name, tensor in call.inputs.items():
        rows = n if call.of_nodes(name) else num_edges[tensor.shape[0]]
        inputs[name] = _resample(tensor, rows, generator)
    same: dict[int, Any] = {
        **{id(call.graphs[name]): graph for name, graph in graphs.items()},
        **{id(call.inputs[name]): tensor for name, tensor in inputs.items()},
    }
    # deepcopy takes what is in its memo for a copy made already.
    model = _copy(call.model, {k: same[k] for k in call.attributes})
    _randomise(model, generator)

    def swap(leaf: Any) -> Any:
        return same.get(id(leaf), leaf)

    args, kwargs = replace(call.args, swap), replace(call.kwargs, swap)
    return ModelCall(model, args, kwargs, graphs, inputs)


def _num_nodes(real: int, seed: int, primes: list[int]) -> int:
    """Fewer nodes than the user's graph, and more, as seeds go up.

    A branch on a size that nobody saw is then seen if the graph is small.
    """
    place = 3 * seed
    if seed % 3 == 1:
        fewer = [p for p in primes if p < real]
        return fewer[-1] if fewer and real < primes[place] else primes[place]
    if primes[place] < real < 600:
        place += sum(primes[place] <= p <= real for p in primes)
    return primes[place]


def _free_primes(call: ModelCall) -> list[int]:
    """Prime sizes that are no width of anything in this call."""
    used: set[int] = set()
    tensors = [
        *call.model.parameters(), *call.model.buffers(),
        *call.inputs.values(),
        *(t for g in call.graphs.values() for t in g.ndata.values()),
        *(t for g in call.graphs.values() for t in g.edata.values()),
    ]  # fmt: skip
    for tensor in tensors:
        used.update(tensor.shape)
    return [p for p in _PRIMES if p not in used]


def _edges(n: int, count: int, kind: str, generator: torch.Generator):
    """Sources and targets."""
    nodes = torch.arange(n)
    if kind == "loops":
        return nodes, nodes
    cycle = torch.randperm(n, generator=generator)
    source, target = cycle, cycle.roll(1)
    if kind == "permutation":
        return source, target
    more = count - n
    u = torch.randint(0, n, (more,), generator=generator)
    v = torch.randint(0, n, (more,), generator=generator)
    # A hub, some self-loops and some multi-edges.
    v[: more // 8] = 0
    u[more // 8 : more // 6] = v[more // 8 : more // 6]
    u[-10:], v[-10:] = u[-20:-10].clone(), v[-20:-10].clone()
    return torch.cat([source, u]), torch.cat([target, v])


def _like(graph: dgl.DGLGraph, edges, n: int) -> dgl.DGLGraph:
    made = dgl.graph(edges, num_nodes=n, idtype=graph.idtype)
    generator = torch.Generator().manual_seed(n)
    for name, tensor in graph.ndata.items():
        made.ndata[name] = _resample(tensor, n, generator)
    for name, tensor in graph.edata.items():
        made.edata[name] = _resample(tensor, made.num_edges(), generator)
    return made


def _resample(
    tensor: torch.Tensor, rows: int, generator: torch.Generator
) -> torch.Tensor:
    """So many rows, like those of a tensor: with its own values."""
    tensor = tensor.detach()
    if len(tensor) == 0:
        return tensor.new_zeros((rows, *tensor.shape[1:]))
    picked = torch.randint(0, len(tensor), (rows,), generator=generator)
    found = tensor[picked.to(tensor.device)].clone()
    if found.is_floating_point():
        # Different from row to row, also where the user's are all alike.
        noise = torch.rand(found.shape, generator=generator) * 0.5 + 0.75
        varied = found * noise.to(found)
        found = torch.where(found == 0, found, varied)
    return found


def copy_model(call: ModelCall) -> nn.Module:
    """The model with parameters of its own, and the graph it has."""
    kept = [*call.graphs.values(), *call.inputs.values()]
    return _copy(call.model, {id(item): item for item in kept})


def _copy(model: nn.Module, memo: dict[int, Any]) -> nn.Module:
    try:
        return copy.deepcopy(model, memo)
    except LCError:
        raise
    except Exception as error:
        raise LCError(
            "", "copying the model", f"failed ({error})",
            "Models have to be such that copy.deepcopy works: keep no "
            "computed tensors on them",
        ) from error  # fmt: skip


def _randomise(model: nn.Module, generator: torch.Generator) -> None:
    """Other parameters: a bias of zero would look as if it were none."""
    with torch.no_grad():
        for parameter in model.parameters():
            if not parameter.is_floating_point():
                continue
            noise = torch.rand(parameter.shape, generator=generator)
            sign = torch.where(parameter < 0, -1.0, 1.0)
            # Of the parameters' own size: deep models must not overflow.
            size = 0.3 * float(parameter.abs().mean()) or 0.1
            parameter.add_(sign * size * (noise + 0.1).to(parameter))


def _random_state() -> tuple:
    """Where Python's and NumPy's global generators are."""
    state: Any = np.random.get_state(legacy=False)["state"]  # noqa: NPY002
    return random.getstate(), state["key"].tobytes(), state["pos"]


def trace(
    call: ModelCall,
    training: bool,
    split_bias: bool = False,
    ignore_edge_dropout: bool = False,
) -> Trace:
    """Run the model of a probe and record what it does."""
    call.model.train(training)
    tracer = GraphTracer(
        call.model, call.num_nodes, split_bias, ignore_edge_dropout
    )
    for name, tensor in call.inputs.items():
        value = tracer.add("input", name, example=tensor, data=True)
        tracer.bind(tensor, value)
    for name, graph in call.graphs.items():
        tracer.add_graph(graph, name)
    before = _random_state()
    output = run(tracer, call.model, call.args, call.kwargs)
    if before != _random_state():
        refuse(
            "", "random numbers of Python or NumPy",
            "are drawn in forward: what depends on them can't be followed",
            "Use dropout, or draw them outside of the model",
        )  # fmt: skip
    tracer.trace.output = tracer.lift(output)
    return tracer.trace
