"""The swap in models of the styles of DGL's example scripts.

Each style is a small model of our own. Where the swap works, the swapped model
computes the LC version of the script's own model, on the script's own graph;
elsewhere an error says what to do. docs/swap.md has the same two tables.
"""

import re
from types import SimpleNamespace

import dgl
import dgl.function as fn
import dgl.nn as dglnn
import pytest
import torch
import torch.nn.functional as F
from dgl import DGLError
from night import each, in_turn
from torch import nn

import dgl_lc.nn as lc
from dgl_lc import block_aggregate, lc_transform
from dgl_lc.training import predict

SWAPPED = SimpleNamespace(
    GraphConv=lc.LCGraphConv,
    SAGEConv=lc.LCSAGEConv,
    TAGConv=lc.LCTAGConv,
    SGConv=lc.LCSGConv,
    APPNPConv=lc.LCAPPNPConv,
    GCN2Conv=lc.LCGCN2Conv,
    JumpingKnowledge=dglnn.JumpingKnowledge,
    Sequential=dglnn.Sequential,
)
N, IN, HIDDEN, OUT = 30, 5, 6, 3

pytestmark = pytest.mark.usefixtures("double_precision")


def make_graph(directed=False):
    """A graph with an edge into every node, and no self-loops."""
    generator = torch.Generator().manual_seed(0)
    source, target = torch.randint(0, N, (2, 60), generator=generator)
    other, ring = source != target, torch.arange(N)
    source = torch.cat([source[other], ring])
    target = torch.cat([target[other], (ring + 1) % N])
    if not directed:
        source, target = (
            torch.cat([source, target]),
            torch.cat([target, source]),
        )
    return dgl.graph((source, target), num_nodes=N)


def features():
    generator = torch.Generator().manual_seed(1)
    return torch.randn(N, IN, generator=generator)


class Model(nn.Module):
    """A model whose layers and forward are written beside each other."""

    def __init__(self, forward, **modules):
        super().__init__()
        for name, module in modules.items():
            setattr(self, name, module)
        self._forward = forward

    def forward(self, g, x):
        return self._forward(self, g, x)


# Styles that work: a model of the layers given, and what is precomputed


def gcn(layers):
    def forward(self, g, x):
        for i, layer in enumerate(self.layers):
            x = layer(g, x if i == 0 else self.dropout(x))
        return x

    return Model(
        forward,
        layers=nn.ModuleList(
            [
                layers.GraphConv(IN, HIDDEN, activation=F.relu),
                layers.GraphConv(HIDDEN, OUT),
            ]
        ),
        dropout=nn.Dropout(0.5),
    )


def learned_activation(layers):
    return Model(
        lambda self, g, x: self.conv2(g, self.conv1(g, x)),
        conv1=layers.GraphConv(IN, HIDDEN, activation=nn.PReLU()),
        conv2=layers.GraphConv(HIDDEN, OUT, activation=nn.PReLU()),
    )


def residual(layers):
    def forward(self, g, x):
        h = F.relu(self.norm(self.conv1(g, x) + self.linear1(x)))
        return self.conv2(g, h) + self.linear2(h)

    return Model(
        forward,
        conv1=layers.GraphConv(IN, HIDDEN, bias=False),
        linear1=nn.Linear(IN, HIDDEN, bias=False),
        norm=nn.BatchNorm1d(HIDDEN),
        conv2=layers.GraphConv(HIDDEN, OUT),
        linear2=nn.Linear(HIDDEN, OUT, bias=False),
    )


def jumping(layers):
    def forward(self, g, x):
        first = self.conv1(g, x)
        return self.output(self.jump([first, self.conv2(g, first)]))

    return Model(
        forward,
        conv1=layers.GraphConv(IN, HIDDEN, activation=F.relu),
        conv2=layers.GraphConv(HIDDEN, HIDDEN, activation=F.relu),
        jump=layers.JumpingKnowledge("max"),
        output=nn.Linear(HIDDEN, OUT),
    )


def two_heads(layers):
    def forward(self, g, x):
        h = self.shared(g, x)
        noise = torch.ones(x.size(0), OUT)
        return self.mean(g, h) + noise * torch.exp(self.log_std(g, h))

    return Model(
        forward,
        shared=layers.GraphConv(IN, HIDDEN, activation=F.relu),
        mean=layers.GraphConv(HIDDEN, OUT),
        log_std=layers.GraphConv(HIDDEN, OUT),
    )


def sequential(layers):
    return layers.Sequential(
        layers.GraphConv(IN, HIDDEN, activation=torch.tanh),
        layers.GraphConv(HIDDEN, OUT),
    )


def mean_sage(layers, kind="mean"):
    return Model(
        lambda self, g, x: self.conv2(g, F.relu(self.conv1(g, x))),
        conv1=layers.SAGEConv(IN, HIDDEN, kind, feat_drop=0.5),
        conv2=layers.SAGEConv(HIDDEN, OUT, kind),
    )


def gcn_sage(layers):
    return mean_sage(layers, "gcn")


def appnp(layers, edge_drop=0.0):
    return Model(
        lambda self, g, x: self.propagate(g, self.mlp(x)),
        mlp=nn.Sequential(
            nn.Linear(IN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, OUT)
        ),
        propagate=layers.APPNPConv(3, 0.2, edge_drop),
    )


def tagcn(layers):
    return Model(
        lambda self, g, x: self.conv2(g, self.conv1(g, x)),
        conv1=layers.TAGConv(IN, HIDDEN, k=2, activation=F.relu),
        conv2=layers.TAGConv(HIDDEN, OUT, k=1),
    )


def sgc(layers):
    return layers.SGConv(IN, OUT, k=2, cached=True)


def gcnii(layers):
    def forward(self, g, x):
        h = first = F.relu(self.input(x))
        for conv in self.convs:
            h = conv(g, h, first)
        return h

    return Model(
        forward,
        input=nn.Linear(IN, OUT),
        convs=nn.ModuleList(
            layers.GCN2Conv(OUT, layer, activation=F.relu) for layer in (1, 2)
        ),
    )


def as_it_is(g, x, **options):
    return block_aggregate(g, x, self_loop=False, **options)


def with_added_loops(g, x, **options):
    return block_aggregate(
        dgl.add_self_loop(g), x, self_loop=False, norm="right", **options
    )


#: Style: the model, and how its script precomputes.
WORKS = {
    "a stack of GraphConv": (gcn, as_it_is, dict(K=2, hops=[2])),
    "a learned activation (PReLU) in a layer": (
        learned_activation, as_it_is, dict(K=2, hops=[2]),
    ),
    "residual connections and BatchNorm": (residual, as_it_is, dict(K=2)),
    "JumpingKnowledge": (jumping, as_it_is, dict(K=2, hops=[1, 2])),
    "two heads on one encoder": (two_heads, as_it_is, dict(K=2, hops=[2])),
    "dgl.nn.Sequential": (sequential, as_it_is, dict(K=2, hops=[2])),
    'SAGEConv with "mean"': (mean_sage, as_it_is, dict(K=2, norm="right")),
    'SAGEConv with "gcn"': (gcn_sage, with_added_loops, dict(K=2, hops=[2])),
    "an MLP and APPNPConv": (appnp, as_it_is, dict(K=3)),
    "TAGConv": (tagcn, as_it_is, dict(K=3, norm="in")),
    "SGConv": (sgc, as_it_is, dict(K=2, hops=[2], norm="in")),
    "GCN2Conv": (gcnii, as_it_is, dict(K=2, norm="in")),
}  # fmt: skip


def pair(make):
    """An original and its swapped twin, with the same random weights."""
    torch.manual_seed(2)
    original, twin = make(dglnn), make(SWAPPED)
    with torch.no_grad():
        for parameter in original.parameters():
            parameter.copy_(torch.randn(parameter.shape))
    twin.load_state_dict(original.state_dict())
    return original.eval(), twin.eval()


def lc_version(model, g, x):
    """The LC version that is derived from the original, without our layers."""
    transformed = lc_transform(model, g, x)
    inputs = transformed.precompute(g, x)
    return predict(transformed.module, inputs, torch.arange(N))


# By day each style with one number of self-loops; at night with all.
@pytest.mark.parametrize(("style", "loops"), in_turn(WORKS, [0, 1, 2]))
def test_a_style_becomes_its_own_lc_version(style, loops):
    make, precompute, options = WORKS[style]
    g, x = make_graph(directed=True), features()
    for _ in range(loops):
        g = dgl.add_self_loop(g)
    original, twin = pair(make)
    with torch.no_grad():
        found = twin(g, precompute(g, x, **options))
    torch.testing.assert_close(found, lc_version(original, g, x))


@pytest.mark.parametrize("style", WORKS)
def test_a_style_trains_on_batches_of_rows(style):
    make, precompute, options = WORKS[style]
    g, x = make_graph(directed=True), features()
    _, twin = pair(make)
    hops = precompute(g, x, **options)
    ids = torch.tensor([7, 0, 19])
    # dgl.nn.Sequential takes a graph for each layer in place of None.
    several = isinstance(twin, dglnn.Sequential)
    graph = [None] * len(twin) if several else None
    found = twin(graph, hops.rows(ids))
    torch.testing.assert_close(found, twin(g, hops)[ids])
    found.sum().backward()
    assert all(p.grad is not None for p in twin.parameters())


def test_weights_of_edges_go_to_the_layer_and_to_block_aggregate():
    def make(layers):
        def forward(self, g, x):
            weights = {"edge_weight": g.edata["w"]}
            h = torch.relu(self.conv1(g, x, **weights))
            return self.conv2(g, h, **weights)

        return Model(
            forward,
            conv1=layers.GraphConv(IN, HIDDEN, norm="none"),
            conv2=layers.GraphConv(HIDDEN, OUT, norm="none"),
        )

    g, x = make_graph(), features()
    weights = torch.rand(g.num_edges())
    g.edata["w"] = dglnn.EdgeWeightNorm("both")(g, weights)
    original, twin = pair(make)
    hops = block_aggregate(
        g, x, K=2, hops=[2], norm="none", self_loop=False, edge_weight="w"
    )
    with torch.no_grad():
        found = twin(g, hops)
    torch.testing.assert_close(found, lc_version(original, g, x))


def test_a_list_of_hops_by_hand_takes_hop_features():
    """SIGN's style: a module for each hop, in a loop over the features."""
    g, x = make_graph(directed=True), features()
    modules = [nn.Linear(IN, OUT) for _ in range(3)]
    # Its own filter: that of "both", with rows that sum to one.
    weights = dglnn.EdgeWeightNorm("both")(g, torch.ones(g.num_edges()))
    weights = dglnn.EdgeWeightNorm("right")(g, weights)
    hops = as_it_is(g, x, K=2, norm="none", edge_weight=weights)
    by_hand = [x]
    for _ in range(2):
        by_hand.append(dgl.ops.u_mul_e_sum(g, by_hand[-1], weights))
    for found, expected, module in zip(hops, by_hand, modules, strict=True):
        torch.testing.assert_close(module(found), module(expected))


# Styles that are refused: what their script does with hop features


def left_unswapped(g, hops):
    return gcn(dglnn)(g, hops)


def attention(g, hops):
    return dglnn.GATConv(IN, OUT, 2)(g, hops).flatten(1)


def attention_by_hand(g, hops):
    return nn.Linear(IN, 2 * OUT)(hops).view(-1, 2, OUT)


def chebyshev(g, hops):
    return dglnn.ChebConv(IN, OUT, 2)(g, hops, lambda_max=[2.0])


def two_filters(layers):
    return Model(
        lambda self, g, x: self.conv2(g, F.relu(self.conv1(g, x))),
        conv1=layers.GraphConv(IN, HIDDEN),
        conv2=layers.SAGEConv(HIDDEN, OUT, "mean"),
    )


def different_filters(g, hops):
    return two_filters(SWAPPED)(g, hops)


def degrees_by_hand(g, hops):
    norm = g.in_degrees().double().clamp(min=1).pow(-0.5).unsqueeze(1)
    return hops * norm


def dropped_nodes(g, hops):
    keep = torch.bernoulli(torch.full((N, 1), 0.5))
    return keep * hops


def sum_by_hand(g, hops):
    with g.local_scope():
        g.ndata["h"] = SWAPPED.GraphConv(IN, HIDDEN)(g, hops)
        g.update_all(fn.copy_u("h", "m"), fn.sum("m", "h"))
        return g.ndata["h"]


def shuffled_rows(g, hops):
    return gcn(SWAPPED)(g, hops[torch.randperm(N)])


def masked_columns(g, hops):
    hops[:, torch.arange(IN) < 2] = 0


def fewer_edges(g, hops):
    return gcn(SWAPPED)(dgl.remove_edges(g, [0, 1]), hops)


def cluster(g, hops):
    ids = torch.arange(10)
    return gcn(SWAPPED)(dgl.node_subgraph(g, ids), hops.rows(ids))


def sampled(g, hops):
    sampler = dgl.dataloading.MultiLayerFullNeighborSampler(1)
    inputs, _, blocks = sampler.sample_blocks(g, torch.arange(4))
    return SWAPPED.GraphConv(IN, OUT)(blocks[0], hops.rows(inputs))


def other_loops(g, hops):
    return gcn(SWAPPED)(g, block_aggregate(g, features(), K=2, hops=[2]))


def other_norm(g, hops):
    directed = make_graph(directed=True)
    return tagcn(SWAPPED)(directed, as_it_is(directed, features(), K=3))


def dropped_edges(g, hops):
    return appnp(SWAPPED, edge_drop=0.5)


def pooled_neighbours(g, hops):
    return mean_sage(SWAPPED, "pool")


def labels_as_features(g, hops):
    labels = F.one_hot(torch.arange(N) % OUT)
    joined = torch.cat([hops.select([2]), labels], dim=-1)
    return SWAPPED.GraphConv(IN + OUT, OUT)(g, joined)


def pair_norm(g, hops):
    h = SWAPPED.GraphConv(IN, HIDDEN)(g, hops)
    return h - h.mean(dim=0)


def too_many_hops(g, hops):
    return gcn(SWAPPED)(g, as_it_is(g, features(), K=3))[torch.arange(5)]


def too_few_hops(g, hops):
    return gcn(SWAPPED)(g, as_it_is(g, features(), K=1))


def data_loader(g, hops):
    return next(iter(torch.utils.data.DataLoader(hops, batch_size=4)))


#: Style: what its script does, and a part of the message.
REFUSED = {
    "a layer of dgl.nn left unswapped": (
        left_unswapped, "use dgl_lc.nn.LCGraphConv in its place",
    ),
    "attention (GATConv, AGNNConv)": (
        attention, "it has no LC version, because its filter is not constant",
    ),
    "attention written by hand": (
        attention_by_hand, "view on hop features is not known to be row-wise",
    ),
    "ChebConv, GINConv": (
        chebyshev, "give the model as written for dgl.nn, with its plain "
        "features, to dgl_lc.lc_transform",
    ),
    "layers of different filters": (
        different_filters, "LCSAGEConv has norm='right', but the hop features "
        "were precomputed with norm='both'",
    ),
    "degrees multiplied by hand": (
        degrees_by_hand, "a factor per node does not swap with the filter",
    ),
    "dropped nodes": (
        dropped_nodes, "a factor per node does not swap with the filter",
    ),
    "update_all, g.ndata": (
        sum_by_hand, "a graph can't hold or aggregate hop features",
    ),
    "shuffled rows": (
        shuffled_rows, "can't shuffle the rows of hop features",
    ),
    "masked columns, in place": (
        masked_columns, "can't change hop features",
    ),
    "a graph with dropped edges": (
        fewer_edges, "the graph is not the one that the hop features were "
        "precomputed on",
    ),
    "a subgraph for each step": (
        cluster, "the graph is not the one that the hop features were "
        "precomputed on",
    ),
    "sampled blocks": (
        sampled, "hop features need no sampling",
    ),
    "self_loop=False forgotten": (
        other_loops, "give self_loop=False to block_aggregate",
    ),
    "another norm than the layer's": (
        other_norm, "give norm='in' to block_aggregate",
    ),
    "APPNPConv with edge_drop": (
        dropped_edges, "edge_drop=0.5 has no LC version",
    ),
    'SAGEConv with "pool" or "lstm"': (
        pooled_neighbours, "aggregator_type='pool' has no LC version",
    ),
    "labels joined to hop features": (
        labels_as_features, "join it to the features before block_aggregate",
    ),
    "means over nodes (PairNorm)": (
        pair_norm, "along dim=0 mixes rows",
    ),
    "K too large": (
        too_many_hops, "K is too large by 1: precompute with K=2, hops=[2]",
    ),
    "K too small": (
        too_few_hops, "K being the number of times the model aggregates",
    ),
    "torch's DataLoader": (
        data_loader, "use dgl_lc.training.HopLoader(hops, nids, labels)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("style", REFUSED)
def test_a_style_is_refused_with_advice(style):
    act, message = REFUSED[style]
    g = make_graph()
    hops = as_it_is(g, features(), K=2)
    with pytest.raises(DGLError, match=re.escape(message)):
        act(g, hops)


def graph_and_tag(layers):
    return Model(
        lambda self, g, x: self.conv2(g, F.relu(self.conv1(g, x))),
        conv1=layers.GraphConv(IN, HIDDEN),
        conv2=layers.TAGConv(HIDDEN, OUT, k=1),
    )


@pytest.mark.parametrize(
    ("make", "norm"),
    each([two_filters, graph_and_tag], ["both", "right", "in"]),
)
def test_layers_of_different_filters_share_no_hop_features(make, norm):
    """Whatever is precomputed, on a directed graph; lc_transform takes them."""
    g, x = make_graph(directed=True), features()
    original, twin = pair(make)
    with pytest.raises(DGLError, match=r"has norm='\w+', but"):
        twin(g, as_it_is(g, x, K=2, norm=norm))
    assert lc_version(original, g, x).shape == (N, OUT)


def test_the_docs_weights_for_gcn_sage_give_its_own_filter():
    """One linear layer, on a graph that has some self-loops."""
    g, x = dgl.add_edges(make_graph(directed=True), [0, 1], [0, 1]), features()
    g.edata["w"] = weights = torch.rand(g.num_edges())
    original, twin = pair(lambda layers: layers.SAGEConv(IN, OUT, "gcn"))
    looped = dgl.add_self_loop(g, fill_data=1.0)
    hops = as_it_is(looped, x, K=1, norm="right", edge_weight="w")
    torch.testing.assert_close(
        twin(g, hops, edge_weight=weights),
        original(g, x, edge_weight=weights),
    )


# docs/swap.md has these tables


def plain(cell):
    return cell.replace("`", "")


def test_the_docs_list_the_styles_that_work(docs_table):
    rows = docs_table("swap.md", "### Styles that work")
    assert [plain(row[0]) for row in rows] == list(WORKS)
    for style, _, precomputed in rows:
        _, precompute, options = WORKS[plain(style)]
        given = dict(options, self_loop=False)
        if precompute is with_added_loops:
            given["norm"] = "right"
        names = SimpleNamespace(
            dgl=SimpleNamespace(add_self_loop=lambda g: "g with loops"),
            block_aggregate=lambda g, x, **found: (g, found),
        )
        found = call_in(precomputed, names)
        graph = "g" if precompute is as_it_is else "g with loops"
        assert found == (graph, given)


def call_in(cell, names):
    """What ``block_aggregate`` is given by the code in a cell."""
    code = re.fullmatch(r"`(.*)`", cell)[1]
    scope = {**vars(names), "g": "g", "x": "x", "__builtins__": {}}
    exec(f"found = {code}", scope)
    return scope["found"]


def test_the_docs_list_the_styles_that_are_refused(docs_table):
    rows = docs_table("swap.md", "### Styles that are refused")
    assert [plain(row[0]) for row in rows] == list(REFUSED)
    for style, _, message, advice in rows:
        assert plain(message).strip("… ") in REFUSED[plain(style)][1]
        assert advice
