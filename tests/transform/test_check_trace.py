"""Models that keep something from call to call, or know the user's graph."""

import random

import dgl
import numpy as np
import pytest
import torch
from torch import nn
from transform.zoo import IN, OUT, Function, features, random_graph

from dgl_lc import LCError, lc_explain, lc_transform
from dgl_lc.transform import check_trace


def refused(model, g=None, x=None):
    g = random_graph() if g is None else g
    with pytest.raises(LCError) as caught:
        lc_transform(model, g, features().float() if x is None else x)
    return caught.value


def summed(self, g, x):
    return dgl.ops.copy_u_sum(g, self.fc(x))


def of(body, **parts):
    return Function(body, fc=nn.Linear(IN, OUT), **parts)


def counting(self, g, x):
    self.calls += 1
    return summed(self, g, x) * self.calls


def counting_in_training(self, g, x):
    self.calls += self.training
    return summed(self, g, x) * (1 + self.calls)


def by_turns(self, g, x):
    self.calls = 1 - self.calls
    return summed(self, g, x) * (1 + self.calls)


def with_last_result(self, g, x):
    h = summed(self, g, x) + self.calls
    self.calls = h.detach().mean()
    return h


@pytest.mark.parametrize(
    "body", [counting, counting_in_training, by_turns, with_last_result]
)
def test_a_model_that_keeps_something_is_refused(body):
    error = refused(of(body, calls=0))
    assert error.code == "LC037"
    assert "called again" in error.reason


@pytest.mark.parametrize(
    "generator", [random.Random(0), np.random.default_rng(0)]
)
def test_a_generator_of_the_model_itself_is_refused(generator):
    def body(self, g, x):
        return summed(self, g, x) * self.generator.random()

    assert refused(of(body, generator=generator)).code == "LC037"


def test_random_numbers_of_torch_are_named_alone():
    def body(self, g, x):
        return summed(self, g, x) * torch.rand(OUT)

    report = lc_explain(of(body), random_graph(), features().float())
    assert [problem.code for problem in report.problems] == ["LC011"]


def test_statistics_of_batches_may_change_in_training():
    def body(self, g, x):
        return self.norm(summed(self, g, x))

    model = of(body, norm=nn.BatchNorm1d(OUT))
    lc_transform(model, random_graph(), features().float())


def test_a_norm_may_be_kept_for_the_next_call():
    def body(self, g, x):
        if self.norm is None:
            self.norm = g.in_degrees().float().clamp(min=1).rsqrt()[:, None]
        return summed(self, g, x * self.norm)

    model = of(body, norm=None)
    lc_transform(model, random_graph(), features().float())
    assert model.norm is None


def by_key(self, g, x):
    factors = dict.fromkeys(self.sizes, 3.0)
    return summed(self, g, x) * factors.get(g.num_nodes(), 1.0)


def in_a_set(self, g, x):
    return summed(self, g, x) * (2 if g.num_nodes() in self.sizes else 1)


@pytest.mark.parametrize("body", [by_key, in_a_set])
def test_a_model_that_knows_the_users_graph_is_refused(body):
    error = refused(of(body, sizes={random_graph().num_nodes()}))
    assert error.code == "LC022"
    assert "on your graph" in error.reason


def test_a_large_graph_is_not_compared(monkeypatch):
    monkeypatch.setattr(check_trace, "_MOST_EDGES", 3)
    model = of(in_a_set, sizes={random_graph().num_nodes()})
    lc = lc_transform(model, random_graph(), features().float())
    reason = "not compared on your graph: it has more than 3 edges"
    assert lc.report.checked.endswith(f"; {reason}")
    assert reason in str(lc.report)


def test_large_features_are_not_compared(monkeypatch):
    monkeypatch.setattr(check_trace, "_MOST_BYTES", 1024)
    lc = lc_transform(of(summed), random_graph(), features().float())
    assert "its features have more than 1 KiB" in lc.report.checked


def failing_on_its_second_call(self, g, x):
    if self.calls > 0:
        raise ValueError("called twice")
    self.calls += not self.training
    return summed(self, g, x)


@pytest.mark.parametrize("bias", [True, False])
def test_a_model_that_fails_when_it_is_called_again_is_said(bias):
    model = of(failing_on_its_second_call, calls=0)
    model.fc = nn.Linear(IN, OUT, bias=bias)
    lc = lc_transform(model, random_graph(), features().float())
    assert lc.report.exact != bias
    assert (
        "; a second call not compared: the model fails when it is called "
        "again (called twice)"
    ) in lc.report.checked


def failing_on_one_size(self, g, x):
    # A text of a number is not followed.
    if self.limit == str(g.num_nodes()):
        raise ValueError("too many nodes")
    return summed(self, g, x).relu()


def test_a_model_that_fails_on_the_users_graph_is_said():
    model = of(failing_on_one_size, limit=str(random_graph().num_nodes()))
    lc = lc_transform(model, random_graph(), features().float())
    assert lc.report.checked.endswith(
        "; not compared on your graph: the model fails there (too many nodes)"
    )


def test_what_can_not_be_computed_on_the_users_graph_is_said(monkeypatch):
    class Fails(check_trace._Replay):
        def __call__(self, value):
            if not self.call.originals:  # no probe
                raise ValueError("no room")
            return super().__call__(value)

    monkeypatch.setattr(check_trace, "_Replay", Fails)
    lc = lc_transform(of(summed), random_graph(), features().float())
    assert "what was traced can't be computed there (no room)" in (
        lc.report.checked
    )


def without_gradients(self, g, x):
    h = self.fc(x)
    h = torch.exp(h)
    h[:] = 2 * h
    return dgl.ops.copy_u_sum(g, h)


def test_gradients_that_do_not_exist_are_said():
    lc = lc_transform(of(without_gradients), random_graph(), features().float())
    assert "gradients not compared: the model has none (" in lc.report.checked


def test_nothing_is_said_where_nothing_is_skipped():
    lc = lc_transform(of(summed), random_graph(), features().float())
    assert ";" not in lc.report.checked


def test_the_users_graph_and_model_stay_as_they_are():
    def body(self, g, x):
        g.ndata["h"] = self.fc(x)
        x.mul_(2)
        self.seen = x
        return dgl.ops.copy_u_sum(g, g.ndata["h"])

    g, x = random_graph(), features().float()
    model, before = of(body), x.clone()
    lc_transform(model.train(), g, x)
    assert "h" not in g.ndata
    assert not hasattr(model, "seen")
    assert model.training
    assert torch.equal(x, before)


def test_features_that_are_not_finite_are_compared_where_they_are():
    g, x = random_graph(), features().float()
    x[3, 2], x[5, 1] = torch.nan, torch.inf
    lc_transform(of(summed), g, x)
    model = of(in_a_set, sizes={g.num_nodes()})
    assert refused(model, g, x).code == "LC022"


def test_few_rows_may_differ_by_rounding():
    a = torch.randn(1000, 4)
    b = a.clone()
    b[7] += 1
    assert 0 < check_trace._changed_rows(a, b, 1e-3) < 0.01
    assert check_trace._changed_rows(a, 1.1 * a, 1e-3) > 0.9
    assert check_trace._changed_rows(a, a[:-1], 1e-3) == 1
    assert check_trace._changed_rows(a / 0 * 0, a, 1e-3) == 1
    bits = a > 0
    assert check_trace._changed_rows(bits, ~bits, 1e-3) == 1
    assert check_trace._changed_rows(bits, bits, 1e-3) == 0
