"""lc_explain: all problems at once, the cause that can be changed first."""

import dgl
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from dgl import nn as dglnn
from night import every
from torch import nn
from transform.zoo import (
    HID,
    IN,
    OUT,
    REFUSED,
    Layers,
    features,
    gcn,
    model_of,
    random_graph,
    refusal,
)

from dgl_lc import LCError, lc_explain, lc_transform

pytestmark = pytest.mark.usefixtures("double_precision")


def explained(name):
    torch.manual_seed(0)
    case = REFUSED[name].make()
    args, kwargs = case.call(random_graph(), features())
    return lc_explain(case.model, *args, **kwargs, **case.options)


def of_body(body, g=None, **parts):
    found = lc_explain(model_of(body, **parts), g or random_graph(), features())
    return [(p.code, p.submodule) for p in found.problems]


# What the problems are is tested in test_zoo.py. By day every eighth model, at
# night all.
@pytest.mark.parametrize("name", every(8, REFUSED))
def test_an_explanation_has_the_problems_of_the_error(name):
    found = explained(name)
    assert not found.ok
    assert found.problems == refusal(name).problems


def test_all_problems_are_found_at_once():
    found = explained("five_problems_at_once")
    codes = [problem.code for problem in found.problems]
    assert codes == ["LC004", "LC014", "LC011", "LC006", "LC013"]
    lines = [problem.line for problem in found.problems]
    assert lines == list(range(lines[0], lines[0] + 5))
    text = str(found)
    assert "5 problems" in text
    for problem in found.problems:
        assert f"{problem.code} {problem.name}" in text
        assert problem.text in text
        assert problem.advice in text


def test_the_error_has_the_same_problems():
    case = REFUSED["five_problems_at_once"].make()
    torch.manual_seed(0)
    with pytest.raises(LCError) as caught:
        lc_transform(case.model, random_graph(), features())
    codes = [problem.code for problem in caught.value.problems]
    assert codes == ["LC004", "LC014", "LC011", "LC006", "LC013"]
    assert "LC014" in str(caught.value)
    assert "and 1 more" in str(caught.value)


def test_a_model_that_is_fine():
    model, g, x = Layers(*gcn()).double(), random_graph(), features()
    found = lc_explain(model, g, x, bias="exact")
    assert found.ok
    assert found.problems == []
    assert "can be transformed" in str(found)
    assert str(lc_transform(model, g, x, bias="exact").report) in str(found)


def test_a_wrong_call_is_explained_too():
    found = lc_explain(Layers(*gcn()), features())
    assert [problem.code for problem in found.problems] == ["LC001"]
    assert "1 problem." in str(found)


def test_a_failing_explanation_does_not_hide_the_error(monkeypatch):
    def fail(*args):
        raise ZeroDivisionError

    path = "dgl_lc.transform.transform_model.collect_problems"
    monkeypatch.setattr(path, fail)
    with pytest.raises(LCError, match="edge weights are learned"):
        lc_transform(
            dglnn.GATConv(IN, OUT, 2).double(), random_graph(), features()
        )


def test_what_follows_from_a_problem_is_not_reported():
    def body(self, g, x):
        h = self.fc(x)
        kept = torch.topk(h[:, 0], 5)[1]
        h = torch.relu(h[kept]) * 2
        return F.softmax(h.sum(1), dim=0)

    assert of_body(body) == [("LC010", "")]


def test_the_same_cause_at_two_lines_is_two_problems():
    def body(self, g, x):
        h = self.fc(x)
        h = h - h.mean(0)
        h = self.conv(g, h)
        return h - h.mean(0)

    assert of_body(body) == [("LC014", ""), ("LC014", "")]


def test_problems_after_an_unknown_graph_are_found():
    def body(self, g, x):
        part = dgl.sampling.sample_neighbors(g, g.nodes(), 2)
        h = self.conv(part, self.fc(x))
        return h / h.norm(dim=0)

    assert of_body(body) == [("LC008", ""), ("LC014", "")]


def test_problems_around_a_branch_on_learned_values_are_found():
    def body(self, g, x):
        h = self.gat(g, x).flatten(1)
        if h.sum() > 1e9:
            h = -h
        return self.conv(g, h + torch.randn_like(h))

    found = of_body(body, gat=dglnn.GATConv(IN, HID, 1).double())
    assert found == [("LC004", "gat"), ("LC011", ""), ("LC019", "")]


def test_problems_before_a_failure_are_found():
    def body(self, g, x):
        h = self.conv(g, self.fc(x))
        h = h - h.mean(0)
        return h.view(60, OUT) + 1

    assert of_body(body) == [("LC014", ""), ("LC026", "")]


def test_a_parameter_that_only_looks_like_one_of_the_graph_is_not_blamed():
    def body(self, g, x):
        h = self.fc(x).view(60, HID)
        return self.conv(g, h)

    spare = nn.Parameter(torch.zeros(60, 2))
    assert of_body(body, spare=spare) == [("LC026", "")]


def test_multihead_attention_over_nodes():
    def body(self, g, x):
        h = self.fc(x)[None]
        return self.conv(g, self.mha(h, h, h, need_weights=False)[0][0])

    mha = nn.MultiheadAttention(HID, 2, batch_first=True)
    ((code, _),) = of_body(body, mha=mha.double())
    assert code == "LC015"


def test_random_walks():
    def body(self, g, x):
        ids, _ = dgl.sampling.random_walk(g, g.nodes(), length=2)
        return self.conv(g, self.fc(x)[ids[:, 1]])

    ((code, _),) = of_body(body)
    assert code == "LC008"


def test_a_mask_of_features_is_no_drop_node():
    def body(self, g, x):
        h = self.fc(x)
        return self.conv(g, h * (torch.rand(h.shape) < 0.5))

    found = lc_explain(model_of(body), random_graph(), features())
    (problem,) = found.problems
    assert problem.operation == "random mask or noise (rand)"


def test_a_random_mask_of_numpy_is_at_the_line_that_draws():
    def body(self, g, x):
        chance = torch.from_numpy(np.full((x.shape[0], 1), 0.5))
        mask = torch.bernoulli(chance)
        return self.conv(g, self.fc(x) * mask)

    found = lc_explain(model_of(body), random_graph(), features())
    (problem,) = found.problems
    assert problem.code == "LC011"
    assert problem.text == "mask = torch.bernoulli(chance)"


def test_a_matrix_of_nodes_is_at_the_line_of_its_product():
    def body(self, g, x):
        matrix = torch.from_numpy(np.eye(x.shape[0]))
        h = self.fc(x)
        h = matrix @ h
        return self.conv(g, h)

    found = lc_explain(model_of(body), random_graph(), features())
    (problem,) = found.problems
    assert problem.code == "LC030"
    assert problem.text == "h = matrix @ h"


def test_a_virtual_node_by_broadcasting():
    def body(self, g, x):
        h = self.fc(x)
        with g.local_scope():
            g.ndata["h"] = h
            everything = dgl.sum_nodes(g, "h")
            h = h + dgl.broadcast_nodes(g, everything)
        return self.conv(g, h)

    assert of_body(body) == [("LC013", "")]


def test_collecting_leaves_the_model_as_it_was():
    model = model_of(lambda self, g, x: self.conv(g, self.fc(x)).softmax(0))
    model.train()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    state = torch.get_rng_state()
    assert not lc_explain(model, random_graph(), features()).ok
    assert model.training
    assert torch.equal(state, torch.get_rng_state())
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name])
