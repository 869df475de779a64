"""Models that fail on the user's own arguments are told so."""

from pathlib import Path

import pytest
import torch
from torch import nn
from transform.zoo import IN, OUT, Function, features, random_graph

from dgl_lc import LCError, lc_explain, lc_transform
from dgl_lc.transform import own_failure


def missing_feature(self, g, x):
    g.ndata["h"] = self.fc(x)
    return g.ndata["h"] * g.ndata["norm"]


def wrong_width(self, g, x):
    return self.wide(x.abs_())


def only_in_training(self, g, x):
    h = self.fc(x)
    return h.undefined if self.training else h


def refused(body, *args):
    parts = {"fc": nn.Linear(IN, OUT), "wide": nn.Linear(IN + 1, OUT)}
    with pytest.raises(LCError) as caught:
        lc_transform(Function(body, **parts), *args)
    return caught.value


@pytest.mark.parametrize(("body", "kind", "line"), [
    (missing_feature, KeyError, 2),
    (wrong_width, RuntimeError, 1),
    (only_in_training, AttributeError, 2),
])  # fmt: skip
def test_the_error_of_the_model_is_shown_with_its_line(body, kind, line):
    error = refused(body, random_graph(), features().float())
    (problem,) = error.problems
    assert problem.code == "LC036"
    assert problem.operation == kind.__name__
    assert "the model itself fails" in problem.reason
    assert Path(problem.file) == Path(__file__)
    assert problem.line == body.__code__.co_firstlineno + line
    assert isinstance(error.__cause__, kind)


def test_sizes_in_the_message_are_those_of_the_users_graph():
    error = refused(wrong_width, random_graph(), features().float())
    assert "60x7" in error.reason


def test_graphs_and_features_stay_as_they_are():
    g, x = random_graph(), features().float()
    before = x.clone()
    refused(missing_feature, g, x)
    refused(wrong_width, g, x)
    assert not g.ndata
    assert torch.equal(x, before)


def test_a_model_that_runs_on_its_own_graph_fails_on_another_one():
    def body(self, g, x):
        return self.fc(x).view(60, OUT)

    error = refused(body, random_graph(), features().float())
    assert error.code == "LC026"


def test_a_large_graph_is_not_tried(monkeypatch):
    monkeypatch.setattr(own_failure, "_MOST_EDGES", 10)
    error = refused(missing_feature, random_graph(), features().float())
    assert error.code == "LC026"


def test_lc_explain_says_the_same():
    model = Function(wrong_width, wide=nn.Linear(IN + 1, OUT))
    found = lc_explain(model, random_graph(), features().float())
    assert [problem.code for problem in found.problems] == ["LC036"]
