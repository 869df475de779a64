"""Today's study: what is run, resumed and put into tables."""

import pytest
import torch
from dgl import DGLError

from dgl_lc.experiments import today_run
from dgl_lc.experiments.results_folder import ResultsFolder
from dgl_lc.experiments.tasks import load_tasks
from dgl_lc.experiments.today import Today, _Runner, reproduce_today
from dgl_lc.experiments.today_space import ENTRANTS, Contest

SHORT = {"epochs": 2, "patience": 2, "batch_size": 64}


@pytest.fixture
def calls(monkeypatch):
    """Every training: its title, seed and stages."""
    found = []
    real = today_run.train_once

    def spy(contest, data, params, seed, **options):
        found.append((contest.title, seed, options.get("stages", 1)))
        return real(contest, data, params, seed, **options)

    monkeypatch.setattr(today_run, "train_once", spy)
    return found


def make(task, folder, **options):
    options = {"models": ["SGC", "SAGN"], "seeds": 2, "trials": 2, **options}
    return Today([task], ResultsFolder(folder), training=SHORT, **options)


def test_every_model_has_the_same_budget(small_task, tmp_path, calls):
    reproduce_today(make(small_task, tmp_path))
    titles = {title for title, _, _ in calls}
    assert titles == {
        "SGC", "SGC + options", "SGC + options + labels", "SAGN",
        "SAGN + labels",
    }  # fmt: skip
    for title in titles:
        own = [(seed, n) for name, seed, n in calls if name == title]
        trials = 1 if "+" in title else 2
        own, runs = own[trials:], own[:trials]
        assert runs == [(0, 1)] * trials
        own, runs = own[2:], own[:2]
        assert runs == [(1, 1), (2, 1)]
        # Two thresholds with the first seed, then the better one with the
        # others, if this contest is the best of its model.
        assert own in ([], [(1, 2), (1, 2), (2, 2)])
    assert sum(stages == 2 for _, _, stages in calls) == 2 * 3
    for kind in ("results", "ablation"):
        assert (tmp_path / f"today-{kind}--synthetic.md").exists()


def test_a_study_resumes_and_more_trials_are_added(
    small_task, tmp_path, calls, capsys
):
    only = {"models": ["SGC"], "seeds": 1}
    reproduce_today(make(small_task, tmp_path, **only))
    shown = capsys.readouterr().out.split("\nsynthetic: ")[-1]
    calls.clear()
    reproduce_today(make(small_task, tmp_path, **only))
    assert not calls
    assert capsys.readouterr().out.split("\nsynthetic: ")[-1] == shown
    reproduce_today(make(small_task, tmp_path, **only, trials=3))
    # Three trials instead of two, and two of each piece instead of one.
    new_trials = [title for title, seed, _ in calls if seed == 0]
    assert len(new_trials) >= 3 == len(set(new_trials))


def test_later_trials_change_the_best_one(small_task, tmp_path, monkeypatch):
    tried = []

    def train(contest, data, params, seed, **options):
        record = {
            "data": data.name, "seed": seed, "params": params, "epochs": 1,
            "valid": 0.9 if len(tried) == 2 else 0.5, "train_seconds": 0.0,
        }  # fmt: skip
        tried.append((seed, params))
        return record

    monkeypatch.setattr(today_run, "train_once", train)
    today = make(small_task, tmp_path, trials=10)
    data = load_tasks(today.sources, today.results).popitem()[1]
    contest = Contest(ENTRANTS["SIGN"])
    best = _Runner(today, data, None).best_trial(contest, run=True)
    params = [params for _, params in tried]
    assert best["params"] == params[2]
    assert params[:6] == [contest.draw(trial) for trial in range(6)]
    assert params[6:] == [
        contest.change(params[2], trial) for trial in range(6, 10)
    ]


def test_a_further_piece_begins_at_the_best_trial_without_it(
    small_task, tmp_path, monkeypatch
):
    tried = []

    def train(contest, data, params, seed, **options):
        tried.append((contest.title, params))
        return {
            "data": data.name, "seed": seed, "params": params, "epochs": 1,
            "valid": 0.9 if len(tried) == 3 else 0.5, "train_seconds": 0.0,
        }  # fmt: skip

    monkeypatch.setattr(today_run, "train_once", train)
    today = make(small_task, tmp_path, trials=4)
    data = load_tasks(today.sources, today.results).popitem()[1]
    contest = Contest(ENTRANTS["SIGN"], options=True, labels=True)
    _Runner(today, data, None).best_trial(contest, run=True)
    titles = [title for title, _ in tried]
    assert titles == (
        ["SIGN"] * 4 + ["SIGN + options"] * 2 + ["SIGN + options + labels"] * 2
    )
    options = Contest(ENTRANTS["SIGN"], options=True)
    assert tried[4][1] == options.extend(tried[2][1])
    assert tried[5][1] == options.change(tried[4][1], 1)
    assert tried[6][1] == contest.extend(tried[4][1])
    assert tried[7][1] == contest.change(tried[6][1], 1)


def test_columns_limit_the_features(small_task, tmp_path, monkeypatch):
    seen = []

    def train(contest, data, params, seed, **options):
        seen.append(data.feat)
        raise DGLError("that is enough.")

    monkeypatch.setattr(today_run, "train_once", train)
    reproduce_today(make(small_task, tmp_path, columns=3))
    wide = load_tasks([small_task], ResultsFolder(tmp_path)).popitem()[1].feat
    centred = (wide - wide.mean(0)).double()
    _, _, directions = torch.linalg.svd(centred, full_matrices=False)
    want = centred @ directions[:3].T
    want = (want / want.square().mean().sqrt()).float()
    assert seen[0].shape == want.shape
    # The sign of a component is not determined.
    torch.testing.assert_close(seen[0].abs(), want.abs(), atol=1e-3, rtol=1e-3)


def test_no_training_starts_after_the_time(small_task, tmp_path, calls, capsys):
    reproduce_today(make(small_task, tmp_path, seconds=0.0))
    assert not calls
    text = capsys.readouterr().out
    assert "the same command resumes" in text
    assert "no model has all its runs yet" in text


def test_a_training_that_fails_does_not_end_the_study(
    small_task, tmp_path, monkeypatch, capsys
):
    real = today_run.train_once

    def fail_sagn(contest, *others, **options):
        if contest.title == "SAGN":
            raise DGLError("the loss is nan.")
        return real(contest, *others, **options)

    monkeypatch.setattr(today_run, "train_once", fail_sagn)
    reproduce_today(make(small_task, tmp_path, seeds=1, trials=1))
    text = capsys.readouterr().out
    assert "SAGN seed 0: the loss is nan." in text
    table = (tmp_path / "today-results--synthetic.md").read_text()
    assert "| SAGN + labels |" in table
    assert "| SAGN |" not in table


def test_trials_are_checked(small_task, tmp_path):
    with pytest.raises(DGLError, match="trials=0"):
        reproduce_today(make(small_task, tmp_path, trials=0))
