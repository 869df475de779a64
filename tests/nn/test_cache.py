"""Called with a graph and its features, a model precomputes once."""

import copy
import gc
import pickle
import weakref

import dgl
import pytest
import torch
from model_cases import (
    IN,
    MODELS,
    expected_output,
    make,
    make_feat,
    make_graph,
)

from dgl_lc import nn
from dgl_lc.nn import fsgnn, h2gcn
from dgl_lc.nn import model as model_file
from dgl_lc.testing.random_graphs import make_features

graph, feat = pytest.fixture(make_graph), pytest.fixture(make_feat)


@pytest.fixture
def made(monkeypatch):
    """Weak references to all hop features that models precompute."""
    found = []
    original = model_file.block_aggregate

    def recorded(*args, **kwargs):
        hops = original(*args, **kwargs)
        found.append(weakref.ref(hops))
        return hops

    for file in (model_file, fsgnn, h2gcn):
        monkeypatch.setattr(file, "block_aggregate", recorded)
    return found


def assert_right(model, graph, feat):
    torch.testing.assert_close(
        model(graph, feat), expected_output(model, graph, feat)
    )


def test_the_same_call_precomputes_once(made, graph, feat):
    model = make("SGC")
    first = model(graph, feat)
    torch.testing.assert_close(model(graph, feat), first)
    assert len(made) == 1


def test_another_graph_or_features_are_noticed(made, graph, feat):
    model = make("SGC")
    model(graph, feat)
    other = dgl.reverse(graph)
    assert_right(model, other, feat)
    assert_right(model, other, feat.clone())
    assert len(made) == 3


def write_through_numpy(feat):
    feat.numpy()[3, 1] += 2


def write_through_data(feat):
    feat.data.mul_(2)


def swap_rows(feat):
    feat.data[[0, 1]] = feat.data[[1, 0]]


def write_by_another_view(feat):
    torch.from_numpy(feat.numpy())[-1] = 0


def replace_data(feat):
    feat.data = feat * 3


CHANGES = [
    lambda feat: feat.mul_(2),
    write_through_numpy,
    write_through_data,
    swap_rows,
    write_by_another_view,
    replace_data,
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", MODELS)
def test_features_changed_in_place_are_noticed(name, change, graph, feat):
    model = make(name)
    model(graph, feat)
    change(feat)
    assert_right(model, graph, feat)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_one_changed_bit_is_noticed(made, graph, dtype):
    model = nn.SGC(IN, 3, K=1)
    feat = make_features(13, IN).to(dtype).t().contiguous().t()
    model(graph, feat)
    feat.data.view(torch.int16)[12, 4] ^= 1
    model(graph, feat)
    assert len(made) == 2


def test_edges_added_in_place_are_noticed(graph, feat):
    model = make("SGC")
    model(graph, feat)
    graph.add_edges([0, 1], [5, 6])
    assert_right(model, graph, feat)


@pytest.mark.parametrize("name", ["SGC", "LCGPRGNN"])
def test_inputs_are_forgotten_with_the_graph(name, made, feat):
    model = make(name)
    g = dgl.graph(([0], [1]), num_nodes=13)
    model(g, feat)
    assert made[0]() is not None
    del g
    gc.collect()
    assert made[0]() is None


@pytest.mark.parametrize("K", [0, 2])
def test_inputs_are_forgotten_with_the_features(K, made, graph):
    model = nn.LCGPRGNN(IN, 4, 3, K=K)
    feat = make_features(13, IN)
    model(graph, feat)
    assert made[0]() is not None
    del feat
    gc.collect()
    assert made[0]() is None


def test_a_copy_does_not_hold_the_features(made, graph, feat):
    model = make("SGC")
    first = model(graph, feat)
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        made.clear()
        torch.testing.assert_close(again(graph, feat), first)
        assert len(made) == 1


def test_a_model_precomputes_again_after_it_forgot(made, feat):
    model = make("SGC")
    for edge in (1, 2):
        g = dgl.graph(([0], [edge]), num_nodes=13)
        assert_right(model, g, feat)
        del g
        gc.collect()
    assert [ref() for ref in made] == [None, None]
