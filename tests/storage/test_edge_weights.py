"""Edge weights of graphs on disk: sorted with their edges, checked, kept."""

import gzip
import random
import re
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from dgl import DGLError
from hypothesis import given
from hypothesis import strategies as st
from night import fuzz

from dgl_lc.data import build_disk_graph
from dgl_lc.storage.disk_graph import DiskGraph
from dgl_lc.storage.edge_sources import CsvEdges, NpyEdges, WeightedEdges
from dgl_lc.storage.npz_stream import Member
from dgl_lc.storage.sort_edges import sort_edges
from dgl_lc.storage.sort_memory import Budget
from dgl_lc.testing.damage import damage
from dgl_lc.testing.random_graphs import graphs

CASES = fuzz(15, 1000)
#: As the version before weights wrote it.
KEY_WITHOUT_WEIGHTS = (
    "c537ca3c0fe08bcb35d89780f13c1ed1aaebca036349353fbffb87fab73e88c8"
)
TYPES = ["f2", "f4", "f8", ">f4", ">f8", "i1", "u4", "i8"]


def save(folder, edges, weights):
    """Write edges and weights to files; their paths."""
    np.save(folder / "edges.npy", edges)
    np.save(folder / "weights.npy", weights)
    return folder / "edges.npy", folder / "weights.npy"


def random_weights(edges, dtype="f4", seed=0, symmetric=False):
    """A weight for each edge; with ``symmetric`` one for both directions."""
    rng = np.random.default_rng(seed)
    table = rng.integers(-100, 100, (64, 64)) / 8
    if np.dtype(dtype).kind in "iu":
        table = np.abs(table) // 1
    if symmetric:
        low, high = edges.min(axis=0), edges.max(axis=0)
        return table[low % 64, high % 64].astype(dtype)
    return rng.choice(table.reshape(-1), edges.shape[1]).astype(dtype)


def check(graph, edges, weights, add_reverse=False, drop_loops=False):
    """Compare with the same edges sorted in memory."""
    source, target = edges
    weights = weights.astype(graph.weights.dtype)
    if drop_loops:
        keep = source != target
        source, target, weights = source[keep], target[keep], weights[keep]
    if add_reverse:
        both = (
            np.concatenate([target, source]),
            np.concatenate([source, target]),
        )
        weights = np.concatenate([weights, weights])
        places = np.unique(np.stack(both), axis=1, return_index=True)[1]
        target, source = both[0][places], both[1][places]
        weights = weights[places]
    order = np.argsort(target, kind="stable")
    assert np.array_equal(graph.indices, source[order])
    assert np.array_equal(graph.weights, weights[order])


def least(build):
    """The least memory, in bytes, as the errors say."""
    memory = 1
    for _ in range(2):
        try:
            build(memory)
        except DGLError as error:
            memory = int(re.search(r"\((\d+) bytes\)", str(error))[1])
    return memory


@given(
    graph=graphs(),
    dtype=st.sampled_from(TYPES),
    add_reverse=st.booleans(),
    drop_loops=st.booleans(),
    spare=st.sampled_from([0, 100, 10**6]),
    form=st.sampled_from(["npy", "npz", "csv", "csv.gz"]),
)
def test_weights_are_sorted_with_their_edges(
    tmp_path_factory, graph, dtype, add_reverse, drop_loops, spare, form
):
    folder = tmp_path_factory.mktemp("graph")
    n = graph.num_nodes()
    graph = graph.long().formats(["coo", "csr", "csc"])
    edges = torch.stack(graph.edges(order="eid")).numpy()
    weights = random_weights(edges, dtype, symmetric=add_reverse)
    paths = save(folder, edges, weights)
    lines = zip(*edges.tolist(), weights.tolist(), strict=True)
    text = "".join(f"{u},{v},{w!r}\n" for u, v, w in lines)
    (folder / "edges.csv").write_text("u,v,w\n" + text)
    (folder / "edges.csv.gz").write_bytes(gzip.compress(text.encode()))
    np.savez_compressed(folder / "all.npz", weights=weights[:, None])
    source = {
        "npy": lambda: WeightedEdges(*paths),
        "npz": lambda: WeightedEdges(
            paths[0], Member(folder / "all.npz", "weights")
        ),
        "csv": lambda: CsvEdges(folder / "edges.csv", True, weighted=True),
        "csv.gz": lambda: CsvEdges(folder / "edges.csv.gz", weighted=True),
    }[form]()
    options = {"add_reverse": add_reverse, "drop_loops": drop_loops}
    if form.startswith("csv") and np.dtype(dtype).itemsize == 8:
        options["weight_dtype"] = "float64"

    def build(memory):
        budget = Budget(memory, overhead=0)
        return sort_edges(source, n, folder / "graph", budget, **options)

    found = build(least(build) + spare)
    double = np.dtype(dtype).newbyteorder("=") == np.float64
    if not form.startswith("csv"):
        assert found.weights.dtype == (np.float64 if double else np.float32)
    options.pop("weight_dtype", None)
    check(found, edges, weights, **options)
    found.verify()
    found.check_edges()


def random_edges(n, m, seed=0):
    rng = np.random.default_rng(seed)
    edges = rng.integers(0, n, (2, m))
    edges[1, : m // 4] = rng.integers(0, n // 10 + 1, m // 4)
    edges[:, -5:] = 3
    return edges


@pytest.mark.parametrize("add_reverse", [False, True])
def test_neither_memory_nor_threads_change_anything(tmp_path, add_reverse):
    edges = random_edges(1000, 20_000)
    weights = random_weights(edges, symmetric=add_reverse)
    source = WeightedEdges(*save(tmp_path, edges, weights))
    before = torch.get_num_threads()
    keys = set()
    try:
        for threads, room in ((1, 64 << 20), (1, 40 << 10), (3, 80 << 10)):
            torch.set_num_threads(threads)
            graph = sort_edges(
                source, 1000, tmp_path / f"{room}", Budget(room, overhead=0),
                add_reverse=add_reverse,
            )  # fmt: skip
            check(graph, edges, weights, add_reverse=add_reverse)
            keys.add(graph.key)
    finally:
        torch.set_num_threads(before)
    assert len(keys) == 1


def test_long_rows_are_merged_with_their_weights(tmp_path):
    """A hub with thousands of edges, in a random order, each one twice."""
    rng = np.random.default_rng(1)
    others = np.repeat(rng.permutation(np.arange(1, 5000)), 2)
    edges = np.stack([np.zeros_like(others), others])
    edges = rng.permuted(edges, axis=0)
    weights = (edges.sum(axis=0) / 7).astype("f4")
    graph = build_disk_graph(
        save(tmp_path, edges, weights)[0], 5000, tmp_path / "graph",
        weights=tmp_path / "weights.npy", add_reverse=True,
    )  # fmt: skip
    check(graph, edges, weights, add_reverse=True)


@pytest.mark.parametrize(
    ("edges", "weights"),
    [
        ([[0, 1, 2], [1, 0, 1]], [1.5, 2.5, 1]),  # in both directions
        ([[0, 2, 0], [1, 1, 1]], [2.5, 1, 1.5]),  # twice
    ],
)
def test_an_edge_with_two_weights_is_named(tmp_path, edges, weights):
    paths = save(tmp_path, np.array(edges), np.array(weights))
    message = "between the nodes [01] and [01] occurs with the weights [12].5 "
    with pytest.raises(DGLError, match=message) as caught:
        build_disk_graph(
            paths[0], 3, tmp_path / "graph", weights=paths[1], add_reverse=True
        )
    assert "1.5" in str(caught.value)
    assert "2.5" in str(caught.value)
    graph = build_disk_graph(paths[0], 3, tmp_path / "one", weights=paths[1])
    assert sorted(graph.weights) == sorted(weights)


def test_self_loops_with_two_weights(tmp_path):
    paths = save(tmp_path, np.array([[2, 2], [2, 2]]), np.array([1.0, 2]))
    options = {"weights": paths[1], "add_reverse": True}
    with pytest.raises(DGLError, match="between the nodes 2 and 2 occurs"):
        build_disk_graph(paths[0], 3, tmp_path / "graph", **options)
    graph = build_disk_graph(
        paths[0], 3, tmp_path / "none", drop_loops=True, **options
    )
    assert graph.num_edges() == len(graph.weights) == 0


def test_plus_and_minus_zero_are_one_weight(tmp_path):
    bits = set()
    for weights in ([0.0, -0.0], [-0.0, 0.0]):
        paths = save(tmp_path, np.array([[0, 1], [1, 0]]), np.array(weights))
        graph = build_disk_graph(
            paths[0], 2, tmp_path / "graph", weights=paths[1],
            add_reverse=True, resume=False,
        )  # fmt: skip
        bits.add(graph.weights.tobytes())
    assert bits == {np.zeros(2).tobytes()}


def test_how_weights_are_stored(tmp_path):
    edges = random_edges(20, 50)
    weights = np.random.default_rng(0).random(50)
    paths = save(tmp_path, edges, weights)
    for asked, expected in ((None, "f8"), ("float64", "f8"), ("float32", "f4")):
        graph = build_disk_graph(
            paths[0], 20, tmp_path / f"{asked}", weights=paths[1],
            weight_dtype=asked,
        )  # fmt: skip
        assert graph.weights.dtype == expected
        check(graph, edges, weights)


@pytest.mark.parametrize("version", ["1.5.3", "2.2.3", "3.0.2", "3.1.0rc0"])
def test_pandas_is_asked_for_exact_decimals_if_it_has_to_be(
    tmp_path, monkeypatch, version
):
    """Without a warning that its newest version does not know the option."""
    (tmp_path / "edges.csv").write_text("0,1,0.1\n")
    read_csv, asked = pd.read_csv, []

    def spied(*args, float_precision=None, **options):
        asked.append(float_precision)
        return read_csv(*args, **options)

    monkeypatch.setattr(pd, "read_csv", spied)
    monkeypatch.setattr(pd, "__version__", version)
    source = CsvEdges(tmp_path / "edges.csv", weighted=True)
    build_disk_graph(source, 2, tmp_path / "graph")
    expected = None if version.startswith("3.1") else "round_trip"
    assert set(asked) == {expected}


def test_csv_weights_give_no_warning(tmp_path):
    (tmp_path / "edges.csv").write_text("0,1,0.1\n1,0,1e300\n")
    source = CsvEdges(tmp_path / "edges.csv", weighted=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DGLError, match="has the weight inf"):
            build_disk_graph(source, 2, tmp_path / "graph")
        build_disk_graph(source, 2, tmp_path / "double", weight_dtype="float64")


def test_csv_weights_are_read_to_the_last_bit(tmp_path):
    edges = random_edges(20, 500)
    weights = np.random.default_rng(0).random(500)
    paths = save(tmp_path, edges, weights)
    lines = zip(*edges.tolist(), weights.tolist(), strict=True)
    text = "".join(f"{u},{v},{w!r}\n" for u, v, w in lines)
    (tmp_path / "edges.csv").write_text(text)
    one = build_disk_graph(paths[0], 20, tmp_path / "a", weights=paths[1])
    two = build_disk_graph(
        CsvEdges(tmp_path / "edges.csv", weighted=True), 20, tmp_path / "b",
        weight_dtype="float64",
    )  # fmt: skip
    assert one.key == two.key


def test_a_graph_without_weights_is_what_it_was(tmp_path):
    np.save(tmp_path / "edges.npy", np.array([[0, 1, 2, 2], [1, 1, 0, 1]]))
    graph = build_disk_graph(tmp_path / "edges.npy", 4, tmp_path / "graph")
    assert graph.weights is None
    assert not (graph.path / "weights.npy").exists()
    assert graph.key == KEY_WITHOUT_WEIGHTS
    assert set(graph.manifest["options"]) == {
        "num_nodes", "add_reverse", "drop_loops"
    }  # fmt: skip
    assert "weight" not in graph.to_dgl().edata


def test_other_weights_are_another_graph(tmp_path):
    edges = random_edges(20, 50)
    paths = save(tmp_path, edges, np.ones(50, "f4"))
    plain = build_disk_graph(paths[0], 20, tmp_path / "plain")
    with pytest.raises(DGLError, match="made with weight_dtype=None, asked"):
        build_disk_graph(paths[0], 20, tmp_path / "plain", weights=paths[1])
    first = build_disk_graph(paths[0], 20, tmp_path / "g", weights=paths[1])
    save(tmp_path, edges, np.arange(50, dtype="f4"))
    with pytest.raises(DGLError, match=r"weights\.npy has changed"):
        build_disk_graph(paths[0], 20, tmp_path / "g", weights=paths[1])
    second = build_disk_graph(
        paths[0], 20, tmp_path / "g", weights=paths[1], resume=False
    )
    assert len({plain.key, first.key, second.key}) == 3


def test_weights_that_change_while_they_are_read(tmp_path):
    paths = save(tmp_path, random_edges(20, 50), np.ones(50, "f4"))

    class Changing(WeightedEdges):
        def slices(self, buffers):
            yield from super().slices(buffers)
            np.save(paths[1], np.zeros(50, "f4"))

    with pytest.raises(DGLError, match="changed while it was read"):
        build_disk_graph(Changing(*paths), 20, tmp_path / "graph")


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(49), r"has 49 numbers, but .*edges\.npy has 50 edges: give"),
        (np.ones((50, 2)), r"should have shape \(m,\)"),
        (np.ones((1, 50)), r"should have shape \(m,\)"),
        (np.float64(1), r"should have shape \(m,\)"),
        (np.ones(50, bool), "should hold integers, float16, float32 or float6"),
        (np.ones(50, complex), "should hold integers|cannot be read"),
        (np.ones(50, "g"), "should hold integers|cannot be read"),
        (np.full(50, np.nan), "has the weight nan as float64, but weights sh"),
        (np.full(50, -np.inf, "f2"), "has the weight -inf as float32"),
        (np.full(50, "1"), "should hold integers|cannot be read"),
    ],
)
def test_odd_weights_are_refused(tmp_path, weights, message):
    paths = save(tmp_path, random_edges(20, 50), weights)
    with pytest.raises(DGLError, match=message):
        build_disk_graph(paths[0], 20, tmp_path / "graph", weights=paths[1])


def test_a_weight_that_is_not_finite_is_named(tmp_path):
    edges, weights = random_edges(20, 50), np.ones(50)
    edges[:, 30], weights[30] = (7, 11), 1e300
    paths = save(tmp_path, edges, weights)
    message = r"edges\.npy: the edge from node 7 to node 11 has the weight inf"
    with pytest.raises(DGLError, match=message + " as float32"):
        build_disk_graph(
            paths[0], 20, tmp_path / "graph", weights=paths[1],
            weight_dtype="float32",
        )  # fmt: skip


def test_odd_arguments_are_refused(tmp_path):
    paths = save(tmp_path, random_edges(20, 50), np.ones(50, "f4"))
    (tmp_path / "edges.csv").write_text("0,1,2\n")
    csv = CsvEdges(tmp_path / "edges.csv", weighted=True)
    for edges, options, message in (
        (paths[0], {"weights": torch.ones(50)}, "should be the path of an npy"),
        (paths[0], {"weights": "weights.csv"}, "should be an npy file"),
        (paths[0], {"weights": "nowhere.npy"}, "does not exist"),
        (paths[0], {"weight_dtype": "float32"}, "has no weights: give weights"),
        (paths[0], {"weights": paths[1], "weight_dtype": "int32"},
         "weight_dtype should be 'float32' or 'float64', got 'int32'"),
        (csv, {"weights": paths[1]}, "has weights of its own: omit weights"),
        (tmp_path / "edges.csv", {}, r"has 3 columns.*weighted=True\) reads"),
    ):  # fmt: skip
        with pytest.raises(DGLError, match=message):
            build_disk_graph(edges, 20, tmp_path / "graph", **options)
    inside = tmp_path / "out" / "weights.npy"
    with pytest.raises(DGLError, match=r"weights\.npy lies in"):
        build_disk_graph(paths[0], 20, tmp_path / "out", weights=inside)


@pytest.mark.parametrize("lines", [2, 4])
def test_more_or_fewer_lines_than_weights(tmp_path, lines):
    (tmp_path / "edges.csv").write_text("0,1\n" * lines)
    np.save(tmp_path / "weights.npy", np.ones(3))
    message = r"has 3 numbers, but .*edges\.csv has another number of edges"
    with pytest.raises(DGLError, match=message):
        build_disk_graph(
            tmp_path / "edges.csv", 5, tmp_path / "graph",
            weights=tmp_path / "weights.npy",
        )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0,1\n", "has 2 columns, but should have 3, source, target and"),
        ("0.5,1,2\n", r"holds 0\.5 in its first two columns, but nodes are in"),
        ("0,,2\n", "holds nan in its first two columns"),
        ("0,1e300,2\n", r"holds 1e\+300 in its first two columns"),
        ("0,-1,2\n", "holds -1, but there are nodes 0 to 4"),
        ("0,1,\n", "from node 0 to node 1 has the weight nan"),
        ("0,1,1e39\n", "from node 0 to node 1 has the weight inf as float32"),
        ("0,1,x\n", "cannot be read"),
    ],
)
def test_odd_lines_are_refused(tmp_path, text, message):
    (tmp_path / "edges.csv").write_text("3,4,1\n" + text)
    if text == "0,1\n":
        (tmp_path / "edges.csv").write_text(text)
    with pytest.raises(DGLError, match=message):
        build_disk_graph(
            CsvEdges(tmp_path / "edges.csv", weighted=True), 5,
            tmp_path / "graph",
        )  # fmt: skip


def test_a_graph_without_edges_has_weights(tmp_path):
    paths = save(tmp_path, np.empty((2, 0), int), np.empty(0, "f4"))
    for add_reverse in (False, True):
        graph = build_disk_graph(
            paths[0], 3, tmp_path / f"{add_reverse}", weights=paths[1],
            add_reverse=add_reverse,
        )  # fmt: skip
        assert graph.weights.shape == (0,)
        graph.check_edges()


def test_it_becomes_a_dgl_graph_with_weights(tmp_path):
    edges = random_edges(20, 50)
    weights = random_weights(edges)
    paths = save(tmp_path, edges, weights)
    graph = build_disk_graph(paths[0], 20, tmp_path / "g", weights=paths[1])
    assert "50 weighted edges" in repr(graph)
    with pytest.raises(ValueError, match="read-only"):
        graph.weights[0] = 1
    there = graph.to_dgl()
    source, target = (ends.tolist() for ends in there.edges(order="eid"))
    found = zip(source, target, there.edata["weight"].tolist(), strict=True)
    given = zip(*edges.tolist(), weights.tolist(), strict=True)
    assert sorted(found) == sorted(given)
    assert there.edata["weight"].dtype == torch.float32


@pytest.mark.parametrize("place", [20, -1])
def test_a_flipped_byte_of_the_weights_is_found(tmp_path, place):
    paths = save(tmp_path, random_edges(20, 50), np.ones(50, "f4"))
    graph = build_disk_graph(paths[0], 20, tmp_path / "g", weights=paths[1])
    path = graph.path / "weights.npy"
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)
    with pytest.raises(DGLError, match=r"weights\.npy is damaged"):
        DiskGraph(graph.path).verify()
    with pytest.raises(DGLError, match=r"weights\.npy is damaged"):
        DiskGraph(graph.path).check_key()


def test_edges_can_be_read_without_their_weights(tmp_path):
    """The slices of edges alone are the same with and without weights."""
    edges = random_edges(20, 50)
    paths = save(tmp_path, edges, np.ones(50, "f4"))
    room = [(np.empty(16, int), np.empty(16, int)) for _ in range(2)]
    for source in (NpyEdges(paths[0]), WeightedEdges(*paths)):
        found = [np.stack(pair).copy() for pair in source.slices(room)]
        assert np.array_equal(np.concatenate(found, axis=1), edges)


@pytest.mark.parametrize("name", ["weights.npy", "edges.csv"])
def test_damaged_weights_are_refused_or_read(tmp_path, name):
    edges = random_edges(20, 50)
    paths = save(tmp_path, edges, np.linspace(-1, 1, 50))
    lines = zip(*edges.tolist(), np.linspace(-1, 1, 50).tolist(), strict=True)
    text = "".join(f"{u},{v},{w!r}\n" for u, v, w in lines)
    (tmp_path / "edges.csv").write_text(text)
    rng = random.Random(CASES)
    kept, errors = (tmp_path / name).read_bytes(), 0
    for _ in range(CASES):
        (tmp_path / name).write_bytes(damage(kept, rng))
        try:
            if name == "weights.npy":
                source = WeightedEdges(*paths)
            else:
                source = CsvEdges(tmp_path / name, weighted=True)
            graph = build_disk_graph(
                source, 20, tmp_path / "graph", resume=False
            )
            assert np.isfinite(graph.weights).all()
            assert len(graph.weights) == graph.num_edges()
        except DGLError:
            errors += 1
    assert 0 < errors < CASES
