"""Every model against its formula, in dense float64."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from model_cases import (
    EVERY,
    IN,
    MODELS,
    expected_output,
    make,
    make_feat,
    make_graph,
)
from night import cases

from dgl_lc.testing.random_graphs import graphs, make_features

graph, feat = pytest.fixture(make_graph), pytest.fixture(make_feat)


@EVERY
def test_output_is_that_of_the_formula(name, graph, feat):
    model = make(name)
    torch.testing.assert_close(
        model(graph, feat), expected_output(model, graph, feat)
    )


@given(g=graphs(max_nodes=20, max_edges=60), name=st.sampled_from([*MODELS]))
@settings(max_examples=cases(20, 400))
def test_output_is_that_of_the_formula_on_any_graph(g, name):
    model = make(name)
    x = make_features(g.num_nodes(), IN, dtype=torch.float64)
    torch.testing.assert_close(model(g, x), expected_output(model, g, x))
