"""Weighted filters of graphs on disk: as in memory, and never by accident."""

import dgl
import numpy as np
import pytest
import torch
from dgl import DGLError
from hypothesis import given, settings
from hypothesis import strategies as st
from night import cases

from dgl_lc.data import build_disk_graph
from dgl_lc.nn import LCGCN
from dgl_lc.precompute import block_aggregate, open_store, plan
from dgl_lc.precompute.device.executor import run_on_device
from dgl_lc.precompute.planning.plans import Item
from dgl_lc.precompute.request import Request
from dgl_lc.testing.cpu_device import CpuDevice
from dgl_lc.testing.random_graphs import graphs, make_features
from dgl_lc.testing.reference import dense_filter

TOLERANCE = {
    torch.float64: 1e-12,
    torch.float32: 1e-5,
    torch.float16: 4e-3,
    torch.bfloat16: 3e-2,
}


def on_disk(folder, g, weights=None, **options):
    """Write a graph with these weights, in the order of its edges."""
    g = g.long().formats(["coo", "csr", "csc"])
    np.save(folder / "edges.npy", torch.stack(g.edges(order="eid")).numpy())
    if weights is not None:
        np.save(folder / "weights.npy", weights)
        options["weights"] = folder / "weights.npy"
    return build_disk_graph(
        folder / "edges.npy", g.num_nodes(), folder / "graph", **options
    )


@pytest.fixture
def small(tmp_path):
    """A weighted graph of 60 nodes on disk."""
    rng = np.random.default_rng(0)
    ends = torch.from_numpy(rng.integers(0, 60, (2, 400)))
    g = dgl.graph((ends[0], ends[1]), num_nodes=60)
    return on_disk(tmp_path, g, rng.random(400, dtype=np.float32))


@settings(max_examples=cases(15, 300))
@given(
    g=graphs(),
    width=st.sampled_from([1, 3, 8, 33]),
    K=st.integers(0, 3),
    norm=st.sampled_from(["both", "right", "left", "none", "in"]),
    self_loop=st.booleans(),
    stored_as=st.sampled_from(["float32", "float64"]),
    dtype=st.sampled_from(list(TOLERANCE)),
    some=st.booleans(),
    device=st.booleans(),
)
def test_it_is_the_filter_of_the_same_graph_in_memory(
    tmp_path_factory, g, width, K, norm, self_loop, stored_as, dtype, some,
    device,
):  # fmt: skip
    folder = tmp_path_factory.mktemp("graph")
    n, m = g.num_nodes(), g.num_edges()
    weights = np.random.default_rng(m).random(m) + 0.5
    graph = on_disk(folder, g, weights, weight_dtype=stored_as)
    x = make_features(n, width, dtype=dtype)
    options = {"norm": norm, "self_loop": self_loop}
    nodes = torch.tensor([n - 1, 0, n - 1]) if some else None
    there = graph.to_dgl()
    own = there.edata["weight"]
    if device and K:
        request = Request.of(graph, x, K, nodes=nodes, **options)
        hops = run_on_device(request, CpuDevice())
        request = Request.of(
            there, x, K, weight="weight", nodes=nodes, **options
        )
        same = run_on_device(request, CpuDevice())
    else:
        hops = block_aggregate(graph, x, K, nodes=nodes, **options)
        same = block_aggregate(
            there, x, K, edge_weight="weight", nodes=nodes, **options
        )
    assert hops.filter.weighted
    assert hops.filter == same.filter
    assert torch.equal(hops.stack, same.stack)
    matrix = dense_filter(there, edge_weight=own, **options)
    wanted = x.double().numpy()
    for hop in range(K + 1):
        if hop:
            wanted = matrix @ wanted
            if not (device and dtype.itemsize > 2):
                rounded = torch.from_numpy(wanted).to(dtype)
                wanted = rounded.double().numpy()
        right = wanted if nodes is None else wanted[nodes]
        error = np.abs(hops[hop].double().numpy() - right).max()
        assert error <= TOLERANCE[dtype] * (1 + np.abs(right).max()) * 4


def test_the_weights_are_used_unless_one_says_otherwise(small):
    x = make_features(60, 5)
    plain = block_aggregate(small.to_dgl(), x, 2, edge_weight=False)
    for edge_weight, is_weighted in ((None, 1), ("weight", 1), (False, 0)):
        hops = block_aggregate(small, x, 2, edge_weight=edge_weight)
        assert hops.filter.weighted == is_weighted
        assert torch.equal(hops.stack, plain.stack) != is_weighted


def test_a_model_precomputes_with_the_weights(small):
    x = make_features(60, 5)
    model = LCGCN(5, 8, 3)
    hops = model.precompute(small, x)
    expected = model.precompute(small.to_dgl(), x, edge_weight="weight")
    assert hops.filter.weighted
    assert torch.equal(hops[2], expected[2])
    model(None, hops)


def test_edge_weights_by_name_in_memory(small):
    g, x = small.to_dgl(), make_features(60, 5)
    g.edata["other"] = torch.rand(400)
    named = block_aggregate(g, x, 2, edge_weight="other")
    given = block_aggregate(g, x, 2, edge_weight=g.edata["other"])
    assert torch.equal(named.stack, given.stack)
    assert not block_aggregate(g, x, 2, edge_weight=False).filter.weighted
    with pytest.raises(DGLError, match=r"'lost' is not in g.edata, which has"):
        block_aggregate(g, x, 2, edge_weight="lost")


def test_weights_that_do_not_fit_the_graph(tmp_path, small, small_graph):
    x = make_features(60, 5)
    for weight in (torch.ones(400), np.ones(400), True, "other"):
        with pytest.raises(DGLError, match="should be None or 'weight', for"):
            block_aggregate(small, x, 1, edge_weight=weight)
    plain = on_disk(tmp_path, small_graph, resume=False)
    x = make_features(4, 5)
    assert not block_aggregate(plain, x, 1).filter.weighted
    with pytest.raises(DGLError, match="has no weights: write it with build_d"):
        block_aggregate(plain, x, 1, edge_weight="weight")


def test_a_store_knows_the_weights(tmp_path, small):
    x, out = make_features(60, 5), tmp_path / "hops"
    g, all_nodes = small.to_dgl(), torch.arange(60)
    block_aggregate(small, x, 2, out=out)
    same = block_aggregate(g, x, 2, edge_weight="weight", out=tmp_path / "same")
    found = open_store(out)
    assert found.filter.weighted
    assert torch.equal(found.rows(all_nodes).stack, same.rows(all_nodes).stack)
    with pytest.raises(DGLError, match="made with weighted=True, asked"):
        block_aggregate(small, x, 2, edge_weight=False, out=out)
    weights = np.ones(400, np.float32)
    other = on_disk(tmp_path, g, weights, resume=False)
    with pytest.raises(DGLError, match="graph"):
        block_aggregate(other, x, 2, out=out)


def test_the_plan_copies_no_weights(tmp_path, small):
    """Of either type, for either type of sums."""
    for stored_as in ("float32", "float64"):
        graph = on_disk(
            tmp_path, small.to_dgl(), np.ones(400), weight_dtype=stored_as,
            resume=False,
        )  # fmt: skip
        for dtype in TOLERANCE:
            p = plan(graph, make_features(60, 5, dtype=dtype), 2)
            assert p.work.weighted
            assert p.items[Item.EDGES] == 0
            unweighted = plan(
                graph, make_features(60, 5, dtype=dtype), 2, edge_weight=False
            )
            assert not unweighted.work.weighted
            assert p.bytes_moved > unweighted.bytes_moved
