"""The contests of today's study: their values, and how they are drawn."""

from collections import Counter

import pytest
from dgl import DGLError

from dgl_lc.data import block_model
from dgl_lc.experiments.named_models import make_model, option_names
from dgl_lc.experiments.today_space import ENTRANTS, Contest, contests

EVERY = contests(list(ENTRANTS))


def test_titles_are_different():
    titles = [contest.title for contest in EVERY]
    assert len(set(titles)) == len(titles) == 3 * 6 + 2 * 3


def test_contests_without_new_pieces_come_first():
    flags = [contest.before for contest in EVERY]
    assert flags == sorted(flags, reverse=True)
    assert sum(flags) == 6


@pytest.mark.parametrize("contest", EVERY, ids=lambda c: c.title)
def test_each_value_occurs_equally_often(contest):
    for name, values in contest.space.items():
        for first in (0, len(values)):
            trials = range(first, first + len(values))
            drawn = Counter(contest.draw(trial)[name] for trial in trials)
            assert drawn == Counter(values)


def test_a_trial_has_the_same_values_in_all_contests():
    for trial in range(6):
        seen = {}
        for contest in EVERY:
            for name, value in contest.draw(trial).items():
                key = name, tuple(contest.space[name])
                assert seen.setdefault(key, value) == value


@pytest.mark.parametrize("contest", EVERY, ids=lambda c: c.title)
def test_every_contest_makes_its_model(contest):
    data = block_model(50, seed=1)
    params = contest.draw(1)
    options = contest.model_options(params)
    assert set(options) <= set(option_names(contest.entrant.model))
    if contest.labels:
        options["label_feats"] = data.num_classes
    hidden = params.get("hid_feats", 0)
    model = make_model(contest.entrant.model, data, hidden, **options)
    assert max(model.hops) == params["K"]
    assert (model.label_branch is not None) == contest.labels


@pytest.mark.parametrize("contest", EVERY, ids=lambda c: c.title)
def test_a_later_trial_changes_two_parameters(contest):
    before = contest.draw(0)
    changes = set()
    for trial in range(20):
        after = contest.change(before, trial)
        names = {name for name in before if after[name] != before[name]}
        assert len(names) == 2
        assert all(after[name] in contest.space[name] for name in names)
        changes |= names
    assert changes == set(before)
    assert contest.change(before, 7) == contest.change(before, 7)


def test_models_before_have_no_new_option():
    new = {"input_dropout", "normalization", "residual", "label_hops"}
    for contest in EVERY:
        assert bool(new & set(contest.space)) != contest.before


def test_an_unknown_model_is_named_with_the_closest():
    with pytest.raises(DGLError, match=r"'GAMLP'.*Did you mean"):
        contests(["GAMLP"])
    assert contests(["SAGN"])[1] == Contest(ENTRANTS["SAGN"], labels=True)
