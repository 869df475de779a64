"""Hop features against a dense float64 reference."""

import dataclasses
import gc
import threading

import dgl
import numpy as np
import pytest
import torch
from dgl import DGLError
from hypothesis import assume, example, given
from hypothesis import strategies as st
from night import pairwise

from dgl_lc.data import power_law_graph
from dgl_lc.precompute import block_aggregate, plan
from dgl_lc.precompute.cpu import chunks
from dgl_lc.testing.random_graphs import graphs, make_features
from dgl_lc.testing.reference import dense_filter

NORMS = st.sampled_from(["both", "right", "left", "none", "in"])
WIDTHS = st.sampled_from([1, 2, 3, 5, 7, 8, 9, 16, 25, 33, 100, 128, 130, 300])
# Rounding of the stored values, times a few for the sums.
TOLERANCE = {
    torch.float64: 1e-12,
    torch.float32: 1e-5,
    torch.float16: 4e-3,
    torch.bfloat16: 3e-2,
}


def expected_hops(g, x, K, dtype=None, **options):
    """Hops by dense products; stored as ``dtype`` after each."""
    matrix = dense_filter(g, **options)
    hops = [x.to(dtype or x.dtype).double()]
    for _ in range(K):
        hop = torch.from_numpy(matrix @ hops[-1].numpy())
        hops.append(hop.to(dtype or x.dtype).double())
    return hops


def assert_close(found, expected, dtype=torch.float32, slack=1):
    assert found.shape == expected.shape
    scale = 1 + expected.abs().max()
    error = (found.double() - expected).abs().max() / scale
    assert error < slack * TOLERANCE[dtype], f"relative error {error:.2e}"


@given(
    g=graphs(),
    width=WIDTHS,
    K=st.integers(0, 4),
    norm=NORMS,
    self_loop=st.booleans(),
    weighted=st.booleans(),
    dtype=st.sampled_from(list(TOLERANCE)),
)
def test_hops_equal_dense_products(
    g, width, K, norm, self_loop, weighted, dtype
):
    x = make_features(g.num_nodes(), width)
    weight = torch.rand(g.num_edges()) + 0.5 if weighted else None
    options = {"norm": norm, "self_loop": self_loop, "edge_weight": weight}
    expected = expected_hops(g, x, K, dtype, **options)
    # Halves overflow without a norm, which is refused.
    assume(all(hop.isfinite().all() for hop in expected))
    hops = block_aggregate(g, x, K, dtype=dtype, **options)
    assert hops.hops == list(range(K + 1))
    assert hops.filter.norm == norm
    assert hops.filter.self_loop == self_loop
    assert hops.filter.weighted == weighted
    for k in range(K + 1):
        assert hops[k].dtype == dtype
        assert_close(hops[k], expected[k], dtype)


@given(
    g=graphs(max_nodes=80, max_edges=200),
    width=WIDTHS,
    K=st.integers(0, 4),
    norm=NORMS,
    self_loop=st.booleans(),
    weighted=st.booleans(),
    data=st.data(),
)
def test_rows_asked_for_equal_those_of_all_nodes(
    g, width, K, norm, self_loop, weighted, data
):
    ids = st.lists(st.integers(0, g.num_nodes() - 1), min_size=1, max_size=9)
    nodes = torch.tensor(data.draw(ids))
    kept = data.draw(st.sets(st.integers(0, K), min_size=1))
    x = make_features(g.num_nodes(), width)
    weight = torch.rand(g.num_edges()) if weighted else None
    options = {"norm": norm, "self_loop": self_loop, "edge_weight": weight}
    hops = block_aggregate(g, x, K, nodes=nodes, hops=kept, **options)
    assert hops.hops == sorted(kept)
    assert torch.equal(hops.nodes, nodes)
    expected = expected_hops(g, x, K, **options)
    for k in kept:
        assert_close(hops[k], expected[k][nodes])


@given(
    g=graphs(),
    width=WIDTHS,
    blocks=st.integers(1, 7),
    columns=st.sampled_from([16, 32, 128]),
    partial=st.booleans(),
    weighted=st.booleans(),
    data=st.data(),
)
def test_no_cut_of_the_work_changes_the_result(
    g, width, blocks, columns, partial, weighted, data
):
    x = make_features(g.num_nodes(), width)
    nodes = None
    if partial:
        ids = st.integers(0, g.num_nodes() - 1)
        nodes = torch.tensor(data.draw(st.lists(ids, min_size=1, max_size=5)))
    weight = torch.rand(g.num_edges()) if weighted else None
    call = {"nodes": nodes, "edge_weight": weight, "hops": [1, 3]}
    cut = dataclasses.replace(
        plan(g, x, 3, memory="1GiB", **call),
        num_edge_blocks=blocks,
        column_width=columns,
    )
    hops = block_aggregate(g, x, 3, plan=cut, **call)
    expected = expected_hops(g, x, 3, edge_weight=weight)
    for k in (1, 3):
        rows = expected[k] if nodes is None else expected[k][nodes]
        assert_close(hops[k], rows)


@given(g=graphs(), width=st.integers(1, 40))
@example(g=dgl.graph(([], []), num_nodes=1), width=1)
@example(g=dgl.graph(([0, 0], [0, 0]), num_nodes=1), width=3)
def test_every_node_has_exactly_one_self_loop(g, width):
    x = make_features(g.num_nodes(), width)
    source, target = g.edges(order="srcdst")
    nodes = torch.arange(g.num_nodes(), dtype=g.idtype)
    twice = dgl.graph(
        (
            torch.cat([source, nodes, nodes]),
            torch.cat([target, nodes, nodes]),
        ),
        num_nodes=g.num_nodes(),
    )
    none = dgl.remove_self_loop(twice)
    found = block_aggregate(g, x, 2)
    for other in (block_aggregate(twice, x, 2), block_aggregate(none, x, 2)):
        assert torch.allclose(found[2], other[2], atol=1e-6)


def test_equals_graphconv(small_graph):
    g = dgl.add_self_loop(dgl.remove_self_loop(small_graph))
    x = make_features(4, 6)
    for norm in ("both", "right", "left", "none"):
        conv = dgl.nn.GraphConv(6, 6, norm=norm, weight=False, bias=False)
        expected = conv(g, conv(g, x))
        hops = block_aggregate(small_graph, x, 2, norm=norm)
        assert torch.allclose(hops[2], expected, atol=1e-6)


@given(g=graphs(), self_loop=st.booleans(), some=st.booleans())
def test_norm_in_is_the_filter_of_other_layers(g, self_loop, some):
    n, x = g.num_nodes(), make_features(g.num_nodes(), 3)
    nodes = torch.arange(0, n, 2) if some else None
    found = block_aggregate(
        g, x, 2, norm="in", self_loop=self_loop, nodes=nodes
    )
    g = g.formats(["coo", "csr", "csc"])
    if self_loop:
        g = dgl.add_self_loop(dgl.remove_self_loop(g))
    rows = slice(None) if nodes is None else nodes
    sgc = dgl.nn.SGConv(3, 3, k=2, bias=False, allow_zero_in_degree=True)
    torch.nn.init.eye_(sgc.fc.weight)
    tag = dgl.nn.TAGConv(3, 9, k=2, bias=False)
    torch.nn.init.eye_(tag.lin.weight)
    gcn2 = dgl.nn.GCN2Conv(
        3, layer=1, alpha=0, lambda_=0, bias=False, allow_zero_in_degree=True
    )
    close = {"atol": 1e-5, "rtol": 1e-5}
    torch.testing.assert_close(found[2], sgc(g, x)[rows], **close)
    expected = tag(g, x)[rows]
    for hop, part in enumerate(expected.split(3, dim=1)):
        torch.testing.assert_close(found[hop], part, **close)
    expected = gcn2(g, gcn2(g, x, x), x)[rows]
    torch.testing.assert_close(found[2], expected, **close)


def test_weights_may_be_an_array(small_graph):
    x, weight = make_features(4, 3), np.array([0.5, 2, 3, 4, 5], np.float32)
    found = block_aggregate(small_graph, x, 2, edge_weight=weight)
    assert found.filter.weighted
    expected = expected_hops(
        small_graph, x, 2, edge_weight=torch.from_numpy(weight)
    )
    for hop in found.hops:
        torch.testing.assert_close(
            found[hop].double(), expected[hop].double(), atol=1e-5, rtol=1e-5
        )


def test_edge_weight_equals_graphconv(small_graph):
    x, weight = make_features(4, 6), torch.rand(5)
    conv = dgl.nn.GraphConv(6, 6, weight=False, bias=False,
                            allow_zero_in_degree=True)  # fmt: skip
    expected = conv(small_graph, x, edge_weight=weight)
    hops = block_aggregate(
        small_graph, x, 1, self_loop=False, edge_weight=weight
    )
    assert torch.allclose(hops[1], expected, atol=1e-6)


def test_a_node_without_edges_gets_zero(small_graph):
    x = make_features(4, 3)
    hops = block_aggregate(small_graph, x, 2, self_loop=False)
    assert torch.equal(hops[1][3], torch.zeros(3))
    assert torch.isfinite(hops[2]).all()


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("self_loop", [True, False])
def test_nan_and_inf_travel_along_edges_only(bad, self_loop):
    g = dgl.graph(([0, 1, 3], [1, 2, 4]), num_nodes=6)
    for kind in TOLERANCE:
        x = torch.ones(6, 20, dtype=kind)
        x[0] = bad
        hops = block_aggregate(g, x, 1, self_loop=self_loop)
        reached = {0, 1} if self_loop else {1}
        touched = {i for i in range(6) if not torch.isfinite(hops[1][i]).all()}
        assert touched == reached


@pytest.mark.parametrize(
    ("formats", "blocks", "weighted", "dtype"),
    pairwise(
        ["coo", "csc"], [1, 3], [False, True], [torch.float32, torch.float16]
    ),
)
def test_a_hub_is_split_and_right(formats, blocks, weighted, dtype):
    """A row of 100,000 edges, more than three chunks."""
    m = 100_000
    target = torch.cat([torch.zeros(m), torch.arange(1, 50)]).long()
    source = torch.randint(0, 50, (len(target),))
    g = dgl.graph((source, target), num_nodes=50)
    if formats == "csc":
        g.create_formats_()
    x = make_features(50, 40)
    weight = torch.rand(len(target)) if weighted else None
    cut = dataclasses.replace(
        plan(g, x, 2, edge_weight=weight, dtype=dtype, memory="1GiB"),
        num_edge_blocks=blocks,
    )
    hops = block_aggregate(g, x, 2, edge_weight=weight, dtype=dtype, plan=cut)
    expected = expected_hops(g, x, 2, dtype, edge_weight=weight)
    for k in (1, 2):
        # Tens of thousands of terms cancel: single precision shows.
        assert_close(hops[k], expected[k], dtype, slack=10)


def test_result_does_not_depend_on_the_number_of_threads():
    g = power_law_graph(3_000, 200_000)
    x = make_features(3_000, 70)
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            results.append(block_aggregate(g, x, 2))
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert torch.equal(other[2], results[0][2])


def test_calls_from_several_threads_do_not_disturb_each_other():
    g, x = power_law_graph(2_000, 40_000), make_features(2_000, 30)
    expected = block_aggregate(g, x, 2)[2]
    found = [None] * 4

    def call(i):
        found[i] = block_aggregate(g, x, 2)[2]

    threads = [threading.Thread(target=call, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(result, expected) for result in found)


@pytest.mark.parametrize("layout", ["rows", "columns", "every other", "wide"])
def test_any_layout_of_the_features_gives_the_same(layout, small_graph):
    x = make_features(4, 12)
    given = {
        "rows": x,
        "columns": x.t().contiguous().t(),
        "every other": torch.zeros(4, 24),
        "wide": torch.zeros(4, 50),
    }[layout]
    if layout == "every other":
        given = given[:, ::2]
        given.copy_(x)
    elif layout == "wide":
        given = given[:, 7:19]
        given.copy_(x)
    expected = block_aggregate(small_graph, x, 2)
    for nodes in (None, [1, 3]):
        hops = block_aggregate(small_graph, given, 2, nodes=nodes)
        for k in range(3):
            rows = expected[k] if nodes is None else expected[k][nodes]
            torch.testing.assert_close(hops[k], rows)


@pytest.mark.parametrize("kind", ["float32", "float64", "float16"])
@pytest.mark.parametrize("nodes", [None, [5, 2, 5]])
def test_features_may_be_a_memory_map(tmp_path, kind, nodes):
    g = power_law_graph(60, 400)
    x = make_features(60, 20).numpy().astype(kind)
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    hops = block_aggregate(g, mapped, 2, nodes=nodes)
    expected = block_aggregate(g, torch.from_numpy(x), 2, nodes=nodes)
    for k in range(3):
        assert torch.equal(hops[k], expected[k])
    # The result does not hang on the file.
    assert all(tensor.data_ptr() != mapped.ctypes.data for tensor in hops)


def test_hop_zero_is_the_features_themselves(small_graph):
    x = make_features(4, 5)
    hops = block_aggregate(small_graph, x, 1)
    assert hops[0].data_ptr() == x.data_ptr()
    assert block_aggregate(small_graph, x, 1, nodes=[0])[0].data_ptr() != (
        x.data_ptr()
    )


def test_features_are_never_written(small_graph):
    x = make_features(4, 5)
    before = x.clone()
    block_aggregate(small_graph, x, 3, dtype=torch.float16)
    block_aggregate(small_graph, x, 3, nodes=[1, 2])
    assert torch.equal(x, before)


def test_a_changed_graph_is_read_anew(small_graph):
    x = make_features(4, 5)
    first = block_aggregate(small_graph, x, 1)[1]
    small_graph.add_edges([3], [0])
    second = block_aggregate(small_graph, x, 1)[1]
    assert not torch.allclose(first, second)
    assert_close(second, expected_hops(small_graph, x, 1)[1])


def test_a_graph_is_not_kept_alive():
    from dgl_lc.precompute.graph import in_edges as csc

    gc.collect()
    before = len(csc._cache)
    g = power_law_graph(10, 20)
    block_aggregate(g, make_features(10, 2), 1)
    assert len(csc._cache) == before + 1
    del g
    gc.collect()
    assert len(csc._cache) == before


def test_the_graph_gets_no_new_formats(small_graph):
    before = small_graph.formats()
    block_aggregate(small_graph, make_features(4, 5), 2, nodes=[1])
    assert small_graph.formats() == before


def test_progress_is_shown_when_asked_for(small_graph, capsys):
    block_aggregate(small_graph, make_features(4, 5), 2, progress=True)
    assert "hop features" in capsys.readouterr().err
    block_aggregate(small_graph, make_features(4, 5), 2)
    assert capsys.readouterr().err == ""


def test_an_error_in_a_worker_reaches_the_caller(small_graph, monkeypatch):
    def fail(*args):
        raise RuntimeError("kernel failed")

    monkeypatch.setattr(chunks, "assemble", fail)
    with pytest.raises(RuntimeError, match="kernel failed"):
        block_aggregate(small_graph, make_features(4, 5), 2)


def test_a_plan_for_other_sizes_is_refused(small_graph):
    other = plan(small_graph, make_features(4, 7), 2)
    with pytest.raises(DGLError, match="num_feats=7"):
        block_aggregate(small_graph, make_features(4, 5), 2, plan=other)


def test_a_plan_that_does_not_fit_is_refused():
    g, x = power_law_graph(20_000, 100_000), make_features(20_000, 128)
    wide = plan(g, x, 3, hops=[3])
    memory = wide.peak_bytes - 1
    assert plan(g, x, 3, hops=[3], memory=memory).peak_bytes <= memory
    with pytest.raises(DGLError, match="plan needs"):
        block_aggregate(g, x, 3, hops=[3], plan=wide, memory=memory)


def test_large_graphs_in_both_directions(large_graph):
    """Against scipy in float64."""
    sparse = pytest.importorskip("scipy.sparse")
    g = dgl.add_reverse_edges(large_graph)
    n = g.num_nodes()
    source, target = (ids.numpy() for ids in g.edges())
    a = sparse.csr_matrix((np.ones(len(source)), (target, source)), (n, n))
    a.setdiag(1)
    scale = sparse.diags(np.asarray(a.sum(axis=1)).ravel() ** -0.5)
    x = make_features(n, 24)
    expected = x.double().numpy()
    hops = block_aggregate(g, x, 3)
    for k in range(1, 4):
        expected = scale @ (a @ (scale @ expected))
        assert_close(hops[k], torch.from_numpy(expected))


def test_too_little_memory_says_what_is_enough():
    g, x = power_law_graph(500, 4_000), make_features(500, 64)
    with pytest.raises(DGLError, match="is too small") as error:
        block_aggregate(g, x, 2, memory="100KiB")
    enough = str(error.value).split("memory='")[1].split("'")[0]
    expected = block_aggregate(g, x, 2)[2]
    assert torch.equal(block_aggregate(g, x, 2, memory=enough)[2], expected)


def test_repeated_nodes_and_odd_weights_are_fine(small_graph):
    x = make_features(4, 5)
    hops = block_aggregate(small_graph, x, 1, nodes=torch.tensor([2, 2, 0]))
    assert torch.equal(hops[1][0], hops[1][1])
    weight = torch.rand(5, 2, dtype=torch.float64)[:, :1]
    hops = block_aggregate(small_graph, x, 1, edge_weight=weight)
    expected = expected_hops(small_graph, x, 1, edge_weight=weight[:, 0])
    assert_close(hops[1], expected[1])


@pytest.mark.parametrize(
    "nodes",
    [
        torch.tensor([True, False, True]),
        np.array([True, False, True]),
        [True, False, True],
        [0, 2],
        np.array([0, 2], ">i8"),
        np.array([2, 1, 0])[::-2],
        np.array([(0, 1), (2, 1)], [("id", "<i8"), ("odd", "u1")])["id"],
        np.array([0, 2], np.uint8),
    ],
)
def test_nodes_can_be_a_mask_or_ids_of_any_kind(nodes):
    g, feat = dgl.graph(([0, 1, 2], [1, 2, 0])), torch.rand(3, 4)
    found = block_aggregate(g, feat, 2, nodes=nodes)
    assert found.nodes.tolist() == [0, 2]
    wanted = block_aggregate(g, feat, 2, nodes=torch.tensor([0, 2]))
    assert torch.equal(found[2], wanted[2])
