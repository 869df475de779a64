"""Reading a call of the model."""

from collections import namedtuple
from dataclasses import dataclass
from types import SimpleNamespace

import dgl
import pytest
import torch
import torch.nn.functional as F
from dgl import nn as dglnn
from torch import nn
from transform.zoo import (
    IN,
    OUT,
    Function,
    Layers,
    features,
    gcn,
    model_of,
    random_graph,
)

from dgl_lc import LCError, block_aggregate, lc_transform
from dgl_lc.nn import LCGCN, LCGraphConv
from dgl_lc.testing.random_graphs import make_features
from dgl_lc.testing.reference import dense_filter

pytestmark = pytest.mark.usefixtures("double_precision")


def test_heterographs_and_blocks_are_refused():
    feat = features()
    model = Layers(*gcn()).double()
    hetero = dgl.heterograph(
        {("a", "to", "b"): ([0], [1]), ("b", "to", "a"): ([1], [0])}
    )
    with pytest.raises(LCError, match="heterograph"):
        lc_transform(model, hetero, feat)
    block = dgl.to_block(random_graph(), torch.arange(60))
    with pytest.raises(LCError, match="block"):
        lc_transform(model, block, feat)


def test_a_number_the_model_holds_is_no_row_of_a_single_node():
    g = dgl.graph(([0, 0], [0, 0]))
    model = dglnn.GINConv(nn.Linear(IN, OUT, bias=False), init_eps=0.3)
    x = make_features(1, IN, dtype=torch.float64)
    lc = lc_transform(model.double(), g, x)
    assert lc.report.exact
    torch.testing.assert_close(lc.module(*lc.precompute(g, x)), model(g, x))


def test_features_in_a_list():
    def body(self, g, feats):
        return self.conv(g, self.fc(feats[0] + feats[1]))

    g, x = random_graph(), features()
    lc = lc_transform(model_of(body), g, feats=[x, 2 * x])
    lc.precompute(g, feats=[x, x.clone()])


@pytest.mark.parametrize("swapped", [LCGraphConv(IN, OUT), LCGCN(IN, 4, OUT)])
def test_a_model_that_was_swapped_is_refused(swapped):
    g, x = random_graph(), features()
    hops = block_aggregate(g, x, K=2)
    for feat in (x, hops):
        with pytest.raises(
            LCError,
            match=r"in convs.0: LC.* as written for dgl\.nn, with its plain",
        ):
            lc_transform(Layers(swapped), g, feat)


@pytest.mark.parametrize("by_name", [False, True])
def test_hop_features_are_refused(by_name):
    g, hops = random_graph(), block_aggregate(random_graph(), features(), K=2)
    args, kwargs = ([g], {"feat": hops}) if by_name else ([g, hops], {})
    with pytest.raises(LCError, match=r"hop features: were .*plain features"):
        lc_transform(dglnn.GraphConv(IN, OUT), *args, **kwargs)


# Graphs and features inside other objects


def other_graph():
    return random_graph(seed=5)


def two_layers(self, first, second, x):
    return self.b(second, F.relu(self.a(first, x)))


Pair = namedtuple("Pair", ["first", "second"])


@dataclass
class Batch:
    graphs: list
    x: torch.Tensor
    scale: float = 1.0


@dataclass(frozen=True)
class Frozen:
    first: dgl.DGLGraph
    second: dgl.DGLGraph


def as_list(g, h):
    return [g, h]


def as_dict(g, h):
    return {0: g, 1: h}


def as_nested(g, h):
    return ({"g": [g]}, h)


@pytest.mark.parametrize("pack", [as_list, as_dict, Pair, tuple])
@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("alike", [False, True])
def test_graphs_in_a_container(pack, held, alike):
    g, x = random_graph(), features()
    h = g if alike else other_graph()
    graphs = (g, h) if pack is tuple else pack(g, h)
    a, b = gcn()
    model = Function(None, a=a, b=b).double()
    if held:
        model.graphs = graphs
        model.body = lambda self, x: two_layers(
            self, self.graphs[0], self.graphs[1], x
        )
    else:
        model.body = lambda self, gs, x: two_layers(self, gs[0], gs[1], x)
    args = (x,) if held else (graphs, x)
    lc = lc_transform(model, *args)
    assert list(map(str, lc.inputs)) == ["S² x" if alike else "S₁ S₂ x"]
    (rows,) = lc.precompute(*args)
    S1, S2 = (
        torch.from_numpy(dense_filter(g, self_loop=False)) for g in (g, h)
    )
    torch.testing.assert_close(rows, S2 @ S1 @ x)


def test_graphs_in_a_dataclass():
    g, h, x = random_graph(), other_graph(), features()
    a, b = gcn()
    model = Function(None, a=a, b=b).double()
    model.body = lambda self, batch: (
        batch.scale * two_layers(self, *batch.graphs, batch.x)
    )
    batch = Batch([g, h], x, 0.5)
    lc = lc_transform(model, batch)
    assert batch.graphs == [g, h]
    lc.precompute(Batch([g, h], 2 * x, 0.5))
    with pytest.raises(LCError, match="another argument"):
        lc.precompute(Batch([g, h], x, 0.6))
    for pair in (Frozen(g, h), SimpleNamespace(first=g, second=h)):
        model.body = lambda self, pair, x: two_layers(
            self, pair.first, pair.second, x
        )
        assert lc_transform(model, pair, x).inputs
        assert pair.first is g


def test_features_in_a_dict_of_the_model():
    g, x = random_graph(), features()
    model = Function(
        lambda self, g, x: dgl.ops.u_mul_e_sum(
            g, self.fc(x) * self.data["node"], self.data["edges"][0]
        ),
        fc=nn.Linear(IN, OUT, bias=False),
    ).double()
    generator = torch.Generator().manual_seed(0)
    model.data = {
        "node": torch.rand(60, 1, generator=generator).double(),
        "edges": [torch.rand(g.num_edges(), generator=generator).double()],
        "names": ["a"] * 5000,
    }
    lc = lc_transform(model, g, x)
    assert lc.report.exact
    torch.testing.assert_close(lc.module(*lc.precompute(g, x)), model(g, x))


def test_a_container_in_itself():
    model = model_of(lambda self, g, x: self.conv(g, self.fc(x)))
    model.loop = loop = [1]
    loop.append(loop)
    assert lc_transform(model, random_graph(), features()).inputs


# What is to be unwrapped first


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = dglnn.GraphConv(IN, OUT)

    def forward(self, g, x):
        return self.conv(g, x)


def inside(model):
    return Function(lambda self, g, x: self.m(g, x), m=model)


@pytest.mark.parametrize(
    ("wrap", "words"),
    [
        (nn.DataParallel, r"DataParallel: .*Pass model\.module,"),
        (torch.compile, r"OptimizedModule: .*Pass model\._orig_mod,"),
        (
            lambda model: inside(torch.compile(model)),
            r"in m: .*Replace it by model\.m\._orig_mod,",
        ),
        (
            lambda model: torch.jit.script(nn.Linear(IN, OUT)),
            "before torch.jit.script",
        ),
    ],
)
def test_a_model_to_be_unwrapped(wrap, words):
    with pytest.raises(LCError, match=words) as caught:
        lc_transform(wrap(Plain()), random_graph(), features())
    assert caught.value.code == "LC032"


@pytest.mark.parametrize(
    ("convert", "words"),
    [
        (torch.Tensor.to_sparse, "sparse tensor .*to_dense"),
        (torch.Tensor.to_sparse_csr, "sparse tensor .*to_dense"),
        (torch.Tensor.numpy, "array of NumPy.*as_tensor"),
    ],
)
@pytest.mark.filterwarnings("ignore:Sparse CSR")
def test_features_to_be_converted(convert, words):
    g, x = random_graph(), convert(features())
    for args, kwargs in (((g, x), {}), ((g,), {"x": [x]})):
        with pytest.raises(LCError, match=words) as caught:
            lc_transform(Plain(), *args, **kwargs)
        assert caught.value.code == "LC032"


def test_a_model_without_a_graph_needs_nothing():
    mlp = nn.Sequential(nn.Linear(IN, 4), nn.ReLU(), nn.Linear(4, OUT))
    sign = Function(
        lambda self, hops: sum(self.fc(h) for h in hops), fc=nn.Linear(IN, OUT)
    )
    for model, args in ((mlp, features()), (sign, [features()] * 3)):
        with pytest.raises(LCError, match="needs no transformation") as caught:
            lc_transform(model, args)
        assert caught.value.code == "LC031"
        assert "HopLoader" in caught.value.advice
    with pytest.raises(LCError, match=r"conv is a layer of DGL") as caught:
        lc_transform(Plain(), features())
    assert caught.value.code == "LC001"


@pytest.mark.filterwarnings("ignore:Lazy modules:UserWarning")
def test_lazy_layers_have_to_be_called_first():
    def body(self, g, x):
        return self.fc(dgl.ops.copy_u_mean(g, x))

    g, x = random_graph(), features()
    model = Function(body, fc=nn.LazyLinear(3).double())
    with pytest.raises(LCError, match="Call the model once") as caught:
        lc_transform(model, g, x)
    assert (caught.value.code, caught.value.submodule) == ("LC001", "fc")
    expected = model(g, x)
    lc = lc_transform(model, g, x)
    torch.testing.assert_close(lc.module(*lc.precompute(g, x)), expected)


def test_a_parameter_among_the_arguments_is_refused():
    x = nn.Parameter(features().float())
    with pytest.raises(LCError) as caught:
        lc_transform(dglnn.GraphConv(IN, OUT), random_graph(), x)
    assert caught.value.code == "LC016"
    assert "feat.detach()" in caught.value.advice
