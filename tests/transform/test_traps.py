"""Details in which a transformed model could be silently wrong."""

import math
import pickle
import random

import dgl
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from conftest import make_features
from dgl import nn as dglnn
from test_zoo import features, random_graph, randomised
from torch import nn
from zoo import HID, IN, OUT, Function

from dgl_lc import LCError, lc_transform


@pytest.fixture(autouse=True)
def _double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def model_of(body, **parts):
    parts = {
        "fc": nn.Linear(IN, HID),
        "conv": dglnn.GraphConv(HID, OUT, allow_zero_in_degree=True),
        **parts,
    }
    return randomised(Function(body, **parts)).double()


def take(body, **parts):
    return lc_transform(model_of(body, **parts), random_graph(), features())


def test_gradients_stop_where_the_model_stops_them():
    def body(self, g, x):
        with torch.no_grad():
            h = self.fc(x)
        return self.conv(g, h)

    model = model_of(body)
    g, x = random_graph(), features()
    lc = lc_transform(model, g, x)
    lc.module(*lc.precompute(g, x)).sum().backward()
    assert model.fc.weight.grad is None
    assert model.conv.weight.grad is not None


def test_a_change_through_a_view_is_refused():
    def body(self, g, x):
        h = self.fc(x)
        h[:, :3].mul_(2)
        return self.conv(g, h)

    with pytest.raises(LCError, match="in place"):
        take(body)


def test_squeeze_of_a_single_row():
    def body(self, g, x):
        return self.conv(g, F.relu(self.fc(x)).unsqueeze(1).squeeze())

    lc = take(body)
    inputs = lc.precompute(random_graph(), features())
    one = lc.module(*lc.rows(inputs, torch.tensor([3])))
    assert one.shape == (1, OUT)


def test_dropout_does_not_change_its_argument():
    """In evaluation dropout gives back the tensor it was given."""

    def body(self, g, x):
        h = self.fc(x)
        return self.conv(g, h + 2 * self.drop(h))

    model = model_of(body, drop=nn.Dropout(0.5))
    g, x = random_graph(), features()
    lc = lc_transform(model, g, x)
    calls = [n for n in lc.module.graph.nodes if n.target == "drop"]
    assert len(calls) == 1
    (rows,) = calls[0].args
    assert len(rows.users) == 2


def test_static_features_may_be_scaled_by_sizes():
    def body(self, g, x):
        return self.conv(g, self.fc(x / g.num_nodes() ** 0.5))

    model = model_of(body)
    g, x = random_graph(), features()
    lc = lc_transform(model, g, x)
    (rows,) = lc.precompute(g, x)
    plain = dglnn.GraphConv(IN, IN, weight=False, bias=False)
    torch.testing.assert_close(rows, plain(g, x) / 60**0.5)


def test_static_statistics_are_those_of_the_real_features():
    def body(self, g, x):
        return self.conv(g, F.relu(self.fc((x - x.mean(0)) / x.std(0))))

    model = model_of(body)
    g, x = random_graph(), features()
    (rows,) = lc_transform(model, g, x).precompute(g, x)
    plain = dglnn.GraphConv(IN, IN, weight=False, bias=False)
    expected = plain(g, (x - x.mean(0)) / x.std(0))
    torch.testing.assert_close(rows, expected)


@pytest.mark.parametrize("n", [40, 150, 300])
def test_hidden_branches_around_a_small_graphs_size(n):
    """Nobody sees the comparison, but probes lie on both sides."""

    def body(self, g, x):
        h = self.fc(x)
        return self.conv(g, h if math.log(g.num_nodes()) > 5 else 2 * h)

    model = model_of(body)
    g, x = random_graph(n, 4 * n), features(n)
    try:
        lc = lc_transform(model, g, x)
    except LCError as error:
        assert "size or the degrees" in str(error)  # noqa: PT017
        return
    one = dgl.add_self_loop(dgl.graph(([], []), num_nodes=n))
    found = lc.module(*lc.precompute(one, x))
    torch.testing.assert_close(found, model(one, x))


@pytest.mark.parametrize(
    ("name", "mix"),
    [
        ("cumsum", lambda h: torch.cumsum(h, 0)),
        ("roll", lambda h: torch.roll(h, 1, 0)),
        ("sort", lambda h: torch.sort(h, 0).values),
        ("flip", lambda h: h.flip(0)),
        ("normalize", lambda h: F.normalize(h, dim=0)),
        ("softmax", lambda h: F.softmax(h, dim=0)),
        ("gather", lambda h: h[torch.arange(h.shape[0]).flip(0)]),
        ("norm", lambda h: h / h.norm()),
        ("mean", lambda h: h - h.mean(0, keepdim=True)),
        ("attention", lambda h: torch.softmax(h @ h.T, 1) @ h),
        ("layer norm", lambda h: F.layer_norm(h, h.shape)),
        ("flat", lambda h: h.view(-1).relu().view(-1, HID)),
    ],
)
def test_what_mixes_nodes_is_refused(name, mix):
    with pytest.raises(LCError):
        take(lambda self, g, x: self.conv(g, mix(self.fc(x))))


@pytest.mark.parametrize(
    "function",
    [
        F.relu, F.elu, F.gelu, F.silu, F.leaky_relu, torch.tanh,
        torch.sigmoid, F.softplus, F.mish, F.selu, F.hardswish, F.celu,
        lambda h: F.softmax(h, dim=-1), lambda h: F.normalize(h, dim=1),
        lambda h: h.clamp(min=0), lambda h: h * torch.sigmoid(h),
        lambda h: torch.where(h > 0, h, 0.1 * h), lambda h: h**2,
        lambda h: F.layer_norm(h, h.shape[1:]),
        lambda h: h.view(h.shape[0], 2, -1).transpose(1, 2).flatten(1),
        lambda h: torch.cat(h.chunk(2, dim=1), dim=1),
        lambda h: h / (h.norm(dim=1, keepdim=True) + 1e-3),
        lambda h: (h.T * 2).T.abs(), lambda h: h - h.max(1, True).values,
    ],
)  # fmt: skip
def test_row_wise_functions_are_taken(function):
    lc = take(lambda self, g, x: self.conv(g, function(self.fc(x))))
    assert [str(entry) for entry in lc.inputs] == ["S x"]
    assert "permutation" in lc.report.checked or lc.report.exact


def test_one_width_may_be_a_size_of_the_first_probes():
    for width in (53, 59, 61, 67):
        model = model_of(
            lambda self, g, x: self.conv(g, torch.cat([self.fc(x), x], 1)),
            fc=nn.Linear(IN, width - IN),
            conv=dglnn.GraphConv(width, OUT),
        )
        lc = lc_transform(model, random_graph(), features())
        assert len(lc.inputs) == 1


def test_toy_graphs_of_few_nodes():
    g = dgl.add_self_loop(dgl.graph(([0, 1], [1, 2])))
    x = make_features(3, IN, dtype=torch.float64)
    model = model_of(lambda self, g, x: self.conv(g, F.relu(self.fc(x))))
    lc = lc_transform(model, g, x)
    assert lc.module(*lc.precompute(g, x)).shape == (3, OUT)


def test_a_flag_that_is_not_the_training_flag():
    def body(self, g, x):
        h = F.dropout(self.fc(x), 0.5, training=not self.training)
        return self.conv(g, h)

    with pytest.raises(LCError):
        take(body)


def test_state_that_forward_changes_is_refused():
    def body(self, g, x):
        h = self.fc(x)
        self.mean.mul_(0.9).add_(h.detach().mean(0))
        return self.conv(g, h - self.mean)

    model = model_of(body)
    model.register_buffer("mean", torch.zeros(HID))
    with pytest.raises(LCError, match="in place"):
        lc_transform(model, random_graph(), features())


def test_what_should_not_decay_is_known_to_the_module():
    model = model_of(lambda self, g, x: self.conv(g, self.fc(x)))
    model.no_weight_decay = frozenset({"fc.weight"})
    lc = lc_transform(model, random_graph(), features())
    assert lc.module.no_weight_decay == {"fc.weight"}


def test_a_number_the_model_holds_is_no_row_of_a_single_node():
    g = dgl.graph(([0, 0], [0, 0]))
    model = dglnn.GINConv(nn.Linear(IN, OUT, bias=False), init_eps=0.3)
    x = make_features(1, IN, dtype=torch.float64)
    lc = lc_transform(model.double(), g, x)
    assert lc.report.exact
    torch.testing.assert_close(lc.module(*lc.precompute(g, x)), model(g, x))


# What the checks of values alone would not notice


def weighted_graph():
    g = random_graph()
    generator = torch.Generator().manual_seed(3)
    g.edata["w"] = torch.rand(g.num_edges(), generator=generator)
    return g


def test_edge_features_assigned_before_a_graph_is_derived():
    def body(self, g, x):
        with g.local_scope():
            g.edata["w"] = 3 * g.edata["w"]
            looped = dgl.add_self_loop(g, edge_feat_names=["w"])
            return dgl.ops.u_mul_e_sum(
                looped, F.relu(self.fc(x)), looped.edata["w"]
            )

    with pytest.raises(LCError, match="edge features made in forward"):
        lc_transform(model_of(body), weighted_graph(), features())


def test_edge_features_of_a_derived_graph():
    def body(self, g, x):
        g = dgl.add_self_loop(g=g, edge_feat_names=["w"], fill_data=2.0)
        return dgl.ops.u_mul_e_sum(g, self.fc(x), g.edata["w"])

    model = model_of(body, fc=nn.Linear(IN, OUT, bias=False))
    g, x = weighted_graph(), features()
    lc = lc_transform(model, g, x)
    found = lc.module(*lc.precompute(g, x))
    torch.testing.assert_close(found, model(g, x))


def test_parameters_swapped_for_a_call():
    def body(self, g, x):
        doubled = {k: 2 * p for k, p in self.fc.named_parameters()}
        h = torch.func.functional_call(self.fc, doubled, (x,))
        return dgl.ops.u_mul_e_sum(g, F.relu(h), g.edata["w"])

    model = model_of(body)
    g, x = weighted_graph(), features()
    try:
        lc = lc_transform(model, g, x)
    except LCError:
        return
    bare = lc.module(*(torch.zeros_like(rows) for rows in lc.precompute(g, x)))
    twice = F.relu(2 * model.fc.bias).expand_as(bare)
    torch.testing.assert_close(bare, twice)


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, d):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return d * (s + x * s * (1 - s))


def test_a_gradient_of_ones_own():
    with pytest.raises(LCError, match="custom autograd function"):
        take(lambda self, g, x: self.conv(g, Swish.apply(self.fc(x))))


def test_hooks_on_tensors():
    def body(self, g, x):
        h = self.fc(x)
        if h.requires_grad:
            h.register_hook(lambda d: 0 * d)
        return self.conv(g, h)

    with pytest.raises(LCError, match="register_hook"):
        take(body)


def test_the_real_part_has_a_gradient():
    lc = take(lambda self, g, x: self.conv(g, self.fc(x).real))
    lc.module(*lc.precompute(random_graph(), features())).sum().backward()
    assert lc.module.fc.weight.grad.abs().sum() > 0


def test_dropout_by_position():
    lc = take(
        lambda self, g, x: self.conv(
            g, torch.dropout(self.fc(x), 0.5, self.training)
        )
    )
    inputs = lc.precompute(random_graph(), features())
    lc.module.train()
    assert not torch.equal(lc.module(*inputs), lc.module(*inputs))
    lc.module.eval()
    assert torch.equal(lc.module(*inputs), lc.module(*inputs))


@pytest.mark.parametrize("cut", [
    lambda h: torch.cat([F.relu(part) for part in h.split(1000)]),
    lambda h: torch.cat(torch.chunk(h, 1)), lambda h: h[:1000],
    lambda h: h[0:, :2], lambda h: h.narrow(0, 0, 41),
])  # fmt: skip
def test_pieces_of_the_nodes(cut):
    g = dgl.add_self_loop(random_graph())
    for body in (
        lambda self, g, x: cut(self.conv(g, self.fc(x))),
        lambda self, g, x: self.conv(g, self.fc(cut(x))),
    ):
        with pytest.raises(LCError, match="takes some of the rows"):
            lc_transform(model_of(body), g, features())


def test_pieces_of_the_columns():
    take(
        lambda self, g, x: torch.cat(
            [self.conv(g, self.fc(x))[:, :2], *self.fc(x).split(2, dim=1)],
            dim=1,
        )
    )


@pytest.mark.parametrize("number", [
    lambda n: round(n / 1000), lambda n: int(n / 1000), lambda n: n >> 10,
    lambda n: divmod(n, 1000)[0], lambda n: math.ceil(n / 5000),
    lambda n: math.floor(n / 1000), lambda n: round(math.log10(n)),
    lambda n: math.isqrt(n) // 30, lambda n: int(math.sqrt(n)) // 30,
    lambda n: n & 1024,
])  # fmt: skip
def test_sizes_that_become_small_numbers(number):
    """Equal on all probes, and another number on a larger graph."""
    body = lambda self, g, x: self.conv(g, x) * (number(g.num_nodes()) + 1)  # noqa: E731
    conv = dglnn.GraphConv(IN, OUT, bias=False, allow_zero_in_degree=True)
    model = model_of(body, conv=conv)
    g = random_graph(3000, 9000)
    x = make_features(3000, IN, dtype=torch.float64)
    try:
        lc = lc_transform(model, g, x)
    except LCError:
        return
    found = lc.module(*lc.precompute(g, x))
    torch.testing.assert_close(found, model(g, x))


@pytest.mark.parametrize("draw", [random.random, np.random.rand])
def test_random_numbers_of_others(draw):
    def body(self, g, x):
        h = self.fc(x)
        return self.conv(g, h if draw() < 0.5 else F.relu(h))

    for _ in range(5):
        with pytest.raises(LCError, match="random numbers of Python"):
            take(body)


# Calling precompute otherwise than lc_transform


def test_one_graph_for_two():
    def body(self, a, b, x):
        return self.conv(a, self.fc(x)) + self.conv(b, self.fc(x))

    g = random_graph()
    lc = lc_transform(model_of(body), g, g, features())
    lc.precompute(g, g, features())
    with pytest.raises(LCError, match="another argument"):
        lc.precompute(g, random_graph(seed=7), features())


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = dglnn.GraphConv(IN, OUT, allow_zero_in_degree=True)

    def forward(self, g, x, alpha=1.0):
        return alpha * self.conv(g, x)


def test_plain_arguments_that_change():
    g, x = random_graph(), features()
    lc = lc_transform(Scaled(), g, x, alpha=0.5)
    lc.precompute(g, x, alpha=0.5)
    lc.precompute(g, x, 0.5)
    with pytest.raises(LCError, match=r"alpha, which was 0\.5 and is 2\.0"):
        lc.precompute(g, x, alpha=2.0)
    with pytest.raises(LCError, match=r"width \(9,\)"):
        lc.precompute(g, x.repeat(1, 2)[:, :9], alpha=0.5)


def test_features_that_the_graph_lacks():
    g, x = random_graph(), features()
    g.ndata["n"] = torch.rand(g.num_nodes(), 1)
    model = model_of(lambda self, g, x: self.conv(g, self.fc(x * g.ndata["n"])))
    lc = lc_transform(model, g, x)
    with pytest.raises(LCError, match=r"ndata\['n'\]: does not exist"):
        lc.precompute(random_graph(), x)


def test_a_graph_with_one_format():
    conv = dglnn.GraphConv(HID, OUT, norm="right", allow_zero_in_degree=True)
    model = model_of(
        lambda self, g, x: self.conv(g, F.relu(self.fc(x))), conv=conv
    )
    g, x = random_graph().formats("csc"), features()
    lc = lc_transform(model, g, x)
    (found,) = lc.precompute(g, x)
    torch.testing.assert_close(found, dgl.ops.copy_u_mean(g, x))


# Claims of exactness


@pytest.mark.parametrize("bend", [
    lambda h: h.clamp(-100, 100), lambda h: F.hardtanh(h, -50, 50),
    lambda h: F.softshrink(h, 1e-4), lambda h: torch.round(h, decimals=5),
    lambda h: h + 1e-6, torch.sqrt, torch.log1p,
])  # fmt: skip
def test_what_bends_out_of_sight_is_not_linear(bend):
    lc = take(
        lambda self, g, x: self.conv(g, bend(self.fc(x))),
        fc=nn.Linear(IN, HID, bias=False),
    )
    assert not lc.report.exact


@pytest.mark.parametrize("scale", [1e-5, 1.0, 1e5])
def test_a_bias_beside_large_and_small_features(scale):
    model = model_of(lambda self, g, x: self.conv(g, self.fc(x)))
    assert not lc_transform(
        model, random_graph(), scale * features()
    ).report.exact


@pytest.mark.parametrize("scale", [1e-5, 1.0, 1e5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_linear_models_are_exact_at_any_scale(scale, dtype):
    model = model_of(
        lambda self, g, x: self.conv(g, 0.5 * self.fc(x)),
        fc=nn.Linear(IN, HID, bias=False),
        conv=dglnn.GraphConv(HID, OUT, bias=False, allow_zero_in_degree=True),
    ).to(dtype)
    x = (scale * features()).to(dtype)
    assert lc_transform(model, random_graph(), x).report.exact


# Models that qualify


@pytest.mark.parametrize("name", ["class", "1", "-", "self", "torch", "特"])
def test_features_of_any_name(name):
    g = random_graph()
    g.ndata[name] = features()
    lc = lc_transform(
        model_of(lambda self, g: torch.tanh(self.fc(g.ndata[name]))), g
    )
    assert lc.module(*lc.precompute(g)).shape == (60, HID)


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


def test_a_state_carried_from_layer_to_layer():
    def body(self, g, x):
        x, state = self.fc(x), None
        for _ in range(2):
            h = torch.tanh(dgl.ops.copy_u_sum(g, x)).unsqueeze(0)
            x, state = self.lstm(h, state)
            x = x[0]
        return x

    assert len(take(body, lstm=nn.LSTM(HID, HID)).inputs) == 2


def test_features_that_are_not_finite():
    x = features()
    x[3, 1], x[5, 2] = torch.nan, torch.inf
    model = model_of(lambda self, g, x: self.conv(g, F.relu(self.fc(x))))
    lc_transform(model, random_graph(), x)


def test_bfloat16():
    model = model_of(lambda self, g, x: self.conv(g, F.relu(self.fc(x))))
    lc_transform(model.bfloat16(), random_graph(), features().bfloat16())


def test_inference_mode():
    with torch.inference_mode():
        take(lambda self, g, x: self.conv(g, F.relu(self.fc(x))))


def test_features_in_a_list():
    def body(self, g, feats):
        return self.conv(g, self.fc(feats[0] + feats[1]))

    g, x = random_graph(), features()
    lc = lc_transform(model_of(body), g, feats=[x, 2 * x])
    lc.precompute(g, feats=[x, x.clone()])


# Modules


@pytest.mark.parametrize("training", [True, False])
def test_a_pickled_module_knows_training(training):
    lc = take(
        lambda self, g, x: self.conv(
            g, F.dropout(self.fc(x), 0.5, self.training)
        )
    )
    inputs = lc.precompute(random_graph(), features())
    lc.module.train(training)
    again = pickle.loads(pickle.dumps(lc.module))
    assert again.training is training
    assert list(again.state_dict()) == list(lc.module.state_dict())
    again.eval()
    lc.module.eval()
    assert torch.equal(again(*inputs), lc.module(*inputs))
    again.train()
    assert not torch.equal(again(*inputs), again(*inputs))


def test_rows_by_name():
    lc = take(lambda self, g, x: self.conv(g, F.relu(self.fc(x))))
    (rows,) = lc.precompute(random_graph(), features())
    named = lc.module(**{lc.inputs[0].name: rows})
    assert torch.equal(named, lc.module(rows))


@pytest.mark.parametrize("name", ["meta", "_graph", "recompile", "graph"])
def test_names_that_torch_fx_has_taken(name):
    def body(self, g, x):
        return self.conv(g, getattr(self, name)(x))

    with pytest.raises(LCError, match="fx uses itself"):
        take(body, **{name: nn.Linear(IN, HID)})


def test_a_norm_without_statistics():
    with pytest.raises(LCError, match="running statistics"):
        take(
            lambda self, g, x: self.conv(g, self.norm(self.fc(x))),
            norm=nn.BatchNorm1d(HID, track_running_stats=False),
        )


def test_a_number_of_nodes_is_named():
    with pytest.raises(LCError, match="number from the graph"):
        take(lambda self, g, x: self.conv(g, self.fc(x)) / x.shape[0])


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
