"""Whole models on plain hop tensors, against their formulas."""

import copy

import pytest
import torch
from dgl import DGLError
from torch import nn

import dgl_lc.nn
from dgl_lc import block_aggregate
from dgl_lc.nn import plain
from dgl_lc.nn.plain.model_on_hops import stack_hops
from dgl_lc.testing.random_graphs import make_features

N, IN, HID, OUT = 11, 5, 6, 3
relu = torch.relu
MODELS = {
    "LCGCN": lambda kind: kind(IN, HID, OUT, 3),
    "LCGCN of one layer": lambda kind: kind(IN, HID, OUT, 1),
    "LCJKNet": lambda kind: kind(IN, HID, OUT),
    "LCJKNet of the maximum": lambda kind: kind(IN, HID, OUT, 2, "max"),
    "LCGPRGNN": lambda kind: kind(IN, HID, OUT, K=3),
    "LCGPRGNN of two layers": lambda kind: kind(IN, HID, OUT, 2, 2, 0.3),
    "LCAPPNP": lambda kind: kind(IN, HID, OUT, K=4, alpha=0.2),
    "LCMixHop": lambda kind: kind(IN, HID, OUT, p=(0, 1, 3)),
    "SGC": lambda kind: kind(IN, OUT, K=3),
    "SIGN": lambda kind: kind(IN, HID, OUT, K=2),
}
EVERY = pytest.mark.parametrize("name", MODELS)


def make(name, package=plain):
    torch.manual_seed(1)
    made = MODELS[name](getattr(package, name.split()[0]))
    # Biases and coefficients that are not what they start as.
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return made.double().eval()


@pytest.fixture
def hops():
    """Seven random matrices: a model does not know where hops come from."""
    generator = torch.Generator().manual_seed(2)
    return list(torch.randn(7, N, IN, generator=generator).double())


def linear(layer, h):
    return h @ layer.weight.T + (0 if layer.bias is None else layer.bias)


def mlp(module, h):
    for number, layer in enumerate(module.layers):
        h = linear(layer, h.clamp(min=0) if number else h)
    return h


def expected_output(model, hops):
    """The formula of the class's docstring, written out."""
    kind = type(model).__name__
    if kind == "LCGCN":
        h = hops[len(model.layers)]
        for number, layer in enumerate(model.layers):
            h = (relu(h) if number else h) @ layer.weight + layer.bias
        return h
    if kind == "LCJKNet":
        branches = []
        for k in range(1, len(model.layers) + 1):
            h = hops[k]
            for number, layer in enumerate(model.layers[:k]):
                h = linear(layer, relu(h) if number else h)
            branches.append(h)
        if model.output is None:
            return torch.stack(branches).max(dim=0).values
        return linear(model.output, relu(torch.cat(branches, 1)))
    if kind == "LCGPRGNN":
        return sum(
            weight * mlp(model.mlp, h)
            for weight, h in zip(model.gamma, hops, strict=False)
        )
    if kind == "LCAPPNP":
        theta = [0.2 * 0.8**k for k in range(4)] + [0.8**4]
        return sum(
            weight * mlp(model.mlp, h)
            for weight, h in zip(theta, hops, strict=False)
        )
    if kind == "LCMixHop":

        def at(layer, k):
            if layer == 0:
                return hops[k]
            parts = model.layers[layer - 1]
            return torch.cat(
                [
                    torch.tanh(linear(parts[str(p)], at(layer - 1, k + p)))
                    for p in (0, 1, 3)
                ],
                1,
            )

        return linear(model.output, at(2, 0))
    if kind == "SGC":
        return linear(model.fc, hops[3])
    assert kind == "SIGN"
    found = [linear(layer, hops[k]) for k, layer in enumerate(model.layers)]
    return linear(model.output, relu(torch.cat(found, 1)))


@EVERY
def test_output_is_that_of_the_formula(name, hops):
    model = make(name)
    tolerance = {"rtol": 1e-6, "atol": 1e-7}  # theta is of float32
    torch.testing.assert_close(
        model(None, hops), expected_output(model, hops), **tolerance
    )


@EVERY
def test_all_forms_of_plain_hops_give_one_output(name, hops):
    model = make(name)
    expected = model(None, hops)
    needed = [hop if k in model.hops else None for k, hop in enumerate(hops)]
    short = needed[: model.hops[-1] + 1]
    for feat in (tuple(hops), torch.stack(hops), needed, short):
        assert torch.equal(model(None, feat), expected)
    ids = torch.tensor([7, 0, 7])
    batch = [hop if hop is None else hop[ids] for hop in needed]
    torch.testing.assert_close(model(None, batch), expected[ids])
    torch.testing.assert_close(
        model(None, torch.stack(hops)[:, ids]), expected[ids]
    )


@EVERY
def test_with_hop_features_it_is_the_same_class(name, small_graph):
    model, thin = make(name), make(name, dgl_lc.nn)
    assert isinstance(thin, type(model))
    assert list(thin.state_dict()) == list(model.state_dict())
    thin.load_state_dict(model.state_dict())
    x = make_features(small_graph.num_nodes(), IN, dtype=torch.float64)
    hops = block_aggregate(small_graph, x, model.hops[-1])
    expected = model(None, list(hops))
    torch.testing.assert_close(thin(None, hops), expected)
    torch.testing.assert_close(thin(small_graph, x), expected)
    assert torch.equal(thin(None, list(hops)), expected)


@EVERY
def test_a_seed_gives_the_parameters_of_the_other_layer(name):
    states = []
    for package in (plain, dgl_lc.nn):
        torch.manual_seed(3)
        model = MODELS[name](getattr(package, name.split()[0]))
        states.append(model.state_dict())
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])


@EVERY
def test_a_copy_is_independent_and_a_state_loads(name, hops):
    model = make(name)
    expected = model(None, hops)
    again = copy.deepcopy(model)
    assert torch.equal(again(None, hops), expected)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert torch.equal(again(None, hops), expected)
    assert not torch.equal(model(None, hops), expected)
    model.load_state_dict(again.state_dict())
    assert torch.equal(model(None, hops), expected)


@EVERY
def test_every_parameter_gets_a_gradient(name, hops):
    model = make(name)
    model(None, hops).square().sum().backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None, key
        assert parameter.grad.abs().sum() > 0, key


@EVERY
def test_dropout_is_torchs_own(name):
    kinds = {type(m) for m in make(name).modules()}
    thin = {type(m) for m in make(name, dgl_lc.nn).modules()}
    assert dgl_lc.nn.dropout.Dropout not in kinds
    assert nn.Dropout not in thin


@EVERY
def test_hops_of_fewer_bits_are_computed_with_the_models(name, hops):
    model = make(name)
    halves = [hop.half() for hop in hops]
    found = model(None, halves)
    assert found.dtype == torch.float64
    assert torch.equal(found, model(None, [hop.double() for hop in halves]))


@EVERY
def test_wrong_input_is_named(name, hops):
    model = make(name)
    last = model.hops[-1]
    with pytest.raises(DGLError, match=rf"{last} are|{last}\] are"):
        model(None, hops[:last])
    with pytest.raises(DGLError, match=rf"{last} are|{last}\] are"):
        model(None, torch.stack([*hops[:last], hops[0]])[:last])
    with pytest.raises(DGLError, match=r"tensor of shape \(11, 5\)"):
        model(None, hops[0])
    with pytest.raises(DGLError, match="got dict"):
        model(None, {})
    with pytest.raises(DGLError, match=r"has 4 columns.*in_feats=5"):
        model(None, [hop[:, :4] for hop in hops])


def test_three_tensors_are_hops_0_to_2(hops):
    model = make("LCJKNet")
    message = r"\[0, 1, 2\].*hops \[1, 2, 3\].*\[None, x1, x2, x3\]"
    for feat in (hops[:3], torch.stack(hops[:3])):
        with pytest.raises(DGLError, match=message):
            model(None, feat)


def test_stacking_a_tensor_does_not_copy(hops):
    stack = torch.stack(hops)
    assert stack_hops(stack, [2, 3]).data_ptr() == stack[2].data_ptr()
    assert stack_hops(hops, [4]).data_ptr() == hops[4].data_ptr()
    assert torch.equal(stack_hops(stack, [1, 4]), stack[[1, 4]])


@pytest.mark.parametrize(
    ("make_it", "message"),
    [
        (lambda: plain.LCJKNet(3, 3, 3, mode="lstm"), "mode='lstm'"),
        (lambda: plain.LCJKNet(3, 3, 3, 0), "num_layers=0"),
        (lambda: plain.LCJKNet(3, 3.5, 3), "hid_feats=3.5"),
        (lambda: plain.LCGPRGNN(3, 3, 3, K=-1), "K=-1"),
        (lambda: plain.LCGPRGNN(3, 3, 3, K=1.5), "K=1.5"),
        (lambda: plain.LCGPRGNN(3, 3, 3, alpha=2), "alpha=2"),
        (lambda: plain.LCGPRGNN(3, 3, 3, num_layers=True), "num_layers=True"),
        (lambda: plain.LCAPPNP(3, 3, 3, alpha=-1), "alpha=-1"),
        (lambda: plain.LCGCN(0, 3, 3), "in_feats=0"),
        (lambda: plain.LCGCN(3, 3, 3, norm="up"), "norm='up'"),
        (lambda: plain.LCMixHop(3, 3, 3, p=(1, 1)), "different powers"),
        (lambda: plain.SGC(3, 3, K="2"), "K='2'"),
        (lambda: plain.SIGN(3, 3, 0), "out_feats=0"),
    ],
)
def test_wrong_arguments_are_named(make_it, message):
    with pytest.raises(DGLError, match=message):
        make_it()


def test_a_users_activation_keeps_its_dropout():
    activation = nn.Sequential(nn.ReLU(), nn.Dropout(0.5))
    model = dgl_lc.nn.LCJKNet(IN, HID, OUT, activation=activation)
    assert type(activation[1]) is nn.Dropout
    assert type(model.dropout) is dgl_lc.nn.dropout.Dropout
