"""Models that ask what edges a graph has, and probes that have the same."""

from itertools import product

import dgl
import pytest
import torch
from transform.zoo import (
    features,
    model_of,
    permutation_graph,
    random_graph,
    randomised,
)

from dgl_lc import LCError, lc_transform
from dgl_lc.transform.tracing.model_call import read_call
from dgl_lc.transform.tracing.probes import make_probe
from dgl_lc.transform.tracing.resembling_edges import EdgeFacts, facts_of

pytestmark = pytest.mark.usefixtures("double_precision")

LOOPS = dgl.add_self_loop(dgl.remove_self_loop(random_graph()))
WITHOUT = dgl.remove_self_loop(random_graph())
BARE = dgl.graph(([0, 1, 1, 2, 4], [1, 2, 2, 3, 4]), num_nodes=60)
GRAPHS = [
    random_graph(), LOOPS, WITHOUT, BARE, permutation_graph(),
    dgl.to_simple(random_graph()), dgl.to_simple(LOOPS),
    dgl.to_simple(WITHOUT), dgl.to_simple(BARE), permutation_graph(4),
    dgl.remove_self_loop(BARE),
]  # fmt: skip


def is_looped(g):
    u, v = g.edges()
    return bool((u == v).any())


@pytest.mark.parametrize("seed", range(1, 5))
@pytest.mark.parametrize("g", GRAPHS)
def test_probes_have_the_facts_of_the_graph(g, seed):
    x = features(g.num_nodes())
    call = read_call(model_of(loops_if_none), (g, x), {})
    (usual,) = make_probe(call, seed).graphs.values()
    call.resembles = True
    (probe,) = make_probe(call, seed).graphs.values()
    assert facts_of(probe) == facts_of(g)
    assert probe.num_edges() == usual.num_edges()
    assert probe.in_degrees().max() > 8


def test_facts():
    assert facts_of(LOOPS) == EdgeFacts(True, True, True, False)
    assert facts_of(permutation_graph()) == EdgeFacts(*[False] * 4)
    assert facts_of(BARE) == EdgeFacts(True, True, False, True)


def loops_if_none(self, g, x):
    if not is_looped(g):
        g = dgl.add_self_loop(g)
    return self.conv(g, self.fc(x).relu())


def loops_unless_all(self, g, x):
    nodes = g.nodes()
    if not g.has_edges_between(nodes, nodes).all():
        g = dgl.add_self_loop(dgl.remove_self_loop(g))
    return self.conv(g, self.fc(x).relu()) * 2


def loops_for_bare_nodes(self, g, x):
    if (g.in_degrees() == 0).any():
        g = dgl.add_self_loop(g)
    return self.conv(g, self.fc(x).relu())


BODIES = [loops_if_none, loops_unless_all, loops_for_bare_nodes]


@pytest.mark.parametrize(
    ("body", "g"), product(BODIES, [random_graph(), LOOPS, WITHOUT, BARE])
)
def test_the_branch_is_that_of_the_graph(body, g):
    model, x = randomised(model_of(body)).eval(), features()
    model.conv._norm = "right"
    lc = lc_transform(model, g, x)
    rows = x[:1].expand_as(x)  # with equal rows, a mean changes nothing
    with torch.no_grad():
        found = lc.module.eval()(*lc.precompute(g, rows))
        degrees = dgl.add_self_loop(g).in_degrees()
        full = degrees > 1  # others have no mean
        torch.testing.assert_close(found[full], model(g, rows)[full])
    x = features()
    (lc_input,) = lc.precompute(g, x)
    torch.testing.assert_close(lc_input, _filtered(body, g, x))


def _filtered(body, g, x):
    """Apply the filter of a branch, by its definition."""
    nodes = g.nodes()
    if body is loops_if_none and not is_looped(g):
        g = dgl.add_self_loop(g)
    every = g.has_edges_between(nodes, nodes).all()
    if body is loops_unless_all and not every:
        g = dgl.add_self_loop(dgl.remove_self_loop(g))
    if body is loops_for_bare_nodes and (g.in_degrees() == 0).any():
        g = dgl.add_self_loop(g)
    return dgl.ops.copy_u_mean(g, x)


def test_another_graph_is_refused():
    lc = lc_transform(model_of(loops_if_none), WITHOUT, features())
    with pytest.raises(LCError, match="LC022"):
        lc.precompute(LOOPS, features())
