"""Called with a graph and its features, a model precomputes once."""

import copy
import gc
import pickle

import dgl
import pytest
import torch
from model_cases import (
    expected_output,
    make,
    make_feat,
    make_graph,
)

from dgl_lc.nn import model as model_file

graph, feat = pytest.fixture(make_graph), pytest.fixture(make_feat)


class TestCache:
    @pytest.fixture(autouse=True)
    def count(self, monkeypatch):
        self.calls = 0
        original = model_file.block_aggregate

        def counted(*args, **kwargs):
            self.calls += 1
            return original(*args, **kwargs)

        monkeypatch.setattr(model_file, "block_aggregate", counted)

    def test_the_same_call_precomputes_once(self, graph, feat):
        model = make("SGC")
        first = model(graph, feat)
        torch.testing.assert_close(model(graph, feat), first)
        assert self.calls == 1

    def test_another_graph_or_features_are_noticed(self, graph, feat):
        model = make("SGC")
        model(graph, feat)
        other = dgl.reverse(graph)
        torch.testing.assert_close(
            model(other, feat), expected_output(model, other, feat)
        )
        feat = feat.clone()
        model(other, feat)
        assert self.calls == 3

    def test_features_changed_in_place_are_noticed(self, graph, feat):
        model = make("SGC")
        model(graph, feat)
        feat.mul_(2)
        torch.testing.assert_close(
            model(graph, feat), expected_output(model, graph, feat)
        )

    def test_edges_added_in_place_are_noticed(self, graph, feat):
        model = make("SGC")
        model(graph, feat)
        graph.add_edges([0, 1], [5, 6])
        torch.testing.assert_close(
            model(graph, feat), expected_output(model, graph, feat)
        )

    def test_the_features_are_forgotten_with_the_graph(self, feat):
        model = make("SGC")
        g = dgl.graph(([0], [1]), num_nodes=13)
        model(g, feat)
        del g
        gc.collect()
        assert model._cached is None

    def test_a_copy_does_not_hold_the_features(self, graph, feat):
        model = make("SGC")
        model(graph, feat)
        for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            assert again._cached is None
            torch.testing.assert_close(again(graph, feat), model(graph, feat))
