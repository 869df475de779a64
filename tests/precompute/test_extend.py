"""Extending hop stores: the same bits as a full run, kills, errors."""

import random
import signal
import subprocess
import sys
import time

import dgl
import numpy as np
import pytest
import torch
from dgl import DGLError
from dgl.base import DGLWarning
from hypothesis import given, settings
from hypothesis import strategies as st
from night import cases, each

from dgl_lc.data import build_disk_graph, write_features
from dgl_lc.hops import NORMS
from dgl_lc.precompute import block_aggregate, extend_store, open_store
from dgl_lc.precompute import extend as extend_module
from dgl_lc.storage import exchange_folders, merge_hops, write_hops
from dgl_lc.testing.folders import folder_content
from dgl_lc.testing.random_graphs import graphs, make_features

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


def random_graph(n=60, m=300, seed=0):
    generator = torch.Generator().manual_seed(seed)
    ends = torch.randint(n, (2, m), generator=generator)
    return dgl.graph((ends[0], ends[1]), num_nodes=n)


@pytest.fixture
def g():
    return random_graph()


@pytest.fixture
def x():
    return make_features(60, 40)


@pytest.mark.parametrize(("dtype", "norm"), each(DTYPES, NORMS))
def test_more_hops_are_those_of_a_full_run(g, x, tmp_path, dtype, norm):
    options = {"dtype": dtype, "norm": norm}
    block_aggregate(g, x, 3, out=tmp_path / "s", **options)
    found = extend_store(tmp_path / "s", g, x, K=5, out=tmp_path / "t")
    assert found.hops == [0, 1, 2, 3, 4, 5]
    block_aggregate(g, x, 5, out=tmp_path / "full", **options)
    assert folder_content(tmp_path / "t") == folder_content(tmp_path / "full")


def test_more_hops_are_computed_from_the_last_one(g, x, tmp_path, monkeypatch):
    block_aggregate(g, x, 3, hops=[1, 3], out=tmp_path / "s")
    block_aggregate(g, x, 4, hops=[1, 3, 4], out=tmp_path / "full")
    asked = []
    plain = extend_module.block_aggregate

    def spy(g, feat, K, **options):
        asked.append((K, options["hops"]))
        return plain(g, feat, K, **options)

    monkeypatch.setattr(extend_module, "block_aggregate", spy)
    extend_store(tmp_path / "s", g, x, K=4, out=tmp_path / "t")
    assert asked == [(1, [1])]
    assert folder_content(tmp_path / "t") == folder_content(tmp_path / "full")


@settings(max_examples=cases(12, 300))
@given(
    graphs(), st.integers(1, 40), st.integers(0, 3), st.sampled_from(DTYPES),
    st.sampled_from(NORMS), st.booleans(), st.booleans(), st.integers(0, 99),
)  # fmt: skip
def test_more_nodes_are_those_of_a_full_run(
    tmp_path_factory, g, columns, K, dtype, norm, self_loop, weighted, seed
):
    n, path = g.num_nodes(), tmp_path_factory.mktemp("extend")
    # Small, so that sums over many edges are no infinity in float16.
    x = make_features(n, columns, seed) / 1000
    options = {"dtype": dtype, "norm": norm, "self_loop": self_loop}
    weight = make_features(g.num_edges(), 1, seed)[:, 0] if weighted else None
    nodes = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    half = n // 2 + 1
    block_aggregate(
        g, x, K, nodes=nodes[:half], edge_weight=weight, out=path / "s",
        **options,
    )  # fmt: skip
    # Some of the nodes that are added are in the store already.
    for added, name in ((nodes[half - 1 :], "some"), ("all", "all")):
        extend_store(
            path / "s", g, x, nodes=added, edge_weight=weight, out=path / name
        )
        block_aggregate(
            g, x, K, nodes=nodes if name == "some" else None,
            edge_weight=weight, out=path / f"full-{name}", **options,
        )  # fmt: skip
        assert folder_content(path / name) == (
            folder_content(path / f"full-{name}")
        )


def test_only_missing_rows_are_computed(g, x, tmp_path, monkeypatch):
    block_aggregate(g, x, 2, nodes=[7, 3], out=tmp_path / "s")
    asked = []
    plain = extend_module.block_aggregate

    def spy(*args, **options):
        asked.append(options["nodes"].tolist())
        return plain(*args, **options)

    monkeypatch.setattr(extend_module, "block_aggregate", spy)
    found = extend_store(
        tmp_path / "s", g, x, nodes=[9, 3, 5], out=tmp_path / "t"
    )
    assert asked == [[5, 9]]
    assert found.nodes.tolist() == [7, 3, 9, 5]


def test_graph_and_features_on_disk_within_a_budget(tmp_path):
    edges = np.random.default_rng(0).integers(0, 3000, (2, 9000))
    np.save(tmp_path / "edges.npy", edges)
    np.save(tmp_path / "x.npy", make_features(3000, 40).numpy())
    g = build_disk_graph(tmp_path / "edges.npy", 3000, tmp_path / "graph")
    feat = write_features(tmp_path / "x.npy", tmp_path / "feat")
    nodes = torch.arange(0, 3000, 3)
    block_aggregate(g, feat, 2, nodes=nodes, out=tmp_path / "s")
    extend_store(tmp_path / "s", g, feat, nodes="all", memory="24MiB")
    extend_store(tmp_path / "s", g, feat, K=3, memory="24MiB")
    block_aggregate(g, feat, 3, out=tmp_path / "full")
    assert folder_content(tmp_path / "s") == folder_content(tmp_path / "full")
    with pytest.raises(DGLError, match="memory='1MiB' is too small"):
        extend_store(tmp_path / "s", g, feat, K=4, memory="1MiB")


def test_rows_of_some_nodes_are_computed_again_for_more_hops(g, x, tmp_path):
    block_aggregate(g, x, 1, nodes=[7, 3], out=tmp_path / "s")
    with pytest.warns(DGLWarning, match="all hops are computed again") as found:
        extend_store(tmp_path / "s", g, x, K=2)
    assert found[0].filename == __file__
    block_aggregate(g, x, 2, nodes=[7, 3], out=tmp_path / "full")
    assert folder_content(tmp_path / "s") == folder_content(tmp_path / "full")
    with pytest.warns(DGLWarning, match="all hops are computed again"):
        extend_store(tmp_path / "s", g, x, K=3, nodes=[5], out=tmp_path / "t")
    block_aggregate(g, x, 3, nodes=[7, 3, 5], out=tmp_path / "full3")
    assert folder_content(tmp_path / "t") == folder_content(tmp_path / "full3")


def test_a_reader_keeps_the_store_that_is_replaced(g, x, tmp_path):
    opened = block_aggregate(g, x, 1, out=tmp_path / "s")
    expected = opened.rows(torch.arange(60)).stack
    extended = extend_store(opened, g, x, K=2)
    assert extended.hops == [0, 1, 2]
    assert torch.equal(opened.rows(torch.arange(60)).stack, expected)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s"]
    # The same again changes nothing.
    inode = (tmp_path / "s/rows.npy").stat().st_ino
    assert extend_store(tmp_path / "s", g, x, K=2).hops == [0, 1, 2]
    assert (tmp_path / "s/rows.npy").stat().st_ino == inode


def test_a_finished_extension_is_not_written_again(g, x, tmp_path):
    block_aggregate(g, x, 1, out=tmp_path / "s")
    extend_store(tmp_path / "s", g, x, K=2, out=tmp_path / "t")
    inode = (tmp_path / "t/rows.npy").stat().st_ino
    extend_store(tmp_path / "s", g, x, K=2, out=tmp_path / "t")
    assert (tmp_path / "t/rows.npy").stat().st_ino == inode
    with pytest.raises(DGLError, match="something else: it was made with hops"):
        extend_store(tmp_path / "s", g, x, K=3, out=tmp_path / "t")
    found = extend_store(
        tmp_path / "s", g, x, K=3, out=tmp_path / "t", resume=False
    )
    assert found.hops == [0, 1, 2, 3]


@pytest.mark.parametrize(("change", "text"), [
    ({}, "nothing to extend"), ({"K": 1}, "can be extended, not cut"),
    ({"K": True}, "K should be an integer"), ({"nodes": [60]}, "holds 60"),
    ({"nodes": "every"}, "should be ids of nodes, or 'all'"),
    ({"K": 3, "g": "other"}, "g is not what"),
    ({"K": 3, "feat": "other"}, "feat is not what"),
    ({"K": 3, "edge_weight": torch.ones(300)}, "omit edge_weight"),
    ({"K": 3, "out": "itself"}, "is the store itself"),
])  # fmt: skip
def test_what_does_not_fit_is_an_error(g, x, tmp_path, change, text):
    block_aggregate(g, x, 2, nodes=[5, 7], out=tmp_path / "s")
    before = folder_content(tmp_path)
    call = {"g": g, "feat": x, "out": tmp_path / "t", **change}
    if isinstance(call["g"], str):
        call["g"] = random_graph(seed=5)
    if isinstance(call["feat"], str):
        call["feat"] = x + 1
    if call["out"] == "itself":
        call["out"] = tmp_path / "x/../s"
    with pytest.raises(DGLError, match=text):
        extend_store(tmp_path / "s", **call)
    assert folder_content(tmp_path) == before


def test_a_weighted_store_needs_its_weights(g, x, tmp_path):
    weight = torch.rand(300, generator=torch.Generator().manual_seed(0))
    block_aggregate(g, x, 1, edge_weight=weight, out=tmp_path / "s")
    with pytest.raises(DGLError, match="give edge_weight"):
        extend_store(tmp_path / "s", g, x, K=2)
    with pytest.raises(DGLError, match="g is not what"):
        extend_store(tmp_path / "s", g, x, K=2, edge_weight=weight + 1)
    extend_store(tmp_path / "s", g, x, K=2, edge_weight=weight)
    block_aggregate(g, x, 2, edge_weight=weight, out=tmp_path / "full")
    assert folder_content(tmp_path / "s") == folder_content(tmp_path / "full")


def test_files_of_others_are_not_lost(g, x, tmp_path):
    block_aggregate(g, x, 1, out=tmp_path / "s")
    (tmp_path / "s/mine.txt").write_text("mine")
    with pytest.raises(DGLError, match=r"holds 'mine\.txt'"):
        extend_store(tmp_path / "s", g, x, K=2)
    extend_store(tmp_path / "s", g, x, K=2, out=tmp_path / "t")
    (tmp_path / "s/mine.txt").unlink()
    (tmp_path / "s.extending").mkdir()
    (tmp_path / "s.extending/mine.txt").write_text("mine")
    with pytest.raises(DGLError, match=r"holds 'mine\.txt'"):
        extend_store(tmp_path / "s", g, x, K=2)
    assert (tmp_path / "s.extending/mine.txt").read_text() == "mine"
    open_store(tmp_path / "s").verify()


@pytest.mark.parametrize("more", [{"K": 3}, {"nodes": "all"}])
def test_damaged_rows_are_not_used(g, x, tmp_path, more):
    nodes = None if "K" in more else [5, 7]
    block_aggregate(g, x, 2, nodes=nodes, out=tmp_path / "s")
    file = tmp_path / "s/rows.npy"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(DGLError, match="checksums differ"):
        extend_store(tmp_path / "s", g, x, out=tmp_path / "t", **more)
    with pytest.raises(DGLError, match="was not finished"):
        open_store(tmp_path / "t")


def test_memory_maps_are_used_with_a_warning(g, x, tmp_path):
    np.save(tmp_path / "x.npy", x.numpy())
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    block_aggregate(g, mapped, 1, out=tmp_path / "s")
    with pytest.warns(DGLWarning, match="was not compared") as found:
        extend_store(tmp_path / "s", g, mapped, K=2)
    assert len(found) == 1
    assert found[0].filename == __file__


def test_folders_are_exchanged_without_a_call_of_the_system(
    g, x, tmp_path, monkeypatch
):
    block_aggregate(g, x, 1, out=tmp_path / "s")
    monkeypatch.setattr(exchange_folders, "_exchange_at_once", lambda *_: False)
    extend_store(tmp_path / "s", g, x, K=2)
    block_aggregate(g, x, 2, out=tmp_path / "full")
    assert folder_content(tmp_path / "s") == folder_content(tmp_path / "full")
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["full", "s"]


@pytest.mark.parametrize(("step", "place"), [
    ("keep", True), ("write_rows", True), ("finish", True),
    ("exchange", True), ("remove", True), ("write_rows", False),
    ("finish", False),
])  # fmt: skip
def test_an_interrupted_extension_resumes(
    g, x, tmp_path, monkeypatch, step, place
):
    """Whatever it was at, the old store is whole until the new one is."""
    block_aggregate(g, x, 1, nodes=torch.arange(50), out=tmp_path / "s")
    block_aggregate(g, x, 1, out=tmp_path / "full")
    old = folder_content(tmp_path / "s")
    full = folder_content(tmp_path / "full")
    where, name = {
        "keep": (write_hops.StoreWriter, "keep"),
        "write_rows": (write_hops.StoreWriter, "write_rows"),
        "finish": (write_hops.StoreWriter, "finish"),
        "exchange": (merge_hops, "exchange_folders"),
        "remove": (merge_hops, "remove_store"),
    }[step]
    plain = getattr(where, name)
    out = None if place else tmp_path / "t"
    monkeypatch.setattr(merge_hops, "_PIECE", 1000)
    monkeypatch.setattr(merge_hops, "_COMMIT", 5000)
    for count in range(2):
        calls = []

        def stop(*args, calls=calls, count=count, **options):
            calls.append(args)
            if len(calls) > count:
                raise KeyboardInterrupt
            return plain(*args, **options)

        with monkeypatch.context() as patch:
            patch.setattr(where, name, stop)
            try:
                extend_store(tmp_path / "s", g, x, nodes="all", out=out)
            except KeyboardInterrupt:
                done = place and step == "remove"
                expected = full if done else old
                assert folder_content(tmp_path / "s") == expected
    extend_store(tmp_path / "s", g, x, nodes="all", out=out)
    assert folder_content(tmp_path / ("s" if place else "t")) == full
    assert not (tmp_path / "s.extending").exists()


def test_rows_that_were_committed_are_not_written_again(
    g, x, tmp_path, monkeypatch
):
    block_aggregate(g, x, 1, nodes=torch.arange(50), out=tmp_path / "s")
    monkeypatch.setattr(merge_hops, "_PIECE", 1000)
    monkeypatch.setattr(merge_hops, "_COMMIT", 5000)
    written, again = [], []
    plain = write_hops.StoreWriter.write_rows

    def stop(self, low, values):
        if low > 30:
            raise KeyboardInterrupt
        written.append(low)
        plain(self, low, values)

    def spy(self, low, values):
        again.append(low)
        plain(self, low, values)

    call = (tmp_path / "s", g, x)
    options = {"nodes": "all", "out": tmp_path / "t"}
    monkeypatch.setattr(write_hops.StoreWriter, "write_rows", stop)
    with pytest.raises(KeyboardInterrupt):
        extend_store(*call, **options)
    monkeypatch.setattr(write_hops.StoreWriter, "write_rows", spy)
    extend_store(*call, **options)
    # 15 rows are committed at a time.
    assert max(written) == 30
    assert min(again) == 30
    block_aggregate(g, x, 1, out=tmp_path / "full")
    assert folder_content(tmp_path / "t") == folder_content(tmp_path / "full")


WORK = """
import sys
from dgl_lc.data import power_law_graph
from dgl_lc.precompute import block_aggregate, extend_store
from dgl_lc.storage import merge_hops
from dgl_lc.testing.random_graphs import make_features

merge_hops._COMMIT = 1 << 20
g, x = power_law_graph(40_000, 400_000), make_features(40_000, 64)
path, step = sys.argv[1:]
nodes = range(0, 40_000, 2)
if step == "begin":
    block_aggregate(g, x, 2, nodes=nodes, out=path)
else:
    extend_store(path, g, x, nodes="all", memory="60MiB")
    extend_store(path, g, x, K=3, memory="60MiB")
"""


def run(path, step, seconds=None):
    """Whether it came to its end before it was killed."""
    process = subprocess.Popen([sys.executable, "-c", WORK, str(path), step])
    try:
        return process.wait(seconds) == 0
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
        return False


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_killed_twenty_times(tmp_path):
    calm = tmp_path / "calm"
    assert run(calm, "begin")
    begin = time.monotonic()
    assert run(calm, "extend")
    whole = time.monotonic() - begin
    expected = folder_content(calm)
    rng = random.Random(0)
    kills = ended = 0
    while kills < 20:
        path = tmp_path / f"run{ended}"
        if not path.exists():
            assert run(path, "begin")
        # Python and torch take seconds to start: those are not interesting.
        if run(path, "extend", rng.uniform(0.5, 1) * whole):
            ended += 1
        else:
            kills += 1
            open_store(path).verify()
    path = tmp_path / f"run{ended}"
    if path.exists():
        assert run(path, "extend")
        ended += 1
    for number in range(ended):
        assert folder_content(tmp_path / f"run{number}") == expected
    print(f"killed {kills} times, came to its end {ended} times")
