"""Every model against its formula, in dense float64."""

import copy
import gc
import pickle

import dgl
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from conftest import graphs, make_features
from dgl import DGLError
from hypothesis import given, settings
from hypothesis import strategies as st

from dgl_lc import block_aggregate, nn
from dgl_lc.experiments import originals
from dgl_lc.nn import model as model_file
from dgl_lc.testing.reference import dense_filter
from dgl_lc.training import predict

IN, HID, OUT = 5, 6, 3
MODELS = {
    "LCGCN": lambda **o: nn.LCGCN(IN, HID, OUT, num_layers=3, **o),
    "LCJKNet cat": lambda **o: nn.LCJKNet(IN, HID, OUT, **o),
    "LCJKNet max": lambda **o: nn.LCJKNet(IN, HID, OUT, mode="max", **o),
    "LCGPRGNN": lambda **o: nn.LCGPRGNN(IN, HID, OUT, K=3, **o),
    "LCAPPNP": lambda **o: nn.LCAPPNP(IN, HID, OUT, K=4, **o),
    "LCMixHop": lambda **o: nn.LCMixHop(IN, HID, OUT, p=(0, 1, 3), **o),
    "LCH2GCN": lambda **o: nn.LCH2GCN(IN, HID, OUT, **o),
    "SGC": lambda **o: nn.SGC(IN, OUT, K=3, **o),
    "SIGN": lambda **o: nn.SIGN(IN, HID, OUT, K=2, **o),
    "FSGNN": lambda **o: nn.FSGNN(IN, HID, OUT, K=2, **o),
    "FSGNN hidden": lambda **o: nn.FSGNN(
        IN, HID, OUT, K=2, num_layers=3, dropout=0.5, dropout2=0.25, **o
    ),
}
EVERY = pytest.mark.parametrize("name", MODELS)


def make(name, **options):
    torch.manual_seed(1)
    made = MODELS[name](**options)
    # Biases and coefficients that are not what they start as.
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return made.double().eval()


@pytest.fixture
def graph():
    rng = np.random.default_rng(0)
    source, target = rng.integers(0, 12, 40), rng.integers(0, 12, 40)
    return dgl.graph((source, target), num_nodes=13)


@pytest.fixture
def feat():
    return make_features(13, IN, dtype=torch.float64)


def powers(g, x, K, **options):
    matrix = torch.from_numpy(dense_filter(g, **options))
    found = [x]
    for _ in range(K):
        found.append(matrix @ found[-1])
    return found


def conv(layer, h):
    return h @ layer.weight + layer.bias


def mlp(module, h):
    for number, layer in enumerate(module.layers):
        h = layer(F.relu(h) if number else h)
    return h


def expected_output(model, g, x):
    """The formula of the class's docstring, written out."""
    kind = type(model).__name__
    hops = powers(g, x, 6)
    if kind == "LCGCN":
        h = hops[3]
        for number, layer in enumerate(model.layers):
            h = conv(layer, F.relu(h) if number else h)
        return h
    if kind == "LCJKNet":
        branches = []
        for k in (1, 2, 3):
            h = hops[k]
            for number, layer in enumerate(model.layers[:k]):
                h = layer(F.relu(h) if number else h)
            branches.append(h)
        if model.output is None:
            return torch.stack(branches).max(dim=0).values
        return model.output(F.relu(torch.cat(branches, 1)))
    if kind == "LCGPRGNN":
        return sum(model.gamma[k] * mlp(model.mlp, hops[k]) for k in range(4))
    if kind == "LCAPPNP":
        theta = [0.1 * 0.9**k for k in range(4)] + [0.9**4]
        return sum(theta[k] * mlp(model.mlp, hops[k]) for k in range(5))
    if kind == "LCMixHop":

        def at(layer, k):
            if layer == 0:
                return hops[k]
            parts = model.layers[layer - 1]
            return torch.cat(
                [
                    torch.tanh(parts[str(p)](at(layer - 1, k + p)))
                    for p in (0, 1, 3)
                ],
                1,
            )

        return model.output(at(2, 0))
    if kind == "LCH2GCN":
        filters = exact_filters(g)
        inputs = [x, *(f @ x for f in filters)]
        inputs += [a @ b @ x for a in filters for b in filters]
        found = [F.relu(model.embedding(i)) for i in inputs]
        return model.output(torch.cat(found, 1))
    if kind == "SGC":
        return model.fc(hops[3])
    if kind == "SIGN":
        found = [layer(hops[k]) for k, layer in enumerate(model.layers)]
        return model.output(F.relu(torch.cat(found, 1)))
    assert kind == "FSGNN"
    inputs = [*hops[:3], *powers(g, x, 2, self_loop=False)[1:]]
    weights = torch.softmax(model.att, 0)
    if model.hidden is not None:
        weights = 5 * weights
    found = []
    for weight, layer, i in zip(weights, model.layers, inputs, strict=True):
        h = layer(i)
        found.append(weight * h / h.norm(dim=1, keepdim=True))
    h = F.relu(torch.cat(found, 1))
    if model.hidden is not None:
        h = F.relu(model.hidden(h))
    return model.output(h)


def exact_filters(g):
    """Normalised adjacency of nodes exactly one and two steps away."""
    n = g.num_nodes()
    near = np.zeros((n, n), bool)
    source, target = (t.numpy() for t in g.edges(order="srcdst"))
    near[target, source] = True
    near &= ~np.eye(n, dtype=bool)
    far = (near.astype(int) @ near.astype(int)) > 0
    far &= ~near & ~np.eye(n, dtype=bool)
    found = []
    for matrix in (near, far):
        rows = matrix.sum(1, keepdims=True).astype(float)
        columns = matrix.sum(0, keepdims=True).astype(float)
        with np.errstate(divide="ignore"):
            scale = np.where(rows > 0, rows**-0.5, 0) * np.where(
                columns > 0, columns**-0.5, 0
            )
        found.append(torch.from_numpy(matrix * scale))
    return found


@EVERY
def test_output_is_that_of_the_formula(name, graph, feat):
    model = make(name)
    torch.testing.assert_close(
        model(graph, feat), expected_output(model, graph, feat)
    )


@given(g=graphs(max_nodes=20, max_edges=60), name=st.sampled_from([*MODELS]))
@settings(max_examples=40)
def test_output_is_that_of_the_formula_on_any_graph(g, name):
    model = make(name)
    x = make_features(g.num_nodes(), IN, dtype=torch.float64)
    torch.testing.assert_close(model(g, x), expected_output(model, g, x))


@EVERY
def test_a_batch_gives_the_same_rows(name, graph, feat):
    model = make(name)
    inputs = model.precompute(graph, feat)
    ids = torch.tensor([7, 0, 12])
    assert len(inputs) == model.num_inputs
    batch = inputs.rows(ids)
    expected = model(graph, feat)[ids]
    torch.testing.assert_close(model(None, batch), expected)
    stacked = torch.stack([tensor[ids] for tensor in inputs])
    torch.testing.assert_close(model(None, stacked), expected)
    asked = model.precompute(graph, feat, nodes=ids)
    torch.testing.assert_close(model(None, asked), expected)
    torch.testing.assert_close(predict(model, asked, ids[:2]), expected[:2])


@EVERY
def test_a_plain_sequence_of_hop_tensors_will_do(name, graph, feat):
    model = make(name)
    inputs = list(model.precompute(graph, feat))
    expected = model(graph, feat)
    torch.testing.assert_close(model(None, inputs), expected)
    if type(model).__name__ not in ("LCH2GCN", "FSGNN"):
        every = powers(graph, feat, model.hops[-1])
        torch.testing.assert_close(model(None, every), expected)
    with pytest.raises(DGLError, match="sequence of 2"):
        model(None, [feat, feat])


@EVERY
def test_reset_parameters_resets_all_of_them(name):
    made = MODELS[name]()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.fill_(7.0)
    made.reset_parameters()
    for key, parameter in made.named_parameters():
        assert not (parameter == 7.0).any(), key


@EVERY
def test_a_model_is_made_again_from_its_config(name):
    made = MODELS[name]()
    again = type(made)(**made.config)
    assert again.config == made.config
    again.load_state_dict(made.state_dict())
    assert repr(again) == repr(made)


@EVERY
def test_wrong_input_is_named(name, graph, feat):
    model = make(name)
    with pytest.raises(DGLError, match="needs the graph"):
        model(None, feat)
    with pytest.raises(DGLError, match="in_feats=5"):
        model(graph, feat[:, :4])
    with pytest.raises(DGLError, match="feat should be"):
        model(graph, "x")


def test_hops_of_another_filter_are_refused(graph, feat):
    hops = block_aggregate(graph, feat, 3, norm="right")
    with pytest.raises(DGLError, match="norm='right'"):
        make("SGC")(None, hops)
    hops = block_aggregate(graph, feat, 3, self_loop=False)
    with pytest.raises(DGLError, match="self_loop=False"):
        make("LCGPRGNN")(None, hops)
    with pytest.raises(DGLError, match="inputs of several filters"):
        make("FSGNN")(None, hops)
    inputs = make("FSGNN").precompute(graph, feat)
    with pytest.raises(DGLError, match="hops of one filter"):
        make("SGC")(None, inputs)
    with pytest.raises(DGLError, match="no next hop"):
        nn.LCGraphConv(IN, 2)(None, inputs)


def test_hops_that_are_lacking_are_named(graph, feat):
    hops = block_aggregate(graph, feat, 2)
    with pytest.raises(DGLError, match=r"lack \[3\].*K=3"):
        make("LCJKNet cat")(None, hops)


@pytest.mark.parametrize(
    ("make_it", "message"),
    [
        (lambda: nn.LCJKNet(3, 3, 3, mode="lstm"), "mode='lstm'"),
        (lambda: nn.LCGPRGNN(3, 3, 3, K=-1), "K=-1"),
        (lambda: nn.LCGPRGNN(3, 3, 3, alpha=2), "alpha=2"),
        (lambda: nn.LCGCN(3, 0, 3), "hid_feats=0"),
        (lambda: nn.LCMixHop(3, 3, 3, p=(1, 1)), "different powers"),
        (lambda: nn.LCGCN(3, 3, 3, activation="relux"), "'relux'"),
        (lambda: nn.SGC(3, 3, norm="up"), "norm='up'"),
        (lambda: nn.FSGNN(3, 3, 3, num_layers=4), "num_layers=4"),
        (lambda: nn.FSGNN(3, 3, 3, dropout2=0.5), "num_layers=3"),
    ],
)
def test_wrong_arguments_are_named(make_it, message):
    with pytest.raises(DGLError, match=message):
        make_it()


def test_dropouts_of_fsgnn_come_before_the_hidden_and_the_output_layer(
    graph, feat
):
    def alike(found, row):
        return torch.allclose(found, row.expand_as(found))

    made = {
        rates: nn.FSGNN(
            IN, HID, OUT, num_layers=3, dropout=rates[0], dropout2=rates[1]
        ).double()
        for rates in [(1.0, 0.0), (0.0, 1.0), (1.0, None)]
    }
    # Of what is dropped entirely, the next layer's bias is left.
    model = made[1.0, 0.0]
    hidden = F.relu(model.hidden.bias)
    assert alike(model(graph, feat), model.output(hidden))
    model = made[0.0, 1.0]
    assert alike(model(graph, feat), model.output.bias)
    model = made[1.0, None]
    assert model.dropout2.p == 1.0
    assert alike(model(graph, feat), model.output.bias)


def test_fsgnn_of_two_layers_is_read_from_an_older_config():
    made = nn.FSGNN(IN, HID, OUT, K=1, dropout=0.5)
    config = {
        name: value
        for name, value in made.config.items()
        if name not in ("num_layers", "dropout2")
    }
    again = nn.FSGNN(**config)
    again.load_state_dict(made.state_dict())
    assert again.config == made.config
    assert {name.split(".")[0] for name in made.state_dict()} == {
        "layers", "att", "output",
    }  # fmt: skip


class TestCache:
    """Called with a graph, a model precomputes once."""

    @pytest.fixture(autouse=True)
    def count(self, monkeypatch):
        self.calls = 0
        original = model_file.block_aggregate

        def counted(*args, **kwargs):
            self.calls += 1
            return original(*args, **kwargs)

        monkeypatch.setattr(model_file, "block_aggregate", counted)

    def test_the_same_call_precomputes_once(self, graph, feat):
        model = make("SGC")
        first = model(graph, feat)
        torch.testing.assert_close(model(graph, feat), first)
        assert self.calls == 1

    def test_another_graph_or_features_are_noticed(self, graph, feat):
        model = make("SGC")
        model(graph, feat)
        other = dgl.reverse(graph)
        torch.testing.assert_close(
            model(other, feat), expected_output(model, other, feat)
        )
        feat = feat.clone()
        model(other, feat)
        assert self.calls == 3

    def test_features_changed_in_place_are_noticed(self, graph, feat):
        model = make("SGC")
        model(graph, feat)
        feat.mul_(2)
        torch.testing.assert_close(
            model(graph, feat), expected_output(model, graph, feat)
        )

    def test_edges_added_in_place_are_noticed(self, graph, feat):
        model = make("SGC")
        model(graph, feat)
        graph.add_edges([0, 1], [5, 6])
        torch.testing.assert_close(
            model(graph, feat), expected_output(model, graph, feat)
        )

    def test_the_features_are_forgotten_with_the_graph(self, feat):
        model = make("SGC")
        g = dgl.graph(([0], [1]), num_nodes=13)
        model(g, feat)
        del g
        gc.collect()
        assert model._cached is None

    def test_a_copy_does_not_hold_the_features(self, graph, feat):
        model = make("SGC")
        model(graph, feat)
        for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            assert again._cached is None
            torch.testing.assert_close(again(graph, feat), model(graph, feat))


def test_features_that_want_gradients_are_refused(graph, feat):
    with pytest.raises(DGLError, match="requires"):
        make("SGC")(graph, feat.requires_grad_())


def permutation_graph(n):
    """One edge in, one out: S is a permutation, and swaps with anything."""
    order = np.random.default_rng(3).permutation(n)
    return dgl.graph((np.arange(n), order), num_nodes=n)


ORIGINALS = {
    "LCGCN": (nn.LCGCN, originals.GCN),
    "LCJKNet": (nn.LCJKNet, originals.JKNet),
    "LCGPRGNN": (nn.LCGPRGNN, originals.GPRGNN),
}


def copy_parameters(lc, original):
    """By order: linear weights of GraphConv and of Linear are transposed."""
    with torch.no_grad():
        found = dict(original.named_parameters())
        for (key, a), (_, b) in zip(
            sorted(lc.named_parameters(), key=_plain),
            sorted(found.items(), key=_plain),
            strict=True,
        ):
            b.normal_()
            a.copy_(b if a.shape == b.shape and not _turn(key, lc) else b.T)


def _plain(item):
    return item[0].replace("mlp.", "")


def _turn(key, lc):
    return (
        isinstance(lc, nn.LCJKNet)
        and key.startswith("layers.")
        and ("weight" in key)
    )


@pytest.mark.parametrize("name", ORIGINALS)
@pytest.mark.parametrize("mode", ["cat", "max"])
def test_on_a_permutation_graph_it_is_the_original(name, mode):
    kind, original = ORIGINALS[name]
    options = {"mode": mode} if name == "LCJKNet" else {}
    lc = kind(IN, HID, OUT, self_loop=False, **options).double()
    other = original(IN, HID, OUT, **options).double()
    copy_parameters(lc, other)
    g, x = permutation_graph(9), make_features(9, IN, dtype=torch.float64)
    torch.testing.assert_close(lc(g, x), other(g, x))


@pytest.mark.parametrize("name", ORIGINALS)
def test_linear_and_without_bias_it_is_the_original(name, graph, feat):
    def identity(x):
        return x

    kind, original = ORIGINALS[name]
    lc = kind(IN, HID, OUT, activation=identity).double()
    other = original(IN, HID, OUT).double()
    copy_parameters(lc, other)
    with torch.no_grad():
        for model in (lc, other):
            for key, parameter in model.named_parameters():
                if "bias" in key:
                    parameter.zero_()
    looped = dgl.add_self_loop(dgl.remove_self_loop(graph))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(originals.F, "relu", identity)
        expected = other(looped, feat)
    torch.testing.assert_close(lc(graph, feat), expected)


def identity(x):
    return x


def loop_free(activation):
    """A graph where the LC version and its original must agree."""
    if activation is identity:
        rng = np.random.default_rng(4)
        ends = rng.integers(0, 9, 30), rng.integers(0, 9, 30)
        return dgl.add_self_loop(
            dgl.remove_self_loop(dgl.graph(ends, num_nodes=9))
        )
    return permutation_graph(9)


AGREE = pytest.mark.parametrize("activation", [identity, torch.tanh])


@AGREE
def test_appnp_agrees_with_dgl(activation):
    g = loop_free(activation)
    x = make_features(9, IN)  # APPNPConv takes float32 alone
    lc = nn.LCAPPNP(IN, HID, OUT, K=4, activation=activation, self_loop=False)
    if activation is identity:
        with torch.no_grad():
            for layer in lc.mlp.layers:
                layer.bias.zero_()
    original = dgl.nn.APPNPConv(4, 0.1)
    torch.testing.assert_close(lc(g, x), original(g, lc.mlp(x)))


def test_sgc_agrees_with_dgl(graph, feat):
    lc = nn.SGC(IN, OUT, K=3).double()
    original = dgl.nn.SGConv(IN, OUT, k=3).double()
    original.fc.load_state_dict(lc.fc.state_dict())
    looped = dgl.add_self_loop(dgl.remove_self_loop(graph))
    # SGConv takes in-degrees on both sides.
    both = dgl.add_reverse_edges(looped)
    both = dgl.to_simple(both)
    torch.testing.assert_close(lc(both, feat), original(both, feat))


@AGREE
def test_mixhop_agrees_with_powers_of_graph_conv(activation):
    g = loop_free(activation)
    x = make_features(9, IN, dtype=torch.float64)
    lc = nn.LCMixHop(
        IN, HID, OUT, p=(0, 1, 2), activation=activation, self_loop=False
    ).double()
    aggregate = dgl.nn.GraphConv(1, 1, weight=False, bias=False)
    h = x
    for layer in lc.layers:
        columns = []
        for power in (0, 1, 2):
            step = layer[str(power)](h)
            for _ in range(power):
                step = aggregate(g, step)
            columns.append(step)
        h = activation(torch.cat(columns, dim=1))
    torch.testing.assert_close(lc(g, x), lc.output(h))


def test_h2gcn_agrees_with_its_original_where_it_is_linear(graph, feat):
    lc = nn.LCH2GCN(IN, HID, OUT, activation=identity).double()
    one, two = exact_filters(graph)
    rounds = [lc.embedding(feat)]
    for _ in range(2):
        rounds.append(torch.cat([one @ rounds[-1], two @ rounds[-1]], 1))
    # R_2 = [S1 [S1 R, S2 R], S2 [S1 R, S2 R]]: the order of the words.
    torch.testing.assert_close(lc(graph, feat), lc.output(torch.cat(rounds, 1)))
