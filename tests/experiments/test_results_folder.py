"""The folder of results."""

import pytest
from dgl import DGLError

from dgl_lc.experiments.results_folder import ResultsFolder, slug


def test_what_was_saved_is_loaded(tmp_path):
    results = ResultsFolder(tmp_path)
    assert results.load_best("GCN", "cora") is None
    results.save_best("GCN", "cora", {"lr": 0.1})
    record = {"model": "GCN", "data": "cora", "seed": 3, "test": 0.5}
    key = {"params": {"lr": 0.1}}
    results.save_run(record, key)
    again = ResultsFolder(tmp_path)
    assert again.load_best("GCN", "cora") == {"lr": 0.1}
    assert again.load_run("GCN", "cora", 3, key) == {**record, "key": key}


@pytest.mark.parametrize(
    ("model", "data", "seed", "lr"),
    [
        ("SGC", "cora", 3, 0.1),
        ("GCN", "pubmed", 3, 0.1),
        ("GCN", "cora", 4, 0.1),
        ("GCN", "cora", 3, 0.2),
    ],
)
def test_a_run_is_not_taken_for_another(model, data, seed, lr, tmp_path):
    results = ResultsFolder(tmp_path)
    record = {"model": "GCN", "data": "cora", "seed": 3}
    results.save_run(record, {"lr": 0.1})
    assert results.load_run(model, data, seed, {"lr": lr}) is None


def test_a_folder_of_another_version_is_an_error(tmp_path):
    ResultsFolder(tmp_path)
    (tmp_path / "about.json").write_text('{"format": 99}')
    with pytest.raises(DGLError, match="results of format 99"):
        ResultsFolder(tmp_path)
    (tmp_path / "about.json").write_text("{")
    with pytest.raises(DGLError, match="cannot be read"):
        ResultsFolder(tmp_path)


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DGLError, match=r"out=.*file.* cannot be written"):
        ResultsFolder(tmp_path / "file" / "results")


def test_names_of_files():
    assert slug("arxiv (TAPE-P)") == "arxiv--TAPE-P"
    assert slug("../a b") == "a-b"
