"""The demo's table and remarks."""

from types import SimpleNamespace

import pandas as pd
import pytest

from dgl_lc.data import block_model
from dgl_lc.experiments.compare_models import format_table, remarks, table

DATA = block_model(100, num_feats=4, seed=1)


def trained(name, epoch_seconds, rows, accuracy=0.5):
    fit = SimpleNamespace(
        epoch_seconds=epoch_seconds, valid_accuracy=0.5, history=[1, 2]
    )
    return SimpleNamespace(
        name=name, fit=fit, test_accuracy=accuracy, total_seconds=1.0,
        rows=rows, precompute_seconds=0.0, num_parameters=1000,
    )  # fmt: skip


def test_an_lc_version_that_is_slower_is_explained():
    pair = [trained("GCN", 1.0, 100), trained("LCGCN", 2.0, 120)]
    line, reason = remarks(pair, DATA)
    assert line.startswith("LCGCN against GCN: +0.00 points")
    assert "0.5x as fast per epoch, 1.0x in total" in line
    assert "120 rows per epoch (2 hops of each training node)" in reason
    fewer = [trained("GCN", 1.0, 100), trained("LCGCN", 2.0, 60)]
    assert "although its layers run on fewer rows" in remarks(fewer, DATA)[1]
    faster = [trained("GCN", 2.0, 100), trained("LCGCN", 1.0, 60)]
    assert len(remarks(faster, DATA)) == 1


def test_an_lc_version_that_is_less_accurate_is_said_to_be():
    runs = [trained("GCN", 1.0, 100, share) for share in (0.6, 0.62)]
    runs += [trained("LCGCN", 1.0, 60, share) for share in (0.5, 0.52)]
    line, reason = remarks(runs, DATA)
    assert "-10.00 points" in line
    assert "less accurate here, by more than the deviation" in reason
    runs[2:] = [trained("LCGCN", 1.0, 60, share) for share in (0.56, 0.65)]
    assert "by less than the deviation" in remarks(runs, DATA)[1]


def test_models_without_an_original_have_no_remark():
    assert remarks([trained("SGC", 1.0, 60)], DATA) == []
    assert remarks([trained("LCGCN", 1.0, 60)], DATA) == []


def test_the_table_has_means_and_deviations():
    frame = table([trained("SGC", s, 60, s / 10) for s in (1.0, 2.0, 3.0)])
    (row,) = frame.to_dict("records")
    assert row["test accuracy"] == pytest.approx(0.2)
    assert row["deviation"] == pytest.approx(0.1)
    assert row["s/epoch"] == 2.0
    assert row["runs"] == 3
    assert "20.00 (10.00) %" in format_table(frame)
    one = table([trained("SGC", 1.0, 60)])
    assert not pd.isna(one.loc[0, "deviation"])
