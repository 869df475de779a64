"""Tuning with Optuna: a study that can be interrupted, resumed and watched."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from dgl import DGLError

from ..data import NodeData
from . import paper
from .named_models import check_names, module_of
from .recorded_run import TaskInputs, run_once
from .results_folder import ResultsFolder
from .tasks import fingerprint_of, load_named_task, load_task
from .worker_processes import CONTEXT, run_workers, threads_per_worker

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import Synchronized

    import optuna

#: Seconds between two signs of life of a trial; after four of them without
#: any, the trial counts as failed.
HEARTBEAT_SECONDS = 30
#: Epochs between two reports of a trial, each of which is a transaction.
REPORT_EPOCHS = 10


def space_of(name: str) -> dict[str, list[Any]]:
    """Return the values that are tried for each parameter of a model."""
    check_names([name])
    name = module_of(name)
    for spaces in (paper.SPACES, paper.OUR_SPACES):
        if name in spaces:
            return spaces[name]
    raise DGLError(f"{name} has no search space.")


def tune(
    name: str,
    source: str,
    results: ResultsFolder,
    *,
    trials: int = 50,
    seed: int = 0,
    workers: int = 1,
    **training: Any,
) -> dict[str, Any]:
    """Tune a model on the validation nodes; return the best parameters.

    A study that has fewer trials is resumed; one that has enough is read.
    A line is printed for each trial.

    Parameters
    ----------
    name, source : str
        Names of the model and of the data set, or the data set's file.
    results : ResultsFolder
        Where the study and the best parameters are saved.
    trials : int
        Number of trials of the study, those of earlier calls included.
    seed : int
        Random seed of the sampler and of the weights of every trial.
    workers : int
        Number of processes that work on the study at the same time.
    **training
        epochs, patience, batch_size and hid_feats of
        :func:`~dgl_lc.experiments.recorded_run.run_once`.
    """
    check_names([name])
    if trials < 1:
        raise DGLError(f"trials={trials} should be at least 1.")
    if workers < 1:
        raise DGLError(f"workers={workers} should be at least 1.")
    data = load_named_task(source, results)
    study = _open_study(name, data, results, seed, training)
    missing = trials - len(_finished(study))
    try:
        if missing > 0:
            _fail_stale_trials(study)
            # Workers take trials from this number, so that together they run
            # exactly as many as are missing.
            left = CONTEXT.Value("q", missing)
            if workers == 1:
                _run_trials(study, name, data, trials, left, seed, training)
            else:
                _run_in_parallel(
                    name, source, data.name, results, trials, left, seed,
                    workers, training,
                )  # fmt: skip
    finally:
        # The best of an interrupted study is worth keeping, too.
        found = _best(study, name, data, seed, training)
        if found is not None:
            results.save_best(name, data.name, found)
    if found is None:
        raise DGLError(
            f"no trial of {name} on {data.name} finished; look at the study "
            f"with optuna-dashboard {results.storage}"
        )
    return found


def _best(
    study: "optuna.Study",
    name: str,
    data: NodeData,
    seed: int,
    training: dict[str, Any],
) -> dict[str, Any] | None:
    """Return the best parameters so far, or None if no trial is complete."""
    done = _finished(study)
    complete = [trial for trial in done if trial.state.name == "COMPLETE"]
    if not complete:
        return None
    best = study.best_trial
    different = {json.dumps(t.params, sort_keys=True) for t in done}
    return {
        "model": name,
        "data": data.name,
        "data_key": fingerprint_of(data),
        "params": best.params,
        "valid": best.value,
        "trials": len(done),
        "different": len(different),
        "pruned": len(done) - len(complete),
        "seed": seed,
        "training": training,
    }


def _open_study(
    name: str,
    data: NodeData,
    results: ResultsFolder,
    seed: int,
    training: dict[str, Any],
) -> "optuna.Study":
    """Open the study or create it; one of another space is an error."""
    import optuna

    results.create()
    # Its warnings about trials that fail or are interrupted are tracebacks.
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    # Heartbeats, which are experimental, tell which trials were killed.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        storage = optuna.storages.RDBStorage(
            results.storage, heartbeat_interval=HEARTBEAT_SECONDS,
            grace_period=4 * HEARTBEAT_SECONDS,
            engine_kwargs={"connect_args": {"timeout": 60}},
        )  # fmt: skip
    name_of_study = f"{name} on {data.name}"
    # The seed of a resumed study must differ, or it would draw its first
    # trials again.
    known = [s.study_name for s in optuna.get_all_study_summaries(storage)]
    if name_of_study in known:
        before = optuna.load_study(study_name=name_of_study, storage=storage)
        seed = 1000 * len(before.get_trials(deepcopy=False)) + seed
    study = optuna.create_study(
        storage=storage, study_name=name_of_study,
        direction="maximize", load_if_exists=True,
        sampler=optuna.samplers.TPESampler(seed=seed),
        pruner=optuna.pruners.MedianPruner(
            n_startup_trials=5, n_warmup_steps=50,
            interval_steps=REPORT_EPOCHS,
        ),
    )  # fmt: skip
    wanted = {
        "space": space_of(name),
        "training": training,
        "data": fingerprint_of(data),
    }
    found = study.user_attrs.get("made for")
    if found is None:
        study.set_user_attr("made for", json.dumps(wanted, sort_keys=True))
    elif found != json.dumps(wanted, sort_keys=True):
        raise DGLError(
            f"the study of {name} on {data.name} in "
            f"{str(results.folder)!r} was made for another search space, "
            f"other epochs or other data ({found}): give another folder, or "
            f"remove it."
        )
    return study


def _finished(study: "optuna.Study") -> list["optuna.trial.FrozenTrial"]:
    """Return the trials that are complete or pruned."""
    return [
        trial
        for trial in study.get_trials(deepcopy=False)
        if trial.state.name in ("COMPLETE", "PRUNED")
    ]


def _fail_stale_trials(study: "optuna.Study") -> None:
    """Mark trials that were killed as failed."""
    import optuna

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        optuna.storages.fail_stale_trials(study)


def _run_trials(
    study: "optuna.Study",
    name: str,
    data: NodeData,
    trials: int,
    left: "Synchronized[int]",
    seed: int,
    training: dict[str, Any],
) -> None:
    """Run trials until none is left to be run."""
    import optuna

    objective = _make_objective(study, name, data, seed, training)
    reason: BaseException | None = None
    last: optuna.trial.FrozenTrial | None = None

    def attempt(trial: optuna.Trial) -> float:
        nonlocal reason
        try:
            return objective(trial)
        except _FAILURES as error:
            reason = error
            raise

    def keep(study: optuna.Study, trial: optuna.trial.FrozenTrial) -> None:
        nonlocal last
        last = trial

    failures = 0
    # Another call may have worked on the study as well.
    while (
        failures < trials
        and len(_finished(study)) < trials
        and _take_one(left)
    ):  # fmt: skip
        study.optimize(attempt, n_trials=1, callbacks=[keep], catch=_FAILURES)
        assert last is not None
        if last.state.name == "FAIL":
            # Such as a learning rate at which the loss is not finite; the
            # other trials do not depend on it.
            failures += 1
            with left.get_lock():
                left.value += 1
            print(f"trial {last.number} of {name} failed: {reason}", flush=True)
        else:
            print(_progress(study, last, trials), flush=True)


#: Errors of a trial that do not end the study.
_FAILURES = (DGLError, RuntimeError, MemoryError)


def _take_one(left: "Synchronized[int]") -> bool:
    """Take a trial from those that are left; return whether there was one."""
    with left.get_lock():
        found = left.value > 0
        left.value -= found
    return found


def _progress(
    study: "optuna.Study", trial: "optuna.trial.FrozenTrial", trials: int
) -> str:
    """Describe a trial that has finished, and the best one so far."""
    done = _finished(study)
    # A pruned trial has a value as well, that of its last report.
    complete = [other for other in done if other.state.name == "COMPLETE"]
    values = [other.value for other in complete if other.value is not None]
    found = "pruned"
    if trial.state.name == "COMPLETE" and trial.value is not None:
        found = f"validation accuracy {100 * trial.value:.2f} %"
    best = f"{100 * max(values):.2f} %" if values else "none"
    params = ", ".join(f"{key} {value}" for key, value in trial.params.items())
    return (
        f"{len(done)} of {trials} trials: {found}, best so far {best} "
        f"({params})"
    )


def _make_objective(
    study: "optuna.Study",
    name: str,
    data: NodeData,
    seed: int,
    training: dict[str, Any],
) -> Callable[["optuna.Trial"], float]:
    """Make the function that trains a model and returns its accuracy."""
    import optuna

    inputs = TaskInputs(data)
    space = space_of(name)

    def objective(trial: optuna.Trial) -> float:
        params = {
            key: trial.suggest_categorical(key, values)
            for key, values in space.items()
        }
        # A small space is soon drawn twice; the result is then known.
        for other in _finished(study):
            if other.params == params:
                if other.state.name == "PRUNED" or other.value is None:
                    raise optuna.TrialPruned
                return other.value

        def report(row: dict[str, Any]) -> None:
            if row["epoch"] % REPORT_EPOCHS:
                return
            trial.report(row["valid_accuracy"], int(row["epoch"]))
            if trial.should_prune():
                raise optuna.TrialPruned

        found = run_once(
            name, data, params, seed, inputs=inputs, on_epoch=report,
            **training,
        )  # fmt: skip
        trial.set_user_attr("seconds", found["total_seconds"])
        return found["valid"]

    return objective


def _run_in_parallel(
    name: str,
    source: str,
    data: str,
    results: ResultsFolder,
    trials: int,
    left: "Synchronized[int]",
    seed: int,
    workers: int,
    training: dict[str, Any],
) -> None:
    """Run the trials of one study in several processes."""
    threads = threads_per_worker(workers)
    failed = run_workers(
        _worker,
        [
            (name, source, data, results.folder, trials, left, seed, number,
             threads, training)
            for number in range(workers)
        ],
    )  # fmt: skip
    if failed == workers:
        raise DGLError(f"all {workers} workers failed; see above.")
    if failed:
        print(
            f"{failed} of {workers} workers failed; the others have run "
            f"their trials",
            flush=True,
        )


def _worker(
    name: str,
    source: str,
    data_name: str,
    folder: Path,
    trials: int,
    left: "Synchronized[int]",
    seed: int,
    number: int,
    threads: int,
    training: dict[str, Any],
) -> None:
    """Run trials of a study, in a process of its own."""
    torch.set_num_threads(threads)
    data = load_task(source)
    data.name = data_name
    # Samplers with the same seed would draw the same trials.
    study = _open_study(
        name, data, ResultsFolder(folder), seed + number, training
    )
    _run_trials(study, name, data, trials, left, seed, training)
