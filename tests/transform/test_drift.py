"""Drift: the LC version compared with the model on the user's own graph."""

import dgl
import pytest
import torch
from dgl import DGLError
from dgl import nn as dglnn
from night import every
from torch import nn
from transform.zoo import (
    IN,
    OUT,
    TAKEN,
    Layers,
    features,
    gcn,
    model_of,
    random_graph,
    randomised,
    ready,
    transformed,
)

from dgl_lc import LCError, lc_transform
from dgl_lc.transform import measure_drift, neighbourhoods
from dgl_lc.transform.recognise import OperationKinds
from dgl_lc.transform.swapped_model import SwappedModel
from dgl_lc.transform.tracing.values import tensors_in

pytestmark = [
    pytest.mark.usefixtures("double_precision"),
    pytest.mark.filterwarnings("ignore:.*lambda_max"),
]
NODES = torch.tensor([5, 0, 59])


def outputs(output):
    return torch.cat([rows.flatten(1) for rows in tensors_in(output)], 1)


def expected(model, args, kwargs, lc, nodes=slice(None)):
    with torch.no_grad():
        its = outputs(model(*args, **kwargs))[nodes]
        mine = outputs(lc.module(*lc.precompute(*args, **kwargs)))[nodes]
    size = float(its.norm()) or 1.0
    return float((mine - its).norm()) / size, mine, its


#: Models that drop edges in evaluation too, which their LC versions do not.
_DROP_EDGES = {"ignored_drop_edge"}


# By day every eighth model, which other tests have as well; at night all.
@pytest.mark.parametrize(
    "name", [name for name in every(8, TAKEN) if name not in _DROP_EDGES]
)
def test_the_difference_is_that_of_the_outputs(name):
    model, args, kwargs, lc = ready(name)
    whole = lc.drift()
    relative, mine, its = expected(model, args, kwargs, lc)
    assert whole.relative == pytest.approx(relative, rel=1e-5, abs=1e-9)
    assert whole.nodes == whole.num_nodes == 60
    if TAKEN[name].exact:
        assert whole.relative < 1e-6
        assert whole.operations == []
    if whole.agreement is not None and its.shape[1] == OUT:
        same = (mine.argmax(1) == its.argmax(1)).double().mean()
        assert whole.agreement == pytest.approx(float(same))
    # Degrees and norms of a neighbourhood are those of the whole graph.
    some = lc.drift(*args, nodes=NODES, **kwargs)
    relative, _, _ = expected(model, args, kwargs, lc, NODES)
    assert some.relative == pytest.approx(relative, rel=1e-5, abs=1e-9)
    assert some.nodes == 3
    # After the last operation is swapped, it is the LC version.
    torch.testing.assert_close(all_swapped(lc), mine, rtol=1e-5, atol=1e-6)


def all_swapped(lc):
    """The outputs of the model after all its operations are swapped."""
    pushed, call = lc._pushed, lc._call
    kinds = OperationKinds(lc.module, pushed.num_nodes)
    parts = neighbourhoods.Parts(pushed, kinds)
    values = neighbourhoods.output_values(pushed)
    lc.module.eval()
    evaluate = neighbourhoods.NodeEvaluator(
        call, parts, values, lc.inputs, None
    )
    groups = measure_drift._inexact(pushed)
    every = {value for group in groups for value in group}
    swap = SwappedModel(evaluate, parts, pushed, every)
    with torch.no_grad():
        found = [swap.at(value, ()) for value in values]
    return outputs(found)


def test_a_folded_polynomial_is_swapped_as_one_filter():
    model, args, kwargs, _ = ready("appnp")
    lc = lc_transform(model, *args, **kwargs, fold=True)
    with torch.no_grad():
        mine = lc.module(*lc.precompute(*args, **kwargs))
    torch.testing.assert_close(all_swapped(lc), mine, rtol=1e-5, atol=1e-6)


def test_exact_biases_make_no_difference():
    model = randomised(Layers(*gcn(), activation=lambda h: h)).double()
    lc = lc_transform(model, random_graph(), features(), bias="exact")
    assert lc.drift().relative < 1e-6
    assert lc.drift().operations == []
    outside = lc_transform(model, random_graph(), features()).drift()
    assert outside.relative > 0.01
    (entry,) = outside.operations
    assert entry.kind == "bias"
    assert entry.relative == pytest.approx(outside.relative)


def test_the_operation_that_makes_the_difference_is_first():
    """A mean has rows that sum to one: it commutes with a bias."""
    model = randomised(Layers(*gcn(norm="right"))).double()
    found = lc_transform(model, random_graph(), features()).drift()
    assert [entry.kind for entry in found.operations] == ["non-linear", "bias"]
    assert found.operations[0].relative == pytest.approx(found.relative)
    assert found.operations[1].relative < 1e-9
    text = str(found)
    assert "argmax agrees for" in text
    assert "non-linear: relu" in text
    assert "all 60 nodes" in text


def test_each_operation_has_the_change_of_its_own_step():
    """From the output to the inputs: first the ReLU, then the bias."""
    g, x = dgl.add_self_loop(random_graph()), features()
    model = randomised(Layers(*gcn())).double()
    lc = lc_transform(model, g, x)
    one, two = model.convs

    def filtered(h):
        out = g.out_degrees().to(h).unsqueeze(1) ** -0.5
        into = g.in_degrees().to(h).unsqueeze(1) ** -0.5
        return dgl.ops.copy_u_sum(g, h * out) * into

    def after(h):
        return h @ two.weight + two.bias

    with torch.no_grad():
        h = filtered(x) @ one.weight
        steps = [
            after(filtered(torch.relu(h + one.bias))),
            after(torch.relu(filtered(h + one.bias))),
            after(torch.relu(filtered(h) + one.bias)),
        ]
        torch.testing.assert_close(steps[0], model(g, x))
    size = steps[0].norm()
    relu = float((steps[1] - steps[0]).norm() / size)
    bias = float((steps[2] - steps[1]).norm() / size)
    found = {entry.kind: entry.relative for entry in lc.drift().operations}
    assert found == pytest.approx({"non-linear": relu, "bias": bias})


def test_a_sample_of_a_larger_graph():
    g = dgl.add_self_loop(dgl.rand_graph(5000, 10_000))
    x = torch.randn(5000, IN)
    model = randomised(Layers(*gcn())).double()
    lc = lc_transform(model, g, x)
    found = lc.drift(samples=40)
    assert found.nodes == 40
    assert 40 < found.neighbours < 2000
    assert found.hops == 2
    assert "40 of 5,000 nodes" in str(found)
    assert lc.drift(samples=40) == found
    with torch.no_grad():
        its, mine = model(g, x), lc.module(*lc.precompute(g, x))
    whole = float((mine - its).norm() / its.norm())
    assert found.relative == pytest.approx(whole, rel=0.5)


def test_a_sample_is_drawn_from_all_nodes():
    """The first nodes have no neighbours, and nothing differs there."""
    u, v = torch.randint(500, 2000, (2, 6000))
    g = dgl.add_self_loop(dgl.graph((u, v), num_nodes=2000))
    model = randomised(Layers(*gcn())).double()
    lc = lc_transform(model, g, torch.randn(2000, IN))
    assert lc.drift(nodes=torch.arange(40)).relative < 1e-9
    assert lc.drift(samples=40).relative > 0.01


def test_too_large_neighbourhoods_are_those_of_fewer_nodes(monkeypatch):
    g = dgl.add_self_loop(dgl.rand_graph(5000, 10_000))
    lc = lc_transform(Layers(*gcn()).double(), g, torch.randn(5000, IN))
    monkeypatch.setattr(neighbourhoods, "MAX_NODES", 100)
    found = lc.drift(samples=64)
    assert 1 <= found.nodes <= 32
    assert found.neighbours <= 100
    for limit, number in (("MAX_EDGES", 200), ("MAX_BYTES", 30_000)):
        with monkeypatch.context() as patch:
            patch.setattr(neighbourhoods, "MAX_NODES", 200_000)
            patch.setattr(neighbourhoods, limit, number)
            assert 1 <= lc.drift(samples=64).nodes <= 32
    monkeypatch.setattr(neighbourhoods, "MAX_NODES", 0)
    with pytest.raises(DGLError, match="too large"):
        lc.drift(samples=64)


def test_the_report_measures_when_asked_and_again_after_training():
    model, args, kwargs, lc = transformed("gcn_two_layers")
    assert "drift" not in str(lc.report)
    first = lc.report.drift
    assert lc.report.drift is first
    assert str(first) in str(lc.report)
    optimizer = torch.optim.SGD(lc.module.parameters(), lr=0.1)
    lc.module(*lc.precompute(*args, **kwargs)).sum().backward()
    optimizer.step()
    assert "drift" not in str(lc.report)
    second = lc.report.drift
    relative, _, _ = expected(model, args, kwargs, lc)
    assert second.relative == pytest.approx(relative)
    assert second.relative != first.relative


def test_a_copy_is_compared_with_its_own_parameters():
    model, _, _, lc = transformed("gcn_two_layers", copy=True)
    before = lc.drift()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert lc.drift() == before


def test_measuring_leaves_the_mode_alone():
    _, _, _, lc = transformed("gcn_batch_norm_residual")
    lc.module.train()
    lc.drift()
    assert all(part.training for part in lc.module.modules())


def test_batch_norm_and_dropout_are_those_of_evaluation():
    _, _, _, lc = transformed("gcn_batch_norm_residual")
    lc.module.train()
    assert lc.drift() == lc.drift()


def test_no_classes_no_agreement():
    model = model_of(lambda self, g, x: self.conv(g, self.fc(x).relu())[:, 0])
    lc = lc_transform(model, random_graph(), features())
    assert lc.drift().agreement is None
    assert "argmax" not in str(lc.drift())


def test_other_arguments_than_the_models_are_refused():
    _, (g, x), _, lc = transformed("gcn_two_layers")
    with pytest.raises(LCError, match="drift: is called with another"):
        lc.drift(g, x[:, :2])
    with pytest.raises(DGLError):
        lc.drift(nodes=torch.tensor([99]))


def test_many_operations_are_grouped():
    convs = [dglnn.GraphConv(IN, IN) for _ in range(12)]
    model = Layers(*convs, dglnn.GraphConv(IN, OUT), activation=nn.Tanh())
    lc = lc_transform(model.double(), random_graph(), features())
    found = lc.drift()
    assert len(found.operations) <= 16
    assert sum(entry.count for entry in found.operations) == 24
    # The names are those of the first one: a bias, and the tanh after it.
    assert {entry.kind for entry in found.operations} == {"bias"}
    where = {entry.submodule for entry in found.operations}
    assert where == {f"convs.{number}" for number in range(12)}
    assert "that follow" in str(found)


def test_a_model_made_in_inference_mode_is_compared():
    with torch.inference_mode():
        model = Layers(*gcn()).double()
    g = dgl.add_self_loop(random_graph())
    assert lc_transform(model, g, features()).report.drift.relative > 0
