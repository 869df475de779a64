"""Tables of the study's records, without the data sets."""

import json

import pytest


def record(model, seed, test, params=None, **more):
    smooth = seed > 0
    return {
        "data": "a graph", "model": model, "seed": seed, "stages": 1,
        "threshold": None, "metric": "accuracy", "valid": test - 0.1,
        "test": test, "train_seconds": 900.0, "smooth_seconds": 900.0,
        "smoothed": {"valid": test - 0.2, "test": test},
        "key": {
            "params": params or {"K": 3}, "smooth": smooth,
            "training": {"epochs": 150},
        },
        **more,
    }  # fmt: skip


@pytest.fixture
def tables(script):
    return script("study_tables")


@pytest.fixture
def records():
    found = [record("SIGN", 0, 0.9, {"K": 5}), record("SIGN", 0, 0.8)]
    found += [record("SIGN", seed, 0.79 + seed / 100) for seed in (1, 2)]
    found += [record("SAGN", seed, 0.83 + seed / 100) for seed in (1, 2)]
    found += [record("SAGN + labels", seed, 0.8 + seed / 20) for seed in (1, 2)]
    # Only the better threshold has all seeds.
    staged = {"stages": 2, "threshold": 0.7}
    found += [
        record("SAGN + stages", seed, 0.9 + seed / 100, **staged)
        for seed in (1, 2)
    ]
    worse = {**staged, "threshold": 0.9}
    # GAMLP was interrupted before its second seed.
    return [
        *found, record("SAGN + stages", 1, 0.5, **worse),
        record("GAMLP (jk)", 1, 0.99),
    ]  # fmt: skip


def test_contests_are_found_with_all_their_seeds(tables, records):
    found = tables.complete_runs(records)
    assert [
        (contest.title, runs[0]["model"], [run["test"] for run in runs])
        for contest, runs in found
    ] == [
        ("SIGN", "SIGN", [0.8, 0.81]),
        ("SAGN", "SAGN", [0.84, 0.85]),
        ("SAGN + labels", "SAGN + labels", [0.8 + 1 / 20, 0.8 + 2 / 20]),
        ("SAGN", "SAGN + stages", [0.91, 0.92]),
    ]


def test_runs_of_two_searches_are_not_mixed(tables, records):
    again = [record("SIGN", seed, 0.5, {"K": 8}) for seed in (1, 2)]
    with pytest.raises(ValueError, match="SIGN has all seeds with two sets"):
        tables.complete_runs([*records, *again])


def test_tables_are_made_from_a_folder(tables, records, tmp_path):
    assert tables.study_tables(tmp_path) == {}
    text = "\n".join(json.dumps(own) for own in records)
    (tmp_path / "a-graph.jsonl").write_text(text)
    found = tables.study_tables(tmp_path)
    assert found["study-summary"].splitlines()[2] == (
        "| a graph | accuracy | 2 | SIGN | 80.50 (0.50) | SAGN + stages | "
        "91.50 (0.50) | +11.00 |"
    )
    assert found["study-models"].splitlines()[2:] == [
        "| SIGN | 80.50 (0.50) |", "| SAGN | 84.50 (0.50) |",
    ]  # fmt: skip
    assert "| labels | +3.00 (+3.00 to +3.00) |" in found["study-pieces"]
    assert found["study-spent"].splitlines()[2:] == [
        "| a graph | 2 | 10 | 6.0 |", "| all | 2 | 10 | 6.0 |",
    ]  # fmt: skip
    assert "| SAGN + stages | x |" in found["study-results-a-graph"]
    assert "study-ablation-a-graph" in found


def test_studies_of_other_numbers_of_epochs_are_apart(
    tables, records, tmp_path
):
    longer = [record("SIGN", seed, 0.5) for seed in (1, 2)]
    for own in longer:
        own["key"]["training"]["epochs"] = 400
    text = "\n".join(json.dumps(own) for own in [*longer, *records])
    (tmp_path / "a-graph.jsonl").write_text(text)
    found = tables.study_tables(tmp_path)["study-models"].splitlines()
    assert found[0] == "| model | a graph, 400 epochs | a graph, 150 epochs |"
    assert found[2] == "| SIGN | 50.00 (0.00) | 80.50 (0.50) |"
    assert found[3] == "| SAGN |  | 84.50 (0.50) |"
