"""Ways from a graph to a trained model: equal hops, honest clocks, tables."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

HAS_PYG = find_spec("torch_geometric") is not None


@pytest.fixture(params=[0.3, 1.0], ids=["some labels", "all labels"])
def task(script, tmp_path, request):
    tasks = script("tasks")
    data = tasks.power_law_task(500, 4)
    if request.param < 1:
        data = tasks.some_labelled(data, request.param)
    tasks.write_task(data, tmp_path / "task")
    return tasks.read_task(tmp_path / "task")


def all_ways(script):
    found = script("ways").WAYS
    return [name for name in found if HAS_PYG or not name.startswith("PyG")]


def start(script, name, task, model="SIGN"):
    end_to_end, ways = script("end_to_end"), script("ways")
    models = end_to_end.MODELS
    if name == ways.FULL_GRAPH:
        models = end_to_end.ORIGINALS
    torch.manual_seed(0)
    sizes = task.feat.shape[1], 16, task.num_classes
    return ways.WAYS[name](task, models[model](*sizes))


def test_a_task_is_read_as_it_was_written(script, tmp_path):
    tasks = script("tasks")
    data = tasks.some_labelled(tasks.power_law_task(300, 3), 0.5)
    tasks.write_task(data, tmp_path)
    found = tasks.read_task(tmp_path)
    assert torch.equal(found.feat, data.feat)
    assert found.num_classes == 3
    assert len(found.labelled) == len(found.labelled.unique()) == 150
    assert [len(i) for i in (found.train, found.valid, found.test)] == [
        90, 30, 30
    ]  # fmt: skip
    graph = found.graph()
    assert graph.formats()["created"] == ["coo"]
    assert torch.equal(torch.stack(graph.edges()), found.edges)
    # Every node has its own label at the place of its row.
    train, test, labels = found.places()
    for ids, places in ((found.train, train), (found.test, test)):
        assert torch.equal(labels[places], found.labels[ids])
        assert torch.equal(found.rows(found.feat)[places], found.feat[ids])


def test_all_ways_compute_the_same_logits_and_batches(script, task):
    ways = script("ways")
    names = [name for name in all_ways(script) if name != ways.FULL_GRAPH]
    logits, seen = [], []
    for name in names:
        way = start(script, name, task)
        way.model.eval()
        inputs = way.prepare(ways.Stages())
        logits.append(way.logits(inputs))
        rows = torch.cat([way.model(None, b) for b, _ in way.batches(inputs)])
        labels = torch.cat([y for _, y in way.batches(inputs)])
        assert len(rows) == len(labels) == len(task.train)
        # The order is drawn: compare the sums, and how often labels occur.
        seen.append((rows.sum(0), labels.bincount()))
    for found, batch in zip(logits[1:], seen[1:], strict=True):
        torch.testing.assert_close(found, logits[0], rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(batch[0], seen[0][0], rtol=1e-3, atol=1e-2)
        assert torch.equal(batch[1], seen[0][1])


def test_ways_train_to_the_same_logits_in_the_same_order(
    script, task, monkeypatch
):
    """What they reach differs by the order of their batches alone."""
    ways = script("ways")
    monkeypatch.setattr(ways, "BATCH", 32)
    count = len(task.train)
    orders = [torch.randperm(count) for _ in range(3)]
    logits = []
    for name in ("dgl-lc", "DGL hops, indexed batches"):
        way = start(script, name, task)
        inputs = way.prepare(ways.Stages())
        batches = way.batches(inputs)
        way.model.train()
        drawn = iter(orders)
        with monkeypatch.context() as patched:
            patched.setattr(
                torch, "randperm", lambda n, generator=None, d=drawn: next(d)
            )
            for _ in orders:
                way.epoch(batches)
        way.model.eval()
        logits.append(way.logits(inputs))
    torch.testing.assert_close(logits[0], logits[1], rtol=1e-2, atol=1e-2)


def test_labels_of_batches_belong_to_their_rows(script, task):
    """Every label is the node's number, and so is its feature."""
    ways = script("ways")
    task.labels = torch.arange(len(task.feat))
    task.feat = task.labels.float().unsqueeze(1).repeat(1, 128)
    for name in ("dgl-lc", "DGL hops, indexed batches", "DGL hops, DataLoader"):
        way = start(script, name, task)
        for batch, labels in way.batches(way.prepare(ways.Stages())):
            assert torch.equal(batch[0][:, 0].long(), labels)


def test_a_linear_original_agrees_with_its_lc_version(script, task):
    ways = script("ways")
    found = []
    for name in ("dgl-lc", ways.FULL_GRAPH):
        way = start(script, name, task, "LCGCN")
        way.model.eval()
        way.model.layers = way.model.layers[:1]
        if name == "dgl-lc":
            weights = [p.detach().clone() for p in way.model.parameters()]
            rows = way.task.feat
        found.append(way)
    lc, original = found
    with torch.no_grad():
        for p, q in zip(original.model.parameters(), weights, strict=True):
            p.copy_(q)
    assert rows is original.task.feat
    inputs = lc.prepare(ways.Stages())
    torch.testing.assert_close(
        lc.logits(inputs), original.logits(original.prepare(ways.Stages()))
    )


def test_the_fastest_runs_and_epochs_count(script, task, monkeypatch):
    ways = script("ways")
    clock = iter(range(10_000))
    monkeypatch.setattr(ways.time, "perf_counter", lambda: next(clock))

    class Way(ways.Indexed):
        def epoch(self, batches):
            stages = ways.Stages()
            stages.seconds["training"] = 10 - self.trained
            self.trained += 1
            return stages

    way = Way(task, start(script, "dgl-lc", task).model)
    way.trained = 0
    found = ways.run_way(way, epochs=3, runs=2)
    # Every measured part takes one tick; the third epoch takes 8.
    assert found.stages.seconds == {
        "graph": 1, "precomputation": 1, "loading": 1, "training": 24,
        "prediction": 1,
    }  # fmt: skip
    assert way.trained == 3
    assert 0 <= found.accuracy <= 1


def test_every_way_learns(script, tmp_path):
    tasks, ways = script("tasks"), script("ways")
    tasks.write_task(tasks.power_law_task(1200, 3), tmp_path / "task")
    task = tasks.read_task(tmp_path / "task")
    for name in all_ways(script):
        way = start(script, name, task, "LCGCN")
        assert ways.run_way(way, epochs=40, runs=1).accuracy > 0.5, name


# At this size the others differ in their names, and in that some nodes of
# theirs have no label: `task` has both kinds.
@pytest.mark.parametrize(
    "graph",
    [
        "arxiv",
        pytest.param("half", marks=pytest.mark.slow),
        pytest.param("few", marks=pytest.mark.slow),
    ],
)
def test_a_small_run_gives_rows_for_tables_and_a_chart(script, tmp_path, graph):
    end_to_end, section = script("end_to_end"), script("section")
    part = end_to_end.SECTIONS_OF_BENCH[f"end_to_end_{graph}"]
    options = section.Options(
        size="tiny", runs=1, threads=torch.get_num_threads(), scratch=tmp_path
    )
    rows = list(part.run(options))
    assert list(tmp_path.iterdir()) == []
    names = {r["name"] for r in rows}
    assert names == set(all_ways(script))
    totals, stages = (make(rows) for make in part.tables.values())
    assert totals.count("| **dgl-lc** |") == 1
    assert stages.count("\n| dgl-lc |") == len(end_to_end.MODELS)
    # SIGN has no original.
    assert stages.count("| DGL, full graph |") == 2
    (draw,) = part.charts.values()
    figure = draw(rows)
    assert len(figure.axes) == len(end_to_end.MODELS)
    for axes in figure.axes:
        bars = [bar.get_width() for bar in axes.patches]
        (case,) = {
            r["case"] for r in rows if r["case"] == axes.get_title("left")
        }
        expected = section.select(rows, case=case, what="total")
        assert sum(bars) == pytest.approx(sum(r["value"] for r in expected))


def test_the_default_size_leaves_out_what_takes_long(script):
    end_to_end = script("end_to_end")
    ways, few = script("ways"), end_to_end.CASES["few"]
    assert few.trains("SIGN", "dgl-lc", "default")
    assert not few.trains("LCGCN", "dgl-lc", "default")
    assert few.trains("LCGCN", ways.FULL_GRAPH, "all")
    assert not few.trains("SIGN", ways.FULL_GRAPH, "all")
    assert end_to_end.CASES["arxiv"].trains("LCGCN", ways.FULL_GRAPH, "default")


def test_a_real_graph_that_is_missing_gives_no_rows(script, tmp_path):
    end_to_end, section = script("end_to_end"), script("section")
    options = section.Options(data=tmp_path, scratch=tmp_path / "s")
    assert list(end_to_end.end_to_end("arxiv", options)) == []


SCRIPT = """
import os
import measure


def run(task):
    print("words before the answer")
    return {"sum": task["one"] + task["other"], "process": os.getpid()}


assert __name__ == "__main__" and measure.answer(run)
"""


def test_a_task_runs_in_a_process_of_its_own(script, tmp_path, monkeypatch):
    measure = script("measure")
    path = tmp_path / "add.py"
    path.write_text(SCRIPT)
    monkeypatch.setenv("PYTHONPATH", str(Path(measure.__file__).parent))
    given = {"one": 2, "other": 0.5}
    found = measure.in_process(path, given)
    assert found["sum"] == 2.5
    assert found["process"] != os.getpid()
    with pytest.raises(RuntimeError, match=r"(?s)add.py .*KeyError: 'other'"):
        measure.in_process(path, {"one": 2})


# Both processes import torch and DGL.
@pytest.mark.slow
def test_a_way_is_measured_in_a_process_of_its_own(script, tmp_path):
    tasks, measure = script("tasks"), script("measure")
    tasks.write_task(tasks.power_law_task(400, 4), tmp_path / "task")
    path = script("end_to_end").__file__
    given = {
        "folder": str(tmp_path / "task"), "model": "LCGCN", "way": "dgl-lc",
        "epochs": 1, "runs": 1, "threads": 1,
    }  # fmt: skip
    found = measure.in_process(path, given)
    assert found["seconds"].keys() == script("ways").Stages().seconds.keys()
    assert found["seconds"]["precomputation"] > 0
    with pytest.raises(RuntimeError, match=r"(?s)end_to_end.py .*KeyError"):
        measure.in_process(path, {**given, "model": "NoModel"})


def test_the_peak_is_that_of_what_follows(script):
    peak = script("measure").Peak()
    block = torch.ones(50 * 2**18)
    found = peak.bytes()
    assert 0.9 * block.nbytes <= found < 2 * block.nbytes
    del block
    # It stays the peak; another one begins again.
    assert peak.bytes() >= 45 * 2**20
    assert script("measure").Peak().bytes() < 20 * 2**20


def test_a_call_without_a_task_is_no_answer(script, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["end_to_end.py"])
    assert not script("measure").answer(lambda task: {})
