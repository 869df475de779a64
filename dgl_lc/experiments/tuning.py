"""Tuning with Optuna: a study that can be interrupted, resumed and watched."""

import json
import multiprocessing
import warnings
from typing import Any

import torch
from dgl import DGLError

from ..data import NodeData
from . import paper
from .recorded_run import Inputs, check_names, module_of, run_once
from .results_folder import Results
from .tasks import fingerprint_of, load_task

#: A trial whose worker has not been heard of for this long has died.
HEARTBEAT_SECONDS = 30
#: How often a trial says how it does.
REPORT_EPOCHS = 10


def space_of(name: str) -> dict[str, list]:
    """The values that are tried for each parameter of a model."""
    check_names([name])
    name = module_of(name)
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
        :func:`~dgl_lc.experiments.recorded_run.run_once`.
    """
    check_names([name])
    if trials < 1:
        raise DGLError(f"trials={trials} should be at least 1.")
    if workers < 1:
        raise DGLError(f"workers={workers} should be at least 1.")
    data = load_task(source)
    study = _study(name, data, results, seed, training)
    try:
        if workers == 1:
            _work(study, name, data, trials, seed, training)
        else:
            _work_in_parallel(
                name, source, results, trials, seed, workers, training
            )
    finally:
        # Also of a study that was stopped.
        found = _best(study, name, data, seed, training)
        if found is not None:
            results.keep_best(name, data.name, found)
    if found is None:
        raise DGLError(
            f"no trial of {name} on {data.name} came to its end; look at the "
            f"study with optuna-dashboard {results.storage}"
        )
    return found


def _best(study, name, data, seed, training) -> dict[str, Any] | None:
    done = _finished(study)
    complete = [trial for trial in done if trial.state.name == "COMPLETE"]
    if not complete:
        return None
    best = study.best_trial
    different = {json.dumps(t.params, sort_keys=True) for t in done}
    return {
        "model": name,
        "data": data.name,
        "params": best.params,
        "valid": best.value,
        "trials": len(done),
        "different": len(different),
        "pruned": len(done) - len(complete),
        "seed": seed,
        "training": training,
    }


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
    name_of_study = f"{name} on {data.name}"
    # A study that goes on must not draw its first trials again.
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
        for other in _finished(study):
            if other.params == params:
                if other.state.name == "PRUNED":
                    raise optuna.TrialPruned
                return other.value

        def report(row):
            # Each report is a transaction.
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

    failures = 0

    def enough(study, trial):
        nonlocal failures
        if trial.state.name == "FAIL":
            # As a rate at which the loss is not finite: the others go on.
            failures += 1
            print(f"trial {trial.number} of {name} failed", flush=True)
        if len(_finished(study)) >= trials or failures >= trials:
            study.stop()

    if len(_finished(study)) < trials:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", optuna.exceptions.ExperimentalWarning
            )
            optuna.storages.fail_stale_trials(study)
        study.optimize(
            objective, n_trials=2 * trials, callbacks=[enough],
            catch=(DGLError, RuntimeError, MemoryError),
        )  # fmt: skip


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
