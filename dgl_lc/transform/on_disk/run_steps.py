"""Running the steps to inputs: each one is a hop store on disk.

A finished step is noted in the state of the folder, and deleted when no later
step reads it. An interrupted step resumes where its store does.
"""

import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..._common.dtypes import type_of
from ..._common.progress import progress_bar
from ...hops import FilterSpec
from ...precompute import block_aggregate
from ...precompute.api import check_budget
from ...precompute.request import Request
from ...storage.disk_features import DiskFeatures
from ...storage.disk_graph import COUNTS
from ...storage.disk_graph import KIND as GRAPH_KIND
from ...storage.folder import discard
from ...storage.free_disk import check_free
from ...storage.hop_store import KIND as HOPS_KIND
from ...storage.hop_store import StoredHops, StoreHead, open_hop_store
from ...storage.input_store import WORK, InputsWriter
from ...storage.write_hops import STORE_FILES, StoreWriter, disk_bytes
from .engine_graphs import WEIGHTS_KIND, diagonal_at, or_again
from .plan_steps import (
    EvaluateStep,
    FilterStep,
    Loops,
    PlannedStep,
    StepRows,
    SumStep,
)
from .static_values import At, StaticValues, read_rows

#: How many times a step that writes rows keeps what it has written.
_COMMITS = 8
#: Bytes per row that a store needs while it is written.
_WRITER = 32


class Runner:
    """Runs steps, in bounded memory.

    Parameters
    ----------
    steps : sequence of PlannedStep
        All steps, in order.
    writer : InputsWriter
        The folder of the inputs, which knows what is done.
    path : Path
        The folder.
    nodes : Tensor, optional
        Nodes whose rows are asked for. Default: all.
    made_from : dict
        Keys of all that the inputs depend on.
    options : dict
        ``device`` and ``progress``, as for block_aggregate.
    """

    def __init__(
        self,
        steps: Sequence[PlannedStep],
        values: StaticValues,
        engine: Any,
        path: Path,
        nodes: torch.Tensor | None,
        options: dict[str, Any],
    ) -> None:
        self._steps, self._values, self._engine = steps, values, engine
        self._path, self._nodes, self._options = path, nodes, options
        self._memory = values.memory
        self._stores: dict[str, StoredHops] = {}

    # Before any work

    def check(self) -> None:
        """Refuse steps for which memory or disk are too small, before any."""
        left = self._memory.left()
        on_cpu = self._options.get("device") is None
        for step in self._steps:
            rows = self._num_rows(step)
            if isinstance(step, FilterStep):
                if left is not None and on_cpu:
                    check_budget(self._request(step), left, True)
            else:
                size = _WRITER * rows
                with self._memory.holding(size, "checksums of rows"):
                    self._chunk_rows(step)
        self._check_disk()

    def _request(self, step: FilterStep) -> Request:
        """Make a request of the size of a step, without its features."""
        graph, weight = self._engine.sizes(step.unit.aggregate)
        empty = torch.zeros((), dtype=step.reads[0].dtype)
        empty = empty.expand(self._values.num_nodes, max(step.columns, 1))
        nodes = self._nodes if step.chosen else None
        return Request.of(
            graph,
            empty,
            step.times,
            step.spec.norm,
            step.spec.self_loop,
            weight,
            nodes,
            step.hops,
            step.dtype,
        )

    def _check_disk(self) -> None:
        """Add up what is on the disk at the same time."""
        last = {
            rows.step: place
            for place, step in enumerate(self._steps)
            for rows in step.reads
        }
        held: dict[PlannedStep, int] = {}
        most = 0
        for place, step in enumerate(self._steps):
            shape = self._num_rows(step), len(step.hops), step.columns
            held[step] = disk_bytes(shape, step.dtype.itemsize, step.chosen)
            most = max(most, sum(held.values()))
            for old in list(held):
                if not old.inputs and last.get(old, -1) <= place:
                    del held[old]
        folder = self._path
        while not folder.exists():
            folder = folder.parent
        done = sum(
            held.get(step, 0)
            for step in self._steps
            if (self.folder(step) / "rows.npy").exists()
        )
        check_free(folder, most - done, "the inputs, and steps to them,")

    def _num_rows(self, step: PlannedStep) -> int:
        if step.chosen:
            assert self._nodes is not None
            return len(self._nodes)
        return self._values.num_nodes

    def folder(self, step: PlannedStep) -> Path:
        """Return the folder of a step."""
        if step.inputs:
            return self._path / step.name
        return self._path / WORK / step.name

    # Running

    def run(
        self, writer: InputsWriter, made_from: dict[str, Any], resume: bool
    ) -> None:
        """Run all steps that are not done, and that later ones need."""
        needed = self._needed(set(writer.done))
        with progress_bar(
            len(self._steps),
            "inputs",
            self._options["progress"],
            done=len(self._steps) - len(needed),
            unit="steps",
        ) as bar:
            for step in self._steps:
                if step not in needed:
                    continue
                about = {**made_from, "step": step.describe()}

                def write(
                    again: bool, step: PlannedStep = step, about: dict = about
                ) -> None:
                    self._run(step, about, resume and again)

                or_again(write)
                self._values.forget()
                writer.commit(step.name)
                self._remove(step, needed)
                bar.update(1)

    def _needed(self, done: set[str]) -> set[PlannedStep]:
        """Find the steps that are not done and that an input depends on."""
        needed: set[PlannedStep] = set()
        pending = [s for s in self._steps if s.inputs and s.name not in done]
        while pending:
            step = pending.pop()
            if step not in needed:
                needed.add(step)
                pending += [
                    rows.step
                    for rows in step.reads
                    if rows.step is not None and rows.step.name not in done
                ]
        return needed

    def _remove(self, step: PlannedStep, needed: set[PlannedStep]) -> None:
        """Delete steps that nothing that is left to do reads."""
        needed.discard(step)
        read = {rows.step for other in needed for rows in other.reads}
        for rows in step.reads:
            old = rows.step
            if old is not None and not old.inputs and old not in read:
                self._stores.pop(old.name, None)
                discard(self.folder(old), HOPS_KIND, STORE_FILES)

    def _run(
        self, step: PlannedStep, about: dict[str, Any], resume: bool
    ) -> None:
        if isinstance(step, FilterStep):
            self._filter(step, resume)
        else:
            self._write(step, about, resume)

    def _filter(self, step: FilterStep, resume: bool) -> None:
        """Apply a filter with the engine."""
        graph, weight = self._engine.graph(step.unit.aggregate)
        with warnings.catch_warnings():
            # Steps are known by the folder that they lie in.
            warnings.filterwarnings("ignore", ".* is used again: the features")
            block_aggregate(
                graph,
                self._features(step.reads[0]),
                step.times,
                norm=step.spec.norm,
                self_loop=step.spec.self_loop,
                edge_weight=weight,
                nodes=self._nodes if step.chosen else None,
                hops=step.hops,
                dtype=step.dtype,
                out=self.folder(step),
                resume=resume,
                process_group=False,
                memory=self._memory.left(),
                **self._options,
            )

    def _features(self, rows: StepRows) -> Any:
        """Return a matrix as the engine takes it."""
        if rows.step is not None:
            return self._store(rows.step).as_features(rows.hop)
        assert rows.value is not None
        array = self._values.call.inputs[rows.value.target]
        if isinstance(array, DiskFeatures):
            return array
        if isinstance(array, torch.Tensor):
            array = array.detach()
        return array.reshape(len(array), -1)

    def _store(self, step: PlannedStep) -> StoredHops:
        if step.name not in self._stores:
            self._stores[step.name] = open_hop_store(self.folder(step))
        return self._stores[step.name]

    # Steps that are computed row by row

    def _write(
        self, step: PlannedStep, about: dict[str, Any], resume: bool
    ) -> None:
        count = self._num_rows(step)
        head = StoreHead(
            count,
            step.columns,
            (0,),
            type_of(step.dtype).name,
            FilterSpec("none", False),
            step.chosen,
            about,
        )
        nodes = self._nodes if step.chosen else None
        self._prepare(step)
        with (
            self._memory.holding(_WRITER * count, "checksums of rows"),
            StoreWriter(
                self.folder(step), head, nodes, resume, by_rows=True
            ) as writer,
        ):
            if writer.finished:
                return
            size = self._chunk_rows(step)
            compute = self._computer(step)
            commit = max(size, -(-count // _COMMITS))
            for begin in range(writer.done, count, commit):
                end = min(begin + commit, count)
                with writer.block(end):
                    for low in range(begin, end, size):
                        own = slice(low, min(low + size, end))
                        rows = compute(own).to(step.dtype)
                        shape = (len(rows), 1, step.columns)
                        writer.write_rows(low, rows.reshape(shape))
            writer.finish()

    def _prepare(self, step: PlannedStep) -> None:
        """Compute the numbers of nodes that a step needs."""
        if isinstance(step, SumStep):
            for factor, _ in step.terms:
                if isinstance(factor, Loops):
                    self._engine.prepare(factor.letter)

    def _chunk_rows(self, step: PlannedStep) -> int:
        """Choose how many rows are computed at a time."""
        # StepRows that are read, converted, summed up and stored.
        size = 8 * step.columns * (len(step.reads) + 3) + 64
        if isinstance(step, EvaluateStep):
            size += self._values.chunk_bytes(step.value)
        elif isinstance(step, SumStep) and step.scale is not None:
            size += self._values.chunk_bytes(step.scale.factor)
        return self._memory.chunk_rows(size, f"computing {step.name}")

    def _computer(self, step: PlannedStep) -> Callable[[slice], torch.Tensor]:
        """Make a function that computes some of the rows of a step."""
        if isinstance(step, EvaluateStep):
            return lambda own: self._evaluate(step, own)
        assert isinstance(step, SumStep)
        return lambda own: self._sum(step, own)

    def _at(self, step: PlannedStep, own: slice) -> At:
        """Return the nodes of some rows."""
        if not step.chosen:
            return own
        assert self._nodes is not None
        return self._nodes[own].numpy()

    def _evaluate(self, step: EvaluateStep, own: slice) -> torch.Tensor:
        values = self._values
        for name, rows in step.sums.items():
            values.stored[name] = lambda at, rows=rows: self._read(rows, at)
        return values.rows(step.value, self._at(step, own))

    def _sum(self, step: SumStep, own: slice) -> torch.Tensor:
        at = self._at(step, own)
        sums = type_of(step.dtype).torch_sums
        for rows in step.reads:
            sums = torch.promote_types(sums, rows.dtype)
        found: torch.Tensor | None = None
        for factor, rows in step.terms:
            part = self._read(rows, own if rows.chosen else at)
            part = part.reshape(len(part), -1).to(sums)
            if isinstance(factor, Loops):
                ids = (
                    at
                    if not isinstance(at, slice)
                    else np.arange(at.start, at.stop)
                )
                own_loops = self._engine.loops(
                    factor.letter, torch.from_numpy(np.asarray(ids))
                )
                if isinstance(own_loops, torch.Tensor):
                    own_loops = own_loops.to(sums).unsqueeze(1)
                part = part * own_loops
                found = part if found is None else found.add_(part)
            elif found is None and factor == 1.0:
                found = part
            else:
                found = torch.zeros_like(part) if found is None else found
                found.add_(part, alpha=factor)
        assert found is not None
        if step.scale is not None:
            scale = diagonal_at(step.scale, at, self._values)
            found = found * scale.to(sums).unsqueeze(1)
        return found

    def _read(self, rows: StepRows, at: At) -> torch.Tensor:
        """Read some rows of a matrix, checked if they are a step's."""
        if rows.step is None:
            assert rows.value is not None
            array = self._values.call.inputs[rows.value.target]
            return read_rows(array, at).detach()
        found = read_rows(self._store(rows.step).as_features(rows.hop), at)
        return found.reshape(len(found), *rows.shape)


def remove_work(path: Path) -> None:
    """Delete the folders of steps; what others put there stays."""
    work = path / WORK
    if not work.is_dir():
        return
    for folder in sorted(work.iterdir()):
        for prefix, kind, names in (
            ("step-", HOPS_KIND, STORE_FILES),
            ("weights-", WEIGHTS_KIND, ()),
            ("reverse-", GRAPH_KIND, (COUNTS,)),
        ):
            if folder.name.startswith(prefix) and folder.is_dir():
                discard(folder, kind, names)
    with suppress(OSError):
        work.rmdir()
