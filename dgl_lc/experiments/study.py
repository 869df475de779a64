"""Studies: models on data sets, from several seeds, for tables and figures."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from dgl import DGLError

from ..data import NodeData
from . import paper
from .model_names import TABLE_MODELS
from .named_models import check_names, module_of
from .plots import validation_over_time
from .recorded_run import run_once
from .results_folder import ResultsFolder, slug
from .tables import accuracy_table, pairs_table, save_table, time_table
from .tasks import fingerprint_of, load_task, load_tasks, paper_name
from .tuning import space_of
from .worker_processes import run_workers, threads_per_worker

#: Parameters that a flag sets, as some models have several of the kind.
_PARAMETERS_OF_FLAG = {
    "lr": ("lr", "lr1", "lr2", "lr3", "lr_att"),
    "weight_decay": ("weight_decay", "wd1", "wd2", "wd3", "wd_att"),
    "dropout": ("dropout", "dp1", "dp2"),
}


@dataclass
class Study:
    """Models to run on data sets.

    Attributes
    ----------
    sources : list of str
        Names of data sets, or their files.
    results : ResultsFolder
        Where records, tables and figures are saved.
    models : list of str
        Names of :data:`~dgl_lc.experiments.named_models.NAMES`.
    seeds : int
        Number of runs per model and data set, with seeds 0, 1, ….
    workers : int
        Number of processes.
    fixed : dict
        lr, weight_decay or dropout for all models that have them, instead of
        tuned values.
    training : dict
        epochs, patience, batch_size and hid_feats of
        :func:`~dgl_lc.experiments.recorded_run.run_once`.
    """

    sources: list[str]
    results: ResultsFolder
    models: list[str] = field(default_factory=lambda: list(TABLE_MODELS))
    seeds: int = 5
    workers: int = 1
    fixed: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _PlannedRun:
    """A run of a study, and what its result depends on."""

    source: str
    data: str
    model: str
    seed: int
    params: dict[str, Any]
    origin: str
    key: dict[str, Any]


def parameters(
    name: str, data: NodeData, results: ResultsFolder, fixed: dict[str, Any]
) -> tuple[dict[str, Any], str]:
    """Choose the parameters of a model on a data set.

    They are the tuned ones if there are any, otherwise the paper's for this
    data set, otherwise the middle of each list of numbers and the first of
    each list of names in the search space. Values of ``fixed`` replace them.

    Returns
    -------
    tuple of dict and str
        The parameters, and where they come from.
    """
    space = space_of(name)
    params = {key: _usual(values) for key, values in space.items()}
    origin = "untuned"
    published_name = paper_name(data)
    if published_name is not None:
        found = paper.BEST.get(published_name, {}).get(module_of(name))
        if found is not None:
            params, origin = found, "the paper's"
    # An automatic LC version without a study of its own uses that of the
    # module, which computes the same.
    key = fingerprint_of(data)
    tuned = results.load_best(name, data.name, key)
    tuned = tuned or results.load_best(module_of(name), data.name, key)
    if tuned is not None:
        params, origin = tuned["params"], f"tuned, {tuned['trials']} trials"
    given = {
        key: value
        for flag, value in fixed.items()
        for key in _PARAMETERS_OF_FLAG[flag]
        if key in space
    }
    if given:
        origin += f", given {', '.join(fixed)}"
    return {**params, **given}, origin


def _usual(values: list[Any]) -> Any:
    return values[0 if isinstance(values[0], str) else len(values) // 2]


def run_study(
    study: Study,
) -> tuple[list[dict[str, Any]], dict[str, str | None]]:
    """Run what has no record yet.

    Returns
    -------
    tuple of list and dict
        All records, and the paper's name of each data set (None if it is
        another one).
    """
    check_names(study.models)
    tasks = load_tasks(study.sources, study.results)
    threads = threads_per_worker(study.workers)
    wanted = _plan_runs(study, tasks, threads)

    def record_of(run: _PlannedRun) -> dict[str, Any] | None:
        return study.results.load_run(run.model, run.data, run.seed, run.key)

    missing = [run for run in wanted if record_of(run) is None]
    done = len(wanted) - len(missing)
    print(f"{len(missing)} runs to do, {done} done before")
    if study.workers == 1:
        for run in missing:
            _run(run, study.results, study.training, tasks[run.source])
    else:
        # Each worker has its own share from the start, so that one that is
        # killed does not delay the others.
        shares = [missing[i :: study.workers] for i in range(study.workers)]
        run_workers(
            _worker,
            [
                (share, study.results.folder, study.training, threads)
                for share in shares
            ],
        )
    records = [found for run in wanted if (found := record_of(run))]
    if len(records) < len(wanted):
        print(
            f"{len(wanted) - len(records)} of {len(wanted)} runs did not "
            f"finish, and the tables are made without them. Run the command "
            f"again to repeat them.",
            flush=True,
        )
    if not records:
        raise DGLError("no run finished; see above.")
    return records, {data.name: paper_name(data) for data in tasks.values()}


def _plan_runs(
    study: Study, tasks: dict[str, NodeData], threads: int
) -> list[_PlannedRun]:
    runs = []
    for source, data in tasks.items():
        content = fingerprint_of(data)
        for name in study.models:
            params, origin = parameters(name, data, study.results, study.fixed)
            # Threads and workers are in the key since times depend on them.
            key = {
                "params": params, "training": study.training, "data": content,
                "threads": threads, "workers": study.workers,
            }  # fmt: skip
            runs += [
                _PlannedRun(source, data.name, name, seed, params, origin, key)
                for seed in range(study.seeds)
            ]
    return runs


def _worker(
    runs: list[_PlannedRun],
    folder: Path,
    training: dict[str, Any],
    threads: int,
) -> None:
    """Do a share of the runs, in a process of its own."""
    torch.set_num_threads(threads)
    results = ResultsFolder(folder)
    loaded: dict[str, NodeData] = {}
    for run in runs:
        if run.source not in loaded:
            # Only one data set is kept in memory, as they may be large.
            data = load_task(run.source)
            data.name = run.data
            if fingerprint_of(data) != run.key["data"]:
                raise DGLError(
                    f"{run.source} has changed since the command started: "
                    f"run it again."
                )
            loaded = {run.source: data}
        _run(run, results, training, loaded[run.source])


def _run(
    run: _PlannedRun,
    results: ResultsFolder,
    training: dict[str, Any],
    data: NodeData,
) -> None:
    """Do a run and save its record, or print why it failed."""
    start = time.perf_counter()
    title = f"{data.name} {run.model} seed {run.seed}"
    try:
        record = run_once(run.model, data, run.params, run.seed, **training)
    except (DGLError, RuntimeError, MemoryError) as error:
        # Such as H2GCN on a graph with too many pairs of nodes; the other
        # runs do not depend on it.
        print(f"{title}: {error}", flush=True)
        return
    record["origin"] = run.origin
    results.save_run(record, run.key)
    print(
        f"{title}: test {100 * record['test']:.2f} %, {record['epochs']} "
        f"epochs, {time.perf_counter() - start:.1f} s",
        flush=True,
    )


def _table_path(study: Study, records: list[dict[str, Any]], name: str) -> Path:
    """Return where a table is saved; its name has the data sets in it."""
    data = dict.fromkeys(slug(record["data"]) for record in records)
    return study.results.folder / f"{name}-{'-'.join(data)}"


def reproduce_accuracy(study: Study) -> None:
    """Print and save the table of test accuracies, and that of the pairs."""
    records, names = run_study(study)
    table = accuracy_table(records, names)
    print(f"\n{save_table(table, _table_path(study, records, 'accuracy'))}")
    pairs = pairs_table(records)
    if len(pairs) == 0:
        return
    print(f"\n{save_table(pairs, _table_path(study, records, 'pairs'))}")
    for kind in ("LC", "auto"):
        own = pairs[pairs["LC version"].str.startswith(kind)]
        if len(own):
            print(
                f"\nmean of {kind} minus original: {own.points.mean():+.2f} "
                f"points over {len(own)} pairs"
            )


def reproduce_time(study: Study) -> None:
    """Print and save the table of training times, per epoch and in total."""
    records, names = run_study(study)
    table = time_table(records, names)
    print(f"\n{save_table(table, _table_path(study, records, 'time'))}")


def reproduce_validation(study: Study) -> None:
    """Draw the validation accuracy over time, one figure per data set."""
    records, _ = run_study(study)
    for name in dict.fromkeys(record["data"] for record in records):
        own = [r for r in records if r["data"] == name]
        path = study.results.folder / f"validation-over-time-{slug(name)}.png"
        validation_over_time(own, path, name)
        print(f"saved: {path}")
