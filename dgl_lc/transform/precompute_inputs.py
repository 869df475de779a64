"""Precomputing the inputs with the block engine.

Inputs share the filters that are applied first: the words on one feature
tensor are a tree, visited depth first, and a run of one filter is one call of
:func:`dgl_lc.block_aggregate`. Intermediate results are freed after their
last use.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from dgl import DGLError

from .._common.bytes import format_bytes, parse_bytes
from ..precompute import block_aggregate
from ..precompute.checks import check_nodes
from ..storage.input_store import StoredInputs, open_inputs, write_inputs
from ..storage.keys import array_key
from ..storage.write_hops import save_rows
from .apply_words import diagonal_values, edge_weight, scale
from .describe_inputs import describe_inputs
from .evaluate import Evaluator
from .filter_words import (
    Diagonal,
    NormedAggregate,
    Polynomial,
    Unit,
    Word,
    units_of,
)
from .input_rows import InputRows
from .model_inputs import Input


@dataclass
class _Tree:
    """Words by the filter that comes next; ``wanted``: inputs that end here."""

    wanted: list[int] = field(default_factory=list)
    further: dict[Unit, "_Tree"] = field(default_factory=dict)

    def add(self, word: Word, number: int) -> None:
        """Add the word of the input with this number."""
        branch = self
        for unit in reversed(units_of(word)):
            branch = branch.further.setdefault(unit, _Tree())
        branch.wanted.append(number)


def precompute_inputs(
    inputs: list[Input],
    evaluate: Evaluator,
    nodes: Any = None,
    memory: int | str | None = None,
    dtype: torch.dtype | None = None,
    device: Any = None,
    progress: bool | None = None,
    out: str | os.PathLike | None = None,
    resume: bool = True,
) -> InputRows | StoredInputs:
    """Compute all inputs, for all nodes or for some, in memory or on disk."""
    graph = next(iter(evaluate.call.graphs.values()))
    chosen = check_nodes(graph, nodes)
    budget = None if memory is None else parse_bytes(memory)
    options = {"device": device, "progress": progress}
    if out is None:
        work = _Work(evaluate, chosen, budget, dtype, options)
        _compute(inputs, range(len(inputs)), evaluate, work)
        parts = [work.results[number] for number in range(len(inputs))]
        return InputRows(parts, chosen)
    found = describe_inputs(inputs, evaluate, dtype)
    made_from = {
        "inputs": found.keys,
        "nodes": None if chosen is None else array_key(chosen),
        "dtype": None if dtype is None else str(dtype),
    }
    folders = [f"input-{number}" for number in range(len(inputs))]
    formulas = [entry.formula for entry in inputs]
    with write_inputs(
        out, formulas, folders, made_from, resume=resume
    ) as writer:
        if not writer.finished:

            def save(number: int, rows: torch.Tensor) -> None:
                folder = folders[number]
                about = {**made_from, "inputs": found.keys[number]}
                path = writer.folder(folder)
                save_rows(path, rows, chosen, about, resume)
                writer.commit(folder)

            work = _Work(evaluate, chosen, budget, dtype, options, save)
            lacking = [
                number
                for number, folder in enumerate(folders)
                if folder not in writer.done
            ]
            _compute(inputs, lacking, evaluate, work)
            writer.finish(found.shapes)
    return open_inputs(out)


def _compute(
    inputs: list[Input],
    numbers: Sequence[int],
    evaluate: Evaluator,
    work: "_Work",
) -> None:
    """Compute the inputs with these numbers."""
    for source in dict.fromkeys(inputs[number].value for number in numbers):
        tree = _Tree()
        for number in numbers:
            if inputs[number].value is source:
                tree.add(inputs[number].word, number)
        rows = evaluate(source).detach()
        made = 0 if source.op == "input" else rows.nbytes
        with work.holding(made):
            work.walk(tree, rows)
        evaluate.forget()


class _Work:
    """Computes inputs; holds or saves the results, and counts bytes."""

    def __init__(
        self, evaluate: Evaluator, nodes: torch.Tensor | None,
        budget: int | None, dtype: torch.dtype | None,
        options: dict[str, Any],
        save: Callable[[int, torch.Tensor], None] | None = None,
    ) -> None:  # fmt: skip
        self._evaluate = evaluate
        self._nodes = nodes
        self._budget = budget
        self._dtype = dtype
        self._options = options
        self._save = save
        self._specs: dict[NormedAggregate, dict[str, Any] | None] = {}
        self._held = 0
        self.results: dict[int, torch.Tensor] = {}

    def walk(self, tree: _Tree, rows: torch.Tensor) -> None:
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
                rest = _Tree([], end.further)
                rows_there = found[last]
                del found
                with self.holding(rows_there.nbytes):
                    self.walk(rest, rows_there)

    @contextmanager
    def holding(self, size: int) -> Iterator[None]:
        """Count bytes that are held during this block."""
        self._held += size
        self._memory()
        try:
            yield
        finally:
            self._held -= size

    def _chosen(self, rows: torch.Tensor) -> torch.Tensor:
        return rows if self._nodes is None else rows[self._nodes]

    def _keep(self, number: int, rows: torch.Tensor) -> None:
        """Keep the rows of an input, in the type they are stored in."""
        if self._dtype is not None and rows.is_floating_point():
            rows = rows.to(self._dtype)
        if self._save is not None:
            self._save(number, rows)
            return
        self.results[number] = rows
        self._held += rows.nbytes

    def _memory(self) -> int | None:
        """Return the bytes that are left of the budget."""
        if self._budget is None:
            return None
        left = self._budget - self._held
        if left <= 0:
            raise DGLError(
                f"memory={format_bytes(self._budget)} is not enough: the "
                f"inputs, and what they are made of, take "
                f"{format_bytes(self._held)} so far. Pass "
                f"more memory=, fewer nodes=, or a smaller dtype=."
            )
        return left

    def _apply(
        self, unit: Unit, rows: torch.Tensor, times: int,
        hops: list[int], all_rows: bool,
    ) -> dict[int, torch.Tensor]:  # fmt: skip
        """Apply a filter repeatedly; return the wanted hops and the last."""
        wanted = sorted({*hops, times})
        spec = self._spec(unit) if isinstance(unit, NormedAggregate) else None
        nodes = None if all_rows else self._nodes
        if rows.numel() == 0:
            return dict.fromkeys(wanted, rows if nodes is None else rows[nodes])
        if spec is not None:
            assert isinstance(unit, NormedAggregate)
            flat = rows.reshape(len(rows), -1)
            found = block_aggregate(
                self._evaluate.graph(unit.aggregate.graph), flat, times,
                self_loop=False, hops=wanted, nodes=nodes,
                memory=self._memory(), **spec, **self._options,
            )  # fmt: skip
            shape = rows.shape[1:]
            return {k: found[k].reshape(-1, *shape) for k in wanted}
        result = {}
        for k in range(1, times + 1):
            rows = self._once(unit, rows)
            if k in wanted:
                result[k] = rows if nodes is None else rows[nodes]
        return result

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
        with self.holding(made):
            rows = self._apply(plain, rows, 1, [1], all_rows=True)[1]
        if unit.left is not None:
            rows = self._scaled(unit.left, rows)
        return rows

    def _scaled(self, diagonal: Diagonal, rows: torch.Tensor) -> torch.Tensor:
        with self.holding(rows.nbytes):
            return scale(diagonal, rows, self._evaluate)

    def _polynomial(self, unit: Polynomial, rows: torch.Tensor) -> torch.Tensor:
        """Apply a polynomial, whose terms share filters as inputs do."""
        tree = _Tree()
        for number, (_, word) in enumerate(unit.terms):
            tree.add(word, number)
        options = {"device": None, "progress": False}
        inner = _Work(self._evaluate, None, self._memory(), None, options)
        inner._specs = self._specs
        inner.walk(tree, rows)
        total = torch.zeros_like(rows)
        for number, (coefficient, _) in enumerate(unit.terms):
            total.add_(inner.results.pop(number), alpha=coefficient)
        return total

    def _spec(self, unit: NormedAggregate) -> dict[str, Any] | None:
        """Return the engine's options for a filter on this graph, if any."""
        if unit not in self._specs:
            self._specs[unit] = self._find_spec(unit)
        return self._specs[unit]

    def _find_spec(self, unit: NormedAggregate) -> dict[str, Any] | None:
        """Compare the norms of a filter with those the engine has."""
        evaluate, letter = self._evaluate, unit.aggregate
        graph = evaluate.graph(letter.graph)
        weight: torch.Tensor | bool = False
        if letter.weight is not None:
            weight = edge_weight(letter, evaluate)
        into, out = graph.in_degrees, graph.out_degrees
        for norm, left, right, degrees in (
            ("none", None, None, out), ("both", -0.5, -0.5, out),
            ("right", -1.0, None, out), ("left", None, -1.0, out),
            ("in", -0.5, -0.5, into),
        ):  # fmt: skip
            ends = self._is_norm(unit.left, into, left, into)
            if ends and self._is_norm(unit.right, degrees, right, out):
                return {"norm": norm, "edge_weight": weight}
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
        # The factor of a node without edges has no effect.
        used = count_edges() > 0
        expected = count()[used].to(values).clamp(min=1) ** power
        return torch.allclose(values[used], expected, rtol=1e-6, atol=0)
