"""Details in which a transformed model could be silently wrong."""

import math

import dgl
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
