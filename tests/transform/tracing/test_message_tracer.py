"""Functions of users give what DGL computes, on any graph."""

import dgl
import dgl.function as fn
import pytest
import torch
from transform.zoo import IN, OUT, Function, features, random_graph, randomised

from dgl_lc import LCError, lc_transform

pytestmark = pytest.mark.usefixtures("double_precision")

COPY, SUM = fn.copy_u("h", "m"), fn.sum("m", "h")


def without_in_edges():
    """A random graph in which some nodes have no incoming edges."""
    g = random_graph()
    _, v = g.edges()
    return dgl.remove_edges(g, torch.nonzero(v % 4 == 0).view(-1))


def mean(nodes):
    return {"h": nodes.mailbox["m"].mean(1)}


def add_itself(nodes):
    return {"h": nodes.mailbox["m"].sum(1) + nodes.data["h"]}


def degree_times_itself(nodes):
    mail = nodes.mailbox["m"]
    return {"h": mail.sum(1) - mail.shape[1] * nodes.data["h"]}


def weighted_mail(nodes):
    both = nodes.mailbox["m"] * nodes.data["c"].unsqueeze(1)
    return {"h": both.sum(dim=1, keepdim=True).squeeze(1)}


def update_all(message, reduce):
    return lambda g: g.update_all(message, reduce)


PROPAGATE = {
    "mean": update_all(COPY, mean),
    "add itself": update_all(COPY, add_itself),
    "degree times itself": update_all(COPY, degree_times_itself),
    "weighted mail": update_all(COPY, weighted_mail),
    "differences": update_all(
        lambda e: {"m": e.src["h"] - 2 * e.dst["h"]}, fn.mean("m", "h")
    ),
    "difference of ends": update_all(fn.u_sub_v("h", "h", "m"), SUM),
    "weighted differences": update_all(
        lambda e: {"m": (e.dst["h"] - e.src["h"]) * e.src["c"] / e.dst["c"]},
        SUM,
    ),
    "edge features added": update_all(
        lambda e: {"m": e.src["h"] * e.src["c"] + 0 * e.dst["h"]}, SUM
    ),
    "divided by edges": update_all(fn.u_div_e("h", "w", "m"), SUM),
    "send and recv": lambda g: g.send_and_recv(g.edges(), COPY, SUM),
    "send and recv, reduced": lambda g: g.send_and_recv(
        torch.arange(g.num_edges()), COPY, add_itself
    ),
    "pull": lambda g: g.pull(g.nodes(), COPY, add_itself),
    "push": lambda g: g.push(g.nodes(), COPY, fn.mean("m", "h")),
    "push to a new field": lambda g: (
        g.push(g.nodes(), COPY, fn.sum("m", "new")),
        g.ndata.update(h=g.ndata["new"]),
    ),
    "apply after": lambda g: g.update_all(
        COPY, mean, lambda nodes: {"h": 3 * nodes.data["h"] * nodes.data["c"]}
    ),
}


def linear_model(propagate):
    """Two layers without biases: their LC version must be equal."""

    def body(self, g, x):
        with g.local_scope():
            g.ndata["c"] = (2.0 + g.out_degrees()).to(x).unsqueeze(1)
            g.apply_edges(fn.u_add_v("c", "c", "w"))
            g.ndata["h"] = self.a(x)
            propagate(g)
            g.ndata["h"] = self.b(g.ndata["h"])
            propagate(g)
            return g.ndata["h"]

    a = torch.nn.Linear(IN, OUT, bias=False)
    b = torch.nn.Linear(OUT, OUT, bias=False)
    return randomised(Function(body, a=a, b=b))


@pytest.mark.parametrize("make", [random_graph, without_in_edges])
@pytest.mark.parametrize("name", PROPAGATE)
def test_linear_message_passing_is_exact_on_any_graph(name, make):
    g, x = make(), features()
    model = linear_model(PROPAGATE[name])
    lc = lc_transform(model, g, x)
    assert lc.report.exact
    found = lc.module(*lc.precompute(g, x))
    torch.testing.assert_close(found, model(g, x))


def test_another_graph_without_in_edges_is_refused():
    """Nodes without messages are not given to a reduce function."""
    x = features()
    lc = lc_transform(linear_model(PROPAGATE["add itself"]), random_graph(), x)
    for method in (lc.precompute, lc.drift):
        with pytest.raises(LCError, match="nodes without incoming edges"):
            method(without_in_edges(), x)


def test_nodes_without_messages_on_a_graph_that_forward_derives():
    def propagate(g):
        back = dgl.reverse(g)
        back.ndata["h"] = g.ndata["h"]
        back.update_all(COPY, add_itself)
        g.ndata["h"] = back.ndata["h"]

    g, x = dgl.reverse(without_in_edges()), features()
    model = linear_model(propagate)
    lc = lc_transform(model, g, x)
    assert lc.report.exact
    found = lc.module(*lc.precompute(g, x))
    torch.testing.assert_close(found, model(g, x))


def test_edges_in_another_order_are_refused_on_the_users_graph():
    def propagate(g):
        every = torch.arange(g.num_edges())
        g.send_and_recv(every.flip(0), COPY, SUM)

    with pytest.raises(LCError, match="in another order"):
        lc_transform(linear_model(propagate), random_graph(), features())


def test_a_reduce_function_may_not_change_what_dgl_computes():
    """A plain number of messages escapes, and the results are compared."""

    def reduce(nodes):
        mail = nodes.mailbox["m"]
        return {"h": nodes.data["h"] + mail.sum(1) / float(mail.shape[1])}

    model = linear_model(update_all(COPY, reduce))
    with pytest.raises(LCError, match="not a function of the sum"):
        lc_transform(model, random_graph(), features())


def test_dropped_edges_are_ignored_if_asked_for():
    def body(self, g, x):
        g = dgl.DropEdge(0.5)(g)
        g.ndata["h"] = self.a(x)
        g.update_all(COPY, SUM)
        return g.ndata["h"]

    g, x = random_graph(), features()
    model = Function(body, a=torch.nn.Linear(IN, OUT, bias=False))
    with pytest.raises(LCError) as caught:
        lc_transform(model, g, x)
    assert caught.value.operation == "DropEdge"
    lc = lc_transform(model, g, x, ignore_edge_dropout=True)
    g.ndata["h"] = model.a(x)
    g.update_all(COPY, SUM)
    torch.testing.assert_close(lc.module(*lc.precompute(g, x)), g.ndata["h"])
    # DropEdge drops edges again after the transformation.
    assert dgl.DropEdge(0.5)(g).num_edges() < g.num_edges()
