"""The scripts of benchmarks/: all can be started, and one runs."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from dgl_lc.experiments.results_folder import ResultsFolder

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
SCRIPTS = sorted(path.stem for path in BENCHMARKS.glob("*.py"))


@pytest.fixture
def script(monkeypatch):
    """Load a script by its name, as Python does when it is run."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    # One script imports another by a name that other modules may have.
    monkeypatch.delitem(sys.modules, "peers", raising=False)

    def load(name):
        path = BENCHMARKS / f"{name}.py"
        spec = importlib.util.spec_from_file_location(f"benchmark_{name}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    yield load
    sys.modules.pop("peers", None)


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_finds_what_it_imports(script, name):
    script(name)


def test_batches_are_read_from_a_small_store(
    script, monkeypatch, tmp_path, capsys
):
    flags = ["--size", "1MiB", "--folder", str(tmp_path / "store"),
             "--batches", "1", "--runs", "1"]  # fmt: skip
    monkeypatch.setattr(sys, "argv", ["store.py", *flags])
    module = script("store")
    # A batch of the benchmark has more rows than this store.
    monkeypatch.setattr(module, "BATCH", 64)
    module.main()
    # The second call finds the store and reads the same rows.
    module.main()
    printed = capsys.readouterr().out
    assert printed.count("512 rows, 1 MiB") == 2
    assert printed.count("rows/s") == 12


def test_each_model_has_an_epoch_through_the_loader(script):
    rows = list(
        script("loader_overhead").measure(
            ["SGC", "LCH2GCN"], batches=2, size=16, seconds=0, runs=1
        )
    )
    assert len(rows) == 2 * 2 * 3
    assert all(row["value"] > 0 for row in rows)
    json.dumps(rows)


def test_the_loader_adds_processor_time(script, monkeypatch):
    module = script("loader_overhead")
    monkeypatch.setattr(module.torch, "set_num_threads", lambda count: None)
    rows = list(module.measure_cpu(["SGC"], batches=2, size=16, runs=1))
    (one, _) = module.cpu_lines(rows)
    assert one.startswith("SGC, fp32")
    assert len(rows) == 4


def test_chunks_of_the_benchmark_are_a_part_of_what_is_mixed(script):
    full, default, largest, few = script("shuffling").ways(90_000, 512).items()
    assert full == ("full", "full")
    assert default[1].mixed == largest[1].mixed == few[1].mixed == 2048
    assert [own[1].rows for own in (default, largest, few)] == [4, 64, 512]


def test_peers_are_not_compared_with_stages_that_are_finished(
    script, monkeypatch, tmp_path
):
    flags = ["--folder", str(tmp_path), "--only", "prepare", "peers"]
    monkeypatch.setattr(sys, "argv", ["papers100m.py", *flags])
    module = script("papers100m")
    # Nothing is finished: the first stage begins.
    monkeypatch.setattr(module, "measure", lambda name, _: sys.exit(name))
    with pytest.raises(SystemExit, match="prepare"):
        module.main()
    (tmp_path / "hops").mkdir()
    (tmp_path / "hops" / "manifest.json").write_text("{}")
    with pytest.raises(SystemExit, match="hops exists, so that precompute"):
        module.main()


def test_large_graphs_are_planned_on_paper(script, monkeypatch, capsys):
    flags = ["--hosts", "4", "64", "--networks", "10Gbit"]
    monkeypatch.setattr(sys, "argv", ["ranks_on_paper.py", *flags])
    script("ranks_on_paper").main()
    printed = capsys.readouterr().out
    assert "Estimates, not measurements" in printed
    assert "disk 1 GB, gathering rows 10 GB" in printed
    assert "| 4 | 10Gbit | columns | yes |" in printed
    assert "| 64 | 10Gbit | mesh 16 x 4 | yes |" in printed
    assert printed.count("cannot be computed yet") == 2


def test_records_of_a_study_are_packed_and_put_back(script, tmp_path, capsys):
    module = script("study_records")
    params = {"K": 3, "lr": 0.01}
    key = {"params": params, "data": "digest", "smooth": False}
    record = {"model": "SIGN", "data": "a b", "seed": 1, "params": params,
              "valid": 0.1234567890123}  # fmt: skip
    before = ResultsFolder(tmp_path / "before")
    before.save_run(record, key)
    # A run of another study is not of this one.
    before.save_run({**record, "seed": 2}, {"params": params})
    module.pack(tmp_path / "before", tmp_path / "packed")
    module.unpack(tmp_path / "packed", tmp_path / "after")
    after = ResultsFolder(tmp_path / "after")
    assert len(list((tmp_path / "after" / "runs").iterdir())) == 1
    found = after.load_run("SIGN", "a b", 1, key)
    assert found == before.load_run("SIGN", "a b", 1, key)
    assert capsys.readouterr().out.count("1 records") == 2
