"""Precomputing the inputs with the block engine.

Inputs share the filters that are applied first: the words on one feature
tensor are a tree, visited depth first, and a run of one filter is one call of
:func:`dgl_lc.block_aggregate`. Intermediate results are freed after their
last use.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch

from .._common.bytes import parse_bytes
from ..precompute import block_aggregate
from ..precompute.checks import check_dtype, check_nodes
from ..precompute.device import find_device
from . import causes
from .apply_words import diagonal_values, edge_weight, scale
from .assumptions import Assumption, check_assumptions
from .categories import CategoryError
from .evaluate import OTHER_GRAPH, Evaluator, check_guards
from .feature_names import made_of
from .filter_words import Diagonal, NormedAggregate, Polynomial, Unit
from .input_rows import InputRows
from .memory_count import MemoryCount
from .model_inputs import Input
from .on_disk.plan_steps import Tree
from .refusals import refusal
from .tracing.model_call import ModelCall
from .tracing.values import Guard, Value

#: What is held while it is computed, in messages.
_STEP = "a step to the inputs"


def precompute_inputs(
    inputs: list[Input],
    call: ModelCall,
    guards: list[Guard],
    assumptions: tuple[Assumption, ...],
    nodes: Any = None,
    memory: int | str | None = None,
    dtype: torch.dtype | None = None,
    device: Any = None,
    progress: bool | None = None,
) -> InputRows:
    """Compute all inputs in memory, for all nodes or for some."""
    if dtype is not None:
        check_dtype(dtype, torch.zeros(()))
    graph = next(iter(call.graphs.values()))
    chosen = check_nodes(graph, nodes)
    count = MemoryCount(None if memory is None else parse_bytes(memory))
    if chosen is not None and chosen is not nodes:
        count.hold(chosen.nbytes, "ids of the nodes asked for")
    evaluate = Evaluator(call, count)
    check_guards(guards, evaluate, OTHER_GRAPH)
    check_assumptions(assumptions, evaluate)
    evaluate.forget()
    # A GPU that can't be used gives way to the CPU, with one warning.
    gpu = find_device(device)
    options = {"device": device if gpu is not None else None,
               "progress": progress}  # fmt: skip
    work = _Work(evaluate, chosen, dtype, options)
    for source in dict.fromkeys(entry.value for entry in inputs):
        tree = Tree()
        for number, entry in enumerate(inputs):
            if entry.value is source:
                tree.add(entry.word, number)
        work.walk(tree, _rows_of(source, evaluate))
        evaluate.forget()
    parts = [work.results[number] for number in range(len(inputs))]
    return InputRows(parts, chosen)


def _rows_of(source: Value, evaluate: Evaluator) -> torch.Tensor:
    """Evaluate the features of inputs."""
    try:
        return evaluate(source).detach()
    except CategoryError as error:
        text = str(error).rstrip(".")
        raise refusal(
            causes.WRONG_CALL, "", f"the categories of {made_of(source)}",
            f"do not fit the model: {text}",
            "Pass categories that the model knows, or give its embedding more "
            "rows and call lc_transform again",
        ) from error  # fmt: skip


class _Work:
    """Computes inputs, holds the results, and counts bytes."""

    def __init__(
        self, evaluate: Evaluator, nodes: torch.Tensor | None,
        dtype: torch.dtype | None, options: dict[str, Any],
    ) -> None:  # fmt: skip
        self._evaluate = evaluate
        self._nodes = nodes
        self._dtype = dtype
        self._options = options
        self._memory = evaluate.memory
        self._norms: dict[NormedAggregate, str | None] = {}
        self.results: dict[int, torch.Tensor] = {}

    def walk(self, tree: Tree, rows: torch.Tensor) -> None:
        """Compute all inputs of a tree, from the rows at its root."""
        for number in tree.wanted:
            self._keep(number, self._chosen(rows))
        for unit, branch in tree.further.items():
            # The engine computes several hops of one filter in one call.
            run = [branch]
            while list(run[-1].further) == [unit]:
                run.append(run[-1].further[unit])
            hops = [k for k, b in enumerate(run, 1) if b.wanted]
            end, last = run[-1], len(run)
            found = self._apply(unit, rows, last, hops, bool(end.further))
            for k in hops:
                for number in run[k - 1].wanted:
                    of_all = bool(end.further) or self._nodes is None
                    part = self._chosen(found[k]) if of_all else found[k]
                    self._keep(number, part)
            if end.further:
                rest = Tree([], end.further)
                rows_there = found[last]
                del found
                with self._memory.holding(rows_there.nbytes, _STEP):
                    self.walk(rest, rows_there)

    def _chosen(self, rows: torch.Tensor) -> torch.Tensor:
        return rows if self._nodes is None else rows[self._nodes]

    def _keep(self, number: int, rows: torch.Tensor) -> None:
        """Keep the rows of an input, in the type they are stored in."""
        if self._dtype is not None and rows.is_floating_point():
            rows = rows.to(self._dtype)
        self._memory.hold(rows.nbytes, "the result")
        self.results[number] = rows

    def _apply(
        self, unit: Unit, rows: torch.Tensor, times: int,
        hops: list[int], all_rows: bool,
    ) -> dict[int, torch.Tensor]:  # fmt: skip
        """Apply a filter repeatedly; return the wanted hops and the last."""
        wanted = sorted({*hops, times})
        nodes = None if all_rows else self._nodes
        if rows.numel() == 0:
            return dict.fromkeys(wanted, rows if nodes is None else rows[nodes])
        if isinstance(unit, NormedAggregate):
            norm = self._norm(unit)
            if norm is not None:
                return self._filter(unit, norm, rows, times, wanted, nodes)
        result = {}
        for k in range(1, times + 1):
            rows = self._once(unit, rows)
            if k in wanted:
                result[k] = rows if nodes is None else rows[nodes]
        return result

    def _filter(
        self, unit: NormedAggregate, norm: str, rows: torch.Tensor, times: int,
        wanted: list[int], nodes: torch.Tensor | None,
    ) -> dict[int, torch.Tensor]:  # fmt: skip
        """Apply a filter with the engine."""
        letter, evaluate = unit.aggregate, self._evaluate
        weight: torch.Tensor | bool = False
        if letter.weight is not None:
            weight = edge_weight(letter, evaluate)
        found = block_aggregate(
            evaluate.graph(letter.graph), rows.reshape(len(rows), -1), times,
            norm=norm, self_loop=False, edge_weight=weight, hops=wanted,
            nodes=nodes, memory=self._memory.left(_STEP),
            dtype=self._dtype, process_group=False, **self._options,
        )  # fmt: skip
        shape = rows.shape[1:]
        return {k: found[k].reshape(-1, *shape) for k in wanted}

    def _once(self, unit: Unit, rows: torch.Tensor) -> torch.Tensor:
        """Apply a unit whose norms the engine does not have, step by step."""
        if isinstance(unit, Diagonal):
            return self._scaled(unit, rows)
        if isinstance(unit, Polynomial):
            return self._polynomial(unit, rows)
        made = 0
        if unit.right is not None:
            rows, made = self._scaled(unit.right, rows), rows.nbytes
        plain = NormedAggregate(None, unit.aggregate, None)
        with self._memory.holding(made, _STEP):
            rows = self._apply(plain, rows, 1, [1], all_rows=True)[1]
        if unit.left is not None:
            rows = self._scaled(unit.left, rows)
        return rows

    def _scaled(self, diagonal: Diagonal, rows: torch.Tensor) -> torch.Tensor:
        with self._memory.holding(2 * rows.nbytes, _STEP):
            return scale(diagonal, rows, self._evaluate)

    def _polynomial(self, unit: Polynomial, rows: torch.Tensor) -> torch.Tensor:
        """Apply a polynomial, whose terms share filters as inputs do."""
        tree = Tree()
        for number, (_, word) in enumerate(unit.terms):
            tree.add(word, number)
        options = {"device": None, "progress": False}
        inner = _Work(self._evaluate, None, self._dtype, options)
        inner._norms = self._norms
        inner.walk(tree, rows)
        with self._memory.holding(rows.nbytes, _STEP):
            total = torch.zeros_like(rows, dtype=self._dtype or rows.dtype)
            for number, (coefficient, _) in enumerate(unit.terms):
                part = inner.results.pop(number)
                total.add_(part, alpha=coefficient)
                self._memory.release(part.nbytes)
        return total

    def _norm(self, unit: NormedAggregate) -> str | None:
        """Return the engine's name for the norms of a filter, if any."""
        if unit not in self._norms:
            self._norms[unit] = self._find_norm(unit)
        return self._norms[unit]

    def _find_norm(self, unit: NormedAggregate) -> str | None:
        """Compare the norms of a filter with those the engine has."""
        key, degrees_of = unit.aggregate.graph, self._evaluate.degrees
        into = cache(partial(degrees_of, key, "in_degrees"))
        out = cache(partial(degrees_of, key, "out_degrees"))
        # Degrees, which of them count, and powers of these.
        size = 48 * self._evaluate.call.num_nodes
        with self._memory.holding(size, "comparing norms with degrees"):
            for norm, left, right, degrees in (
                ("none", None, None, out), ("both", -0.5, -0.5, out),
                ("right", -1.0, None, out), ("left", None, -1.0, out),
                ("in", -0.5, -0.5, into),
            ):  # fmt: skip
                ends = self._is_norm(unit.left, into, left, into)
                if ends and self._is_norm(unit.right, degrees, right, out):
                    return norm
        return None

    def _is_norm(
        self,
        diagonal: Diagonal | None,
        count: Callable[[], torch.Tensor],
        power: float | None,
        count_edges: Callable[[], torch.Tensor],
    ) -> bool:
        """Return whether a diagonal is this power of the degrees.

        ``count_edges`` counts the edges that a node's factor is applied to.
        """
        if diagonal is None or power is None:
            return diagonal is None and power is None
        values = diagonal_values(diagonal, self._evaluate)
        expected = count().to(values).clamp(min=1) ** power
        # The factor of a node without edges has no effect.
        same = (values - expected).abs_() <= 1e-6 * expected
        return bool((same | (count_edges() == 0)).all())
