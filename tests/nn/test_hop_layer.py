"""Layers on hop features compare their filter with the graph they are given."""

import dgl
import numpy as np
import pytest
import torch
from dgl import DGLError
from dgl.nn import GraphConv
from hypothesis import given
from hypothesis import strategies as st

from dgl_lc import block_aggregate
from dgl_lc.data import build_disk_graph
from dgl_lc.hops import FilterSpec, HopFeatures
from dgl_lc.nn import LCGPRGNN, LCGraphConv
from dgl_lc.testing.random_graphs import graphs, make_features

SOURCE, TARGET = [0, 1, 2, 3, 2, 5, 4, 4], [1, 2, 3, 4, 0, 3, 5, 5]


def make_graph(loops):
    """Six nodes with these self-loops beside their other edges."""
    return dgl.graph((SOURCE + loops, TARGET + loops), num_nodes=6)


LOOPS = {
    "none": [],
    "some": [1, 4],
    "duplicated": [0, 0, 1, 2, 3, 4, 5],
    "twice each": [0, 1, 2, 3, 4, 5] * 2,
    "as many as nodes": [0, 0, 1, 1, 2, 2],
    "one each": [0, 1, 2, 3, 4, 5],
}


def two_layers(norm="both", in_feats=3):
    """Make two bias-free layers of DGL, and the same as LC layers."""
    originals, twins = [], []
    for sizes in ((in_feats, 4), (4, 2)):
        options = {"norm": norm, "bias": False, "allow_zero_in_degree": True}
        originals.append(GraphConv(*sizes, **options))
        twins.append(LCGraphConv(*sizes, **options))
        twins[-1].load_state_dict(originals[-1].state_dict())
    return originals, twins


def run(layers, graph, h, weight=None):
    for layer in layers:
        h = layer(graph, h, edge_weight=weight)
    return h


def assert_same(found, expected):
    scale = 1 + expected.abs().max()
    assert (found - expected).abs().max() / scale < 1e-5


@pytest.mark.parametrize("loops", LOOPS)
@pytest.mark.parametrize("norm", ["both", "right", "left", "none"])
def test_edges_as_they_are_give_the_model_of_the_script(loops, norm):
    g, x = make_graph(LOOPS[loops]), make_features(6, 3)
    originals, twins = two_layers(norm)
    hops = block_aggregate(g, x, 2, norm=norm, self_loop=False)
    for graph in (g, g.clone(), g.int(), dgl.graph(g.edges())):
        assert_same(run(twins, graph, hops), run(originals, g, x))


@pytest.mark.parametrize("loops", LOOPS)
def test_a_self_loop_per_node_needs_a_graph_that_has_them(loops):
    g, x = make_graph(LOOPS[loops]), make_features(6, 3)
    originals, twins = two_layers()
    hops = block_aggregate(g, x, 2)
    looped = dgl.add_self_loop(dgl.remove_self_loop(g))
    assert_same(run(twins, looped, hops), run(originals, looped, x))
    if loops == "one each":
        assert_same(run(twins, g, hops), run(originals, g, x))
        return
    count = len(LOOPS[loops])
    found = "no self-loops" if not count else f"{count} self-loops"
    with pytest.raises(
        DGLError,
        match=f"the graph has {found}.* precomputed with one self-loop per "
        f"node.* give self_loop=False to block_aggregate, and this graph",
    ):
        run(twins, g, hops)


@given(
    g=graphs(max_nodes=8, max_edges=20),
    loops=st.sampled_from(["own", "none", "one each", "one more each"]),
    given_loops=st.sampled_from(["own", "none", "one each", "one more each"]),
    norm=st.sampled_from(["both", "right", "left", "none"]),
    filter_norm=st.sampled_from(["both", "right", "left", "none", "in"]),
    same_norm=st.booleans(),
    self_loop=st.booleans(),
    weighted=st.booleans(),
    drop=st.booleans(),
)
def test_a_swap_gives_the_model_of_the_script_or_an_error(
    g, loops, given_loops, norm, filter_norm, same_norm, self_loop, weighted,
    drop,
):  # fmt: skip
    g = g.formats(["coo", "csr", "csc"])
    changes = {
        "own": lambda g: g,
        "none": dgl.remove_self_loop,
        "one each": lambda g: dgl.add_self_loop(dgl.remove_self_loop(g)),
        "one more each": dgl.add_self_loop,
    }
    g.edata["w"] = torch.rand(g.num_edges()) + 0.5
    precomputed, script = changes[loops](g), changes[given_loops](g)
    drop = drop and loops == given_loops and script.num_edges() > 0
    if drop:
        script = dgl.remove_edges(script, [0])
    x = make_features(g.num_nodes(), 3)
    hops = block_aggregate(
        precomputed, x, 2, norm=norm if same_norm else filter_norm,
        self_loop=self_loop, edge_weight="w" if weighted else None,
    )  # fmt: skip
    originals, twins = two_layers(norm)
    weight = script.edata["w"] if weighted else None
    try:
        found = run(twins, script, hops, weight)
    except DGLError:
        same = loops == given_loops and not drop
        assert self_loop or not (same and same_norm)
        return
    assert_same(found, run(originals, script, x, weight))


def test_a_graph_with_other_counts_is_refused():
    g, x = make_graph([1]), make_features(6, 3)
    hops = block_aggregate(g, x, 1, self_loop=False)
    conv = LCGraphConv(3, 2)
    for other in (
        dgl.remove_edges(g, [0]),
        dgl.add_edges(g, [0], [1]),
        dgl.add_nodes(g, 1),
        dgl.sampling.sample_neighbors(g, g.nodes(), 1),
        dgl.node_subgraph(g, [0, 1, 2]),
        dgl.rand_graph(50, 200),
        # As many edges, and every node has as many edges in as out.
        dgl.graph(([0, 1, 2, 3, 4, 5, 0, 1, 1], [1, 2, 3, 4, 5, 0, 1, 1, 0])),
    ):
        with pytest.raises(DGLError, match="not the one that the hop features"):
            conv(other, hops)
    with pytest.raises(
        DGLError,
        match=r"It has 6 nodes, 8 edges and 1 self-loop .* that one has 6 "
        r"nodes, 9 edges and 1 self-loop \(",
    ):
        conv(dgl.remove_edges(g, [0]), hops)
    conv(g, hops)
    g.remove_edges([0])
    with pytest.raises(DGLError, match="not the one"):
        conv(g, hops)
    g.add_edges([0], [1])
    conv(g, hops)
    conv(None, hops)


def test_self_loops_of_another_graph_are_named():
    g, x = make_graph([1]), make_features(6, 3)
    hops = block_aggregate(g, x, 1, self_loop=False)
    conv = LCGraphConv(3, 2)
    with pytest.raises(
        DGLError, match="give self_loop=True to block_aggregate"
    ):
        conv(make_graph(LOOPS["one each"]), hops)
    with pytest.raises(DGLError, match="give this graph to block_aggregate"):
        conv(make_graph([]), hops)


def test_blocks_and_other_things_are_refused(tmp_path):
    g, x = make_graph([]), make_features(6, 3)
    hops = block_aggregate(g, x, 1, self_loop=False)
    conv, model = LCGraphConv(3, 2), LCGPRGNN(3, 4, 2, K=1, self_loop=False)
    unknown = HopFeatures([x, x], [0, 1], FilterSpec("both", False))
    hetero = dgl.heterograph({
        ("a", "r", "a"): ([0], [1]), ("a", "s", "a"): ([0], [1]),
    })  # fmt: skip
    for module in (conv, model):
        for feat in (hops, unknown):
            with pytest.raises(DGLError, match=r"block .* need no sampling"):
                module(dgl.to_block(g), feat)
            with pytest.raises(DGLError, match="heterograph"):
                module(hetero, feat)
            with pytest.raises(DGLError, match="None or a DGLGraph, got list"):
                module([g], feat)
            module(g, feat)
            module(None, feat)
    # Only the rows can be compared with hop features made by hand.
    conv(dgl.rand_graph(6, 4), unknown)
    with pytest.raises(DGLError, match="feat has 6 rows, but the graph has 3"):
        conv(dgl.rand_graph(3, 4), unknown)
    np.save(tmp_path / "edges.npy", np.array([SOURCE, TARGET]))
    conv(build_disk_graph(tmp_path / "edges.npy", 6, tmp_path / "g"), hops)


def test_weights_of_the_filter_are_those_of_the_layer():
    g, x = make_graph(LOOPS["one each"]), make_features(6, 3)
    w = torch.rand(g.num_edges())
    originals, twins = two_layers()
    own = block_aggregate(g, x, 2, edge_weight=w, self_loop=False)
    assert_same(run(twins, g, own, w), run(originals, g, x, w))
    with pytest.raises(DGLError, match="edge_weight=False to block_aggregate"):
        run(twins, g, own)
    # The loops of the filter weigh 1, those of the graph what they weigh.
    hops = block_aggregate(g, x, 2, edge_weight=w)
    with pytest.raises(DGLError, match="self_loop=False"):
        run(twins, g, hops, w)
    for feat in (own, hops):
        # A mini-batch has no edges, and no weights of them.
        run(twins, None, feat)
    with pytest.raises(DGLError, match="give edge_weight= to block_aggregate"):
        run(twins, g, block_aggregate(g, x, 2), w)


class AddsLoops(LCGraphConv):
    """Stands for a layer that adds a self-loop to each node."""

    adds_self_loop = True
    replaces = "SAGEConv"


@pytest.mark.parametrize("loops", LOOPS)
def test_a_layer_that_adds_self_loops_counts_them(loops):
    g, x = make_graph(LOOPS[loops]), make_features(6, 3)
    added = dgl.add_self_loop(g)
    conv = AddsLoops(3, 2, norm="right")
    right = block_aggregate(added, x, 1, norm="right", self_loop=False)
    conv(g, right)
    hops = block_aggregate(g, x, 1, norm="right")
    if loops == "none":
        conv(g, hops)
    else:
        with pytest.raises(
            DGLError,
            match=r"to which the layer adds .* self_loop=False .* and "
            r"dgl.add_self_loop\(graph\)",
        ):
            conv(g, hops)
    own = block_aggregate(g, x, 1, norm="right", self_loop=False)
    advice = "self_loop=True" if loops == "none" else "dgl.add_self_loop"
    with pytest.raises(DGLError, match=advice):
        conv(g, own)


class NeedsIn(LCGraphConv):
    """Stands for a layer that scales by in-degrees."""

    def _norm_of_filter(self, weighted):
        return "none" if weighted else "in"


def test_both_is_in_where_edges_go_both_ways():
    x = make_features(6, 3)
    one_way = make_graph([])
    both_ways = dgl.add_reverse_edges(one_way)
    conv = NeedsIn(3, 2)
    for norm, own in (("in", conv), ("both", LCGraphConv(3, 2))):
        other = "both" if norm == "in" else "in"
        for graph in (one_way, both_ways):
            hops = block_aggregate(graph, x, 1, norm=norm, self_loop=False)
            own(graph, hops)
        hops = block_aggregate(both_ways, x, 1, norm=other, self_loop=False)
        own(both_ways, hops)
        own(None, hops)
        hops = block_aggregate(one_way, x, 1, norm=other, self_loop=False)
        with pytest.raises(DGLError, match=f"give norm='{norm}' to block_agg"):
            own(None, hops)
    unknown = HopFeatures([x, x], [0, 1], FilterSpec("both", False))
    with pytest.raises(DGLError, match="norm='in'"):
        conv(None, unknown)
    w = torch.ones(one_way.num_edges())
    hops = block_aggregate(
        one_way, x, 1, norm="none", self_loop=False, edge_weight=w
    )
    conv(one_way, hops, edge_weight=w)
    conv(None, hops)


def test_a_model_refuses_hop_features_of_another_graph():
    g, x = make_graph([1, 1]), make_features(6, 3)
    for self_loop in (True, False):
        model = LCGPRGNN(3, 4, 2, K=2, self_loop=self_loop)
        hops = model.precompute(g, x)
        model(g, hops)
        model(g, x)
        with pytest.raises(
            DGLError, match="LCGPRGNN: the graph is not the one"
        ):
            model(dgl.remove_edges(g, [0]), hops)
        if self_loop:
            # Its loops are replaced, so that they make no difference.
            model(dgl.add_self_loop(g), hops)
        else:
            with pytest.raises(DGLError, match="not the one"):
                model(dgl.add_self_loop(g), hops)
