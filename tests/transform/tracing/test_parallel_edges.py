"""Models that ask whether the graph has parallel edges."""

import dgl
import pytest
import torch
from transform.zoo import features, model_of, random_graph

from dgl_lc import LCError, lc_explain, lc_transform

pytestmark = pytest.mark.usefixtures("double_precision")

MULTI, SIMPLE = random_graph(), dgl.to_simple(random_graph())


def halved(self, g, x):
    h = self.conv(g, self.fc(x).relu())
    return h / 2 if g.is_multigraph else h


def without_parallel_edges(self, g, x):
    if g.is_multigraph:
        g = dgl.to_simple(g)
    return self.conv(g, self.fc(x).relu())


def derived(self, g, x):
    h = self.conv(g, self.fc(x).relu())
    return h if dgl.to_simple(g).is_multigraph else h / 4


@pytest.mark.parametrize("g", [MULTI, SIMPLE])
@pytest.mark.parametrize("body", [halved, without_parallel_edges, derived])
def test_the_branch_is_that_of_the_graph(g, body):
    model, x = model_of(body).eval(), features()
    lc = lc_transform(model, g, x)
    assert [*map(str, lc.inputs)] == ["S x"]
    with torch.no_grad():
        # The filter commutes with everything if all rows are equal.
        rows = x[:1].expand_as(x)
        model.conv._norm = "right"
        lc = lc_transform(model, g, rows)
        found = lc.module.eval()(*lc.precompute(g, rows))
        torch.testing.assert_close(found, model(g, rows))


@pytest.mark.parametrize("body", [halved, without_parallel_edges])
def test_a_graph_that_would_take_the_other_branch_is_refused(body):
    for g, other in ((MULTI, SIMPLE), (SIMPLE, MULTI)):
        lc = lc_transform(model_of(body), g, features())
        with pytest.raises(LCError, match="LC022") as caught:
            lc.precompute(other, features())
        assert caught.value.operation == "g.is_multigraph"
        assert "if g.is_multigraph" in caught.value.problems[0].text


def test_a_model_may_refuse_parallel_edges():
    def body(self, g, x):
        assert not g.is_multigraph
        return self.conv(g, self.fc(x).relu())

    lc = lc_transform(model_of(body), SIMPLE, features())
    assert lc.report.checked.endswith("equal on a permutation graph")
    (problem,) = lc_explain(model_of(body), MULTI, features()).problems
    assert problem.code == "LC036"
