"""The folder of results."""

import pytest
from dgl import DGLError

from dgl_lc.experiments.results_folder import ResultsFolder, slug


def test_what_was_saved_is_loaded(tmp_path):
    results = ResultsFolder(tmp_path)
    assert results.load_best("GCN", "cora", "k") is None
    best = {"lr": 0.1, "data_key": "k"}
    results.save_best("GCN", "cora", best)
    record = {"model": "GCN", "data": "cora", "seed": 3, "test": 0.5}
    key = {"params": {"lr": 0.1}}
    results.save_run(record, key)
    again = ResultsFolder(tmp_path)
    assert again.load_best("GCN", "cora", "k") == best
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
    ResultsFolder(tmp_path).create()
    (tmp_path / "about.json").write_text('{"format": 99}')
    with pytest.raises(DGLError, match="results of format 99"):
        ResultsFolder(tmp_path)
    (tmp_path / "about.json").write_text("{")
    with pytest.raises(DGLError, match="cannot be read"):
        ResultsFolder(tmp_path)


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DGLError, match=r"out=.*file.* cannot be written"):
        ResultsFolder(tmp_path / "file" / "results").create()


def test_nothing_is_created_before_something_is_saved(tmp_path):
    results = ResultsFolder(tmp_path / "new")
    assert results.load_best("GCN", "cora", "k") is None
    assert results.load_run("GCN", "cora", 0, {}) is None
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("saved", [{"data_key": "other"}, {}])
def test_parameters_tuned_on_other_data_are_refused(saved, tmp_path):
    results = ResultsFolder(tmp_path)
    results.save_best("GCN", "graph", saved)
    with pytest.raises(DGLError, match=r"graph--GCN.* not tuned on this graph"):
        results.load_best("GCN", "graph", "key")


def test_no_two_data_sets_have_one_name(tmp_path):
    first, second, third = "1" * 16, "2" * 16, "2" * 8 + "3" * 8
    results = ResultsFolder(tmp_path)
    assert results.name_data("graph", first, "x/graph.npz") == "graph"
    for _ in range(2):  # the second time in a new process, as it were
        results = ResultsFolder(tmp_path)
        assert results.name_data("graph", second, "y") == "graph (22222222)"
        assert results.name_data("graph", first, "elsewhere") == "graph"
        assert results.name_data("other", first, "z") == "other"
        assert results.name_data("graph", third, "t") == f"graph ({third})"
    # Names of files must differ, too.
    assert results.name_data("graph!", third, "u") != "graph!"


def test_a_damaged_list_of_names_is_an_error(tmp_path):
    results = ResultsFolder(tmp_path)
    results.name_data("graph", "1" * 16, "x")
    (tmp_path / "data.json").write_text("[]")
    with pytest.raises(DGLError, match=r"data\.json cannot be read"):
        results.name_data("graph", "1" * 16, "x")


def test_names_of_files():
    assert slug("arxiv (TAPE-P)") == "arxiv--TAPE-P"
    assert slug("../a b") == "a-b"
