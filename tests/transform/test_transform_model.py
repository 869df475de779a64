"""The call of lc_transform, its options, and what it leaves alone."""

import copy

import dgl
import pytest
import torch
import torch.nn.functional as F
from dgl import nn as dglnn
from torch import nn
from transform.zoo import (
    HID,
    IN,
    OUT,
    TAKEN,
    Layers,
    features,
    gcn,
    looped_graph,
    model_of,
    random_graph,
    randomised,
    transform_body,
)

from dgl_lc import LCError, lc_transform

pytestmark = pytest.mark.usefixtures("double_precision")


def test_fold_makes_one_filter_of_appnp():
    graph, feat = looped_graph(), features()
    model = TAKEN["appnp"].make().model.double().eval()
    lc = lc_transform(model, graph, feat, fold=True)
    assert len(lc.inputs) == 1
    assert lc.report.folded == 1
    powers = lc_transform(model, graph, feat).precompute(graph, feat)
    weights = [0.1, 0.09, 0.081, 0.0729, 0.6561]
    expected = sum(w * p for w, p in zip(weights, powers, strict=True))
    (found,) = lc.precompute(graph, feat)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)


def test_exact_bias_is_exact_where_nothing_else_differs():
    g, feat = random_graph(), features()
    model = randomised(Layers(*gcn(), activation=lambda h: h)).double()
    outside = lc_transform(model, g, feat)
    assert not outside.report.exact
    lc = lc_transform(model, g, feat, bias="exact")
    assert lc.report.exact
    found = lc.module(*lc.precompute(g, feat))
    torch.testing.assert_close(found, model(g, feat))
    extra = [entry for entry in lc.inputs if entry.columns == 1]
    assert len(extra) == 1


def test_exact_bias_of_linear_layers():
    feat = features()
    g = random_graph()
    model = TAKEN["sgc_cached_after_mlp"].make().model
    model.body = lambda self, g, x: self.conv(g, self.fc(x))
    randomised(model).double()
    lc = lc_transform(model, g, feat, bias="exact")
    found = lc.module(*lc.precompute(g, feat))
    torch.testing.assert_close(found, model(g, feat))


@pytest.mark.parametrize("heads", [1, 2])
def test_exact_bias_of_more_dimensions(heads):
    def body(self, g, x):
        h = self.fc(x).view(-1, heads, HID // heads) + self.b
        return dgl.ops.copy_u_sum(g, h).flatten(1)

    model = model_of(body, b=nn.Parameter(torch.rand(heads, HID // heads)))
    g, x = random_graph(), features()
    lc = lc_transform(model, g, x, bias="exact")
    found = lc.module(*lc.precompute(g, x))
    torch.testing.assert_close(found, model(g, x))


def test_exact_bias_at_no_word():
    def body(self, g, x):
        h = self.fc(x)
        return h + dgl.ops.copy_u_sum(g, h)

    g, x = random_graph(), features()
    model = model_of(body)
    lc = lc_transform(model, g, x, bias="exact")
    found = lc.module(*lc.precompute(g, x))
    torch.testing.assert_close(found, model(g, x))


def test_copy_is_independent():
    graph, feat = looped_graph(), features()
    model = Layers(*gcn()).double()
    lc = lc_transform(model, graph, feat, copy=True)
    inputs = lc.precompute(graph, feat)
    before = lc.module(*inputs)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    torch.testing.assert_close(lc.module(*inputs), before)


def test_shared_parameters_are_trained():
    graph, feat = looped_graph(), features()
    model = Layers(*gcn()).double()
    lc = lc_transform(model, graph, feat)
    lc.module(*lc.precompute(graph, feat)).sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_what_is_not_a_model():
    graph, feat = looped_graph(), features()
    with pytest.raises(LCError, match="Module"):
        lc_transform(torch.relu, graph, feat)
    with pytest.raises(LCError, match="graph"):
        lc_transform(Layers(*gcn()), feat)


def test_the_model_is_left_as_it_was():
    graph, feat = looped_graph(), features()
    model = TAKEN["gcn_batch_norm_residual"].make().model.double().train()
    before = copy.deepcopy(model.state_dict())
    columns = set(graph.ndata), set(graph.edata)
    state = torch.get_rng_state()
    lc_transform(model, graph, feat)
    assert torch.equal(state, torch.get_rng_state())
    assert (set(graph.ndata), set(graph.edata)) == columns
    assert model.training
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name])


def test_threads_are_as_many_as_before():
    graph, feat = looped_graph(), features()
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        lc_transform(Layers(*gcn()).double(), graph, feat)
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)


def test_inference_mode():
    with torch.inference_mode():
        transform_body(lambda self, g, x: self.conv(g, F.relu(self.fc(x))))


def test_three_layers_are_transformed():
    graph, feat = looped_graph(), features()
    model = Layers(*gcn(layers=3)).double()
    lc_transform(model, graph, feat)


def test_gcnii_of_32_layers_is_transformed():
    graph, feat = looped_graph(), features()
    model = TAKEN["gcnii"].make().model
    model.convs = nn.ModuleList(
        dglnn.GCN2Conv(256, layer=i + 1, alpha=0.1) for i in range(32)
    )
    model.fc_in, model.fc_out = nn.Linear(IN, 256), nn.Linear(256, OUT)
    model.float()
    feat = feat.float()
    lc = lc_transform(model, graph, feat)
    assert len(lc.inputs) == 33


def test_twirls_is_the_model_where_biases_are_zero():
    """Without attention: its diagonals commute with all but a bias."""
    model = randomised(dglnn.TWIRLSConv(IN, OUT, HID, prop_step=3)).double()
    g, x = random_graph(), features()
    lc = lc_transform(model.eval(), g, x)
    assert not lc.report.exact
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
    found = lc.module.eval()(*lc.precompute(g, x))
    torch.testing.assert_close(found, model(g, x))


def test_twirls_with_attention_is_refused():
    model = dglnn.TWIRLSConv(IN, OUT, HID, prop_step=3, attention=True)
    with pytest.raises(LCError):
        lc_transform(model.double(), random_graph(), features())
