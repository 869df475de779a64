"""Tuning with Optuna: a study that can be interrupted, resumed and watched."""

import json
import multiprocessing
import warnings
from typing import Any

import torch
from dgl import DGLError

from ..data import NodeData
from . import paper
from .results import Results
from .runs import AUTOMATIC, Inputs, check_names, run_once
from .tasks import load_task

#: A trial whose worker has not been heard of for this long has died.
HEARTBEAT_SECONDS = 30


def space_of(name: str) -> dict[str, list]:
    """The values that are tried for each parameter of a model."""
    check_names([name])
    name = AUTOMATIC.get(name, name)
    for spaces in (paper.SPACES, paper.OUR_SPACES):
        if name in spaces:
            return spaces[name]
    raise DGLError(f"{name} has no search space.")


def tune(
    name: str,
    source: str,
    results: Results,
    *,
    trials: int = 50,
    seed: int = 0,
    workers: int = 1,
    **training: Any,
) -> dict[str, Any]:
    """Tune a model on a data set's validation nodes; the best parameters.

    A study that has fewer trials goes on; one that has as many is read.

    Parameters
    ----------
    name, source : str
        Model and data set.
    results : Results
        Where the study and the best parameters are kept.
    trials : int
        Of the whole study, those of earlier calls included.
    seed : int
        Of the sampler, and of every trial's weights.
    workers : int
        Processes that work on the study at the same time.
    **training
        epochs, patience, batch_size, hid_feats of
        :func:`~dgl_lc.experiments.runs.run_once`.
    """
    check_names([name])
    if trials < 1:
        raise DGLError(f"trials={trials} should be at least 1.")
    if workers < 1:
        raise DGLError(f"workers={workers} should be at least 1.")
    data = load_task(source)
    study = _study(name, data, results, seed, training)
    if workers == 1:
        _work(study, name, data, trials, seed, training)
    else:
        _work_in_parallel(
            name, source, results, trials, seed, workers, training
        )
    done = _finished(study)
    if not done:
        raise DGLError(
            f"no trial of {name} on {data.name} came to its end; look at the "
            f"study with optuna-dashboard {results.storage}"
        )
    best = study.best_trial
    found = {
        "model": name,
        "data": data.name,
        "params": best.params,
        "valid": best.value,
        "trials": len(done),
        "pruned": sum(t.state.name == "PRUNED" for t in done),
        "seed": seed,
        "training": training,
    }
    results.keep_best(name, data.name, found)
    return found


def _study(name, data: NodeData, results: Results, seed, training):
    """Open the study, or make it; an error if it is of another space."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    # Trials whose worker was killed are found by their missing heartbeat.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        storage = optuna.storages.RDBStorage(
            results.storage, heartbeat_interval=HEARTBEAT_SECONDS,
            grace_period=4 * HEARTBEAT_SECONDS,
            engine_kwargs={"connect_args": {"timeout": 60}},
        )  # fmt: skip
    study = optuna.create_study(
        storage=storage, study_name=f"{name} on {data.name}",
        direction="maximize", load_if_exists=True,
        sampler=optuna.samplers.TPESampler(seed=seed),
        pruner=optuna.pruners.MedianPruner(
            n_startup_trials=5, n_warmup_steps=50, interval_steps=10
        ),
    )  # fmt: skip
    wanted = {"space": space_of(name), "training": training}
    found = study.user_attrs.get("made for")
    if found is None:
        study.set_user_attr("made for", json.dumps(wanted, sort_keys=True))
    elif found != json.dumps(wanted, sort_keys=True):
        raise DGLError(
            f"the study of {name} on {data.name} in "
            f"{str(results.folder)!r} was made for another search space or "
            f"other epochs ({found}): give another folder, or remove it."
        )
    return study


def _finished(study) -> list:
    return [
        trial
        for trial in study.get_trials(deepcopy=False)
        if trial.state.name in ("COMPLETE", "PRUNED")
    ]


def _work(study, name, data, trials, seed, training) -> None:
    """Run trials until the study has enough of them."""
    import optuna

    inputs = Inputs(data)
    space = space_of(name)

    def objective(trial):
        params = {
            key: trial.suggest_categorical(key, values)
            for key, values in space.items()
        }
        # A small space is soon drawn twice: what is known is not run again.
        for other in study.get_trials(deepcopy=False):
            if other.state.name == "COMPLETE" and other.params == params:
                return other.value

        def report(row):
            trial.report(row["valid_accuracy"], int(row["epoch"]))
            if trial.should_prune():
                raise optuna.TrialPruned

        found = run_once(
            name, data, params, seed, inputs=inputs, on_epoch=report,
            **training,
        )  # fmt: skip
        trial.set_user_attr("seconds", found["total_seconds"])
        return found["valid"]

    def enough(study, trial):
        if len(_finished(study)) >= trials:
            study.stop()

    if len(_finished(study)) < trials:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", optuna.exceptions.ExperimentalWarning
            )
            optuna.storages.fail_stale_trials(study)
        study.optimize(objective, n_trials=trials, callbacks=[enough])


def _work_in_parallel(
    name, source, results, trials, seed, workers, training
) -> None:
    """Several processes on one study, with a share of the threads each."""
    threads = max(1, torch.get_num_threads() // workers)
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(
            target=_worker,
            args=(name, source, results.folder, trials, seed, number,
                  threads, training),
        )
        for number in range(workers)
    ]  # fmt: skip
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    failed = sum(process.exitcode != 0 for process in processes)
    if failed == workers:
        raise DGLError(f"all {workers} workers failed; see above.")
    if failed:
        # The others have done its share.
        print(f"{failed} of {workers} workers ended early", flush=True)


def _worker(
    name, source, folder, trials, seed, number, threads, training
) -> None:
    torch.set_num_threads(threads)
    data = load_task(source)
    # Samplers of one seed would draw the same trials.
    study = _study(name, data, Results(folder), seed + number, training)
    _work(study, name, data, trials, seed, training)
