"""Options of all models: input dropout, residual of hop 0, normalisation."""

import copy

import pytest
import torch
import torch.nn.functional as F
from dgl import DGLError
from model_cases import HID, IN, OUT, conv, make_feat, make_graph, normalise

from dgl_lc import nn
from dgl_lc.training import load_model, save_model

graph, feat = pytest.fixture(make_graph), pytest.fixture(make_feat)
MODELS = {
    "LCGCN": lambda **o: nn.LCGCN(IN, HID, OUT, num_layers=3, **o),
    "LCJKNet": lambda **o: nn.LCJKNet(IN, HID, OUT, **o),
    "LCJKNet max": lambda **o: nn.LCJKNet(IN, HID, OUT, mode="max", **o),
    "LCGPRGNN": lambda **o: nn.LCGPRGNN(IN, HID, OUT, K=2, **o),
    "LCAPPNP": lambda **o: nn.LCAPPNP(IN, HID, OUT, K=3, **o),
    "LCMixHop": lambda **o: nn.LCMixHop(IN, HID, OUT, p=(1, 2), **o),
    "LCH2GCN": lambda **o: nn.LCH2GCN(IN, HID, OUT, K=1, **o),
    "SIGN": lambda **o: nn.SIGN(IN, HID, OUT, K=2, **o),
    "SGC": lambda **o: nn.SGC(IN, OUT, K=2, **o),
    "FSGNN": lambda **o: nn.FSGNN(IN, HID, OUT, K=1, **o),
}
EVERY = pytest.mark.parametrize("name", MODELS)
HIDDEN = pytest.mark.parametrize(
    "name", [name for name in MODELS if name not in ("SGC", "FSGNN")]
)
#: LCMixHop has had an input dropout of its own, which stays.
DROPPED = pytest.mark.parametrize(
    "name", [name for name in MODELS if name != "LCMixHop"]
)
KINDS = pytest.mark.parametrize("kind", ["batch", "layer"])


def made(name, **options):
    torch.manual_seed(1)
    model = MODELS[name](**options).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def places(model, inputs):
    """Plain hops, each at its place, or the inputs of several filters."""
    if isinstance(model, (nn.LCH2GCN, nn.FSGNN)):
        return inputs
    found = [None] * (model.hops[-1] + 1)
    for hop, rows in zip(model.hops, inputs, strict=True):
        found[hop] = rows
    return found


@EVERY
def test_without_options_nothing_is_added(name):
    torch.manual_seed(3)
    model = MODELS[name]()
    torch.manual_seed(3)
    other = MODELS[name](input_dropout=0.5)
    assert list(model.state_dict()) == list(other.state_dict())
    torch.manual_seed(3)
    with_residual = MODELS[name](residual=True).state_dict()
    added = set(with_residual) - set(model.state_dict())
    assert added == {"front.residual.weight"}
    for key, value in model.state_dict().items():
        assert torch.equal(with_residual[key], value)
    assert "residual" not in model.config
    assert name == "FSGNN" or "normalization" not in model.config


@EVERY
def test_a_residual_adds_a_map_of_hop_0_to_every_hop(name, graph, feat):
    model = made(name, residual=True).eval()
    assert model.hops[0] == 0
    inputs = list(model.precompute(graph, feat))
    assert len(inputs) == model.num_inputs
    bare = MODELS[name]().double().eval()
    state = model.state_dict()
    matrix = state.pop("front.residual.weight")
    bare.load_state_dict(state)
    shifted = [rows + feat @ matrix.T for rows in inputs]
    given = places(model, shifted)
    torch.testing.assert_close(model(graph, feat), bare(None, given))
    torch.testing.assert_close(model(None, places(model, inputs)),
                               bare(None, given))  # fmt: skip
    # At first the model is the one without.
    model.front.reset_parameters()
    torch.testing.assert_close(model(graph, feat), bare(graph, feat))
    model(graph, feat).square().sum().backward()
    assert model.front.residual.weight.grad.abs().max() > 0


@DROPPED
def test_input_dropout_is_that_of_the_features(name, graph, feat):
    model = made(name, input_dropout=1.0)
    inputs = model.precompute(graph, feat)
    nothing = MODELS[name]().double()
    nothing.load_state_dict(model.state_dict())
    zeros = inputs.to(torch.float64).rows(torch.arange(13))
    zeros.stack.zero_()
    torch.testing.assert_close(model(None, inputs), nothing(None, zeros))
    # Not in evaluation.
    torch.testing.assert_close(
        model.eval()(None, inputs), nothing.eval()(None, inputs)
    )


def each(norm, stack):
    """Normalise rows of all hops together."""
    flat = torch.cat(list(stack))
    return list(normalise(norm, flat).split(len(stack[0])))


def expected(model, hops):
    """Formulas with the norm before each activation; hops in order."""
    kind = type(model).__name__
    relu, norms = F.relu, model.hidden_norms
    if kind == "LCGCN":
        h = hops[0]
        for number, layer in enumerate(model.layers):
            if number:
                h = relu(normalise(norms[number - 1], h))
            h = conv(layer, h)
        return h
    if kind == "LCJKNet":
        rows, ends = hops, []
        for number, layer in enumerate(model.layers):
            if number:
                rows = [relu(h) for h in each(norms[number - 1], rows)]
            first, *rows = [layer(h) for h in rows]
            ends.append(first)
        if model.output is None:
            return torch.stack(ends).max(dim=0).values
        return model.output(relu(normalise(norms[-1], torch.cat(ends, 1))))
    if kind in ("LCGPRGNN", "LCAPPNP"):
        rows = hops
        for number, layer in enumerate(model.mlp.layers):
            if number:
                norm = model.mlp.norms[number - 1]
                rows = [relu(h) for h in each(norm, rows)]
            rows = [layer(h) for h in rows]
        weights = model.gamma if kind == "LCGPRGNN" else model.theta
        return sum(w * h for w, h in zip(weights, rows, strict=True))
    if kind == "LCMixHop":
        # Hops 2, 3 and 4; a layer reads hops k + 1 and k + 2.
        rows = dict(zip((2, 3, 4), hops, strict=True))
        for number, needed in enumerate([(1, 2), (0,)]):
            layer = model.layers[number]
            found = [
                torch.cat([layer[str(q)](rows[k + q]) for q in (1, 2)], 1)
                for k in needed
            ]
            found = map(torch.tanh, each(norms[number], found))
            rows = dict(zip(needed, found, strict=True))
        return model.output(rows[0])
    if kind == "LCH2GCN":
        rows = each(norms[0], [model.embedding(h) for h in hops])
        return model.output(torch.cat([relu(h) for h in rows], 1))
    assert kind == "SIGN"
    rows = [layer(h) for layer, h in zip(model.layers, hops, strict=True)]
    return model.output(relu(normalise(norms[0], torch.cat(rows, 1))))


@HIDDEN
@KINDS
def test_norms_come_before_activations(name, kind, graph, feat):
    model = made(name, normalization=kind)
    inputs = model.precompute(graph, feat)
    for training in (True, False):
        model.train(training)
        wanted = expected(model, list(inputs))
        torch.testing.assert_close(model(None, inputs), wanted)
    # Training has moved the running statistics.
    moved = [
        buffer for key, buffer in model.named_buffers() if "mean" in key
    ]  # fmt: skip
    assert len(moved) > 0 or kind == "layer"
    assert all(buffer.abs().max() > 0 for buffer in moved)


@HIDDEN
@KINDS
@pytest.mark.parametrize("rows", [0, 1])
def test_one_row_and_no_rows_can_be_trained_on(name, kind, rows, graph, feat):
    model = made(name, normalization=kind, residual=True)
    batch = model.precompute(graph, feat).rows(torch.arange(rows))
    found = model(None, batch)
    assert found.shape == (rows, OUT)
    found.sum().backward()


@HIDDEN
@KINDS
def test_options_are_saved_and_reset(name, kind, tmp_path, graph, feat):
    options = {"normalization": kind, "residual": True, "input_dropout": 0.25}
    model = made(name, **options).float().eval()
    assert options.items() <= model.config.items()
    save_model(model, tmp_path / "model.pt")
    again = load_model(tmp_path / "model.pt")
    assert again.config == model.config
    x = feat.float()
    assert torch.equal(again(graph, x), model(graph, x))
    twin = copy.deepcopy(model)
    assert torch.equal(twin(graph, x), model(graph, x))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(7.0)
    model.reset_parameters()
    for key, parameter in model.named_parameters():
        assert not (parameter == 7.0).any(), key


@pytest.mark.parametrize(
    ("make_it", "message"),
    [
        (lambda: nn.LCGCN(3, 3, 3, normalization="up"), "normalization='up'"),
        (lambda: nn.SGC(3, 3, normalization="batch"), "no hidden layers"),
        (
            lambda: nn.LCMixHop(
                3, 3, 3, batchnorm=True, normalization="batch"
            ),
            "one of both",
        ),
        (
            lambda: nn.FSGNN(3, 3, 3, K=1, select=[1], residual=True),
            "leaves out input 0",
        ),
    ],
)  # fmt: skip
def test_wrong_options_are_named(make_it, message):
    with pytest.raises(DGLError, match=message):
        make_it()
    with pytest.raises(TypeError, match="dropuot"):
        nn.LCGCN(3, 3, 3, dropuot=0.5)
