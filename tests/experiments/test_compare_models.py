"""The demo's table and remarks."""

from types import SimpleNamespace

from dgl_lc.data import block_model
from dgl_lc.experiments.compare_models import remarks

DATA = block_model(100, num_feats=4, seed=1)


def trained(name, epoch_seconds, rows):
    fit = SimpleNamespace(epoch_seconds=epoch_seconds)
    return SimpleNamespace(
        name=name, fit=fit, test_accuracy=0.5, total_seconds=1.0, rows=rows
    )


def test_an_lc_version_that_is_slower_is_explained():
    pair = [trained("GCN", 1.0, 100), trained("LCGCN", 2.0, 60)]
    line, reason = remarks(pair, DATA)
    assert line.startswith("LCGCN against GCN: +0.00 points")
    assert "0.5x as fast per epoch, 1.0x in total" in line
    assert "60 rows per epoch (1 hops of each training node)" in reason
    faster = [trained("GCN", 2.0, 100), trained("LCGCN", 1.0, 60)]
    assert len(remarks(faster, DATA)) == 1


def test_models_without_an_original_have_no_remark():
    assert remarks([trained("SGC", 1.0, 60)], DATA) == []
    assert remarks([trained("LCGCN", 1.0, 60)], DATA) == []
