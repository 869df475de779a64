"""The data sets of the experiments."""

import shutil

import pytest
from dgl import DGLError

from dgl_lc.experiments import paper, tasks
from dgl_lc.experiments.results_folder import ResultsFolder
from dgl_lc.experiments.tasks import (
    fingerprint_of,
    load_task,
    load_tasks,
    paper_name,
)


def test_only_the_paper_s_own_data_sets_have_its_names(small_task, monkeypatch):
    data = load_task(small_task)
    assert paper_name(data) is None
    # Not every data set of that name is the paper's.
    data.name = "flickr"
    assert paper_name(data) is None
    sizes = {"nodes": data.graph.num_nodes(), "features": 6}
    monkeypatch.setitem(paper.DATASETS, "Flickr", sizes)
    assert paper_name(data) == "Flickr"
    data.name = "reddit"
    monkeypatch.setattr(tasks, "load", lambda source: data)
    assert load_task("reddit").name == "Reddit of dgl.data"
    assert paper_name(data) is None


def test_edges_of_a_file_are_used_in_both_directions(small_task):
    source, target = load_task(small_task).graph.edges()
    edges = set(zip(source.tolist(), target.tolist(), strict=True))
    assert edges == {(b, a) for a, b in edges}


def test_data_sets_that_cannot_be_loaded_are_skipped(
    small_task, tmp_path, capsys
):
    results = ResultsFolder(tmp_path)
    found = load_tasks(["nowhere.npz", small_task], results)
    assert list(found) == [small_task]
    assert "skipped: nowhere.npz: " in capsys.readouterr().out
    with pytest.raises(DGLError, match="none of the data sets"):
        load_tasks(["nowhere.npz"], results)


def test_data_sets_of_one_name_get_two_names(
    small_task, other_task, tmp_path, capsys
):
    copy = tmp_path / "copy.npz"
    shutil.copy(small_task, copy)
    sources = [small_task, other_task, str(copy), small_task]
    found = load_tasks(sources, ResultsFolder(tmp_path / "results"))
    assert list(found) == sources[:2]
    names = [data.name for data in found.values()]
    key = fingerprint_of(found[other_task])
    assert names == ["synthetic", f"synthetic ({key[:8]})"]
    text = capsys.readouterr().out
    assert f"{other_task} is named {names[1]!r}" in text
    assert f"skipped: {copy}: it is the same as {small_task}" in text


def test_the_paper_s_name_is_known_by_the_first_part(small_task, monkeypatch):
    data = load_task(small_task)
    data.name = f"flickr ({fingerprint_of(data)[:8]})"
    sizes = {"nodes": data.graph.num_nodes(), "features": 6}
    monkeypatch.setitem(paper.DATASETS, "Flickr", sizes)
    assert paper_name(data) == "Flickr"


def test_the_size_of_a_generated_data_set_is_in_its_name():
    assert load_task("synthetic:150").name == "synthetic-150"


def test_a_mistyped_name_is_an_error_with_the_closest_one():
    with pytest.raises(DGLError, match="Did you mean 'citeseer'"):
        load_task("citeser")


def test_the_fingerprint_depends_on_the_content(small_task):
    data, same = load_task(small_task), load_task(small_task)
    assert fingerprint_of(data) == fingerprint_of(same)
    same.labels = same.labels.flip(0)
    assert fingerprint_of(data) != fingerprint_of(same)
