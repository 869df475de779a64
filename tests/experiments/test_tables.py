"""Tables of records."""

import pytest

from dgl_lc.experiments.tables import (
    accuracy_table,
    markdown,
    pairs_table,
    time_table,
)

BASE = {
    "data": "a", "seed": 0, "origin": "untuned", "test_last": 0.5, "epochs": 3,
    "total_seconds": 4.0, "valid": 0.5, "valid_last": 0.5,
}  # fmt: skip
RECORDS = [
    {**BASE, "model": "LCGCN", "test": 0.7, "epoch_seconds": 1,
     "total_seconds": 1.0},
    {**BASE, "model": "GCN", "test": 0.8, "epoch_seconds": 2},
    {**BASE, "model": "GCN", "test": 0.8, "epoch_seconds": 2, "seed": 1},
]  # fmt: skip


def test_an_lc_version_is_compared_with_its_original():
    frame = pairs_table(RECORDS)
    assert frame.points[0] == pytest.approx(-10)
    assert frame["speed-up per epoch"][0] == 2
    assert frame["speed-up in total"][0] == 4
    line = markdown(frame).splitlines()[2]
    assert line.startswith("| a | LCGCN | untuned | -10.00 |")


def test_the_paper_s_accuracy_is_beside_ours_where_the_data_are_the_same():
    ours = accuracy_table(RECORDS, {"a": None})
    assert ours.loc["GCN", "a"] == "80.00 (0.00)"
    assert ours.loc["GCN", "a, last epoch"] == "50.00 (0.00)"
    assert ours.loc["GCN", "a, parameters"] == "untuned; 2 seeds"
    assert list(ours.index) == ["GCN", "LCGCN"]
    assert "a, paper" not in ours.columns
    both = accuracy_table(RECORDS, {"a": "Flickr"})
    assert both.loc["GCN", "a, paper"] == "52.5 (0.3)"


def test_times_per_epoch_and_in_total():
    frame = time_table(RECORDS, {"a": "Flickr"})
    assert frame.loc["GCN", "a"] == "2000.0 ms / 4.0 s (0.0)"
    assert frame.loc["GCN", "a, epochs"] == "3"
    assert frame.loc["GCN", "a, paper"] == "64.6 ms / 129.2 s"
