"""Probes: small random graphs and features that resemble the user's.

A probe has feature widths and types like the user's. Its numbers of nodes and
edges are primes that differ from probe to probe, and none is a width in the
model, so that a size of the graph can't be confused with anything else.
"""

import copy
from collections.abc import Collection
from typing import Any

import dgl
import torch
from torch import nn

from .. import causes
from ..computed_weights import computed_weights
from ..number_types import has_numbers, real_parts
from ..refusals import LCError, refusal
from .bound_functions import bind_functions
from .call_leaves import change_leaves
from .limited_degrees import largest_degree, limited_edges
from .model_call import ModelCall
from .resembling_edges import facts_of, resembling_edges

_PRIMES = [
    p for p in range(41, 8000) if all(p % d for d in range(2, int(p**0.5) + 1))
]  # fmt: skip


#: Integers below this are looked at as types of nodes or edges.
_MOST_KINDS = 100_000


def make_probe(
    call: ModelCall,
    seed: int,
    kind: str = "random",
    ones: Collection[Any] = (),
) -> ModelCall:
    """Make a call like the user's, of a copy of the model on a small graph.

    Parameters
    ----------
    seed : int
        Seed of the probe: the same seed makes the same probe again.
    kind : str
        "random": degrees of 1 to many, with self-loops and multi-edges;
        "permutation": one edge into and one out of every node, no
        self-loops; "loops": one self-loop for every node; "no edges".
    ones : collection
        Names of features that are 1 on the probe: of arguments, and
        ``("edata", name of the graph, name of the feature)``.
    """
    generator = torch.Generator().manual_seed(seed)
    primes = _free_primes(call)
    n = _num_nodes(call.num_nodes, seed, primes)
    num_edges: dict[int, int] = {}
    graphs: dict[str, dgl.DGLGraph] = {}
    for number, (name, graph) in enumerate(call.graphs.items()):
        m = graph.num_edges()
        if call.limits_degrees and kind == "random" and m not in num_edges:
            limit = largest_degree(graph)
            found = limited_edges(n, limit, seed + number, primes, generator)
            if found is not None:
                num_edges[m] = len(found[0])
                graphs[name] = _like(graph, found, n)
                continue
        if m not in num_edges:
            # Average degrees differ between probes, and between graphs.
            wanted = (3 + seed + number) * n
            count = next(p for p in primes if p > wanted)
            counts = {"random": count, "no edges": 0}
            num_edges[m] = counts.get(kind, n)
        if call.resembles and kind == "random":
            facts = facts_of(graph)
            edges = resembling_edges(n, num_edges[m], facts, generator)
        else:
            edges = _edges(n, num_edges[m], kind, generator)
        graphs[name] = _like(graph, edges, n)
    inputs = {}
    for name, tensor in call.inputs.items():
        rows = n if call.of_nodes(name) else num_edges[tensor.shape[0]]
        inputs[name] = _resample(tensor, rows, generator)
    _fill_with_ones(graphs, inputs, ones)
    same: dict[int, Any] = {
        **{id(call.graphs[name]): graph for name, graph in graphs.items()},
        **{id(call.inputs[name]): tensor for name, tensor in inputs.items()},
    }
    # deepcopy takes an object in its memo for one that it has copied.
    model = _copy(call.model, {k: same[k] for k in call.attributes})
    _randomise(model, generator)

    def swap(leaf: Any) -> Any:
        return same.get(id(leaf), leaf)

    args, kwargs = change_leaves((call.args, call.kwargs), swap)
    return ModelCall(model, args, kwargs, graphs, inputs, originals=call.graphs)


def _fill_with_ones(
    graphs: dict[str, dgl.DGLGraph],
    inputs: dict[str, torch.Tensor],
    names: Collection[Any],
) -> None:
    """Set some floating-point features to 1."""
    for target in names:
        features, name = inputs, target
        if not isinstance(target, str):
            kind, graph, name = target
            if not isinstance(graph, str):
                continue
            features = getattr(graphs[graph], kind)
        if features[name].is_floating_point():
            features[name] = torch.ones_like(features[name])


def _num_nodes(real: int, seed: int, primes: list[int]) -> int:
    """Choose a number of nodes, below and above the user's by turns.

    If the user's graph is small, an unnoticed branch on its size is then
    taken on one probe and not on another.
    """
    place = 3 * seed
    if seed % 3 == 1:
        fewer = [p for p in primes if p < real]
        return fewer[-1] if fewer and real < primes[place] else primes[place]
    if primes[place] < real < 600:
        place += sum(primes[place] <= p <= real for p in primes)
    return primes[place]


def _free_primes(call: ModelCall) -> list[int]:
    """Return primes that divide no width of any tensor in this call."""
    used: set[int] = set()
    tensors = [
        *call.model.parameters(), *call.model.buffers(),
        *call.inputs.values(),
        *(t for g in call.graphs.values() for t in g.ndata.values()),
        *(t for g in call.graphs.values() for t in g.edata.values()),
    ]  # fmt: skip
    for tensor in tensors:
        used.update(tensor.shape)
    used.discard(0)
    widest = max(used, default=0)
    return [
        p for p in _PRIMES if p > widest or all(width % p for width in used)
    ]


def _edges(
    n: int, count: int, kind: str, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw the sources and the targets of edges."""
    nodes = torch.arange(n)
    if kind == "no edges":
        return nodes[:0], nodes[:0]
    if kind == "loops":
        return nodes, nodes
    cycle = torch.randperm(n, generator=generator)
    source, target = cycle, cycle.roll(1)
    if kind == "permutation":
        return source, target
    more = count - n
    u = torch.randint(0, n, (more,), generator=generator)
    v = torch.randint(0, n, (more,), generator=generator)
    # There is a hub, and there are some self-loops and multi-edges.
    v[: more // 8] = 0
    u[more // 8 : more // 6] = v[more // 8 : more // 6]
    u[-10:], v[-10:] = u[-20:-10].clone(), v[-20:-10].clone()
    return torch.cat([source, u]), torch.cat([target, v])


def _like(
    graph: dgl.DGLGraph, edges: tuple[torch.Tensor, torch.Tensor], n: int
) -> dgl.DGLGraph:
    """Make a graph of these edges, with features like those of another."""
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
    """Draw rows of a tensor, and vary their numbers a little."""
    tensor = tensor.detach()
    if len(tensor) == 0:
        return tensor.new_zeros((rows, *tensor.shape[1:]))
    picked = torch.randint(0, len(tensor), (rows,), generator=generator)
    found = tensor[picked.to(tensor.device)].clone()
    if has_numbers(found):
        # Rows have to differ even if the user's rows are all equal.
        noise = torch.rand(found.shape, generator=generator) * 0.5 + 0.75
        varied = found * noise.to(found)
        found = torch.where(found == 0, found, varied)
    elif found.dim() == 1:
        found = _with_all_kinds(found, tensor, generator)
    return found


def _with_all_kinds(
    found: torch.Tensor, tensor: torch.Tensor, generator: torch.Generator
) -> torch.Tensor:
    """Let drawn integers have every type that the user's have, in order.

    A rare type of edges must not be missing in one probe only, and types that
    are sorted have to stay so.
    """
    few = tensor.dtype is not torch.bool and int(tensor.min()) >= 0
    if not few or int(tensor.max()) >= _MOST_KINDS:
        return found
    kinds = torch.bincount(tensor).nonzero().view(-1)
    if len(kinds) <= len(found):
        places = torch.randperm(len(found), generator=generator)
        found[places[: len(kinds)].to(found.device)] = kinds.to(found)
    is_sorted = bool((tensor[1:] >= tensor[:-1]).all())
    return found.sort().values if is_sorted and len(kinds) > 1 else found


def copy_model(
    call: ModelCall, instead: dict[int, Any] | None = None
) -> nn.Module:
    """Copy the model and its parameters, but not its graphs and features.

    ``instead`` has other graphs and features to hold, by the ids of its own.
    """
    kept = [*call.graphs.values(), *call.inputs.values()]
    memo = {id(item): item for item in kept}
    return _copy(call.model, {**memo, **(instead or {})})


def _copy(model: nn.Module, memo: dict[int, Any]) -> nn.Module:
    """Copy a model, except for the objects in the memo."""
    try:
        copies = {**computed_weights(model), **memo}
        made = copy.deepcopy(model, copies)
        bind_functions(made, copies)
        return made
    except LCError:
        raise
    except Exception as error:
        raise refusal(
            causes.NOT_COPIED, "", "copying the model", f"failed ({error})",
            "Make copy.deepcopy(model) work: do not keep computed tensors as "
            "attributes of the model",
        ) from error  # fmt: skip


def _randomise(model: nn.Module, generator: torch.Generator) -> None:
    """Change all parameters: a bias of zero would look like no bias."""
    with torch.no_grad():
        for parameter in filter(has_numbers, model.parameters()):
            numbers = real_parts(parameter)
            noise = torch.rand(numbers.shape, generator=generator)
            sign = torch.where(numbers < 0, -1.0, 1.0)
            # A change as large as the parameters keeps deep models finite.
            size = 0.3 * float(numbers.abs().mean()) or 0.1
            numbers.add_(sign * size * (noise + 0.1).to(numbers))
