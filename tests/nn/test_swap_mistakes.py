"""Mistakes in swapped scripts that gave another model, or a strange error."""

import gc
import weakref

import dgl
import numpy as np
import pytest
import torch
from dgl import DGLError
from dgl.nn import EdgeWeightNorm
from night import pairwise
from torch import nn

from dgl_lc import block_aggregate
from dgl_lc.data import build_disk_graph
from dgl_lc.hops import FilterSpec, HopFeatures
from dgl_lc.nn import (
    FSGNN,
    LCGPRGNN,
    LCAPPNPConv,
    LCGCN2Conv,
    LCGraphConv,
    LCSAGEConv,
    LCSGConv,
    LCTAGConv,
    plain,
)
from dgl_lc.nn import compare_weights as weights_module

N, D = 40, 6
RECIPE = r'norm="none", edge_weight=dgl.nn.EdgeWeightNorm\("both"\)\(g, w\)'
SHARE = "All layers of a model share one filter.* dgl_lc.lc_transform"

#: Layers, with their calls on hop features, by name; each aggregates twice
#: at most.
LAYERS = {
    "GraphConv": LCGraphConv(D, 3),
    "GraphConv, bare": LCGraphConv(D, D, weight=False, bias=False),
    "GraphConv, in place": LCGraphConv(
        D, D, weight=False, bias=False, activation=nn.ReLU(inplace=True)
    ),
    "SAGE, mean": LCSAGEConv(D, 3, "mean"),
    "SAGE, gcn": LCSAGEConv(D, 3, "gcn"),
    "TAG": LCTAGConv(D, 3, k=2),
    "TAG, k=0": LCTAGConv(D, 3, k=0),
    "SG": LCSGConv(D, 3, k=2),
    "SG, k=0": LCSGConv(D, 3, k=0),
    "SG, in place": LCSGConv(D, 3, k=2, norm=nn.ReLU(inplace=True)),
    "APPNP": LCAPPNPConv(2, 0.1),
    "APPNP, k=0": LCAPPNPConv(0, 0.1),
    "GCN2": LCGCN2Conv(D, 1),
}
NORMALIZING = ("TAG", "SG", "APPNP", "GCN2")


def call(layer, graph, feat, **options):
    more = (feat,) if isinstance(layer, plain.LCGCN2Conv) else ()
    return layer(graph, feat, *more, **options)


def graph_for(layer, g):
    return dgl.add_self_loop(g) if layer.adds_self_loop else g


def precompute(layer, g, x, **options):
    options = {"norm": layer._norm_of_filter(False), **options}
    return block_aggregate(
        graph_for(layer, g), x, options.pop("K", 2), self_loop=False, **options
    )


@pytest.fixture
def g():
    torch.manual_seed(3)
    return dgl.add_self_loop(dgl.rand_graph(N, 150))


@pytest.fixture
def x():
    return torch.randn(N, D)


@pytest.fixture
def w(g):
    return torch.rand(g.num_edges()) + 0.1


# Weights of edges


@pytest.mark.parametrize("name", NORMALIZING)
def test_the_recipe_for_weights_is_said_until_it_is_followed(name, g, x, w):
    layer = LAYERS[name]
    normalized = EdgeWeightNorm("both")(g, w)
    for wrong in (
        {},
        {"edge_weight": w},
        {"norm": "none", "edge_weight": w},
        {"norm": "none", "edge_weight": normalized[torch.randperm(len(w))] * 2},
        {"edge_weight": normalized},
    ):
        hops = precompute(layer, g, x, **wrong)
        with pytest.raises(DGLError, match=RECIPE):
            call(layer, g, hops, edge_weight=w)
    hops = precompute(layer, g, x, norm="none", edge_weight=normalized)
    original = getattr(dgl.nn, layer.replaces)
    if name == "TAG" or name == "SG":
        twin = original(D, 3, k=2)
    elif name == "APPNP":
        twin = original(2, 0.1)
    else:
        twin = original(D, 1)
    twin.load_state_dict(layer.state_dict())
    more = (x,) if name == "GCN2" else ()
    expected = twin(g, x, *more, edge_weight=w)
    for graph in (g, g.int(), g.formats("csc")):
        found = call_first(call(layer, graph, hops, edge_weight=w))
        torch.testing.assert_close(found, expected)


def call_first(found):
    """Give the output's hop 0."""
    whole = isinstance(found, torch.Tensor) and found.dim() == 2
    return found if whole else found[0]


@pytest.mark.parametrize("name", ["GraphConv", "SAGE, mean", "SAGE, gcn"])
def test_other_weights_than_the_filters_are_refused(name, g, x, w):
    layer = LAYERS[name]
    added = graph_for(layer, g).num_edges() - g.num_edges()
    own = torch.cat([w, torch.ones(added)])
    hops = precompute(layer, g, x, edge_weight=own)
    for same in (w, w.double(), w * (1 + 1e-5), w[:, None]):
        layer(g, hops, edge_weight=same)
    for other in (w * 2, EdgeWeightNorm("both")(g, w), 0 * w, w / 0):
        with pytest.raises(DGLError, match=r"edge_weight is not .* sum.* same"):
            layer(g, hops, edge_weight=other)
    # Without a graph nothing is compared.
    layer(None, hops, edge_weight=w * 2)


def test_weights_that_cancel_out_are_compared(g, x, w):
    w = w - w.mean()
    hops = precompute(LAYERS["GraphConv"], g, x, edge_weight=w)
    for same in (w, w.double()):
        LAYERS["GraphConv"](g, hops, edge_weight=same)
    with pytest.raises(DGLError, match="edge_weight is not"):
        LAYERS["GraphConv"](g, hops, edge_weight=w + 0.01)


@pytest.mark.parametrize("name", ["GraphConv", "TAG"])
def test_weights_are_summed_once_until_they_change(name, g, x, w, monkeypatch):
    # The fixture would keep its own weights alive.
    layer, w = LAYERS[name], w.clone()
    options = {"edge_weight": w}
    if name == "TAG":
        norm = EdgeWeightNorm("both")(g, w)
        options = {"norm": "none", "edge_weight": norm}
    hops = precompute(layer, g, x, **options)
    layer(g, hops, edge_weight=w)
    with monkeypatch.context() as patch:
        patch.setattr(weights_module, "sum_weights", lambda w: 1 / 0)
        layer(g, hops, edge_weight=w)
        with pytest.raises(ZeroDivisionError):
            layer(g, hops, edge_weight=w.clone())
    # EdgeWeightNorm undoes a factor, but not another weight.
    w[:9] *= 3
    with pytest.raises(DGLError, match="edge_weight is not"):
        layer(g, hops, edge_weight=w)
    with torch.inference_mode():
        changed = w.clone()
        with pytest.raises(DGLError, match="edge_weight is not"):
            layer(g, hops, edge_weight=changed)
    key = id(w), name == "TAG"
    assert key in weights_module._known
    alive = weakref.ref(w)
    del w, options
    gc.collect()
    assert alive() is None
    assert key not in weights_module._known


@pytest.mark.parametrize("name", LAYERS)
def test_weights_that_cannot_be_precomputed_are_refused(name, g, x, w):
    layer = LAYERS[name]
    hops = precompute(layer, g, x)
    learned = nn.Parameter(w)
    for feat in (hops, list(hops)):
        for graph in (None, g):
            with pytest.raises(DGLError, match=r"requires_grad.*learned"):
                call(layer, graph, feat, edge_weight=learned)
            with pytest.raises(DGLError, match="edge_weight should be a tens"):
                call(layer, graph, feat, edge_weight=w.numpy())
        for wrong in (w[:-1], torch.stack([w, w], 1), w[0]):
            with pytest.raises(DGLError, match="one number for each of the"):
                call(layer, g, feat, edge_weight=wrong)


def test_a_graph_on_disk_has_weights_too(g, x, w, tmp_path):
    np.save(tmp_path / "edges.npy", torch.stack(g.edges()).numpy())
    disk = build_disk_graph(tmp_path / "edges.npy", N, tmp_path / "g")
    layer = LAYERS["GraphConv"]
    hops = precompute(layer, g, x, edge_weight=w)
    layer(disk, hops, edge_weight=w)
    with pytest.raises(DGLError, match="edge_weight is not"):
        layer(disk, hops, edge_weight=2 * w)


# Memory


@pytest.mark.parametrize(
    ("kind", "name", "K"),
    pairwise(["hops", "store", "list", "tensor"], LAYERS, [2, 3]),
)
def test_outputs_are_new_memory(name, kind, K, g, x, tmp_path):
    layer = LAYERS[name]
    out = tmp_path / "s" if kind == "store" else None
    hops = precompute(layer, g, x, K=K, out=out)
    feat = hops
    if kind == "list":
        feat = [hop.clone() for hop in hops]
    elif kind == "tensor":
        feat = torch.stack(list(hops))
    before = [hop.clone() for hop in feat]
    with torch.no_grad():
        found = call(layer, g, feat)
        tensors = [found] if isinstance(found, torch.Tensor) else list(found)
        for tensor in tensors:
            tensor += 1
    for hop, old in zip(feat, before, strict=True):
        assert torch.equal(hop, old)


# Graphs


def test_a_graph_with_other_degrees_is_refused(g, x):
    layer = LAYERS["GraphConv"]
    g = dgl.remove_self_loop(g)
    order = torch.randperm(N)
    for self_loop in (False, True):
        hops = block_aggregate(g, x, 2, self_loop=self_loop)
        model = LCGPRGNN(D, 4, 3, K=2, self_loop=self_loop)
        for other in (dgl.reverse(g), dgl.reorder_graph(
            g, "custom", permute_config={"nodes_perm": order}
        )):  # fmt: skip
            looped = dgl.add_self_loop(other) if self_loop else other
            with pytest.raises(
                DGLError,
                match=r"not the one .* the same numbers .* other degrees, such "
                r"as a reversed graph, or nodes in another order",
            ):
                layer(looped, hops)
            with pytest.raises(DGLError, match="other degrees"):
                model(other, hops)
        layer(dgl.add_self_loop(g) if self_loop else g, hops)
        model(g, hops)


def test_one_self_loop_is_written_as_one(g, x):
    one = dgl.add_edges(dgl.remove_self_loop(g), [3], [3])
    with pytest.raises(DGLError, match=r"has 1 self-loop at 1 of its 40"):
        LAYERS["GraphConv"](one, block_aggregate(one, x, 1))
    fewer = dgl.remove_edges(one, [0])
    with pytest.raises(DGLError, match=r"1 self-loop \(at 1 node\)"):
        LAYERS["GraphConv"](fewer, block_aggregate(one, x, 1, self_loop=False))


# Rows


@pytest.mark.parametrize("name", LAYERS)
def test_rows_of_some_nodes_come_without_a_graph(name, g, x, tmp_path):
    layer = LAYERS[name]
    hops = precompute(layer, g, x)
    whole = call(layer, g, hops)
    for ids in (torch.tensor([3, 1]), torch.arange(N).flip(0)):
        for batch in (hops.rows(ids), precompute(layer, g, x, nodes=ids)):
            with pytest.raises(
                DGLError,
                match=r"rows of some nodes: give None .* row i .* nodes\[i\]",
            ):
                call(layer, g, batch)
            found = call(layer, None, batch)
            torch.testing.assert_close(
                call_first(found), call_first(whole)[ids]
            )
    call(layer, g, hops.rows(torch.arange(N)))
    by_hand = HopFeatures(
        [x[:5]] * 3, [0, 1, 2], FilterSpec(layer._norm_of_filter(False), False)
    )
    with pytest.raises(DGLError, match=r"5 rows.* 40 nodes"):
        call(layer, g, by_hand)


def test_models_take_rows_of_some_nodes_without_a_graph(g, x):
    for model in (LCGPRGNN(D, 4, 3, K=2), FSGNN(D, 4, 3, K=2)):
        inputs = model.precompute(g, x)
        model(g, inputs)
        batch = inputs.rows(torch.tensor([3, 1]))
        with pytest.raises(DGLError, match="give None as the graph"):
            model(g, batch)
        model(None, batch)
        with pytest.raises(DGLError, match="None or a DGLGraph, got int"):
            model(3, inputs)
    model = LCGPRGNN(D, 4, 3, K=2)
    for feat in (torch.randn(3, 7, D), [torch.randn(7, D)] * 3):
        for made in (model, plain.LCGPRGNN(D, 4, 3, K=2)):
            made(None, feat)
            with pytest.raises(DGLError, match=r"7 rows.* 40 nodes"):
                made(g, feat)
            with pytest.raises(DGLError, match="None or a DGLGraph, got int"):
                made(3, feat)


@pytest.mark.parametrize("layer", [LCSAGEConv, plain.LCSAGEConv])
def test_plain_hops_have_the_rows_of_the_graph(layer, g, x):
    conv = layer(D, 3, "mean")
    with pytest.raises(
        DGLError, match=r"\(40, 2, 6\).*\(hops, rows, columns\).* 40 nodes"
    ):
        conv(g, torch.randn(N, 2, D))
    with pytest.raises(DGLError, match=r"2 rows.* 40 nodes"):
        conv(g, [x[:2], x[:2]])
    hops = block_aggregate(g, x, 1, norm="right")
    for wrong in (
        [x, x[:1]],
        [x[:1], x, None],
        [x, hops],
        [x, 3],
        [x, [x]],
        [x[0, 0]] * 2,
    ):
        with pytest.raises(DGLError, match=r"tensors .*as many rows"):
            conv(None, wrong)
    with pytest.raises(DGLError, match="None or a DGLGraph, got int"):
        conv(3, [x, x])
    for feat in ([x, x], torch.stack([x, x])):
        for graph in (None, g):
            conv(graph, feat)
    for feat in ([], [None, None], torch.empty(0, N, D), [None, x]):
        for graph in (None, g):
            with pytest.raises(DGLError, match="too few hops"):
                conv(graph, feat)


# Types


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", LAYERS)
def test_rows_of_fewer_bits_are_converted(name, dtype, g, x):
    layer = LAYERS[name]
    hops = precompute(layer, g, x, dtype=dtype)
    kind = torch.float32 if list(layer.parameters()) else dtype
    exact = call_first(call(layer, g, precompute(layer, g, x)))
    feats = (hops, list(hops), torch.stack(list(hops)))
    for feat in feats:
        found = call_first(call(layer, g, feat))
        assert found.dtype == kind
        torch.testing.assert_close(found.float(), exact, atol=0.1, rtol=0.1)


def test_autocast_chooses_the_types_itself(g, x):
    layer, types = LAYERS["TAG"], []
    hops = precompute(layer, g, x, dtype=torch.bfloat16)
    hook = layer.lin.register_forward_pre_hook(
        lambda _, inputs: types.append(inputs[0].dtype)
    )
    with torch.autocast("cpu", torch.bfloat16):
        layer(g, hops)
    layer(g, hops)
    hook.remove()
    assert types == [torch.bfloat16, torch.float32]


# Advice


def test_layers_with_different_filters_are_told_of_lc_transform(g, x, w):
    directed = dgl.remove_self_loop(g)
    mean, gcn, conv = (
        LAYERS[name] for name in ("SAGE, mean", "SAGE, gcn", "GraphConv")
    )
    both = block_aggregate(directed, x, 2, self_loop=False)
    right = block_aggregate(directed, x, 2, norm="right", self_loop=False)
    weighted = block_aggregate(
        directed, x, 2, self_loop=False, edge_weight=w[: directed.num_edges()]
    )
    for layer, hops, options in (
        (mean, both, {}),
        (LAYERS["TAG"], both, {}),
        (conv, right, {}),
        (gcn, right, {}),
        (conv, weighted, {}),
        (conv, both, {"edge_weight": w[: directed.num_edges()]}),
        (LAYERS["TAG"], weighted, {}),
    ):
        with pytest.raises(DGLError, match=SHARE):
            layer(directed, hops, **options)


@pytest.mark.parametrize(("name", "hops", "match"), [
    ("SAGE, mean", [2], "reads hops 0 and 1 .*K=2 and without hops="),
    ("SAGE, mean", [0, 2], "reads hops 0 and 1 .*K=2 and without hops="),
    ("TAG", [2], "reads hops 0, 1 and 2 .*K=2 and without hops="),
    ("TAG", [0, 1], "reads hops 0, 1 and 2 .*K= .*without hops="),
    ("APPNP", [0, 2], "K=2 and without hops="),
    ("GCN2", [2], "reads hops 0 and 1 .*K=2 and without hops="),
    ("SG", [0, 1], "reads hop 2 .*K= .*without hops="),
])  # fmt: skip
def test_missing_hops_are_told_from_too_few(name, hops, match, g, x):
    layer = LAYERS[name]
    with pytest.raises(DGLError, match=match):
        call(layer, g, precompute(layer, g, x, hops=hops))


def test_missing_hops_of_later_layers_are_counted_from_the_features(g, x):
    hops = block_aggregate(g, x, 3, hops=[1, 3], norm="right", self_loop=False)
    with pytest.raises(DGLError, match="K=3 and without hops="):
        LCSAGEConv(3, 3, "mean")(g, LCGraphConv(D, 3, norm="right")(g, hops))
    hops = block_aggregate(g, x, 2, hops=[1], self_loop=False)
    conv = LCGraphConv(D, D)
    with pytest.raises(
        DGLError, match=r"got a tensor.* without hops=, or with hop K among"
    ):
        conv(g, conv(g, hops))
    with pytest.raises(DGLError, match="K=2 and without hops="):
        LCGPRGNN(D, 4, 3, K=2)(None, block_aggregate(g, x, 2, hops=[2]))


def test_layers_of_gcn2_count_from_1():
    for layer in (0, -1, True, 1.5, "1"):
        with pytest.raises(DGLError, match=r"layer=.* from 1"):
            LCGCN2Conv(D, layer)
