"""The study of today's accuracy: the same budget for models old and new.

1. Trials: every model has the same number of them, with seed 0, and half as
   many for each further piece, which begin at the best one without it.
2. Runs: the best trial's parameters, with seeds 1, 2, …. Predictions are
   corrected and smoothed after each run, at no further training.
3. Self-training: of each model the contest with the best validation is run
   again in stages, with the same seeds.

Each training has a record of its own, so that an interrupted study resumes,
and parts of it can be run at different times.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from dgl import DGLError

from ..data import NodeData
from . import today_run
from .results_folder import ResultsFolder, slug
from .tables import save_table
from .tasks import fingerprint_of, load_tasks, reduce_columns
from .today_space import ENTRANTS, EVEN_TRIALS, Contest, contests
from .today_tables import ablation_table, results_table, spent, summary

#: Stages of self-training, and the probabilities that are tried with the
#: first seed.
STAGES = 2
THRESHOLDS = (0.9, 0.7)


@dataclass
class Today:
    """What to run.

    Attributes
    ----------
    sources : list of str
        Names of data sets, or their files.
    results : ResultsFolder
        Where records and tables are saved.
    models : list of str
        Titles of :data:`~.today_space.ENTRANTS`.
    seeds : int
        Number of runs of each contest, with seeds 1, 2, ….
    trials : int
        Number of trials of each model; half as many for each further piece.
    seconds : float or None
        No training starts after so many seconds; the same call resumes.
    training : dict
        Options of :func:`~.today_run.train_once`: epochs, patience,
        batch_size and precision.
    columns : int or None
        Wider features are reduced to so many columns; see
        :func:`~.tasks.reduce_columns`.
    """

    sources: list[str]
    results: ResultsFolder
    models: list[str] = field(default_factory=lambda: list(ENTRANTS))
    seeds: int = 5
    trials: int = 12
    seconds: float | None = None
    training: dict[str, Any] = field(default_factory=dict)
    columns: int | None = None


@dataclass(frozen=True)
class _Planned:
    """A training: whose record is looked for, or which is run."""

    contest: Contest
    seed: int
    params: dict[str, Any]
    stages: int = 1
    threshold: float = 0.9

    @property
    def title(self) -> str:
        """Name of the contest, with the stages."""
        return self.contest.title + " + stages" * (self.stages > 1)

    @property
    def options(self) -> dict[str, Any]:
        """Options of the training that the record depends on."""
        if self.stages == 1:
            # Trials are not smoothed: what smoothing adds is not tuned.
            return {"smooth": self.seed > 0}
        return {
            "stages": self.stages, "threshold": self.threshold,
            "smooth": True,
        }  # fmt: skip


class _OutOfTime(Exception):
    """The time that was given is over."""


class _Runner:
    """Finds the records of one data set, and runs what has none."""

    def __init__(self, today: Today, data: NodeData, until: float | None):
        self.today, self.data, self.until = today, data, until
        self._content = fingerprint_of(data)

    def record(
        self, planned: _Planned, run: bool = True
    ) -> dict[str, Any] | None:
        """Return a record, after running it if asked; None if it failed."""
        key = {
            "params": planned.params, "training": self.today.training,
            "data": self._content, **planned.options,
        }  # fmt: skip
        results = self.today.results
        found = results.load_run(
            planned.title, self.data.name, planned.seed, key
        )
        if found is not None or not run:
            return found
        if self.until is not None and time.monotonic() > self.until:
            raise _OutOfTime
        title = f"{self.data.name} {planned.title} seed {planned.seed}"
        try:
            found = today_run.train_once(
                planned.contest, self.data, planned.params, planned.seed,
                **planned.options, **self.today.training,
            )  # fmt: skip
        except (DGLError, RuntimeError, MemoryError) as error:
            # Such as a loss that is not finite; others do not depend on it.
            print(f"{title}: {error}", flush=True)
            return None
        found["model"] = planned.title
        results.save_run(found, key)
        smoothed = found.get("smoothed")
        print(
            f"{title}: validation {100 * found['valid']:.2f}"
            + (f", {100 * smoothed['valid']:.2f} smoothed" if smoothed else "")
            + f", {found['epochs']} epochs, {found['train_seconds']:.1f} s",
            flush=True,
        )
        return found

    def best_trial(self, contest: Contest, run: bool) -> dict[str, Any] | None:
        """Return the record of the best trial.

        None if all trials failed or, without ``run``, if some have no record.
        """
        best: dict[str, Any] | None = None
        start, trials = None, self.today.trials
        if contest.without is not None:
            before = self.best_trial(contest.without, run)
            if before is not None:
                start = contest.extend(before["params"])
            trials = (trials + 1) // 2
        for trial in range(trials):
            if start is not None and trial == 0:
                params = start
            elif best is None or (start is None and trial < EVEN_TRIALS):
                params = contest.draw(trial)
            else:
                params = contest.change(best["params"], trial)
            found = self.record(_Planned(contest, 0, params), run)
            if found is None:
                if not run:
                    return None
            elif best is None or found["valid"] > best["valid"]:
                best = found
        return best

    def runs_of(
        self, contest: Contest, run: bool, **stages: Any
    ) -> list[dict[str, Any]]:
        """Return the records of all seeds, or none of them."""
        best = self.best_trial(contest, run)
        if best is None:
            return []
        found = [
            self.record(_Planned(contest, seed, best["params"], **stages), run)
            for seed in range(1, self.today.seeds + 1)
        ]
        complete = [record for record in found if record is not None]
        return complete if len(complete) == len(found) else []

    def staged_runs(self, contest: Contest, run: bool) -> list[dict[str, Any]]:
        """Return the records of self-training, of the better threshold."""
        best = self.best_trial(contest, run)
        if best is None:
            return []
        first = [
            self.record(
                _Planned(contest, 1, best["params"], STAGES, threshold), run
            )
            for threshold in THRESHOLDS
        ]
        done = [record for record in first if record is not None]
        if not done:
            return []
        chosen = max(done, key=lambda record: record["valid"])
        return self.runs_of(
            contest, run, stages=STAGES, threshold=chosen["threshold"]
        )


def _mean_valid(records: list[dict[str, Any]]) -> float:
    return float(np.mean([record["valid"] for record in records]))


def _collect(
    runner: _Runner, run: bool
) -> Iterator[tuple[Contest, list[dict[str, Any]]]]:
    """Yield the complete runs of each contest, then those in stages."""
    every = contests(runner.today.models)
    done: list[tuple[Contest, list[dict[str, Any]]]] = []
    for contest in every:
        records = runner.runs_of(contest, run)
        if records:
            done.append((contest, records))
            yield contest, records
    for title in runner.today.models:
        own = [pair for pair in done if pair[0].entrant.title == title]
        if len(own) < sum(c.entrant.title == title for c in every):
            # The best one is not known before all of them are complete.
            continue
        best, _ = max(own, key=lambda pair: _mean_valid(pair[1]))
        records = runner.staged_runs(best, run)
        if records:
            yield best, records


def reproduce_today(today: Today) -> None:
    """Run what has no record yet; print and save the tables so far."""
    contests(today.models)
    if today.trials < 1:
        raise DGLError(f"trials={today.trials} should be at least 1.")
    tasks = load_tasks(today.sources, today.results)
    if today.columns is not None:
        for data in tasks.values():
            reduce_columns(data, today.columns)
    until = None
    if today.seconds is not None:
        until = time.monotonic() + today.seconds
    runners = [_Runner(today, data, until) for data in tasks.values()]
    try:
        for runner in runners:
            for _ in _collect(runner, run=True):
                pass
    except _OutOfTime:
        print("the time is over; the same command resumes", flush=True)
    for runner in runners:
        _save(runner)


def _save(runner: _Runner) -> None:
    """Print and save the tables of a data set, of what is complete."""
    name = runner.data.name
    found = list(_collect(runner, run=False))
    if not found:
        print(f"{name}: no model has all its runs yet", flush=True)
        return
    print(f"\n{name}: {today_run.metric_for(runner.data)}, "
          f"{runner.today.trials} trials, {runner.today.seeds} "
          f"seeds")  # fmt: skip
    folder = runner.today.results.folder
    for kind, table in (
        ("results", results_table(found)), ("ablation", ablation_table(found)),
    ):  # fmt: skip
        path = folder / f"today-{kind}--{slug(name)}"
        print(f"\n{save_table(table, path)}", flush=True)
    print(f"\n{summary(found)}", flush=True)
    print(spent(runner.today.results.all_runs(), name), flush=True)
