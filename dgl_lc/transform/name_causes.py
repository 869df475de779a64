"""Naming the cause of a problem: what the author of the model can change.

``topk`` of learned scores shows up as an index whose size differs from graph
to graph, and PairNorm as a mean and a square root. A rule looks at a root of
the problems and at the values around it, and returns the problem as its author
knows it; to add a rule, write a function of the root and its surroundings::

    @names
    def pooling(root, around): ...

It returns None if it does not apply. Rules are asked in the order of this file.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from torch import nn

from . import causes
from .causes import Cause
from .find_roots import Root, picks_by_learned
from .matrix_filters import is_of_vectors
from .name_edge_causes import (
    attention,
    dropped_messages,
    layer_on_edge_features,
)
from .refusals import Problem
from .tracing.values import Trace, Value, arguments_of, values_in


class Around:
    """What is computed from each value of a trace."""

    def __init__(self, trace: Trace, model: nn.Module) -> None:
        self._model = model
        self.users: dict[Value, list[Value]] = {}
        for value in trace.values:
            for arg in arguments_of(value):
                self.users.setdefault(arg, []).append(value)
        self.outputs = set(values_in(trace.output))

    def name(self, value: Value) -> str:
        """Return the name of a function, or of the class of a module."""
        if value.op == "module":
            return type(self._model.get_submodule(value.target)).__name__
        return value.name.strip("_")

    def rows_from(self, value: Value) -> Iterator[Value]:
        """Yield the first values with a row for each node made of a value."""
        seen = {value}
        pending = [value]
        while pending:
            for user in self.users.get(pending.pop(), ()):
                if user in seen:
                    continue
                seen.add(user)
                if user.data and user.row_dim is not None:
                    yield user
                else:
                    pending.append(user)

    def follow(self, value: Value) -> Iterator[Value]:
        """Yield all that is computed from a value."""
        seen = {value}
        pending = [value]
        while pending:
            for user in self.users.get(pending.pop(), ()):
                if user not in seen:
                    seen.add(user)
                    pending.append(user)
                    yield user

    def reaches(self, value: Value, names: frozenset[str]) -> bool:
        """Return whether a value is used by one of these functions soon."""
        near = self.users.get(value, [])
        further = [u for v in near for u in self.users.get(v, [])]
        return any(v.name.strip("_") in names for v in [*near, *further])


Rule = Callable[[Root, Around], Problem | None]
_RULES: list[Rule] = []


def names(rule: Rule) -> Rule:
    """Make a function a rule."""
    _RULES.append(rule)
    return rule


def name_cause(root: Root, around: Around) -> Problem:
    """Return the problem of a root as the model's author knows it."""
    for rule in _RULES:
        found = rule(root, around)
        if found is not None:
            return found
    return root.problem


def renamed(
    root: Root, cause: Cause, what: str, reason: str, advice: str
) -> Problem:
    """Return the problem of a root under another name."""
    return root.named(cause, what, reason, advice)


def _learned_arguments(value: Value) -> list[Value]:
    return [v for v in arguments_of(value) if v.learned and v.data]


_BY_INDEX = frozenset({
    "getitem", "index_select", "gather", "take", "take_along_dim",
})  # fmt: skip


@names
def _picked_nodes(root: Root, around: Around) -> Problem | None:
    """Name top-k pooling, and other choices of nodes by learned values."""
    value = root.value
    name = value.name.strip("_")
    learned = _learned_arguments(value)
    by_index = name in _BY_INDEX and any(v in learned for v in learned[1:])
    if not picks_by_learned(value) and not by_index:
        return None
    return renamed(
        root, causes.PICKED_NODES, f"{name} of learned scores",
        "mixes nodes: which nodes are kept (top-k pooling, sorting) depends on "
        "learned values of all nodes, and a mini-batch has only some of them",
        "Keep all nodes: multiply each row by its score, "
        "h * torch.sigmoid(score), instead of picking nodes",
    )  # fmt: skip


@names
def _from_numpy(root: Root, around: Around) -> Problem | None:
    """Name random masks whose probabilities were not computed by torch."""
    if root.value.op != "const":
        return None
    drawn = next((v for v in around.follow(root.value) if v.draws), None)
    if drawn is None or drawn.line is None:
        return None
    line = drawn.line
    problem = replace(
        root.problem, code=causes.RANDOM_NUMBERS.code, submodule=drawn.where,
        file=line.file, line=line.number, text=line.text,
    )  # fmt: skip
    return _random_numbers(Root(drawn, problem), around)


_NOISE = "Use dropout, the only random function that can be transformed"


@names
def _random_numbers(root: Root, around: Around) -> Problem | None:
    """Name DropNode, shuffling, Gumbel noise and other random numbers."""
    value = root.value
    name = value.name.strip("_")
    if not value.draws or root.problem.code != causes.RANDOM_NUMBERS.code:
        return None
    if value.dims[:1] == ("E",):
        return renamed(
            root, causes.DROPPED_EDGES, f"a random mask of edges ({name})",
            "edges are dropped at random, so the filter is not constant",
            "Remove it, or, if it is dgl.DropEdge, pass "
            "ignore_edge_dropout=True",
        )  # fmt: skip
    if name == "randperm":
        return renamed(
            root, causes.SHUFFLED_NODES, "randperm shuffles nodes",
            "draws random numbers that mix nodes: a row gets the features of "
            "another node (as in the corruption of contrastive models)",
            "Shuffle the features before the model is called, and transform "
            "the encoder alone",
        )  # fmt: skip
    if "gumbel" in name or around.reaches(value, frozenset({"log"})):
        return renamed(
            root, causes.RANDOM_NUMBERS, f"Gumbel noise ({name})",
            "draws random numbers for each node, in evaluation too",
            "Use a softmax without noise",
        )  # fmt: skip
    one_each = value.dims[:1] == ("N",) and all(d == 1 for d in value.dims[1:])
    if one_each:
        return renamed(
            root, causes.RANDOM_NUMBERS, f"DropNode, a random mask ({name})",
            "draws random numbers, one for each node, so that whole nodes are "
            "dropped",
            "Use nn.Dropout on the features instead",
        )  # fmt: skip
    return renamed(
        root, causes.RANDOM_NUMBERS, f"random mask or noise ({name})",
        "draws random numbers", _NOISE,
    )  # fmt: skip


_REDUCTIONS = frozenset({
    "mean", "sum", "max", "min", "amax", "amin", "std", "var", "norm",
    "median", "logsumexp", "prod", "scatter_add", "index_add",
    "scatter_reduce", "var_mean", "std_mean", "aminmax", "quantile",
    "vector_norm", "nanmean",
})  # fmt: skip
_SPREADS = frozenset({"std", "var", "norm", "var_mean", "std_mean"})


@names
def _over_nodes(root: Root, around: Around) -> Problem | None:
    """Name readouts, virtual nodes and norms over nodes."""
    value = root.value
    name = value.name.strip("_")
    mixes = root.problem.code == causes.MIXED_NODES.code
    if not mixes or name not in _REDUCTIONS or value.row_dim is not None:
        return None
    if not any("N" in v.dims for v in arguments_of(value)):
        return None
    rows = {v.name.strip("_") for v in around.rows_from(value)}
    if rows & {"sub", "truediv"} or (rows and name in _SPREADS):
        return renamed(
            root, causes.NORM_OVER_NODES, f"{name} over all nodes",
            "mixes nodes: rows are centred or scaled by a statistic of all "
            "nodes (PairNorm, GraphNorm), and a mini-batch has only some of "
            "them",
            "Use nn.LayerNorm, which normalises each row, or nn.BatchNorm1d, "
            "which keeps running statistics",
        )  # fmt: skip
    if rows:
        return renamed(
            root, causes.READOUT, f"{name} over all nodes",
            "mixes nodes: a value of all nodes is given back to each node (a "
            "virtual node, or a global context)",
            "Remove it, or compute it from the features before the model is "
            "called and store it as an attribute of the model",
        )  # fmt: skip
    return renamed(
        root, causes.READOUT, f"{name} over all nodes (a readout)",
        "mixes nodes: its result has no row for each node, and a mini-batch "
        "has only some of the nodes",
        "Transform the part of the model that returns a row for each node, "
        "and apply the readout to its output",
    )  # fmt: skip


_ATTENTION = frozenset({
    "scaled_dot_product_attention", "multi_head_attention_forward",
    "_transformer_encoder_layer_fwd", "_native_multi_head_attention",
})  # fmt: skip


@names
def _pairs_of_nodes(root: Root, around: Around) -> Problem | None:
    """Name attention between all nodes, and adjacency matrices."""
    value = root.value
    name = value.name.strip("_")
    pairs = value.dims.count("N") > 1
    if value.name in _ATTENTION or (pairs and value.learned):
        return renamed(
            root, causes.ATTENTION_OF_NODES, f"{name} of all pairs of nodes",
            "mixes nodes: each node attends to, or is compared with, all "
            "others (a transformer over nodes, a learned or k-nearest-"
            "neighbour graph)",
            "Use a fixed graph, given to the model, and no attention between "
            "nodes",
        )  # fmt: skip
    if name not in ("softmax", "log_softmax", "cumsum", "logcumsumexp"):
        return None
    if root.problem.code != causes.MIXED_NODES.code:
        return None
    return renamed(
        root, causes.ATTENTION_OF_NODES, f"{name} over all nodes",
        "mixes nodes: the result for a node depends on all nodes",
        "Apply it to each row (dim=1), or use a sigmoid",
    )  # fmt: skip


_PRODUCTS = frozenset({
    "matmul", "bmm", "einsum", "spmm", "mv", "addmm", "dense_mm",
})  # fmt: skip


@names
def _dense_matrix(root: Root, around: Around) -> Problem | None:
    """Name products with an adjacency matrix."""
    products = [
        value
        for value in (root.value, *around.follow(root.value))
        if value.name.strip("_") in _PRODUCTS
        and any(v.dims.count("N") > 1 for v in arguments_of(value))
    ]
    if not products or (root.value is not products[0] and root.value.data):
        return None
    name = products[0].name.strip("_")
    line = products[0].line
    if line is not None:
        problem = replace(
            root.problem, file=line.file, line=line.number, text=line.text
        )
        root = Root(products[0], problem)
    if any(map(is_of_vectors, arguments_of(products[0]))):
        return renamed(
            root, causes.MIXED_NODES, f"{name} with eigenvectors",
            "mixes nodes: rows of nodes become rows of frequencies (a learned "
            "spectral filter), and a mini-batch has only some of the nodes",
            "Use a polynomial of the filter, as ChebConv, GPRGNN and BernNet "
            "do, or multiply the eigenvectors and a fixed function of the "
            "eigenvalues to one matrix first",
        )  # fmt: skip
    return renamed(
        root, causes.UNSUPPORTED_MESSAGES, f"{name} with a matrix of nodes",
        "has an argument with a number for each pair of nodes, such as an "
        "adjacency matrix",
        "Pass a graph, and aggregate with update_all or dgl.ops.copy_u_sum "
        "(u_mul_e_sum with edge weights)",
    )  # fmt: skip


@names
def _losses(root: Root, around: Around) -> Problem | None:
    """Name losses that are computed in forward."""
    name = around.name(root.value)
    scalar = root.value.row_dim is None and "N" not in root.value.dims
    is_loss = "loss" in name.lower() or name in ("cross_entropy", "kl_div")
    if not (scalar and is_loss):
        return None
    return renamed(
        root, causes.READOUT, f"{name} over all nodes",
        "mixes nodes: a loss has no row for each node",
        "Return the outputs of the nodes, and compute the loss in the "
        "training loop",
    )  # fmt: skip


@names
def _norms(root: Root, around: Around) -> Problem | None:
    """Name functions that normalise over the nodes."""
    name = around.name(root.value)
    if (
        "norm" not in name.lower()
        or root.problem.code != causes.MIXED_NODES.code
    ):
        return None
    return renamed(
        root, causes.NORM_OVER_NODES, f"{name} over all nodes",
        "mixes nodes: its result for a node depends on the other nodes",
        "Normalise each row (nn.LayerNorm, F.normalize(h, dim=1)), or use "
        "nn.BatchNorm1d, which keeps running statistics",
    )  # fmt: skip


@names
def _edges(root: Root, around: Around) -> Problem | None:
    """Name attention over neighbours, and layers on features of edges."""
    return (
        attention(root, around.follow(root.value))
        or dropped_messages(root)
        or layer_on_edge_features(root)
    )
