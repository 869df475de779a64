"""Rows of figures: ratios, tables and bad values."""

import math

import pytest


@pytest.fixture
def section(script):
    return script("section")


@pytest.fixture
def rows(section):
    row = section.row
    return [
        row("1M", "dgl-lc", "fresh", 2, "s"),
        row("1M", "DGL", "fresh", 5, "s"),
        row("4M", "dgl-lc", "fresh", 10, "s"),
        row("4M", "DGL", "fresh", 12.34, "s"),
        row("4M", "PyG", "fresh", 200, "s"),
        row("1M", "dgl-lc", "peak", 2**20, "B"),
        row("1M", "DGL", "peak", 3 * 2**20, "B"),
    ]


def test_a_ratio_says_how_many_times_as_good_the_first_is(section):
    row, ratio = section.row, section.times_better
    fast, slow = row("", "a", "", 2, "s"), row("", "b", "", 6, "s")
    assert ratio(fast, slow) == 3
    assert ratio(slow, fast) == pytest.approx(1 / 3)
    many, few = row("", "a", "", 8, "rows/s"), row("", "b", "", 2, "rows/s")
    assert ratio(many, few) == 4
    # Accuracies are not compared by ratios, and nothing divides by 0.
    assert ratio(row("", "", "", 9, "%"), row("", "", "", 3, "%")) is None
    assert ratio(row("", "", "", 0, "s"), row("", "", "", 3, "s")) is None
    with pytest.raises(ValueError, match="s and B do not compare"):
        ratio(fast, row("", "b", "", 6, "B"))


def test_cells_of_peers_have_ratios_within_their_column(section, rows):
    lines = section.table(rows, what="fresh").splitlines()
    assert lines == [
        "| | 1M | 4M |",
        "| --- | --- | --- |",
        "| **dgl-lc** | **2.00 s** | **10.0 s** |",
        "| DGL | 5.00 s (2.5x) | 12.3 s (1.2x) |",
        "| PyG |  | 200.0 s (20x) |",
    ]
    lines = section.table(rows, what="peak").splitlines()
    assert lines[-1] == "| DGL | 3 MiB (3.0x) |"


def test_a_table_on_its_side_has_the_same_cells(section, rows):
    def cells(text):
        lines = [line.replace("*", "") for line in text.splitlines()]
        return [[c.strip() for c in line[1:-1].split("|")] for line in lines]

    upright = cells(section.table(rows, what="fresh"))
    aside = cells(section.table(rows, what="fresh", down="case", across="name"))
    del upright[1], aside[1]
    assert [list(column) for column in zip(*upright, strict=True)] == aside


def test_two_rows_never_share_a_cell(section, rows):
    with pytest.raises(ValueError, match="two rows for"):
        section.table(rows)


def test_values_that_are_no_figures_are_refused(section):
    with pytest.raises(ValueError, match="unit='sec' is none of"):
        section.row("1M", "dgl-lc", "fresh", 1, "sec")
    for value in (math.nan, math.inf):
        with pytest.raises(ValueError, match="1M, dgl-lc, fresh"):
            section.row("1M", "dgl-lc", "fresh", value, "s")
    with pytest.raises(ValueError, match="size='huge' is none of"):
        section.Options(size="huge")


def test_one_value_is_looked_up(section, rows):
    assert section.value(rows, case="4M", name="PyG") == 200
    with pytest.raises(LookupError, match="2 rows"):
        section.value(rows, case="1M", name="DGL")
    with pytest.raises(LookupError, match="0 rows"):
        section.value(rows, name="nobody")
