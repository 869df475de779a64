"""Inputs on disk are those in memory, for every style of model."""

import warnings

import dgl
import numpy as np
import pytest
import torch
from dgl import nn as dglnn
from night import every
from torch import nn
from torch.nn import functional as F
from transform.on_disk.disk_cases import (
    HID,
    IN,
    MODELS,
    NUM_NODES,
    OUT,
    Layers,
    Model,
    OnDisk,
    conv,
    gcn,
    normalised,
    odd_power,
    weighted_by_degrees,
    with_loops,
)

from dgl_lc import LCError, block_aggregate, lc_transform
from dgl_lc.precompute import open_store
from dgl_lc.training import fit, predict

NODES = [4, 1, 90, 4]


# By day every fourth model, and the last one, whose rows are scaled twice; at
# night all.
@pytest.mark.parametrize(
    ("make", "options"),
    [
        pytest.param(make, more, id=name)
        for name, make, more in every(4, MODELS[:-1]) + MODELS[-1:]
    ],
)
def test_inputs_on_disk_are_those_in_memory(tmp_path, make, options):
    task = OnDisk(tmp_path, **options)
    model = make().eval()
    lc = lc_transform(model, task.sample, task.sample_x)
    held = lc.precompute(task.g, task.x)
    found = lc.precompute(task.graph, task.features, out=tmp_path / "all")
    for one, other in zip(found, held, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
    some = lc.precompute(
        task.graph, task.features, out=tmp_path / "some", nodes=NODES,
        memory="32MiB",
    )  # fmt: skip
    assert some.nodes.tolist() == NODES
    for one, other in zip(some, held, strict=True):
        torch.testing.assert_close(one, other[NODES], rtol=1e-5, atol=1e-5)
    if lc.report.exact:
        expected = model(task.g, task.x)[NODES]
        result = lc.module.eval()(*some)
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)
    assert not (tmp_path / "all" / "work").exists()
    open_store(tmp_path / "some").verify()


@pytest.mark.parametrize("name", ["gcn", "odd power", "normalised rows"])
def test_a_graph_in_memory_with_features_on_disk(tmp_path, name):
    ((_, make, _),) = [case for case in MODELS if case[0] == name]
    task = OnDisk(tmp_path)
    lc = lc_transform(make(), task.sample, task.sample_x)
    held = lc.precompute(task.g, task.x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    for number, feat in enumerate((task.features, mapped)):
        found = lc.precompute(task.g, feat, out=tmp_path / f"s{number}")
        for one, other in zip(found, held, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_bits_are_those_of_the_engine(tmp_path):
    task = OnDisk(tmp_path)
    lc = lc_transform(gcn(), task.sample, task.sample_x)
    options = {"nodes": NODES, "dtype": torch.float16}
    (found,) = lc.precompute(
        task.graph, task.features, out=tmp_path / "s", **options
    )
    hops = block_aggregate(
        task.graph, task.features, 3, self_loop=False, hops=[3], **options
    )
    assert torch.equal(found, hops[3])


@pytest.mark.parametrize("body", [odd_power, weighted_by_degrees])
def test_types(tmp_path, body):
    task = OnDisk(tmp_path)
    lc = lc_transform(Model(body), task.sample, task.sample_x)
    (expected,) = lc.precompute(task.g, task.x)
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        (found,) = lc.precompute(
            task.graph, task.features, dtype=dtype, out=tmp_path / str(dtype)
        )
        assert found.dtype == dtype
        torch.testing.assert_close(
            found.float(), expected, rtol=3e-2, atol=3e-2
        )
    with pytest.raises(dgl.DGLError, match=r"dtype=torch\.int8"):
        lc.precompute(task.graph, task.features, dtype=torch.int8)


def test_features_of_a_smaller_type_than_the_sample(tmp_path):
    task = OnDisk(tmp_path)
    lc = lc_transform(Model(normalised), task.sample, task.sample_x)
    half = np.load(tmp_path / "x.npy").astype(np.float16)
    np.save(tmp_path / "half.npy", half)
    mapped = np.load(tmp_path / "half.npy", mmap_mode="r")
    found = lc.precompute(task.graph, mapped, out=tmp_path / "s")
    held = lc.precompute(task.g, torch.from_numpy(half).float())
    for one, other in zip(found, held, strict=True):
        torch.testing.assert_close(one.float(), other, rtol=1e-2, atol=1e-2)


def test_masks_and_results_in_memory(tmp_path):
    task = OnDisk(tmp_path)
    lc = lc_transform(Model(odd_power), task.sample, task.sample_x)
    mask = torch.zeros(NUM_NODES, dtype=torch.bool)
    mask[[3, 50]] = True
    found = lc.precompute(task.graph, task.features, nodes=mask)
    (held,) = lc.precompute(task.g, task.x)
    torch.testing.assert_close(found[0], held[[3, 50]])
    assert found.nodes.tolist() == [3, 50]


def test_a_model_that_holds_its_graph(tmp_path):
    class Holds(nn.Module):
        def __init__(self, g):
            super().__init__()
            self.g, self.convs = g, gcn()

        def forward(self, x):
            return self.convs(self.g, x)

    task = OnDisk(tmp_path)
    model = Holds(task.sample)
    lc = lc_transform(model, task.sample_x)
    model.g = task.graph
    (found,) = lc.precompute(task.features, out=tmp_path / "s")
    model.g = task.g
    (expected,) = lc.precompute(task.x)
    torch.testing.assert_close(found, expected)


def test_weights_as_an_argument(tmp_path):
    class Weighted(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = dglnn.GraphConv(IN, HID)
            self.second = dglnn.GraphConv(HID, OUT, norm="right")

        def forward(self, g, x, edge_weight=None):
            h = self.first(g, x, edge_weight=edge_weight).relu()
            return self.second(g, h, edge_weight=edge_weight)

    task = OnDisk(tmp_path, weights=True)
    weight = task.sample.edata["weight"]
    lc = lc_transform(
        Weighted(), task.sample, task.sample_x, edge_weight=weight
    )
    found = lc.precompute(
        task.graph, task.features, edge_weight=task.graph.weights,
        out=tmp_path / "s",
    )  # fmt: skip
    expected = lc.precompute(task.g, task.x, edge_weight=task.g.edata["weight"])
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
    with pytest.raises(dgl.DGLError, match="an order of their own"):
        lc.precompute(
            task.graph, task.features, edge_weight=task.g.edata["weight"]
        )


def test_weights_normalised_by_dgl(tmp_path):
    norm = dglnn.EdgeWeightNorm("both")

    def body(self, g, x):
        weight = self.norm(g, g.edata["weight"])
        return self.conv(g, F.relu(self.fc(x)), edge_weight=weight)

    model = Model(body, norm=norm, conv=conv(norm="none"))
    task = OnDisk(tmp_path, weights=True)
    lc = lc_transform(model, task.sample, task.sample_x)
    (found,) = lc.precompute(task.graph, task.features, out=tmp_path / "s")
    (expected,) = lc.precompute(task.g, task.x)
    torch.testing.assert_close(found, expected)


def test_folded_and_exact_bias(tmp_path):
    task = OnDisk(tmp_path)
    appnp = Model(
        lambda s, g, x: s.conv(g, F.relu(s.fc(x))), conv=dglnn.APPNPConv(3, 0.1)
    )
    for number, (model, options) in enumerate(
        [(appnp, {"fold": True}), (gcn(), {"bias": "exact"})]
    ):
        lc = lc_transform(model, task.sample, task.sample_x, **options)
        found = lc.precompute(
            task.graph, task.features, out=tmp_path / f"s{number}", nodes=NODES
        )
        held = lc.precompute(task.g, task.x, nodes=NODES)
        for one, other in zip(found, held, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_training_and_prediction(tmp_path):
    task = OnDisk(tmp_path)
    torch.manual_seed(0)
    model = Layers(dglnn.SAGEConv(IN, HID, "mean"), dglnn.GraphConv(HID, OUT))
    lc = lc_transform(model, task.sample, task.sample_x)
    inputs = lc.precompute(task.graph, task.features, out=tmp_path / "s")
    held = lc.precompute(task.g, task.x)
    labels = torch.randint(0, OUT, (NUM_NODES,))
    train, valid = torch.arange(60), torch.arange(60, 80)
    fit(lc.module, inputs, labels, train, valid, epochs=2, progress=False)
    ids = torch.arange(80, NUM_NODES)
    found = predict(lc.module, open_store(tmp_path / "s"), ids)
    torch.testing.assert_close(found, predict(lc.module, held, ids))
    (batch,) = lc.loader(inputs, ids, batch_size=100)
    torch.testing.assert_close(lc.module.eval()(None, batch), found)


def test_the_graph_is_never_in_memory(tmp_path, monkeypatch):
    task = OnDisk(tmp_path, loops=False)
    lc = lc_transform(with_loops(gcn()), task.sample, task.sample_x)

    def refuse(*args, **options):
        raise AssertionError("a graph was made in memory")

    monkeypatch.setattr(type(task.graph), "to_dgl", refuse)
    monkeypatch.setattr(dgl, "graph", refuse)
    monkeypatch.setattr(dgl, "add_self_loop", refuse)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lc.precompute(task.graph, task.features, out=tmp_path / "s")


def test_a_model_traced_on_a_sample_with_other_sizes(tmp_path):
    task = OnDisk(tmp_path)
    model = gcn()
    small = lc_transform(model, task.sample, task.sample_x)
    large = lc_transform(model, task.g, task.x)
    (one,) = small.precompute(task.graph, task.features, out=tmp_path / "a")
    (two,) = large.precompute(task.graph, task.features, out=tmp_path / "b")
    assert torch.equal(one, two)


def by_hand(g, h):
    """The mean over neighbours, written in another way than SAGEConv's."""
    norm = 1 / g.in_degrees().float().clamp(min=1).sqrt().unsqueeze(1)
    return dgl.ops.copy_u_sum(g, h) * norm * norm


def by_weights(g, h):
    weights = g.edata["weight"] / g.edata["weight"] ** 2
    return dgl.ops.u_mul_e_sum(g, h * 2, weights) / 2


def by_division(g, h):
    return dgl.ops.u_div_e_sum(g, h, g.edata["weight"])


def mean(g, h):
    return dgl.ops.copy_u_mean(g, h)


@pytest.mark.parametrize(("one", "other", "weights"), [
    (mean, by_hand, False), (by_weights, by_division, True),
])  # fmt: skip
def test_filters_that_are_written_in_two_ways_are_compared_on_disk(
    tmp_path, one, other, weights
):
    def body(self, g, x):
        return self.b(one(g, self.a(other(g, x)).relu()))

    model = Model(body, a=nn.Linear(IN, HID), b=nn.Linear(HID, OUT))
    task = OnDisk(tmp_path, weights=weights)
    lc = lc_transform(model, task.sample, task.sample_x)
    assert [str(entry) for entry in lc.inputs] == ["S² x"]
    held = lc.precompute(task.g, task.x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calls = (task.graph, task.features), (task.g, task.x)
        for place, call in enumerate(calls):
            found = lc.precompute(*call, out=tmp_path / f"{place}")
            torch.testing.assert_close(found[0], held[0], rtol=1e-4, atol=1e-5)


def test_filters_that_differ_on_disk_are_refused(tmp_path):
    def body(self, g, x):
        limited = g.in_degrees().float().clamp(1, 200).unsqueeze(1)
        h = dgl.ops.copy_u_sum(g, self.a(x)) / limited
        return self.b(dgl.ops.copy_u_mean(g, h.relu()))

    model = Model(body, a=nn.Linear(IN, HID), b=nn.Linear(HID, OUT))
    task = OnDisk(tmp_path, m=30_000)
    small = dgl.rand_graph(50, 200)
    lc = lc_transform(model, small, torch.randn(50, IN))
    for call in ((task.graph, task.features), (task.g, task.x)):
        with pytest.raises(LCError, match="differ on this graph"):
            lc.precompute(*call, out=tmp_path / "out")


def _largest(s, g, x):
    return dgl.ops.copy_u_max(g, x)


def _smallest_column(s, g, x):
    return dgl.ops.copy_u_min(g, x[:, :1])


def _differences(s, g, x):
    u, v = g.edges()
    return dgl.ops.copy_e_sum(g, (x[u] - x[v]).abs())


def _largest_of_means(s, g, x):
    return dgl.ops.copy_u_max(g, dgl.ops.copy_u_mean(g, x))


def _mean_of_largest(s, g, x):
    return dgl.ops.copy_u_mean(g, dgl.ops.copy_u_max(g, x)).abs()


@pytest.mark.parametrize(
    "static",
    [
        _largest, _smallest_column, _differences, _largest_of_means,
        _mean_of_largest,
    ],
)  # fmt: skip
def test_what_is_no_sum_of_given_features_is_computed_by_dgl(tmp_path, static):
    g = dgl.add_self_loop(dgl.rand_graph(NUM_NODES, 300))
    x = torch.randn(NUM_NODES, IN)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(static(self, g, x).shape[1], HID)
            self.conv = dglnn.GraphConv(HID, OUT)

        def forward(self, g, x):
            return self.conv(g, self.layer(static(self, g, x)).relu())

    lc = lc_transform(Net(), g, x)
    held = lc.precompute(g, x)
    for nodes in (None, NODES):
        out = tmp_path / f"store-{nodes is None}"
        found = lc.precompute(g, x, out=out, nodes=nodes)
        for one, other in zip(found, held, strict=True):
            wanted = other if nodes is None else other[nodes]
            torch.testing.assert_close(one, wanted, rtol=1e-5, atol=1e-5)
