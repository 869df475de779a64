"""Graphs in global names and enclosing functions are named."""

import dgl
import pytest
import torch
from torch import nn
from transform.zoo import IN, OUT, Function, features, random_graph

from dgl_lc import LCError, lc_transform

GRAPH = random_graph()
g = random_graph()


def by_global(self, x):
    return dgl.ops.copy_u_sum(GRAPH, self.fc(x))


def helper(h):
    return sum(dgl.ops.copy_u_sum(graph, h) for graph in (GRAPH,))


def by_helper(self, x):
    return helper(self.fc(x))


def by_closure(graph):
    def body(self, x):
        return dgl.ops.copy_u_sum(graph, self.fc(x))

    return body


def refused(body, *args):
    with pytest.raises(LCError) as caught:
        lc_transform(Function(body, fc=nn.Linear(IN, OUT)), *args)
    return caught.value


@pytest.mark.parametrize(("body", "name", "function"), [
    (by_global, "GRAPH", "by_global"),
    (by_helper, "GRAPH", "helper"),
    (by_closure(GRAPH), "graph", "by_closure.<locals>.body"),
])  # fmt: skip
def test_a_graph_outside_of_the_model_is_named(body, name, function):
    error = refused(body, features().float())
    assert error.code == "LC001"
    assert error.operation == f"the graph {name}"
    assert f"{function} reads it" in error.reason
    assert f"self.graph = {name}" in error.advice


@pytest.mark.parametrize("second", [
    lambda self, g, x: dgl.ops.copy_u_sum(GRAPH, self.fc(x)),
    lambda self, g, x: self.fc(x) * GRAPH.in_degrees()[:, None],
    lambda self, g, x: self.fc(x) * (GRAPH.ndata["n"]),
])  # fmt: skip
def test_a_graph_besides_the_one_that_is_given_is_named(second):
    GRAPH.ndata["n"] = torch.ones(60, 1)
    error = refused(second, random_graph(), features().float())
    assert error.operation == "the graph GRAPH"
    assert error.problems[0].line


def test_an_attribute_is_not_taken_for_a_global_name():
    """The attribute has the name of a graph in this module."""

    def body(self, x):
        return self.fc(x) if self.g is None else x

    model = Function(body, fc=nn.Linear(IN, OUT), g=None)
    with pytest.raises(LCError, match="LC031"):
        lc_transform(model, features().float())
