"""Precomputing inputs into a folder, whatever is on disk.

Everything is planned and checked first: which static values are needed, which
filters the engine has, and whether memory and disk are enough. Then the steps
are run one by one.
"""

import contextlib
import hashlib
import json
import os
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from dgl import DGLError
from dgl.base import DGLWarning

from ..._common.bytes import parse_bytes
from ..._common.dtypes import find_stored_type
from ...precompute.checks import check_dtype, check_nodes
from ...precompute.device import find_device
from ...storage.disk_features import DiskFeatures
from ...storage.input_store import (
    WORK,
    StoredInputs,
    open_inputs,
    write_inputs,
)
from ...storage.keys import array_key, is_unread
from ..assumptions import Assumption, check_assumptions
from ..evaluate import OTHER_GRAPH, check_guards
from ..filter_words import Aggregate, Diagonal, Word
from ..input_rows import InputRows
from ..memory_count import MemoryCount
from ..model_inputs import Input
from ..tracing.model_call import ModelCall
from ..tracing.values import Guard, Value
from .describe_values import describe_word, spell
from .engine_graphs import DiskEngine
from .graphs_in_memory import EngineInMemory, ValuesInMemory, is_in_memory
from .plan_steps import Planner
from .rowwise_values import NODES, domain
from .run_steps import Runner, remove_work
from .static_values import StaticValues


def precompute_steps(
    inputs: list[Input],
    call: ModelCall,
    guards: list[Guard],
    assumptions: tuple[Assumption, ...],
    filters: Sequence[str],
    nodes: Any = None,
    memory: int | str | None = None,
    dtype: torch.dtype | None = None,
    device: Any = None,
    progress: bool | None = None,
    out: str | os.PathLike | None = None,
    resume: bool = True,
) -> InputRows | StoredInputs:
    """Compute all inputs, step by step, on disk.

    Without ``out``, the steps lie in a temporary folder and the inputs are
    returned in memory.
    """
    count = MemoryCount(None if memory is None else parse_bytes(memory))
    if dtype is not None:
        check_dtype(dtype, torch.zeros(()))
    chosen = check_nodes(next(iter(call.graphs.values())), nodes)
    if chosen is not None and chosen is not nodes:
        count.hold(chosen.nbytes, "ids of the nodes asked for")
    in_memory = is_in_memory(call)
    values = ValuesInMemory(call, count) if in_memory else None
    if values is None:
        _check_one_kind(call)
    evaluate: StaticValues = values or StaticValues(call, count)
    check_guards(guards, evaluate, OTHER_GRAPH)
    check_assumptions(assumptions, evaluate)
    evaluate.forget()
    # A GPU that can't be used gives way to the CPU, with one warning.
    gpu = find_device(device)
    options = {
        "device": device if gpu is not None else None,
        "progress": progress,
    }
    for entry in inputs:
        _check_input(entry, evaluate, out is not None)

    def write(path: Path) -> StoredInputs:
        engine: Any = DiskEngine(evaluate, path / WORK, progress)
        if values is not None:
            engine = EngineInMemory(values)
        planner = Planner(inputs, evaluate, engine, chosen is not None, dtype)
        runner = Runner(planner.plan(), evaluate, engine, path, chosen, options)
        made_from = {
            "inputs": _keys(inputs, evaluate, engine),
            "nodes": None if chosen is None else array_key(chosen),
            "dtype": None if dtype is None else str(dtype),
        }
        return _write(inputs, filters, planner, runner, made_from, path, resume)

    if out is not None:
        return write(Path(out))
    with tempfile.TemporaryDirectory(prefix="dgl-lc-") as folder:
        found = write(Path(folder) / "inputs")
        size = sum(part.nbytes for part in found.tensors)
        with count.holding(
            size, "the result; give out= for one on disk, which"
        ):
            tensors = [tensor.clone() for tensor in found]
        return InputRows(tensors, chosen)


def _write(
    inputs: list[Input],
    filters: Sequence[str],
    planner: Planner,
    runner: Runner,
    made_from: dict[str, Any],
    path: Path,
    resume: bool,
) -> StoredInputs:
    """Write the folder of inputs, or resume where a killed run stopped."""
    parts = sorted(
        (step for step in planner.steps if step.inputs),
        key=lambda step: step.inputs[0],
    )
    folders = [step.name for step in parts]
    steps = [step.name for step in planner.steps if not step.inputs]
    formulas = [entry.formula for entry in inputs]
    runner.check()
    if not resume:
        remove_work(path)
    with write_inputs(
        path, formulas, folders, made_from, resume=resume, steps=steps,
        filters=filters,
    ) as writer:  # fmt: skip
        if writer.finished:
            _warn_if_unread(path, made_from)
        else:
            about = {"inputs": _short(made_from)}
            runner.run(writer, about, resume)
            writer.finish(
                [list(step.shape) for step in parts for _ in step.inputs]
            )
    # A finished folder may be read-only.
    with contextlib.suppress(DGLError):
        remove_work(path)
    return open_inputs(path)


def _short(made_from: dict[str, Any]) -> str:
    text = json.dumps(made_from, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _warn_if_unread(path: Path, made_from: dict[str, Any]) -> None:
    """Warn that a finished folder is used on the strength of a file's time."""
    if any(is_unread(source) for source, _ in made_from["inputs"]):
        warnings.warn(
            f"{path} is used again: the features are a memory map of a file "
            f"whose size, time and inode are the same as then. Its content "
            f"was not compared; resume=False computes the inputs again.",
            DGLWarning,
            stacklevel=6,
        )


def _check_one_kind(call: ModelCall) -> None:
    if any(hasattr(graph, "ndata") for graph in call.graphs.values()):
        raise DGLError(
            "some graphs of the call are on disk and others in memory: write "
            "all of them with build_disk_graph, or pass graph.to_dgl()."
        )


def _check_input(entry: Input, values: StaticValues, stored: bool) -> None:
    """Refuse an input that can't be computed or stored, before any work."""
    example = entry.value.example
    if find_stored_type(example.dtype) is None or 0 in example.shape[1:]:
        what = "out: " if stored else ""
        raise DGLError(
            f"{what}the input {entry.formula} is {example.dtype} with rows of "
            f"shape {tuple(example.shape[1:])}, and only numbers with a "
            f"fractional part, int64 and int32 can be stored, at least one "
            f"for each node. Pass graph and features in memory, and omit out."
        )
    if domain(entry.value) != NODES:
        raise DGLError(
            f"the input {entry.formula} has no row for each node in its "
            f"first dimension, and can't be computed on disk."
        )
    array = None
    if entry.value.op == "input" and isinstance(entry.value.target, str):
        array = values.call.inputs[entry.value.target]
    if not isinstance(array, DiskFeatures):
        values.check(entry.value)
    _check_word(entry.word, values)


def _check_word(word: Word, values: StaticValues) -> None:
    for letter in word:
        if isinstance(letter, Diagonal):
            values.check(letter.factor)
        elif isinstance(letter, Aggregate):
            values.view(letter.graph)
            if letter.weight is not None:
                values.check(letter.weight)
        else:
            for _, inner in letter.terms:
                _check_word(inner, values)


def _keys(
    inputs: list[Input], values: StaticValues, engine: Any
) -> list[list[Any]]:
    """Compute keys over all that inputs are made of."""
    sources: dict[Value, Any] = {}
    words: dict[Word, Any] = {}
    for entry in inputs:
        if entry.value not in sources:
            sources[entry.value] = spell(entry.value, values)
        if entry.word not in words:
            words[entry.word] = describe_word(entry.word, values, engine)
    return [[sources[entry.value], words[entry.word]] for entry in inputs]
