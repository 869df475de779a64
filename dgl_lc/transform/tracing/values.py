"""Values: the operations that a model does, each with its arguments."""

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from ..._common.nested import leaves as leaves
from ..._common.nested import replace as replace
from ..refusals import Line, Problem


class _Training:
    """Stands for ``self.training`` among the arguments of a call."""

    def __repr__(self) -> str:
        return "training"


TRAINING = _Training()


@dataclass(frozen=True)
class ByTraining:
    """Stands for a number that is another one in training."""

    in_training: Any
    in_evaluation: Any


def in_evaluation(leaf: Any) -> Any:
    """Return what an argument that depends on training is in evaluation."""
    if isinstance(leaf, ByTraining):
        return leaf.in_evaluation
    return False if leaf is TRAINING else leaf


@dataclass(frozen=True)
class PerNode:
    """A size of a tensor with several rows for each node, side by side.

    ``h.view(N * heads, -1)`` has the rows of all heads of the first node,
    then those of the second one, and so on.
    """

    rows: int

    def __repr__(self) -> str:
        return f"{self.rows}N"


@dataclass(eq=False)
class Value:
    """Something that the model computes.

    Attributes
    ----------
    op : str
        "input" (an argument or graph-sized tensor), "number" (a size of the
        graph), "param" (a parameter or buffer), "const", "call" (a torch
        function), "module" (a module of torch.nn), "aggregate", "edges" (a
        value for each edge, from its ends), "softmax" (over incoming edges),
        "graph" (the result of a method of the graph) or "refused" (the result
        of an operation that was refused, where all problems are collected).
    target : object
        Function, module name, graph … that the operation is of.
    args, kwargs
        Arguments; tensors among them are values.
    where : str
        Name of the submodule that computes it.
    example : object
        Result on the probe.
    learned, random, data : bool
        Whether it depends on a parameter, on a random generator, and on the
        graph or the features.
    draws, always_draws : bool
        Whether it draws random numbers itself, and in evaluation as well.
    trouble : str or None
        Reason why it can't be used, if it differs from probe to probe.
    line : Line or None
        Line of the user's code that computes it.
    counted : Value, str or None
        For an embedding of categories: the same value, computed from one-hot
        columns that can be aggregated, or the reason why there is none.
    dims : tuple
        Sizes of the tensor: integers, "N" for one row per node, "E" for one
        per edge, :class:`PerNode` for several rows per node, None for any
        other size that differs between probes.
    """

    id: int
    op: str
    target: Any
    args: tuple
    kwargs: dict
    where: str
    example: Any
    learned: bool = False
    random: bool = False
    data: bool = False
    draws: bool = False
    always_draws: bool = False
    trouble: str | None = None
    dims: tuple = ()
    line: Line | None = None
    counted: "Value | str | None" = None

    @property
    def static(self) -> bool:
        """Whether it depends on the graph and the features alone."""
        return self.data and not self.learned and not self.random

    @property
    def row_dim(self) -> int | None:
        """The dimension with one row for each node, if there is just one."""
        clear = self.dims.count("N") == 1 and not {"E", None} & set(self.dims)
        return self.dims.index("N") if clear else None

    @property
    def node_rows(self) -> tuple[int, int] | None:
        """The dimension with rows of nodes, and how many each node has."""
        found = [
            (dim, 1 if size == "N" else size.rows)
            for dim, size in enumerate(self.dims)
            if size == "N" or isinstance(size, PerNode)
        ]
        clear = len(found) == 1 and not {"E", None} & set(self.dims)
        return found[0] if clear else None

    @property
    def count(self) -> int | None:
        """How many times the number of nodes it is, if it is a number so."""
        if self.op == "number":
            return 1 if self.target == "N" else None
        if self.op != "call" or len(self.args) != 2:
            return None
        number, factor = self.args
        if self.target is operator.mul and isinstance(factor, Value):
            number, factor = factor, number
        if not isinstance(number, Value) or type(factor) is not int:
            return None
        count = number.count
        if count is not None and self.target is operator.mul:
            return count * factor
        if count is not None and self.target is operator.floordiv:
            return count // factor if count % factor == 0 else None
        return None

    @property
    def is_item(self) -> bool:
        """Whether it is an item of a tuple that an operation returned."""
        if self.op != "call" or self.target is not operator.getitem:
            return False
        return not isinstance(self.args[0].example, torch.Tensor)

    @property
    def name(self) -> str:
        """The operation, for people to read."""
        if self.op == "call":
            return name_of(self.target)
        if self.op == "aggregate":
            return "message passing"
        if self.op == "edges":
            return "a value for each edge"
        if self.op == "softmax":
            return "edge softmax"
        if self.op in ("module", "param"):
            return str(self.target)
        if self.op == "refused":
            return name_of(self.target)
        if self.op == "graph":
            return f"g.{self.target[1]}"
        return self.op

    def __repr__(self) -> str:
        return f"%{self.id}"


@dataclass
class Guard:
    """A value that became a Python number or a branch, and its result."""

    value: Value
    result: Any
    #: Whether it became a plain Python number, which is not followed.
    escaped: bool = False


@dataclass
class Trace:
    """All values in the order of computation, and the model's output.

    ``problems`` are those that were met, if tracing continues after a refusal,
    each with the number of values before it; ``finished`` is False if the
    model raised an error.
    """

    values: list[Value] = field(default_factory=list)
    guards: list[Guard] = field(default_factory=list)
    output: Any = None
    problems: list[tuple[int, Problem]] = field(default_factory=list)
    finished: bool = True

    def note(self, problems: list[Problem]) -> None:
        """Note problems that were met at this place."""
        self.problems.extend((len(self.values), p) for p in problems)


def name_of(function: Any) -> str:
    """Return the name of a function, or of the property that it reads."""
    if isinstance(function, property) or hasattr(function, "__self__"):
        owner = getattr(function, "__self__", None)
        if getattr(function, "__name__", "") == "__get__":
            return getattr(owner, "__name__", "?")
    return getattr(function, "__name__", str(function))


def callable_of(value: Value, model: nn.Module) -> Callable:
    """Return the function that a value calls."""
    if value.op == "module":
        return model.get_submodule(value.target)
    if getattr(value.target, "__name__", "") == "__get__":
        name = value.target.__self__.__name__
        return lambda tensor: getattr(tensor, name)
    return value.target


def values_in(item: Any) -> list[Value]:
    """Return the values among the leaves of an item."""
    return [leaf for leaf in leaves(item) if isinstance(leaf, Value)]


def arguments_of(value: Value) -> list[Value]:
    """Return the values among the arguments of a value."""
    return values_in((value.args, value.kwargs))


def tensors_in(item: Any) -> list[torch.Tensor]:
    """Return the tensors among the leaves of an item."""
    return [leaf for leaf in leaves(item) if isinstance(leaf, torch.Tensor)]


def after_parts(
    value: Value,
    known: dict[int, Any],
    parts: Callable[[Value], list[Value]],
    compute: Callable[[Value], Any],
) -> Any:
    """Compute something for a value after all its parts.

    Results are kept in ``known``, by the ids of values. There is no
    recursion, for which deep models have too many values in a row.
    """
    pending = [value]
    while pending:
        top = pending[-1]
        if top.id in known:
            pending.pop()
            continue
        missing = [v for v in parts(top) if v.id not in known]
        if missing:
            pending.extend(missing)
        else:
            known[top.id] = compute(top)
    return known[value.id]
