"""What is known of the values: where they differ, which act row by row.

A model is traced on two probes of different sizes and degrees, in training
and in evaluation. Whatever differs between them is a size of the graph, the
training flag, or a reason to refuse.
"""

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from .refusals import LCError, first_line, refuse
from .tracing.values import Guard, Trace, Value, leaves, replace, values_in


class _Training:
    """Stands for ``self.training`` among the arguments of a call."""

    def __repr__(self) -> str:
        return "training"


TRAINING = _Training()


def unify(trace: Trace, other: Trace, training: Trace) -> Trace:
    """One trace of three: of a probe, of another, and of it in training.

    Values of ``trace`` get their :attr:`~Value.dims`, arguments that are
    sizes or the training flag become symbols, and values that can't be
    trusted get their :attr:`~Value.trouble`.
    """
    _check_steps(
        trace, other,
        "what is computed depends on the size or the degrees of the graph",
        "Write forward so that it does the same on every graph",
    )  # fmt: skip
    _check_steps(
        trace, training,
        "what is computed differs between training and evaluation",
        "Let a module or F.dropout(…, training=self.training) make the "
        "difference",
    )  # fmt: skip
    sizes = {
        (v.example, o.example): v
        for v, o in zip(trace.values, other.values, strict=True)
        if v.op == "number"
    }
    for mine, its, trained in zip(
        trace.values, other.values, training.values, strict=True
    ):
        mine.dims = _dims(mine, its, sizes)
        mine.random = mine.random or trained.random
        mine.draws = mine.draws or trained.draws
        _compare(mine, its, trained, sizes)
    trace.output = _unify_leaves(
        "", trace.output, other.output, training.output, sizes
    )
    trace.guards = _unify_guards(trace, other, training)
    return trace


def _check_steps(trace: Trace, other: Trace, reason: str, advice: str) -> None:
    pairs = zip(trace.values, other.values, strict=False)
    for mine, its in pairs:
        if mine.op != its.op or not _same_target(mine, its):
            refuse(mine.where, f"{mine.name} / {its.name}", reason, advice)
    shorter, longer = sorted((trace.values, other.values), key=len)
    if len(shorter) < len(longer):
        extra = longer[len(shorter)]
        refuse(extra.where, extra.name, reason, advice)


def _same_target(mine: Value, its: Value) -> bool:
    if mine.op == "const":
        return True
    same = mine.target == its.target
    return bool(same) if isinstance(same, bool) else mine.target is its.target


def _dims(mine: Value, its: Value, sizes: dict) -> tuple:
    """The sizes of a tensor: constant, or of the graph."""
    a, b = mine.example, its.example
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return ()
    if a.dim() != b.dim():
        return (None,)
    found: list = []
    for pair in zip(a.shape, b.shape, strict=True):
        if pair in sizes:
            name = sizes[pair].target
            found.append("N" if name == "N" else "E")
        else:
            found.append(pair[0] if pair[0] == pair[1] else None)
    return tuple(found)


def _compare(mine: Value, its: Value, trained: Value, sizes: dict) -> None:
    if mine.op == "const" and not _same_tensor(mine.example, its.example):
        mine.trouble = (
            "is a tensor that differs from graph to graph, of which nobody "
            "knows how it was made"
        )
        return
    try:
        mine.args, mine.kwargs = _unify_leaves(
            mine.where, (mine.args, mine.kwargs), (its.args, its.kwargs),
            (trained.args, trained.kwargs), sizes,
        )  # fmt: skip
    except LCError as error:
        mine.trouble = error.reason


def _unify_leaves(
    where: str, mine: Any, its: Any, trained: Any, sizes: dict
) -> Any:
    all_leaves = [leaves(item) for item in (mine, its, trained)]
    if len({len(found) for found in all_leaves}) > 1:
        refuse(where, "arguments", "differ from graph to graph", _STEADY)
    others = iter(zip(*all_leaves[1:], strict=True))

    def unify_leaf(leaf: Any) -> Any:
        its, trained = next(others)
        if isinstance(leaf, Value):
            ids = {getattr(v, "id", None) for v in (leaf, its, trained)}
            if len(ids) == 1:
                return leaf
        elif leaf is False and its is False and trained is True:
            return TRAINING
        elif type(leaf) is int and (leaf, its) in sizes:
            return sizes[leaf, its]
        elif _same_leaf(leaf, its) and _same_leaf(leaf, trained):
            return leaf
        return refuse(
            where, "a constant",
            f"takes a number from the graph, from a shape or from the "
            f"features: it is {leaf} on one graph and {its} on another",
            _STEADY,
        )  # fmt: skip

    return replace(mine, unify_leaf)


#: Where a number is a number, and not a length.
_OF_NUMBERS = (
    operator.add, operator.sub, operator.mul, operator.truediv, operator.pow,
)  # fmt: skip
_STEADY = (
    "Pass the number as a fixed attribute of the model, or compute what "
    "needs it before the model"
)


def _same_leaf(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and _same_tensor(a, b)
    if isinstance(a, float) and isinstance(b, float) and a != a:
        return b != b
    same = a == b
    return type(a) is type(b) and isinstance(same, bool) and same


def _same_tensor(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(a, b)


def _unify_guards(trace: Trace, other: Trace, training: Trace) -> list[Guard]:
    """The branches that matter: the same on all probes."""
    results = {
        guard.value.id: guard.result
        for guard in (*other.guards, *training.guards)
    }
    kept = []
    for guard in trace.guards:
        differs = results.get(guard.value.id) != guard.result
        if differs and guard.escaped:
            refuse(
                guard.value.where, guard.value.name,
                "gives a Python number that differs from graph to graph",
                _STEADY,
            )  # fmt: skip
        # Both branches did the same: what is computed was compared.
        if not differs:
            kept.append(guard)
    return kept


# Row-wise or not

#: How an operation treats the rows of its arguments.
LINEAR, AFFINE, NONLINEAR = "linear", "bias", "non-linear"
DROPOUT, BATCH_NORM = "dropout", "batch norm"

_DROPOUTS = frozenset({
    "dropout", "dropout_", "alpha_dropout", "feature_alpha_dropout", "rrelu",
})  # fmt: skip


class OperationKinds:
    """How each operation treats rows, found out by trying.

    An operation is row-wise if it does to some of the rows, in any order,
    one of them alone included, what it does to them among all the others.
    """

    def __init__(self, model: nn.Module, num_nodes: int):
        self._model = model
        self.num_nodes = num_nodes
        self._found: dict[int, str] = {}

    def of(self, value: Value) -> str:
        if value.id not in self._found:
            self._found[value.id] = self._find(value)
        return self._found[value.id]

    def _find(self, value: Value) -> str:
        tuples = isinstance(value.example, (tuple, list))
        if value.row_dim is None and not tuples:
            shape = tuple(value.dims)
            refuse(
                value.where, value.name,
                f"mixes nodes: its result, of shape {shape}, has no row for "
                f"each node" if "N" not in shape else
                f"has a result of shape {shape}, whose rows are not clear",
                "Only functions of each node's own row can be transformed",
            )  # fmt: skip
        if value.op == "module":
            module = self._model.get_submodule(value.target)
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                return self._batch_norm(value)
            if isinstance(module, nn.modules.dropout._DropoutNd):
                return DROPOUT
        if value.name == "batch_norm":
            return self._batch_norm(value)
        if value.name in _DROPOUTS:
            return DROPOUT
        if value.op == "call" and value.target is operator.getitem:
            of_tuple = not isinstance(value.args[0].example, torch.Tensor)
            if of_tuple:
                return LINEAR
        used = values_in((value.args, value.kwargs))
        if value.draws:
            refuse(
                value.where, value.name,
                "draws random numbers",
                "Of random functions, only dropout is row-wise",
            )  # fmt: skip
        for arg in used:
            unclear = "N" in arg.dims and arg.row_dim is None
            if unclear or "E" in arg.dims or None in arg.dims:
                refuse(
                    value.where, value.name,
                    f"has an argument of shape {arg.dims}: values of pairs "
                    f"of nodes, or of edges",
                    "Only functions of each node's own row can be "
                    "transformed",
                )  # fmt: skip
            if arg.op == "number" and arg.target != "N":
                refuse(
                    value.where, value.name,
                    "takes a number from the graph",
                    _STEADY,
                )  # fmt: skip
            if arg.static and not arg.dims and arg.op != "number":
                refuse(
                    value.where, value.name,
                    f"takes a number from the graph or the features "
                    f"({arg.name})",
                    _STEADY,
                )  # fmt: skip
            if arg.op == "number" and value.target in _OF_NUMBERS:
                refuse(
                    value.where, value.name,
                    "takes a number from the graph, its nodes", _STEADY,
                )  # fmt: skip
        return self._try(value)

    def _batch_norm(self, value: Value) -> str:
        self._check_statistics(value)
        if value.args[0].row_dim != 0:
            refuse(
                value.where, value.name,
                "normalises over another dimension than that of the nodes",
                "Give it one row for each node",
            )  # fmt: skip
        return BATCH_NORM

    def _check_statistics(self, value: Value) -> None:
        """Refuse a norm that looks at other rows in evaluation too."""
        if value.op == "module":
            module = self._model.get_submodule(value.target)
            keeps = module.running_mean is not None
        else:
            flag = value.kwargs.get("training", *value.args[5:6] or (False,))
            keeps = flag is TRAINING or not flag
        if not keeps:
            refuse(
                value.where, value.name,
                "has no running statistics: in evaluation it mixes the nodes "
                "of a batch",
                "Use track_running_stats=True, or LayerNorm",
            )  # fmt: skip

    def _try(self, value: Value) -> str:
        function = callable_of(value, self._model)
        generator = torch.Generator().manual_seed(value.id)
        n = self.num_nodes
        every = torch.arange(n)
        some = torch.randint(0, n, (7,), generator=generator)
        mode = self._model.training
        self._model.eval()
        try:
            with torch.no_grad():
                whole = _outputs(function, value, every, _as_is)
                _check_result(value, whole, n)
                for rows in (some, some[:1], every.flip(0)):
                    part = _outputs(function, value, rows, _as_is)
                    _check_rows(value, whole, part, rows, n)
                return _linearity(function, value, generator)
        except LCError:
            raise
        except Exception as error:
            raise LCError(
                value.where, value.name,
                f"does not work on some of the rows ({first_line(error)})",
                "Only functions of each node's own row can be transformed",
            ) from error  # fmt: skip
        finally:
            self._model.train(mode)


def callable_of(value: Value, model: nn.Module) -> Callable:
    """The function that a value calls."""
    if value.op == "module":
        return model.get_submodule(value.target)
    if getattr(value.target, "__name__", "") == "__get__":
        name = value.target.__self__.__name__
        return lambda tensor: getattr(tensor, name)
    return value.target


def _as_is(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def _outputs(
    function: Callable,
    value: Value,
    rows: torch.Tensor,
    change: Callable[[torch.Tensor], torch.Tensor],
) -> list[torch.Tensor]:
    """What the function gives for some rows of its arguments, changed."""

    def take(leaf: Any) -> Any:
        if leaf is TRAINING:
            return False
        if not isinstance(leaf, Value):
            return leaf
        if leaf.op == "number":
            return len(rows)
        example = leaf.example
        if leaf.row_dim is None:
            return example
        example = example.index_select(leaf.row_dim, rows)
        return change(example) if example.is_floating_point() else example

    args, kwargs = replace(value.args, take), replace(value.kwargs, take)
    found = function(*args, **kwargs)
    return [leaf for leaf in leaves(found) if isinstance(leaf, torch.Tensor)]


def _check_result(value: Value, found: list[torch.Tensor], n: int) -> None:
    for tensor in found:
        if list(tensor.shape).count(n) != 1:
            refuse(
                value.where, value.name,
                f"gives a tensor of shape {tuple(tensor.shape)} for {n} "
                f"nodes",
                "Only functions of each node's own row can be transformed",
            )  # fmt: skip


def _check_rows(
    value: Value,
    whole: list[torch.Tensor],
    part: list[torch.Tensor],
    rows: torch.Tensor,
    n: int,
) -> None:
    for all_rows, some in zip(whole, part, strict=True):
        dim = list(all_rows.shape).index(n)
        expected = all_rows.index_select(dim, rows)
        if expected.shape != some.shape or not close(expected, some):
            refuse(
                value.where, value.name,
                "mixes nodes: what it gives for a node depends on which "
                "other nodes are there",
                "Only functions of each node's own row can be transformed; "
                "in a model of mini-batches, BatchNorm or LayerNorm may "
                "take its place",
            )  # fmt: skip


def close(a: torch.Tensor, b: torch.Tensor, rtol: float = 1e-3) -> bool:
    """Equal up to rounding, which is as large as the numbers are."""
    if a.shape != b.shape:
        return False
    if not (a.is_floating_point() or a.is_complex()):
        return torch.equal(a, b)
    rtol = max(rtol, 8 * torch.finfo(a.dtype).eps)
    size = _size(b)
    return torch.allclose(
        a, b, rtol=rtol, atol=0.1 * rtol * (size or 1e-6), equal_nan=True
    )


def _size(tensor: torch.Tensor) -> float:
    """The largest number in a tensor, infinite ones aside."""
    finite = tensor[torch.isfinite(tensor)].abs()
    return float(finite.max()) if finite.numel() else 0.0


#: Sizes of numbers at which a function is tried: a clamp, or a small bias,
#: shows at some of them only.
_SCALES = (1e-3, 1.0, 1e3, 1e6)


def _linearity(
    function: Callable, value: Value, generator: torch.Generator
) -> str:
    """Linear in all rows together, up to a constant, or neither."""
    rows = torch.arange(11)
    seed = int(torch.randint(2**31, (), generator=generator))

    def noise(scale: float, add: int) -> Callable:
        def change(tensor: torch.Tensor) -> torch.Tensor:
            made = torch.Generator().manual_seed(seed + add + tensor.numel())
            drawn = torch.randn(tensor.shape, generator=made)
            return (scale * drawn).to(tensor)

        return change

    def evaluate(change: Callable) -> list[torch.Tensor]:
        return _outputs(function, value, rows, change)

    zero = evaluate(torch.zeros_like)
    if not all(tensor.is_floating_point() for tensor in zero):
        return NONLINEAR
    linear = all(not tensor.any() for tensor in zero)
    for scale in _SCALES:
        u, v = noise(scale, 0), noise(scale, 1)
        parts = zip(
            evaluate(u), evaluate(v),
            evaluate(lambda t, u=u, v=v: 3 * u(t) + v(t)), zero, strict=True,
        )  # fmt: skip
        for p, q, both, z in parts:
            if not torch.isfinite(both).all():
                return NONLINEAR
            if not close(3 * (p - z) + (q - z), both - z, rtol=1e-4):
                # A constant hides small numbers, not a bend.
                hidden_by = _size(z) * torch.finfo(z.dtype).eps * 1e4
                if _size(both - z) > hidden_by:
                    return NONLINEAR
    return LINEAR if linear else AFFINE
