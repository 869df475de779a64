"""The paper's tables and figures, each by one call that can be resumed."""

import multiprocessing
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from dgl import DGLError

from ..data import NodeData
from . import paper
from .plots import validation_over_time
from .recorded_run import NAMES, check_names, module_of, run_once
from .results_folder import Results
from .tables import accuracy_table, pairs_table, save_table, time_table
from .tasks import (
    fingerprint_of,
    load_task,
    load_tasks,
    paper_name,
    slug,
)
from .tuning import space_of

#: The models of the paper's tables, and the LC versions by lc_transform.
TABLE_MODELS = [
    "GCN", "JKNet", "GPRGNN", "SGC", "FSGNN", "SIGN", "LCGCN", "LCJKNet",
    "LCGPRGNN", "autoGCN", "autoJKNet", "autoGPRGNN", "LCAPPNP", "LCMixHop",
]  # fmt: skip


@dataclass
class Study:
    """What is run: models on data sets, from some seeds.

    Attributes
    ----------
    fixed : dict
        Parameters to use for all models that have them, whatever was tuned.
    training : dict
        epochs, patience, batch_size, hid_feats of ``run_once``.
    """

    sources: list[str]
    results: Results
    models: list[str] = field(default_factory=lambda: list(TABLE_MODELS))
    seeds: int = 5
    workers: int = 1
    fixed: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)


#: What a flag sets in a model that has several of the kind.
_SEVERAL = {
    "lr": ("lr", "lr1", "lr2", "lr3", "lr_att"),
    "weight_decay": ("weight_decay", "wd1", "wd2", "wd3", "wd_att"),
    "dropout": ("dropout", "dp1", "dp2"),
}


def parameters(
    name: str, data: NodeData, results: Results, fixed: dict[str, Any]
) -> tuple[dict[str, Any], str]:
    """The parameters of a model on a data set, and where they are from.

    Tuned ones; or the paper's for this data set; or the middle of each list
    of numbers in the search space, and the first of names. What is given
    replaces them.
    """
    space = space_of(name)
    params = {key: _usual(values) for key, values in space.items()}
    origin = "untuned"
    theirs = paper_name(data)
    if theirs is not None:
        found = paper.BEST.get(theirs, {}).get(module_of(name))
        if found is not None:
            params, origin = found, "the paper's"
    # An automatic version is the LC module in another form.
    tuned = results.best(name, data.name)
    tuned = tuned or results.best(module_of(name), data.name)
    if tuned is not None:
        params, origin = tuned["params"], f"tuned, {tuned['trials']} trials"
    given = {
        key: value
        for flag, value in fixed.items()
        for key in _SEVERAL[flag]
        if key in space
    }
    if given:
        origin += f", given {', '.join(fixed)}"
    return {**params, **given}, origin


def _usual(values: list) -> Any:
    return values[0 if isinstance(values[0], str) else len(values) // 2]


@dataclass(frozen=True)
class _Run:
    """A run to be done."""

    source: str
    model: str
    seed: int
    params: dict[str, Any]
    origin: str
    key: dict[str, Any]


def run_study(study: Study) -> tuple[list[dict], dict[str, str | None]]:
    """Run what is not there yet; all records, and the paper's names."""
    check_names(study.models)
    tasks = load_tasks(study.sources)
    threads = max(1, torch.get_num_threads() // study.workers)
    wanted = []
    for source, data in tasks.items():
        content = fingerprint_of(data)
        for name in study.models:
            params, origin = parameters(name, data, study.results, study.fixed)
            # Threads and workers too: times depend on them.
            key = {
                "params": params, "training": study.training, "data": content,
                "threads": threads, "workers": study.workers,
            }  # fmt: skip
            wanted += [
                _Run(source, name, seed, params, origin, key)
                for seed in range(study.seeds)
            ]

    def record_of(run):
        name = tasks[run.source].name
        return study.results.run(run.model, name, run.seed, run.key)

    todo = [run for run in wanted if record_of(run) is None]
    print(f"{len(todo)} runs to do, {len(wanted) - len(todo)} are there")
    _run_all(todo, study, tasks, threads)
    records = [found for run in wanted if (found := record_of(run))]
    if len(records) < len(wanted):
        print(
            f"{len(wanted) - len(records)} of {len(wanted)} runs did not come "
            f"to their end: tables are of the others. Call again to go on.",
            flush=True,
        )
    if not records:
        raise DGLError("no run came to its end; see above.")
    return records, {data.name: paper_name(data) for data in tasks.values()}


def _run_all(
    todo: list[_Run], study: Study, tasks: dict[str, NodeData], threads: int
) -> None:
    if study.workers == 1:
        for run in todo:
            _do(run, study.results, study.training, tasks[run.source])
        return
    context = multiprocessing.get_context("spawn")
    # Shares that are fixed: a worker that is killed cannot hold up others.
    processes = [
        context.Process(
            target=_worker,
            args=(todo[first :: study.workers], study.results.folder,
                  study.training, threads),
        )
        for first in range(study.workers)
    ]  # fmt: skip
    for process in processes:
        process.start()
    for process in processes:
        process.join()


def _worker(todo: list[_Run], folder, training, threads: int) -> None:
    torch.set_num_threads(threads)
    results = Results(folder)
    loaded: dict[str, NodeData] = {}
    for run in todo:
        if run.source not in loaded:
            # One at a time: they may be large.
            loaded = {run.source: load_task(run.source)}
        _do(run, results, training, loaded[run.source])


def _do(run: _Run, results: Results, training, data: NodeData) -> None:
    start = time.perf_counter()
    title = f"{data.name} {run.model} seed {run.seed}"
    try:
        record = run_once(run.model, data, run.params, run.seed, **training)
    except (DGLError, RuntimeError, MemoryError) as error:
        # As H2GCN on a graph with too many pairs: the others go on.
        print(f"{title}: {error}", flush=True)
        return
    record["origin"] = run.origin
    results.keep_run(record, run.key)
    print(
        f"{title}: test {100 * record['test']:.2f} %, {record['epochs']} "
        f"epochs, {time.perf_counter() - start:.1f} s",
        flush=True,
    )


def _place(study: Study, records: list[dict], name: str) -> Path:
    """Where a table goes; other data sets have other tables."""
    data = dict.fromkeys(slug(record["data"]) for record in records)
    return study.results.folder / f"{name}-{'-'.join(data)}"


def reproduce_accuracy(study: Study) -> None:
    """The paper's table of test accuracies, and each LC version's distance."""
    records, names = run_study(study)
    table = accuracy_table(records, names)
    print(f"\n{save_table(table, _place(study, records, 'accuracy'))}")
    pairs = pairs_table(records)
    if len(pairs):
        print(f"\n{save_table(pairs, _place(study, records, 'pairs'))}")
    for kind in ("LC", "auto") if len(pairs) else ():
        own = pairs[pairs["LC version"].str.startswith(kind)]
        if len(own):
            print(
                f"\nmean of {kind} minus original: {own.points.mean():+.2f} "
                f"points over {len(own)} pairs"
            )


def reproduce_time(study: Study) -> None:
    """The paper's table of training times: an epoch, and in all."""
    records, names = run_study(study)
    table = time_table(records, names)
    print(f"\n{save_table(table, _place(study, records, 'time'))}")


def reproduce_validation(study: Study) -> None:
    """The paper's figure: validation accuracy over time, a data set each."""
    records, _ = run_study(study)
    for name in dict.fromkeys(record["data"] for record in records):
        own = [r for r in records if r["data"] == name]
        path = study.results.folder / f"validation-over-time-{slug(name)}.png"
        validation_over_time(own, path, name)
        print(f"saved: {path}")


assert set(TABLE_MODELS) <= set(NAMES)
