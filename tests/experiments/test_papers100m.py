"""The table on papers100M, with a generated data set."""

import pytest
from dgl import DGLError

from dgl_lc.experiments import papers100m
from dgl_lc.experiments.papers100m import reproduce_papers100m
from dgl_lc.experiments.results_folder import ResultsFolder


def test_stages_are_kept_and_the_paper_is_beside_its_own_data_alone(
    tmp_path, monkeypatch
):
    results = ResultsFolder(tmp_path / "results")
    options = {"memory": "64MiB", "epochs": 2}
    first = reproduce_papers100m(
        tmp_path / "raw", results, ["SGC", "FSGNN"], 1, synthetic=2e-5,
        feat_dim=8, **options,
    )  # fmt: skip
    assert list(first.model) == ["SGC", "FSGNN"]
    assert not [name for name in first.columns if "paper" in name]
    # Files at the same place that are not generated count as the real ones.
    real = reproduce_papers100m(
        tmp_path / "raw", results, ["SGC"], 1, **options
    )
    assert real.loc[0, "paper, test"] == "62.3 (0.7)"
    assert real.loc[0, "paper, validation"] == "66.7 (0.2)"
    assert real.loc[0, "paper, s/epoch"] == "0.43"
    assert real.loc[0, "paper, total s"] == "2211"
    assert real.loc[0, "test"] == first.loc[0, "test"]

    monkeypatch.delattr(papers100m, "train_and_record")
    again = reproduce_papers100m(
        tmp_path / "raw", results, ["SGC", "FSGNN"], 1, synthetic=2e-5,
        feat_dim=8, **options,
    )  # fmt: skip
    assert again.equals(first)


def test_no_seeds_are_an_error(tmp_path):
    with pytest.raises(DGLError, match="seeds=0"):
        reproduce_papers100m(tmp_path, ResultsFolder(tmp_path), ["SGC"], 0)
