"""The paper's tables and figures, each by one call that can be resumed."""

import multiprocessing
import time
from dataclasses import dataclass, field
from typing import Any

import torch
from dgl import DGLError

from ..data import NodeData
from . import paper
from .plots import validation_over_time
from .results import Results
from .runs import AUTOMATIC, NAMES, check_names, run_once
from .tables import accuracy_table, pairs_table, save_table, time_table
from .tasks import load_task, load_tasks, paper_name, slug

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


def parameters(
    name: str, data: NodeData, results: Results, fixed: dict[str, Any]
) -> tuple[dict[str, Any], str]:
    """The parameters of a model on a data set, and where they are from.

    Given ones first; then tuned ones; then the paper's for this data set;
    else the middle of each list of the search space.
    """
    from .tune import space_of

    space = space_of(name)
    middle = {key: values[len(values) // 2] for key, values in space.items()}
    given = {key: value for key, value in fixed.items() if key in space}
    if given:
        return {**middle, **given}, "given"
    tuned = results.best(name, data.name)
    if tuned is None and name in AUTOMATIC:
        # An automatic version is the LC module in other clothes.
        tuned = results.best(f"LC{AUTOMATIC[name]}", data.name)
    if tuned is not None:
        return tuned["params"], f"tuned, {tuned['trials']} trials"
    theirs = paper_name(data)
    if theirs is not None:
        found = paper.BEST.get(theirs, {}).get(AUTOMATIC.get(name, name))
        if found is not None:
            return found, "the paper's"
    return middle, "untuned"


def run_study(study: Study) -> tuple[list[dict], dict[str, str | None]]:
    """Run what is not there yet; all records, and the paper's names."""
    check_names(study.models)
    tasks = load_tasks(study.sources)
    todo = []
    wanted = []
    for source, data in tasks.items():
        for name in study.models:
            params, origin = parameters(name, data, study.results, study.fixed)
            key = {"params": params, "training": study.training}
            for seed in range(study.seeds):
                wanted.append((name, data.name, seed, key))
                if study.results.run(*wanted[-1]) is None:
                    todo.append((source, name, seed, params, origin))
    print(f"{len(todo)} runs to do, {len(wanted) - len(todo)} are there")
    _run_all(todo, study, tasks)
    found = [study.results.run(*run) for run in wanted]
    records = [record for record in found if record is not None]
    if not records:
        raise DGLError("no run came to its end; see above.")
    return records, {data.name: paper_name(data) for data in tasks.values()}


def _run_all(
    todo: list[tuple], study: Study, tasks: dict[str, NodeData]
) -> None:
    if study.workers == 1 or len(todo) < 2:
        for item in todo:
            _run_item(item, study.results, study.training, tasks[item[0]])
        return
    threads = max(1, torch.get_num_threads() // study.workers)
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    for item in todo:
        queue.put(item)
    for _ in range(study.workers):
        queue.put(None)
    processes = [
        context.Process(
            target=_worker,
            args=(queue, study.results.folder, study.training, threads),
        )
        for _ in range(study.workers)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


def _worker(queue, folder, training, threads) -> None:
    torch.set_num_threads(threads)
    results = Results(folder)
    loaded: dict[str, NodeData] = {}
    while (item := queue.get()) is not None:
        source = item[0]
        if source not in loaded:
            # One at a time: they may be large.
            loaded = {source: load_task(source)}
        _run_item(item, results, training, loaded[source])


def _run_item(item, results: Results, training, data: NodeData) -> None:
    _, name, seed, params, origin = item
    start = time.perf_counter()
    try:
        record = run_once(name, data, params, seed, **training)
    except DGLError as error:
        # As H2GCN on a graph with too many pairs: the others go on.
        print(f"{data.name} {name} seed {seed}: {error}", flush=True)
        return
    record["origin"] = origin
    results.keep_run(record, {"params": params, "training": training})
    print(
        f"{data.name} {name} seed {seed}: test {100 * record['test']:.2f} %, "
        f"{record['epochs']} epochs, {time.perf_counter() - start:.1f} s",
        flush=True,
    )


def reproduce_accuracy(study: Study) -> None:
    """The paper's table of test accuracies, and each LC version's distance."""
    records, names = run_study(study)
    folder = study.results.folder
    print(
        f"\n{save_table(accuracy_table(records, names), folder / 'accuracy')}"
    )
    pairs = pairs_table(records)
    if len(pairs):
        print(f"\n{save_table(pairs, folder / 'pairs')}")
        print(
            f"\nmean of LC minus original: {pairs.points.mean():+.2f} points "
            f"over {len(pairs)} pairs"
        )


def reproduce_time(study: Study) -> None:
    """The paper's table of training times: an epoch, and in all."""
    records, names = run_study(study)
    table = time_table(records, names)
    print(f"\n{save_table(table, study.results.folder / 'time')}")


def reproduce_validation(study: Study) -> None:
    """The paper's figure: validation accuracy over time, a data set each."""
    records, _ = run_study(study)
    for name in dict.fromkeys(record["data"] for record in records):
        own = [r for r in records if r["data"] == name]
        path = study.results.folder / f"validation-over-time-{slug(name)}.png"
        validation_over_time(own, path, name)
        print(f"saved: {path}")


assert set(TABLE_MODELS) <= set(NAMES)
