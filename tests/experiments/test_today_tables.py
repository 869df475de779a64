"""Tables of today's study, from records that are made by hand."""

import pytest

from dgl_lc.experiments.today_space import ENTRANTS, Contest
from dgl_lc.experiments.today_tables import (
    ablation_table,
    results_table,
    summary,
)


def runs(contest, valid, test, smoothed, stages=1):
    title = contest.title + " + stages" * (stages > 1)
    return contest, [
        {
            "model": title, "stages": stages, "metric": "accuracy",
            "valid": valid, "test": test + shift, "train_seconds": 2.0,
            "smoothed": {"valid": smoothed[0], "test": smoothed[1] + shift},
        }
        for shift in (-0.01, 0.01)
    ]  # fmt: skip


@pytest.fixture
def found():
    sign, sagn = ENTRANTS["SIGN"], ENTRANTS["SAGN"]
    return [
        runs(Contest(sign), 0.70, 0.60, (0.72, 0.61)),
        runs(Contest(ENTRANTS["SGC"]), 0.50, 0.90, (0.50, 0.90)),
        runs(Contest(sagn), 0.71, 0.62, (0.71, 0.62)),
        runs(Contest(sagn, labels=True), 0.73, 0.65, (0.74, 0.64)),
        runs(Contest(sign, options=True), 0.70, 0.63, (0.70, 0.63)),
        runs(Contest(sagn, labels=True), 0.72, 0.70, (0.72, 0.70), stages=2),
    ]


def test_each_piece_is_compared_with_its_absence(found):
    table = ablation_table(found).set_index("model")
    assert table.loc["SIGN"].to_dict() == {
        "options": "+3.00", "labels": "", "stages": "", "C&S": "+1.00",
        "C&S after labels": "",
    }  # fmt: skip
    assert table.loc["SAGN"].to_dict() == {
        "options": "", "labels": "+3.00", "stages": "+5.00", "C&S": "+0.00",
        "C&S after labels": "-1.00",
    }  # fmt: skip


def test_the_choice_is_by_validation_and_not_by_test(found):
    # SGC has the best test, the stages the best of the new ones.
    assert summary(found) == (
        "chosen by validation: SAGN + labels + C&S, test 64.00 (1.00); "
        "without the new pieces: SIGN, test 60.00 (1.00); difference +4.00 "
        "points"
    )


def test_a_row_has_mean_and_deviation(found):
    table = results_table(found).set_index("model")
    assert table.loc["SIGN", "test"] == "60.00 (1.00)"
    assert table.loc["SIGN", "new"] == ""
    assert table.loc["SAGN + labels + stages", "new"] == "x"
    assert "test accuracy" not in table
