"""The scripts of benchmarks/: all can be started, and one runs."""

import argparse
import doctest
import json
import sys
from pathlib import Path

import pytest
from night import NIGHT

from dgl_lc.data import power_law_graph
from dgl_lc.experiments.results_folder import ResultsFolder

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SCRIPTS = sorted(path.stem for path in BENCHMARKS.glob("*.py"))


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_finds_what_it_imports(script, name):
    found = doctest.testmod(
        script(name), optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert found.failed == 0


def test_fresh_graphs_give_rows_and_parts(script, monkeypatch, tmp_path):
    path = tmp_path / "fresh.json"
    names = ["DGL copy_u_sum, self-loops added", "torch CSR"]
    flags = ["--graphs", "1m", "--runs", "1", "--no-compile", "--threads", "2"]
    flags += ["--peers", *names, "--json", str(path)]
    monkeypatch.setattr(sys, "argv", ["fresh.py", *flags])
    module = script("fresh")
    monkeypatch.setattr(
        module, "make_graph", lambda name, args: power_law_graph(500, 4000)
    )
    before = module.engine.scale_rows
    module.main(module.parse_args())
    assert module.engine.scale_rows is before
    rows = json.loads(path.read_text())["rows"]
    assert [row["who"] for row in rows[::2]] == ["dgl-lc", *names]
    assert {row["rows"] for row in rows} == {"all", "1.4 %"}
    for row in rows:
        assert row["fresh_s"] > 0
        assert row["error"] < 1e-4
    parts = rows[0]["parts"]
    assert {"sorting", "norms", "hops", "first touch"} <= set(parts)
    assert sum(parts.values()) == pytest.approx(rows[0]["fresh_s"], abs=0.01)
    assert not any("parts" in row for row in rows[2:])


def test_fresh_makes_as_many_calls_as_runs(script, monkeypatch):
    fresh = script("fresh")
    g = power_law_graph(300, 2000)
    monkeypatch.setattr(fresh, "make_graph", lambda name, args: g)
    task = fresh.Task("4m", argparse.Namespace(runs=2))
    calls = []

    def counted(given):
        def hops(x, K):
            calls.append(len(x))
            return fresh.peers.ours(given)(x, K)

        return hops

    # Ours are warmed up on the graph itself, peers on a small one.
    task.measure(counted)
    assert calls == [300] * 5
    calls.clear()
    monkeypatch.setitem(fresh.peers.FRESH, "another", counted)
    task.measure(counted)
    assert calls == [2000, *[300] * 4]


def test_all_are_timed_equally_often_on_a_graph(script, monkeypatch):
    """make bench runs calls on the largest graph twice, those of peers too."""
    fresh, section = script("fresh"), script("section")
    seen = []

    def rows(name, args):
        seen.append((name, args.runs))
        return []

    monkeypatch.setattr(fresh, "graph_rows", rows)
    monkeypatch.setattr(fresh, "compile_rows", list)
    monkeypatch.setattr(fresh, "graphs_at_hand", lambda args: args.graphs)
    for size, runs in (("default", 3), ("all", 5), ("default", 1)):
        list(fresh.fresh(section.Options(size=size, runs=runs)))
    assert seen == [
        ("arxiv", 3), ("1m", 3), ("4m", 2),
        ("arxiv", 5), ("1m", 5), ("4m", 5),
        ("arxiv", 1), ("1m", 1), ("4m", 1),
    ]  # fmt: skip


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


def test_the_disk_is_measured_and_left_as_it_was(script, tmp_path):
    rates = script("disk_rate").measure_disk(tmp_path, 10 << 20, runs=1)
    assert set(rates) == {"write_rate", "read_rate"}
    assert min(rates.values()) > 0
    assert list(tmp_path.iterdir()) == []


def test_what_was_measured_and_what_was_not(script, monkeypatch, capsys):
    """Times on a line, 2 s and 0.5 s per column, go on along that line."""
    flags = ["--feat-dim", "32", "--columns", "8", "16", "--memory", "1GiB"]
    monkeypatch.setattr(sys, "argv", ["papers100m.py", *flags])
    module = script("papers100m")
    parts = {"graph": 10.0, "features": 4.0, "rest": 1.0}
    found = [{"stage": "prepare", "parts": parts}]
    for columns in (8, 16, 32):
        run = {"stage": "precompute", "memory": "1GiB"}
        run["seconds"] = 2 + columns / 2
        found.append(run if columns == 32 else run | {"take": columns})
    # Another budget says nothing about this one.
    other = {"stage": "precompute", "memory": "9GiB", "seconds": 999.0}
    more = module.extrapolate([*found, other], module.parse_args())
    assert more["measured"] == {"8": 6.0, "16": 10.0, "32": 18.0}
    assert more["precompute_line"] == pytest.approx(66)
    assert more["precompute_share"] == pytest.approx(72)
    # Edges are sorted once, whatever the columns.
    assert more["prepare"] == pytest.approx(10 + 4 * 4 + 1)
    module.show_extrapolated(more)
    printed = capsys.readouterr().out
    assert "measured: 8 columns 6.0 s, 16 columns 10.0 s, 32" in printed
    assert "extrapolated, not measured: 128 columns take 27 s" in printed
    # Nothing is made up where nothing was measured.
    assert module.extrapolate(found[:2], module.parse_args()) is None


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


# It compiles functions that nothing else uses.
@pytest.mark.slow
def test_the_kernel_is_compared_with_reading(script):
    module = script("roofline")
    options = module.Options(size="tiny", runs=1)
    rows = list(module.roofline(options, columns=[8]))
    assert {r["name"] for r in rows} == {
        "in order", "kernel", "random rows", "the same rows"
    }  # fmt: skip
    assert all(r["value"] > 0 and r["unit"] == "B/s" for r in rows)
    assert [r["row_bytes"] for r in rows if r["name"] == "kernel"] == [32, 16]
    assert module.roofline_table(rows).count("8 columns") == 2


def test_the_kernel_is_shown_with_its_limits(script):
    module = script("roofline")
    found = [("the memory", "in order", 10.0), ("8 columns", "kernel", 2.5)]
    found += [("8 columns", "random rows", 4.0)]
    found += [("8 columns", "the same rows", 5.0)]
    rows = [
        module.row(case, name, "read", speed * 1e9, "B/s", row_bytes=32)
        for case, name, speed in found
    ]
    first, *_, last = module.roofline_table(rows).splitlines()
    assert first == "The memory is read in order at 10.0 GB/s."
    assert last == (
        "| 8 columns | 32 | 2.5 GB/s | 4.0 GB/s | 5.0 GB/s | 50 % | 25 % |"
    )


def test_narrow_types_are_timed_and_trained_on(script, tmp_path, capsys):
    module = script("narrow")
    options = module.Options(size="tiny", runs=1, data=tmp_path)
    rows = list(module.times(options))
    errors = {r["name"]: r["error"] for r in rows}
    assert errors["float32"] == 0
    assert 0 < errors["float16"] < errors["bfloat16"] < 0.01
    assert module.times_table(rows).count("1.00x") >= 1
    # The real graphs are not there.
    assert list(module.accuracy(options)) == []
    assert capsys.readouterr().out.count("skipped") == len(module.TASKS)


@pytest.fixture
def reorder(script, monkeypatch):
    """The script; by day, Python runs what would have to be compiled."""
    module = script("reorder")
    if not NIGHT:
        for name in ("_search", "_propagate", "_renumber"):
            plain = getattr(module, name).py_func
            monkeypatch.setattr(module, name, plain)
    monkeypatch.setattr(module, "_compile", lambda: None)
    return module


# Making a papers-like graph has to be compiled.
@pytest.mark.parametrize(
    ("graph", "known"),
    [
        ("power-law", set()),
        pytest.param(
            "papers-like", {"classes (known)"}, marks=pytest.mark.slow
        ),
    ],
)
def test_orders_of_nodes_are_tried(reorder, tmp_path, graph, known):
    options = reorder.Options(size="tiny", runs=1, data=tmp_path)
    # It compares the results of all orders.
    rows = list(reorder.reorder(options, [graph]))
    names = {r["name"] for r in rows}
    assert names == {"as it is", *reorder.ORDERS} | known
    assert reorder.reorder_table(rows).count("x)") == 2 * (len(names) - 1)


def test_an_order_has_every_node_once(reorder):
    g = reorder.power_law_graph(500, 1200)
    edges = reorder.in_edges(g)
    csc = edges.indptr, edges.load()
    for order in reorder.ORDERS.values():
        assert sorted(order(*csc)) == list(range(500))
    ids = reorder.by_search(*csc)
    again = reorder.renumber(*csc, ids)
    source, target = g.edges()
    new_source, new_target = again.edges()
    old = zip(source.tolist(), target.tolist(), strict=True)
    new = zip(ids[new_source], ids[new_target], strict=True)
    assert sorted(old) == sorted(new)
