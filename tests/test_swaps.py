"""DGL's layers, graphs and torch's loaders do not take hop features."""

import inspect
import types

import dgl
import dgl.nn as dglnn
import pytest
import torch
import torch.nn.functional as F
from dgl import DGLError
from torch import nn
from torch.utils.data import (
    DataLoader,
    RandomSampler,
    Subset,
    TensorDataset,
    random_split,
)

import dgl_lc
from dgl_lc import block_aggregate
from dgl_lc.nn import LCGraphConv, LCSAGEConv
from dgl_lc.swaps import ROWWISE, SWAPS
from dgl_lc.testing.random_graphs import make_features


@pytest.fixture
def g():
    return dgl.graph(([0, 1, 2, 3, 4, 0], [1, 2, 3, 4, 0, 2]))


@pytest.fixture
def hops(g):
    return block_aggregate(g, make_features(5, 4), 3, self_loop=False)


# Layers

NODES, EDGES = torch.zeros(5).long(), torch.zeros(6).long()
ONE = torch.ones(1)
WIDE = torch.ones(6, 2)
SETS = {"n_heads": 2, "d_head": 2, "d_ff": 4}

#: A call of each layer of dgl.nn that takes a graph.
CALLS = {
    "AGNNConv": lambda g, h: dglnn.AGNNConv()(g, h),
    "APPNPConv": lambda g, h: dglnn.APPNPConv(2, 0.1)(g, h),
    "AtomicConv": lambda g, h: dglnn.AtomicConv(ONE, ONE, ONE)(
        g, h, torch.ones(6, 1)
    ),
    "AvgPooling": lambda g, h: dglnn.AvgPooling()(g, h),
    "CFConv": lambda g, h: dglnn.CFConv(4, 2, 3, 3)(g, h, WIDE),
    "ChebConv": lambda g, h: dglnn.ChebConv(4, 3, 2)(g, h, [2.0]),
    "DGNConv": lambda g, h: dglnn.DGNConv(4, 4, ["mean"], ["identity"], 1.0)(
        g, h, eig_vec=torch.ones(5, 2)
    ),
    "DenseChebConv": lambda g, h: dglnn.DenseChebConv(4, 3, 2)(
        torch.eye(5), h, 2.0
    ),
    "DenseGraphConv": lambda g, h: dglnn.DenseGraphConv(4, 3)(torch.eye(5), h),
    "DenseSAGEConv": lambda g, h: dglnn.DenseSAGEConv(4, 3)(torch.eye(5), h),
    "DotGatConv": lambda g, h: dglnn.DotGatConv(4, 3, 1)(g, h),
    "EGATConv": lambda g, h: dglnn.EGATConv(4, 2, 3, 3, 1)(g, h, WIDE),
    "EGNNConv": lambda g, h: dglnn.EGNNConv(4, 3, 3)(g, h, torch.ones(5, 3)),
    "EdgeConv": lambda g, h: dglnn.EdgeConv(4, 3)(g, h),
    "EdgeGATConv": lambda g, h: dglnn.EdgeGATConv(4, 2, 3, 1)(g, h, WIDE),
    "EdgeWeightNorm": lambda g, h: dglnn.EdgeWeightNorm()(g, h),
    "GATConv": lambda g, h: dglnn.GATConv(4, 3, 2)(g, h),
    "GATv2Conv": lambda g, h: dglnn.GATv2Conv(4, 3, 2)(g, h),
    "GCN2Conv": lambda g, h: dglnn.GCN2Conv(4, 1)(g, h, h),
    "GINConv": lambda g, h: dglnn.GINConv(nn.Linear(4, 3))(g, h),
    "GINEConv": lambda g, h: dglnn.GINEConv(nn.Linear(4, 3))(
        g, h, torch.ones(6, 4)
    ),
    "GMMConv": lambda g, h: dglnn.GMMConv(4, 3, 2, 2)(g, h, WIDE),
    "GatedGCNConv": lambda g, h: dglnn.GatedGCNConv(4, 2, 3)(g, h, WIDE),
    "GatedGraphConv": lambda g, h: dglnn.GatedGraphConv(4, 4, 2, 1)(g, h),
    "GlobalAttentionPooling": lambda g, h: dglnn.GlobalAttentionPooling(
        nn.Linear(4, 1)
    )(g, h),
    "GraphConv": lambda g, h: dglnn.GraphConv(4, 3)(g, h),
    "GroupRevRes": lambda g, h: dglnn.GroupRevRes(dglnn.GraphConv(2, 2))(g, h),
    "HGTConv": lambda g, h: dglnn.HGTConv(4, 2, 2, 1, 1)(g, h, NODES, EDGES),
    "HeteroGraphConv": lambda g, h: dglnn.HeteroGraphConv(
        {"_E": dglnn.GraphConv(4, 3)}
    )(g, {"_N": h}),
    "LabelPropagation": lambda g, h: dglnn.LabelPropagation(2, 0.5)(g, h),
    "MaxPooling": lambda g, h: dglnn.MaxPooling()(g, h),
    "NNConv": lambda g, h: dglnn.NNConv(4, 3, nn.Linear(2, 12))(g, h, WIDE),
    "PNAConv": lambda g, h: dglnn.PNAConv(4, 4, ["mean"], ["identity"], 1.0)(
        g, h
    ),
    "RelGraphConv": lambda g, h: dglnn.RelGraphConv(4, 3, 1)(g, h, EDGES),
    "SAGEConv": lambda g, h: dglnn.SAGEConv(4, 3, "mean")(g, h),
    "SGConv": lambda g, h: dglnn.SGConv(4, 3, 2)(g, h),
    "Set2Set": lambda g, h: dglnn.Set2Set(4, 2, 1)(g, h),
    "SetTransformerDecoder": lambda g, h: dglnn.SetTransformerDecoder(
        4, 2, 2, 4, 1, 2
    )(g, h),
    "SetTransformerEncoder": lambda g, h: dglnn.SetTransformerEncoder(
        4, **SETS
    )(g, h),
    "SortPooling": lambda g, h: dglnn.SortPooling(2)(g, h),
    "SumPooling": lambda g, h: dglnn.SumPooling()(g, h),
    "TAGConv": lambda g, h: dglnn.TAGConv(4, 3, 2)(g, h),
    "TWIRLSConv": lambda g, h: dglnn.TWIRLSConv(4, 3, 4, 2)(g, h),
    "TWIRLSUnfoldingAndAttention": (
        lambda g, h: dglnn.TWIRLSUnfoldingAndAttention(4, 0.5, 1.0, 2)(g, h)
    ),
    "WeightAndSum": lambda g, h: dglnn.WeightAndSum(4)(g, h),
}
#: They can be made only where libraries of cuGraph are installed.
CUGRAPH = ("CuGraphGATConv", "CuGraphRelGraphConv", "CuGraphSAGEConv")

MODULES = {
    name: value
    for name, value in vars(dglnn).items()
    if isinstance(value, type) and issubclass(value, nn.Module)
}


def takes_a_graph(layer):
    names = list(inspect.signature(layer.forward).parameters)
    return names[1:2] in (["graph"], ["g"], ["adj"])


def assert_refused(name, call, *args):
    with pytest.raises(DGLError) as error:
        call(*args)
    start = f"dgl.nn.{name} was given hop features, which are aggregated"
    assert str(error.value).startswith(start)
    return str(error.value)


def test_every_layer_of_dgl_is_tried():
    layers = {name for name, kind in MODULES.items() if takes_a_graph(kind)}
    assert len(layers) > 40
    assert layers - set(CUGRAPH) - set(ROWWISE) <= set(CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_a_layer_that_was_left_unswapped_is_named(g, hops, name):
    if name not in MODULES:
        pytest.skip(f"this DGL has no {name}")
    for values in (hops, hops[2:3], torch.relu(hops.shift())):
        message = assert_refused(name, CALLS[name], g, values)
        assert SWAPS[name] in message


@pytest.mark.parametrize("name", sorted(set(MODULES) - set(ROWWISE)))
def test_every_module_of_dgl_has_an_entry(name):
    assert name in SWAPS


@pytest.mark.parametrize("kind", ["mean", "gcn", "pool", "lstm"])
def test_all_kinds_of_a_layer_are_named(g, hops, kind):
    conv = dglnn.SAGEConv(4, 3, kind)
    assert "LCSAGEConv" in assert_refused("SAGEConv", lambda: conv(g, hops))


@pytest.mark.parametrize("norm", ["both", "right", "left", "none"])
@pytest.mark.parametrize("out_feats", [3, 5])
def test_all_ways_through_graphconv_are_named(g, hops, norm, out_feats):
    conv = dglnn.GraphConv(4, out_feats, norm=norm)
    assert_refused("GraphConv", lambda: conv(g, hops))
    weight = torch.ones(6)
    assert_refused("GraphConv", lambda: conv(g, hops, edge_weight=weight))
    assert_refused("GraphConv", lambda: conv(dgl.to_block(g), hops))


def test_a_layer_of_the_wrong_width_is_named(g, hops):
    assert_refused("GraphConv", lambda: dglnn.GraphConv(9, 3)(g, hops))


def test_the_layer_that_was_called_is_named_not_a_part_of_it(g, hops):
    layers = dglnn.Sequential(LCGraphConv(4, 4), dglnn.GATConv(4, 3, 1))
    assert_refused("GATConv", lambda: layers(g, hops))

    class Mine(dglnn.GraphConv):
        def forward(self, graph, feat):
            return super().forward(graph, feat)

    assert_refused("GraphConv", lambda: Mine(4, 3)(g, hops))


def test_a_counterpart_replaces_the_layer_that_names_it():
    layers = [
        layer
        for layer in vars(dgl_lc.nn).values()
        if hasattr(layer, "replaces")
    ]
    assert LCGraphConv in layers
    for layer in layers:
        assert f"dgl_lc.nn.{layer.__name__} " in SWAPS[layer.replaces]


@pytest.mark.parametrize("name", ["ChebConv", "GINConv", "GatedGraphConv"])
def test_lc_transform_takes_the_layers_that_are_sent_to_it(g, name):
    made = {
        "ChebConv": lambda: dglnn.ChebConv(4, 4, 2),
        "GINConv": lambda: dglnn.GINConv(nn.Linear(4, 4)),
        "GatedGraphConv": lambda: dglnn.GatedGraphConv(4, 4, 2, 1),
    }
    assert "dgl_lc.lc_transform" in SWAPS[name]
    dgl_lc.lc_transform(made[name](), g, make_features(5, 4))


def matrix_of(g):
    """The dense matrix of DGL's layers, whose rows are destinations."""
    matrix = torch.zeros(5, 5)
    matrix[g.edges()[1], g.edges()[0]] = 1
    return matrix


@pytest.mark.parametrize("name", ["DenseGraphConv", "DenseSAGEConv"])
def test_the_advice_for_a_dense_layer_keeps_its_filter(g, name):
    """On a directed graph, where the transposed matrix is another filter."""
    x, matrix = make_features(5, 4), matrix_of(g)
    dst, src = matrix.nonzero(as_tuple=True)
    g = dgl.graph((src, dst), num_nodes=5)
    if name == "DenseGraphConv":
        dense, swapped = dglnn.DenseGraphConv(4, 3), LCGraphConv(4, 3)
        swapped.load_state_dict(dense.state_dict())
        hops = block_aggregate(g, x, 1, self_loop=False)
    else:
        dense, swapped = dglnn.DenseSAGEConv(4, 3), LCSAGEConv(4, 3, "gcn")
        swapped.fc_neigh.weight = dense.fc.weight
        swapped.bias = dense.fc.bias
        hops = block_aggregate(
            dgl.add_self_loop(g), x, 1, norm="right", self_loop=False
        )
    torch.testing.assert_close(swapped(g, hops), dense(matrix, x))
    assert "dgl.graph((src, dst))" in SWAPS[name]
    assert "rows are destinations" in SWAPS[name]


NEW_LAYER = """
from torch import nn
class NewConv(nn.Module):
    def forward(self, graph, feat):
        graph.ndata["h"] = feat.relu()
"""


def test_a_layer_of_a_newer_dgl_is_named_as_well(g, hops):
    module = types.ModuleType("dgl.nn.pytorch.conv.newconv")
    exec(NEW_LAYER, module.__dict__)
    message = assert_refused("NewConv", lambda: module.NewConv()(g, hops))
    assert "lc_transform" in message


def test_lc_layers_in_dgl_s_sequential_are_computed(g, hops):
    one, two = LCGraphConv(4, 4), LCGraphConv(4, 3)
    found = dglnn.Sequential(one, two)(g, hops[1:3])
    torch.testing.assert_close(found, two(g, one(g, hops[1:3])))
    # An error inside belongs to the layer, not to Sequential.
    with pytest.raises(DGLError, match="LCGraphConv"):
        dglnn.Sequential(one, two)(g, hops[:2])


def test_errors_of_row_wise_modules_of_dgl_stay_their_own(hops):
    with pytest.raises(DGLError, match=r"^lstm on hop features"):
        dglnn.JumpingKnowledge("lstm", 4, 2)([hops, hops])
    with pytest.raises(RuntimeError, match="size"):
        dglnn.JumpingKnowledge("max")([hops, hops[:, :3]])


# Graphs


def to_ndata(g, h):
    g.ndata["h"] = h


def to_srcdata(g, h):
    g.srcdata["h"] = h


def to_nodes(g, h):
    g.nodes["_N"].data["h"] = h


def to_edata(g, h):
    g.edata["h"] = h


def to_local_var(g, h):
    g.local_var().dstdata.update({"h": h})


def to_some_nodes(g, h):
    g.nodes[[0, 1, 2]].data["h"] = h


GRAPH_USES = {
    "ndata": to_ndata,
    "srcdata": to_srcdata,
    "nodes": to_nodes,
    "some nodes": to_some_nodes,
    "edata": to_edata,
    "local_var": to_local_var,
    "copy_u_sum": lambda g, h: dgl.ops.copy_u_sum(g, h),
    "u_mul_e_sum": lambda g, h: dgl.ops.u_mul_e_sum(g, h, torch.ones(6, 1)),
    "u_dot_v": lambda g, h: dgl.ops.u_dot_v(g, h, h),
    "edge_softmax": lambda g, h: dglnn.functional.edge_softmax(g, h),
    "segment": lambda g, h: dgl.ops.segment_reduce(torch.tensor([5]), h),
    "apply_nodes": lambda g, h: g.apply_nodes(lambda nodes: {"h": h}),
    "knn_graph": lambda g, h: dgl.knn_graph(h, 2),
}


@pytest.mark.parametrize("name", GRAPH_USES)
def test_a_graph_refuses_hop_features_where_it_is_given_them(g, hops, name):
    for values in (hops, hops[2:3]):
        with pytest.raises(DGLError, match=r"argument.*h\.shift\(\).*lc_tr"):
            GRAPH_USES[name](g, values)
    assert not g.ndata
    assert not g.edata


class Aggregate(nn.Module):
    def forward(self, g, h):
        with g.local_scope():
            g.ndata["h"] = F.relu(h)
            g.update_all(
                dgl.function.copy_u("h", "m"), dgl.function.sum("m", "h")
            )
            return g.ndata["h"]


def test_a_module_of_the_user_is_not_taken_for_one_of_dgl(g, hops):
    with pytest.raises(DGLError, match=r"^a graph can't hold"):
        Aggregate()(g, hops)
    with pytest.raises(DGLError, match=r"^a graph can't hold"):
        dglnn.Sequential(Aggregate())(g, hops)


# Loaders


def workers(hops):
    return DataLoader(hops, sampler=[0, 1], num_workers=1)


LOADERS = {
    "default": DataLoader,
    "shuffled": lambda h: DataLoader(h, shuffle=True),
    "without batches": lambda h: DataLoader(h, batch_size=None),
    "sampler": lambda h: DataLoader(h, 2, sampler=RandomSampler(range(3))),
    "sampler, no batches": lambda h: DataLoader(
        h, sampler=[0, 1], batch_size=None
    ),
    "batch sampler": lambda h: DataLoader(h, batch_sampler=[[0, 1]]),
    "workers": workers,
    "tensors": lambda h: DataLoader(TensorDataset(h)),
    "tensors with labels": lambda h: DataLoader(
        TensorDataset(torch.ones(5), h)
    ),
    "subset": lambda h: DataLoader(Subset(h, [0, 1])),
    "split": lambda h: random_split(h, [2, 2]),
    "length": lambda h: [len(DataLoader(h))],
}


@pytest.mark.parametrize("name", LOADERS)
def test_a_loader_of_torch_does_not_take_hops_for_samples(hops, name):
    with pytest.raises(DGLError, match=r"HopLoader\(hops, nids, labels\)"):
        list(LOADERS[name](hops))


@pytest.mark.parametrize("name", LOADERS)
def test_a_loader_of_torch_does_not_take_the_hops_of_a_store(g, name, tmp_path):
    store = block_aggregate(g, make_features(5, 4), 3, out=tmp_path / "hops")
    with pytest.raises(DGLError, match=r"HopLoader\(hops, nids, labels\)"):
        list(LOADERS[name](store))


def test_batches_of_hop_features_pass_through_a_loader(hops):
    batches = [hops.rows(torch.tensor([i])) for i in range(3)]
    found = list(DataLoader(batches, batch_size=None))
    assert [b.nodes.tolist() for b in found] == [[0], [1], [2]]
