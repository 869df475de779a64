"""Runs of ``prepare`` that are killed resume, and give the same task."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from night import cases

from dgl_lc.data import DiskData, prepare
from dgl_lc.testing.folders import folder_content

pytest.importorskip("pyarrow")
from prepare_cases import arguments, make_content

#: Nodes and edges of a task that is read nine rows at a time.
N, M = cases(200, 400), cases(1000, 2000)

# Kills itself at one of the moments when what was written is kept, or just
# before that.
KILLED = """
import os, signal, sys
from pathlib import Path
from dgl_lc.storage import folder, node_ids
from dgl_lc.data import prepare, prepare_edges

source, out, moment = sys.argv[1:]
node_ids._COMMIT_BYTES = 1
prepare_edges._COMMIT_EDGES = 1
count = 0


def counted(function):
    def call(*args, **options):
        global count
        count += 1
        if count == int(moment):
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **options)

    return call


folder.write_draft = counted(folder.write_draft)
folder.write_manifest = counted(folder.write_manifest)
folder.GrowingArray.append = counted(folder.GrowingArray.append)
prepare_task = sys.modules["dgl_lc.data.prepare_task"]
prepare_task.discard = counted(prepare_task.discard)
data = prepare(source + "/e.csv", source + "/x.csv", out, memory="64MiB")
print(count)
"""


def run_until(source, out, moment):
    return subprocess.run(
        [sys.executable, "-c", KILLED, str(source), str(out), str(moment)],
        capture_output=True, text=True,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_killed_at_every_second_moment(tmp_path):
    options = arguments(tmp_path / "in", make_content(weighted=True), "csv")
    calm = run_until(tmp_path / "in", tmp_path / "calm", 0)
    moments = int(calm.stdout)
    assert moments > 30
    whole = folder_content(tmp_path / "calm")
    for moment in range(1, moments + 1, 2):
        out = tmp_path / f"out{moment}"
        killed = run_until(tmp_path / "in", out, moment)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        prepare(options["edges"], options["features"], out, memory="64MiB")
        assert folder_content(out) == whole


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    """The arguments of a run, and what it writes if nothing stops it."""
    folder = tmp_path_factory.mktemp("calm")
    content = make_content(n=N, m=M, weighted=True)
    options = arguments(folder / "in", content, "parquet")
    prepare(**options, out=folder / "out")
    return options, folder_content(folder / "out")


@pytest.mark.parametrize("stage", ["ids", "labels", "edges", "feat", "graph"])
def test_a_run_that_stops_in_a_stage_resumes(
    tmp_path, monkeypatch, calm, stage
):
    """Stages before it are not repeated; the result is the same."""
    from dgl_lc.data import prepare_edges, prepare_task
    from dgl_lc.storage import node_ids, parquet_table

    options, whole = calm
    monkeypatch.setattr(parquet_table, "_MOST_ROWS", 9)
    monkeypatch.setattr(node_ids, "_COMMIT_BYTES", 1)
    monkeypatch.setattr(prepare_edges, "_COMMIT_EDGES", 1)

    def stop(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if stage == "ids":
            _stop_after(patch, node_ids._IdWriter, "_append", 3)
        elif stage == "labels":
            patch.setattr(prepare_task, "mark_split", stop)
        elif stage == "edges":
            _stop_after(patch, prepare_edges._Pass, "_find", 70)
        elif stage == "feat":
            patch.setattr(prepare_task, "write_features", stop)
        else:
            patch.setattr(prepare_task, "build_disk_graph", stop)
        with pytest.raises(KeyboardInterrupt):
            prepare(**options, out=tmp_path / "out")
    rows = _count_rows(monkeypatch)
    prepare(**options, out=tmp_path / "out")
    assert folder_content(tmp_path / "out") == whole
    if stage == "edges":
        # 69 batches of 9 rows were kept, or 70.
        assert sum(rows) <= M - 69 * 9
    elif stage in ("feat", "graph"):
        assert not rows


def _stop_after(patch, owner, name, calls):
    function = getattr(owner, name)
    left = calls

    def call(*args):
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        return function(*args)

    patch.setattr(owner, name, call)


def _count_rows(monkeypatch):
    from dgl_lc.data.prepare_edges import _Pass

    found = []
    function = _Pass._find

    def find(self, batch):
        found.append(batch.num_rows)
        return function(self, batch)

    monkeypatch.setattr(_Pass, "_find", find)
    return found


def test_a_text_file_is_resumed_in_the_middle(tmp_path, monkeypatch):
    from dgl_lc.data import prepare_edges
    from dgl_lc.storage import node_ids, text_table

    monkeypatch.setattr(text_table, "_BLOCK", 1 << 12)
    content = make_content(n=400, m=2000, weighted=True)
    options = arguments(tmp_path / "in", content, "folder of csv")
    calm = prepare(**options, out=tmp_path / "calm")
    monkeypatch.setattr(node_ids, "_COMMIT_BYTES", 1)
    monkeypatch.setattr(prepare_edges, "_COMMIT_EDGES", 1)
    for owner, name, calls in (
        (node_ids._IdWriter, "_append", 7),
        (prepare_edges._Pass, "_find", 11),
    ):
        with monkeypatch.context() as patch:
            _stop_after(patch, owner, name, calls)
            with pytest.raises(KeyboardInterrupt):
                prepare(**options, out=tmp_path / "out")
    rows = _count_rows(monkeypatch)
    data = prepare(**options, out=tmp_path / "out")
    assert data.key == calm.key
    assert 0 < sum(rows) < 2000


def test_passes_resume_with_the_same_parts(tmp_path, monkeypatch):
    from dgl_lc.data import prepare_edges
    from dgl_lc.storage import node_ids, parquet_table

    monkeypatch.setattr(parquet_table, "_MOST_ROWS", 9)
    content = make_content(n=N, m=M)
    options = arguments(tmp_path / "in", content, "parquet")
    calm = prepare(**options, out=tmp_path / "calm")
    monkeypatch.setattr(node_ids, "num_parts", lambda *_: 3)
    monkeypatch.setattr(prepare_edges, "_COMMIT_EDGES", 1)
    with monkeypatch.context() as patch:
        # A pass has a batch for nine edges: this is in the second one.
        _stop_after(patch, prepare_edges._Pass, "_find", M * 3 // 20)
        with pytest.raises(KeyboardInterrupt):
            prepare(**options, out=tmp_path / "out")
    data = prepare(**options, out=tmp_path / "out")
    assert data.key == calm.key


def test_a_source_that_changes_between_runs_is_an_error(tmp_path, monkeypatch):
    from dgl import DGLError

    from dgl_lc.data import prepare_task

    content = make_content()
    options = arguments(tmp_path / "in", content, "csv")
    with monkeypatch.context() as patch:
        patch.setattr(prepare_task, "build_disk_graph", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            prepare(**options, out=tmp_path / "out")
    text = options["edges"].read_text()
    options["edges"].write_text(text + text.splitlines()[1] + "\n")
    with pytest.raises(DGLError, match="resume=False"):
        prepare(**options, out=tmp_path / "out")
    data = prepare(**options, out=tmp_path / "out", resume=False)
    assert data.graph.num_edges() == content.edges.shape[1] + 1


WORK = """
import sys
from dgl_lc.data import prepare
source, out = sys.argv[1:]
prepare(source + "/e.csv.gz", source + "/x.csv.gz", out, memory="64MiB")
"""


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_killed_twenty_times(tmp_path):
    content = make_content(n=60_000, m=1_500_000, d=20)
    arguments(tmp_path / "in", content, "csv.gz")

    def run(out, seconds=None):
        call = [sys.executable, "-c", WORK, str(tmp_path / "in"), str(out)]
        process = subprocess.Popen(call)
        try:
            return process.wait(seconds) == 0
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            return False

    start = time.monotonic()
    assert run(tmp_path / "calm")
    whole = time.monotonic() - start
    rng = random.Random(0)
    kills = ended = 0
    while kills < 20:
        # Python and torch take seconds to start: those are not interesting.
        if run(tmp_path / f"run{ended}", rng.uniform(0.3, 0.95) * whole):
            ended += 1
        else:
            kills += 1
    assert run(tmp_path / f"run{ended}")
    calm = folder_content(tmp_path / "calm")
    for number in range(ended + 1):
        assert folder_content(tmp_path / f"run{number}") == calm
    data = DiskData(Path(tmp_path / f"run{ended}"))
    data.verify()
    assert np.array_equal(
        data.ids_of(data.train[:5]),
        np.array(content.ids, object)[data.train[:5]],
    )
