"""Sorting edges on disk: equal to DGL, in bounded memory, resumable."""

import gzip
import re
import shutil
import subprocess
import sys

import dgl
import numpy as np
import pytest
import torch
from dgl import DGLError
from hypothesis import given
from hypothesis import strategies as st

from dgl_lc.data import build_disk_graph
from dgl_lc.data.undirected import both_directions
from dgl_lc.storage import folder as disk_folder
from dgl_lc.storage.disk_graph import DiskGraph
from dgl_lc.storage.edge_sorter import EdgeSorter
from dgl_lc.storage.edge_sources import (
    CsvEdges,
    NpzEdges,
    WeightedEdges,
    edge_source,
)
from dgl_lc.storage.sort_edges import sort_edges
from dgl_lc.storage.sort_memory import Budget
from dgl_lc.testing.folders import folder_content
from dgl_lc.testing.random_graphs import graphs


def build_in(room, path, num_nodes, folder, **options):
    """Sort edges with so many bytes for arrays, and no overhead."""
    budget = Budget(room, overhead=0)
    return sort_edges(edge_source(path), num_nodes, folder, budget, **options)


def expected(source, target, n, *, add_reverse=False, drop_loops=False):
    """Sources of each row: as DGL's, in the order of the file or sorted."""
    if drop_loops:
        keep = source != target
        source, target = source[keep], target[keep]
    if add_reverse:
        source, target = both_directions(source, target, n)
        order = np.lexsort((source, target))
    else:
        order = np.argsort(target, kind="stable")
    return source[order], np.bincount(target, minlength=n), source, target


def check(graph, source, target, n, **options):
    indices, in_edges, source, target = expected(source, target, n, **options)
    assert graph.num_edges() == len(indices)
    assert np.array_equal(graph.indices, indices)
    assert np.array_equal(np.diff(graph.indptr), in_edges)
    assert graph.indptr[0] == 0
    assert np.array_equal(graph.out_edges, np.bincount(source, minlength=n))
    loops = np.bincount(source[source == target], minlength=n)
    assert np.array_equal(graph.loops, loops)


@given(
    graph=graphs(),
    add_reverse=st.booleans(),
    drop_loops=st.booleans(),
    spare=st.sampled_from([0, 100, 10**6]),
    kind=st.sampled_from(["npz", "packed", "npy", "columns", "fortran"]),
)
def test_it_is_the_graph_that_dgl_makes(
    tmp_path_factory, graph, add_reverse, drop_loops, spare, kind
):
    folder = tmp_path_factory.mktemp("graph")
    n = graph.num_nodes()
    graph = graph.long().formats(["coo", "csr", "csc"])
    edges = torch.stack(graph.edges()).numpy()
    path = folder / ("edges.npz" if kind in ("npz", "packed") else "edges.npy")
    if kind == "npz":
        np.savez(path, edge_index=edges)
    elif kind == "packed":
        np.savez_compressed(path, edge_index=edges)
    elif kind == "npy":
        np.save(path, edges.astype(np.int32))
    elif kind == "columns" and edges.shape[1] != 2:
        np.save(path, np.ascontiguousarray(edges.T))
    else:
        np.save(path, np.asfortranarray(edges))
    options = {"add_reverse": add_reverse, "drop_loops": drop_loops}
    # What is said to be enough for the longest row, and a little more.
    try:
        enough = 1
        build_in(enough, path, n, folder / "least", **options)
    except DGLError as error:
        enough = int(re.search(r"\((\d+) bytes\)", str(error))[1])
    try:
        build_in(enough, path, n, folder / "enough", **options)
    except DGLError as error:
        enough = int(re.search(r"\((\d+) bytes\) would", str(error))[1])
    found = build_in(enough + spare, path, n, folder / "graph", **options)
    check(found, *edges, n, **options)
    found.verify()
    if add_reverse and not drop_loops:
        there = dgl.to_bidirected(graph)
        pairs = zip(*(e.tolist() for e in there.edges()), strict=True)
        mine = zip(*(e.tolist() for e in found.to_dgl().edges()), strict=True)
        assert sorted(pairs) == sorted(mine)


def random_edges(n, m, seed=0):
    rng = np.random.default_rng(seed)
    edges = rng.integers(0, n, (2, m))
    edges[1, : m // 4] = rng.integers(0, n // 10 + 1, m // 4)
    edges[:, -5:] = 3
    return edges


@pytest.fixture
def _one_thread():
    """Every thread needs room of its own, and these budgets are tiny."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("_one_thread")
@pytest.mark.parametrize("add_reverse", [False, True])
def test_the_budget_changes_nothing_but_the_passes(
    tmp_path, monkeypatch, add_reverse
):
    edges = random_edges(1000, 20_000)
    np.savez(tmp_path / "edges.npz", edge_index=edges)
    passes = []
    slices = NpzEdges.slices

    def counted(self, buffers):
        passes.append(buffers)
        return slices(self, buffers)

    monkeypatch.setattr(NpzEdges, "slices", counted)
    keys, numbers = set(), []
    for room in (64 << 20, 64 << 10, 28 << 10):
        passes.clear()
        graph = build_in(
            room, tmp_path / "edges.npz", 1000, tmp_path / f"{room}",
            add_reverse=add_reverse,
        )  # fmt: skip
        check(graph, *edges, 1000, add_reverse=add_reverse)
        keys.add(graph.key)
        numbers.append(len(passes))
    assert len(keys) == 1
    assert numbers[0] == 2
    assert numbers[2] > numbers[1] > 2


def test_threads_change_nothing(tmp_path):
    edges = random_edges(500, 10_000)
    np.save(tmp_path / "edges.npy", edges)
    before = torch.get_num_threads()
    keys = set()
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            graph = build_disk_graph(
                tmp_path / "edges.npy", 500, tmp_path / f"{threads}",
                add_reverse=True,
            )  # fmt: skip
            keys.add(graph.key)
    finally:
        torch.set_num_threads(before)
    assert len(keys) == 1


def test_pairs_in_columns_and_csv_files(tmp_path):
    edges = random_edges(50, 400)
    np.save(tmp_path / "rows.npy", edges)
    np.save(tmp_path / "columns.npy", np.ascontiguousarray(edges.T))
    np.savez(tmp_path / "columns.npz", edge_index=edges.T.copy())
    np.savez_compressed(tmp_path / "fortran.npz", edge_index=edges.T)
    text = "".join(f"{u},{v}\n" for u, v in edges.T)
    (tmp_path / "plain.csv").write_text(text)
    (tmp_path / "packed.csv.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "named.csv").write_text("source,target\n" + text)
    paths = ["rows.npy", "columns.npy", "columns.npz", "fortran.npz"]
    paths += ["plain.csv", "packed.csv.gz"]
    sources = [tmp_path / name for name in paths]
    sources.append(CsvEdges(tmp_path / "named.csv", header=True))
    for place, source in enumerate(sources):
        graph = build_disk_graph(source, 50, tmp_path / f"{place}")
        check(graph, *edges, 50)


def test_a_graph_without_edges(tmp_path):
    np.save(tmp_path / "edges.npy", np.empty((2, 0), np.int64))
    (tmp_path / "edges.csv").write_text("")
    for add_reverse in (False, True):
        for name in ("edges.npy", "edges.csv"):
            graph = build_disk_graph(
                tmp_path / name, 1, tmp_path / f"{name}{add_reverse}",
                add_reverse=add_reverse,
            )  # fmt: skip
            assert graph.num_edges() == 0
            assert graph.indptr.tolist() == [0, 0]
            graph.verify()


@pytest.mark.usefixtures("_one_thread")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("add_reverse", [False, True])
def test_a_killed_run_resumes(tmp_path, monkeypatch, add_reverse, weighted):
    """Killed at every write and at every commit, one after another."""
    edges = random_edges(300, 5000)
    np.savez_compressed(tmp_path / "edges.npz", edge_index=edges)
    source = NpzEdges(tmp_path / "edges.npz")
    if weighted:
        # An edge and its reverse have one weight.
        np.save(tmp_path / "weights.npy", edges.sum(axis=0) / 4)
        source = WeightedEdges(source, tmp_path / "weights.npy")

    def run(folder):
        return build_in(
            (33 if weighted else 22) << 10, source, 300, tmp_path / folder,
            add_reverse=add_reverse,
        )  # fmt: skip

    whole = run("whole")
    places = {
        "append": disk_folder.GrowingArray,
        "commit": disk_folder.Build,
        "seal": disk_folder.GrowingArray,
        "finish": disk_folder.Build,
    }
    left = 0
    real = {}

    def dying(name):
        def call(self, *args, **kwargs):
            nonlocal left
            left -= 1
            if left == 0:
                if name == "append":
                    # Half of it is there, and nobody knows.
                    real[name](self, args[0][: len(args[0]) // 2])
                raise KeyboardInterrupt
            return real[name](self, *args, **kwargs)

        return call

    for name, owner in places.items():
        real[name] = getattr(owner, name)
        monkeypatch.setattr(owner, name, dying(name))
    deaths = 0
    for step in range(3, 1000):
        left = step
        try:
            graph = run("killed")
            break
        except KeyboardInterrupt:
            deaths += 1
            with pytest.raises(DGLError, match=r"was not finished|has no mani"):
                DiskGraph(tmp_path / "killed")
    assert deaths > 5
    assert folder_content(whole.path) == folder_content(graph.path)
    if weighted:
        assert len(graph.weights) == graph.num_edges() > 0


@pytest.mark.parametrize("add_reverse", [False, True])
def test_a_run_that_was_killed_before_its_last_step(
    tmp_path, monkeypatch, add_reverse
):
    np.save(tmp_path / "edges.npy", random_edges(50, 400))

    def run(folder):
        return build_disk_graph(
            tmp_path / "edges.npy", 50, tmp_path / folder,
            add_reverse=add_reverse,
        )  # fmt: skip

    with monkeypatch.context() as patch:

        def die(self, **facts):
            raise KeyboardInterrupt

        patch.setattr(disk_folder.Build, "finish", die)
        with pytest.raises(KeyboardInterrupt):
            run("killed")
    assert folder_content(run("killed").path) == folder_content(run("w").path)


# A process that has imported everything, and copies itself for each run.
KILLED = """
import os, sys, threading
from dgl_lc.storage.edge_sources import WeightedEdges
from dgl_lc.storage.sort_edges import sort_edges
from dgl_lc.storage.sort_memory import Budget
edges, weights, folder, *times = sys.argv[1:]
for seconds in times:
    run = os.fork()
    if run == 0:
        threading.Timer(float(seconds), lambda: os._exit(9)).start()
        sort_edges(WeightedEdges(edges, weights), 20_000, folder,
                   Budget(300_000, 0), add_reverse=True)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(run, 0)[1]))
"""


# By day, runs end at each of the places above.
@pytest.mark.slow
def test_killed_by_the_clock(tmp_path):
    edges = random_edges(20_000, 200_000)
    np.savez(tmp_path / "edges.npz", edge_index=edges)
    np.save(tmp_path / "weights.npy", edges.sum(axis=0) / 4)
    files = (tmp_path / "edges.npz", tmp_path / "weights.npy")
    whole = build_in(
        300_000, WeightedEdges(*files), 20_000, tmp_path / "whole",
        add_reverse=True,
    )  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", KILLED, *map(str, files),
         str(tmp_path / "killed"), "0.05", "0.15", "600"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    *_, last = done.stdout.split()
    assert last == "0"
    assert folder_content(whole.path) == folder_content(tmp_path / "killed")


def test_a_whole_folder_is_left_alone(tmp_path, monkeypatch):
    np.save(tmp_path / "edges.npy", random_edges(50, 100))
    first = build_disk_graph(tmp_path / "edges.npy", 50, tmp_path / "graph")
    monkeypatch.setattr(EdgeSorter, "count", None)
    again = build_disk_graph(tmp_path / "edges.npy", 50, tmp_path / "graph")
    assert again.key == first.key


def test_another_graph_or_option_is_an_error(tmp_path):
    edges = random_edges(50, 100)
    np.savez(tmp_path / "edges.npz", edge_index=edges)
    path = tmp_path / "graph"
    first = build_disk_graph(tmp_path / "edges.npz", 50, path)
    with pytest.raises(DGLError, match="made with add_reverse=False, asked"):
        build_disk_graph(tmp_path / "edges.npz", 50, path, add_reverse=True)
    with pytest.raises(DGLError, match="made with num_nodes=50, asked for is"):
        build_disk_graph(tmp_path / "edges.npz", 51, path)
    np.savez(tmp_path / "edges.npz", edge_index=edges[::-1])
    with pytest.raises(DGLError, match=r"edges.npz has changed \(content\)"):
        build_disk_graph(tmp_path / "edges.npz", 50, path)
    anew = build_disk_graph(tmp_path / "edges.npz", 50, path, resume=False)
    check(anew, *edges[::-1], 50)
    assert anew.key != first.key


def test_two_writers_do_not_meet(tmp_path):
    np.save(tmp_path / "edges.npy", random_edges(50, 100))
    (tmp_path / "g").mkdir()
    with (
        disk_folder.locked(tmp_path / "g"),
        pytest.raises(DGLError, match="written by another process"),
    ):
        build_disk_graph(tmp_path / "edges.npy", 50, tmp_path / "g")


def test_foreign_folders_are_left_alone(tmp_path):
    np.save(tmp_path / "edges.npy", random_edges(50, 100))
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis/thesis.tex").write_text("years of work")
    with pytest.raises(DGLError, match=r"holds 'thesis.tex', which dgl-lc"):
        build_disk_graph(tmp_path / "edges.npy", 50, tmp_path / "thesis")


def test_ids_out_of_range(tmp_path):
    for bad in (50, -1, 2**40):
        edges = random_edges(50, 100)
        edges[1, 70] = bad
        np.save(tmp_path / "edges.npy", edges)
        message = rf"edges\.npy holds {bad}, but there are nodes 0 to 49"
        with pytest.raises(DGLError, match=message):
            build_disk_graph(
                tmp_path / "edges.npy", 50, tmp_path / "graph", resume=False
            )


def test_edges_that_change_between_passes(tmp_path, monkeypatch):
    edges = random_edges(50, 100)
    np.save(tmp_path / "edges.npy", edges)
    fill = EdgeSorter.fill

    def changed(self):
        np.save(tmp_path / "edges.npy", np.zeros_like(edges))
        fill(self)

    monkeypatch.setattr(EdgeSorter, "fill", changed)
    with pytest.raises(DGLError, match="changed while it was read"):
        build_disk_graph(tmp_path / "edges.npy", 50, tmp_path / "graph")


def test_too_little_memory_says_what_is_enough(tmp_path):
    edges = np.zeros((2, 10_000), np.int64)
    edges[0] = np.arange(10_000)
    np.save(tmp_path / "edges.npy", edges)
    with pytest.raises(DGLError, match=r"\((\d+) bytes\)") as caught:
        build_in(28 << 10, tmp_path / "edges.npy", 10_000, tmp_path / "graph")
    enough = int(re.search(r"\((\d+) bytes\) would", str(caught.value))[1])
    graph = build_in(enough, tmp_path / "edges.npy", 10_000, tmp_path / "graph")
    check(graph, *edges, 10_000)


def test_the_overhead_is_a_part_of_what_is_enough(tmp_path):
    np.save(tmp_path / "edges.npy", random_edges(50, 100))
    (tmp_path / "edges.csv").write_text("0,1\n1,2\n")
    for name, least in (("edges.npy", 2 << 20), ("edges.csv", 4 << 20)):
        with pytest.raises(DGLError, match=r"memory=1 MiB is too sm") as caught:
            build_disk_graph(
                tmp_path / name, 50, tmp_path / f"{name} graph", memory="1MiB"
            )
        enough = int(re.search(r"\((\d+) bytes\)", str(caught.value))[1])
        assert least < enough < least + (1 << 20)
        build_disk_graph(
            tmp_path / name, 50, tmp_path / f"{name} graph", memory=enough
        )


def test_wrong_files(tmp_path):
    path = tmp_path / "graph"
    np.save(tmp_path / "floats.npy", np.zeros((2, 3)))
    np.save(tmp_path / "three.npy", np.zeros((3, 4), np.int64))
    (tmp_path / "three.csv").write_text("1,2,3\n")
    (tmp_path / "words.csv").write_text("1,two\n")
    (tmp_path / "edges.txt").write_text("1 2")
    for name, message in {
        "floats.npy": "should hold integers",
        "three.npy": r"shape \(2, m\) or \(m, 2\)",
        "three.csv": "has 3 columns",
        "words.csv": r"words\.csv cannot be read",
        "edges.txt": "by its name",
        "none.npy": "does not exist",
    }.items():
        with pytest.raises(DGLError, match=message):
            build_disk_graph(tmp_path / name, 5, path, resume=False)
    with pytest.raises(DGLError, match="num_nodes"):
        build_disk_graph(tmp_path / "three.csv", 2**31, path)
    with pytest.raises(DGLError, match="edges should be the path"):
        build_disk_graph(np.zeros((2, 3)), 5, path)


def test_a_full_disk_is_named_before_the_work(tmp_path, monkeypatch):
    np.save(tmp_path / "edges.npy", random_edges(50, 100))
    usage = type("Usage", (), {"free": 100})
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(DGLError, match="of disk, but only 100 B are free"):
        build_disk_graph(tmp_path / "edges.npy", 50, tmp_path / "graph")


def test_a_disk_that_fills_up_does_no_harm(tmp_path, monkeypatch):
    np.save(tmp_path / "edges.npy", random_edges(50, 100))
    with monkeypatch.context() as patch:

        def full(self):
            raise OSError(28, "No space left on device")

        patch.setattr(disk_folder.GrowingArray, "sync", full)
        with pytest.raises(DGLError, match="the disk is full"):
            build_disk_graph(tmp_path / "edges.npy", 50, tmp_path / "graph")
    build_disk_graph(tmp_path / "edges.npy", 50, tmp_path / "graph").verify()


def test_counts_that_were_damaged_are_not_resumed_from(tmp_path, monkeypatch):
    np.save(tmp_path / "edges.npy", random_edges(5000, 9000))

    def run():
        build_disk_graph(tmp_path / "edges.npy", 5000, tmp_path / "graph")

    with monkeypatch.context() as patch:

        def die(self):
            raise KeyboardInterrupt

        patch.setattr(EdgeSorter, "fill", die)
        with pytest.raises(KeyboardInterrupt):
            run()
    path = tmp_path / "graph" / "counts.npy"
    data = bytearray(path.read_bytes())
    data[-4] ^= 1
    path.write_bytes(data)
    with pytest.raises(DGLError, match=r"counts\.npy is damaged: write the"):
        run()


def test_edges_in_an_npz_file_have_two_names(tmp_path):
    edges = random_edges(50, 300)
    keys = []
    for name in ("edges", "edge_index"):
        np.savez(tmp_path / "task.npz", labels=np.arange(3), **{name: edges})
        out = tmp_path / name
        keys.append(build_disk_graph(tmp_path / "task.npz", 50, out).key)
    assert keys[0] == keys[1]
    np.savez(tmp_path / "both.npz", edges=edges, edge_index=edges)
    with pytest.raises(DGLError, match="has both edge_index and edges"):
        build_disk_graph(tmp_path / "both.npz", 50, tmp_path / "both")
    np.savez(tmp_path / "none.npz", labels=np.arange(3))
    with pytest.raises(DGLError, match="edge_index"):
        build_disk_graph(tmp_path / "none.npz", 50, tmp_path / "none")
    assert not (tmp_path / "both").exists()
