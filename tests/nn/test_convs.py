"""LC versions of layers beside those of dgl.nn, and their formulas."""

import inspect
from dataclasses import dataclass, field

import dgl
import pytest
import torch
import torch.nn.functional as F
from dgl import DGLError
from night import pairwise

from dgl_lc import block_aggregate, nn
from dgl_lc.hops import NORMS, FilterSpec, HopFeatures
from dgl_lc.nn import plain
from dgl_lc.testing.random_graphs import make_features

N, D = 9, 4


@pytest.fixture(autouse=True)
def _float64():
    """DGL's APPNPConv makes weights of edges of the default type."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@dataclass(frozen=True)
class Layer:
    """A layer of DGL with 4 columns, and the filter that it uses."""

    name: str
    args: tuple
    norm: str
    K: int
    options: dict = field(default_factory=dict)

    def dgl(self, **options):
        return self._make(getattr(dgl.nn, self.name), options)

    def plain(self, **options):
        return self._make(getattr(plain, f"LC{self.name}"), options)

    def lc(self, **options):
        return self._make(getattr(nn, f"LC{self.name}"), options)

    def _make(self, cls, options):
        torch.manual_seed(1)
        made = cls(*self.args, **{**self.options, **options})
        # Biases that are not what they start as.
        with torch.no_grad():
            for parameter in made.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
        return made


ZERO = {"allow_zero_in_degree": True}
LAYERS = {
    "SAGE mean": Layer("SAGEConv", (D, D, "mean"), "right", 1),
    "SAGE gcn": Layer("SAGEConv", (D, D, "gcn"), "add loop", 1),
    "TAG": Layer("TAGConv", (D, D, 2), "in", 2),
    "SG": Layer("SGConv", (D, D, 3), "in", 3, ZERO),
    "APPNP": Layer("APPNPConv", (3, 0.2), "both", 3),
    "GCN2": Layer("GCN2Conv", (D, 2, 0.3, 0.5), "in", 1, ZERO),
    "GCN2 two weights": Layer(
        "GCN2Conv", (D, 2, 0.3, 0.5, False), "in", 1, ZERO
    ),
}
OTHERS = {
    # SAGEConv multiplies before it aggregates if that is narrower.
    "SAGE mean narrow": Layer("SAGEConv", (D, 2, "mean"), "right", 1),
    "SAGE gcn narrow": Layer("SAGEConv", (D, 2, "gcn"), "add loop", 1),
    "SAGE no bias": Layer(
        "SAGEConv", (D, 2, "gcn"), "add loop", 1, {"bias": False}
    ),
    "SAGE norm": Layer(
        "SAGEConv", (D, 3, "mean"), "right", 1,
        {"norm": F.normalize, "activation": torch.tanh},
    ),
    "TAG tanh": Layer("TAGConv", (D, 3, 1, False, torch.tanh), "in", 1),
    "TAG k=0": Layer("TAGConv", (D, 3, 0), "in", 0),
    "SG norm": Layer(
        "SGConv", (D, 3, 2, False, False, F.normalize), "in", 2, ZERO
    ),
    "APPNP k=0": Layer("APPNPConv", (0, 0.2), "both", 0),
    "GCN2 tanh": Layer(
        "GCN2Conv", (D, 1), "in", 1,
        {"bias": False, "activation": torch.tanh, **ZERO},
    ),
}  # fmt: skip
EVERY = pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS.keys())
ALL = {**LAYERS, **OTHERS}
EVERY_WAY = pytest.mark.parametrize("layer", ALL.values(), ids=ALL.keys())


def make_graph(kind):
    """Make a graph of 9 nodes; node 8 has no neighbours."""
    generator = torch.Generator().manual_seed(3)
    source, target = torch.randint(0, N - 1, (2, 20), generator=generator)
    simple = source != target
    g = dgl.graph((source[simple], target[simple]), num_nodes=N)
    g = dgl.to_simple(g)
    if "undirected" in kind:
        g = dgl.to_bidirected(g)
    if "multi-edges" in kind:
        edges = g.edges()
        g = dgl.add_edges(g, *(torch.cat([e, e]) for e in edges))
    if "some loops" in kind:
        g = dgl.add_edges(g, [0, 1, 1, 5], [0, 1, 1, 5])
    elif "loops" in kind:
        g = dgl.add_self_loop(g)
    return g


GRAPHS = [
    f"{direction}{more}"
    for direction in ("directed", "undirected")
    for more in ("", ", loops", ", some loops", ", multi-edges, some loops")
]
GRAPH = pytest.mark.parametrize("kind", GRAPHS)
WEIGHTED = pytest.mark.parametrize("weighted", [False, True])


def make_weight(g):
    generator = torch.Generator().manual_seed(4)
    return torch.rand(g.num_edges(), generator=generator) + 0.5


def dense(g, norm, weight=None):
    """Write the filter as a matrix, from the formula of DGL's layer."""
    source, target = g.edges()
    ones = torch.ones(g.num_edges())
    zeros = torch.zeros(g.num_nodes(), g.num_nodes())
    counts = zeros.index_put((target, source), ones, accumulate=True)
    values = counts
    if weight is not None:
        values = zeros.index_put((target, source), weight, accumulate=True)
    if norm == "add loop":
        eye = torch.eye(g.num_nodes())
        return (values + eye) / (counts.sum(1, keepdim=True) + 1)
    if norm == "right":
        return values / counts.sum(1, keepdim=True).clamp(min=1)
    if weight is not None:
        left, right = values.sum(1), values.sum(0)
        left, right = (torch.where(d > 0, d, 1.0) for d in (left, right))
    else:
        left = counts.sum(1).clamp(min=1)
        right = left if norm == "in" else counts.sum(0).clamp(min=1)
    return left[:, None] ** -0.5 * values * right**-0.5


def hops_by_hand(layer, g, K, weight=None):
    matrix = dense(g, layer.norm, weight)
    hops = [make_features(N, D, dtype=torch.float64)]
    for _ in range(K):
        hops.append(matrix @ hops[-1])
    return hops


def precompute(layer, g, K, weight=None, norm=None):
    """Precompute as the docstring of the layer says."""
    x = make_features(N, D, dtype=torch.float64)
    norm = norm or {"add loop": "right"}.get(layer.norm, layer.norm)
    if weight is not None and layer.norm in ("in", "both"):
        norm, weight = "none", dgl.nn.EdgeWeightNorm("both")(g, weight)
    if layer.norm == "add loop":
        if weight is not None:
            weight = torch.cat([weight, weight.new_ones(N)])
        g = dgl.add_self_loop(g)
    return block_aggregate(
        g, x, K, norm=norm, self_loop=False, edge_weight=weight
    )


def call(layer, conv, g, feat, feat_0=None, **options):
    if layer.name == "GCN2Conv":
        return conv(g, feat, feat if feat_0 is None else feat_0, **options)
    return conv(g, feat, **options)


def check_equal(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


# Beside DGL's layers


@pytest.mark.parametrize(
    ("name", "kind", "weighted"), pairwise(ALL, GRAPHS, [False, True])
)
def test_one_layer_is_dgls(name, kind, weighted):
    layer = ALL[name]
    g = make_graph(kind)
    weight = make_weight(g) if weighted else None
    conv, lc = layer.dgl(), layer.plain()
    lc.load_state_dict(conv.state_dict(), strict=True)
    hops = hops_by_hand(layer, g, layer.K, weight)
    check_equal(
        call(layer, lc, g, hops, edge_weight=weight),
        call(layer, conv, g, hops[0], edge_weight=weight),
    )


@pytest.mark.parametrize(
    ("name", "kind", "weighted"), pairwise(LAYERS, GRAPHS, [False, True])
)
def test_one_layer_is_dgls_on_hop_features(name, kind, weighted):
    layer = LAYERS[name]
    g = make_graph(kind)
    weight = make_weight(g) if weighted else None
    conv, lc = layer.dgl(), layer.lc()
    lc.load_state_dict(conv.state_dict(), strict=True)
    norms = [None]
    if layer.norm == "in" and not weighted:
        norms = ["in"]
        if "undirected" in kind:
            # There norm="both" is the same filter.
            norms.append("both")
    for norm in norms:
        hops = precompute(layer, g, layer.K, weight, norm)
        check_equal(
            call(layer, lc, g, hops, edge_weight=weight),
            call(layer, conv, g, hops[0], edge_weight=weight),
        )


@WEIGHTED
def test_the_default_self_loop_is_that_of_sage_gcn(weighted):
    layer, g = LAYERS["SAGE gcn"], make_graph("directed, multi-edges")
    weight = make_weight(g) if weighted else None
    x = make_features(N, D, dtype=torch.float64)
    hops = block_aggregate(g, x, 1, norm="right", edge_weight=weight)
    check_equal(
        layer.lc()(g, hops, edge_weight=weight),
        layer.dgl()(g, x, edge_weight=weight),
    )


@GRAPH
@EVERY
def test_hop_features_of_another_filter_are_refused(layer, kind):
    g, lc = make_graph(kind), layer.lc()
    if layer.norm == "in" and "undirected" not in kind:
        hops = precompute(layer, g, layer.K, norm="both")
        with pytest.raises(DGLError, match="norm='in'"):
            call(layer, lc, g, hops)
    norm = {"add loop": "right"}.get(layer.norm, layer.norm)
    x = make_features(N, D, dtype=torch.float64)
    hops = block_aggregate(g, x, layer.K, norm=norm)
    has_loops, one_each = "loops" in kind, kind.endswith("directed, loops")
    if has_loops if layer.norm == "add loop" else not one_each:
        with pytest.raises(DGLError, match="self-loop"):
            call(layer, lc, g, hops)
    else:
        call(layer, lc, g, hops)


@EVERY_WAY
def test_checkpoints_load_both_ways(layer):
    for cls in (layer.plain, layer.lc):
        conv, lc = layer.dgl(), cls()
        assert [*conv.state_dict()] == [*lc.state_dict()]
        with torch.no_grad():
            for parameter in lc.parameters():
                parameter.zero_()
        conv.load_state_dict(lc.state_dict(), strict=True)
        assert all((p == 0).all() for p in conv.parameters())


@EVERY_WAY
def test_a_seed_gives_the_parameters_of_dgls(layer):
    options = layer.options
    conv = getattr(dgl.nn, layer.name)
    lc = getattr(nn, f"LC{layer.name}")
    torch.manual_seed(5)
    expected = conv(*layer.args, **options)
    drawn = torch.rand(1)
    torch.manual_seed(5)
    found = lc(*layer.args, **options)
    assert torch.rand(1) == drawn
    for again in (False, True):
        if again and layer.name != "APPNPConv":
            for made in (found, expected):
                torch.manual_seed(6)
                made.reset_parameters()
        for name, parameter in expected.named_parameters():
            assert torch.equal(found.get_parameter(name), parameter)


@EVERY
def test_arguments_and_attributes_are_those_of_dgls(layer):
    conv, lc = layer.dgl(), layer.lc()
    for method in ("__init__", "forward"):
        assert inspect.signature(getattr(type(lc), method)) == (
            inspect.signature(getattr(type(conv), method))
        )
    assert hasattr(lc, "set_allow_zero_in_degree") == (
        hasattr(conv, "set_allow_zero_in_degree")
    )
    # The cache is what hop features are.
    lacking = set(vars(conv)) - set(vars(lc)) - {"_cached_h"}
    assert not lacking
    assert lc.replaces == layer.name
    if layer.name != "GCN2Conv":  # DGL 1.1.3 can't print it.
        assert repr(lc) == "LC" + repr(conv)


def test_gcn2_is_printed_as_by_todays_dgl():
    assert repr(nn.LCGCN2Conv(4, 1, lambda_=0)) == (
        "LCGCN2Conv(in=4, alpha=0.1, beta=0.0)"
    )
    made = nn.LCGCN2Conv(4, 1, lambda_=0, activation=torch.nn.ReLU())
    assert "ReLU()" in repr(made)
    assert "activation=<" in repr(nn.LCGCN2Conv(4, 1, activation=F.relu))


@EVERY
def test_gradients_are_those_of_dgls(layer):
    g = make_graph("directed, some loops")
    conv, lc = layer.dgl(), layer.plain()
    lc.load_state_dict(conv.state_dict())
    # A linear layer can be swapped with a filter without a change.
    first, second = (torch.nn.Linear(D, D, bias=False) for _ in range(2))
    second.load_state_dict(first.state_dict())
    hops = hops_by_hand(layer, g, layer.K)
    call(layer, conv, g, first(hops[0])).square().sum().backward()
    call(layer, lc, g, second(torch.stack(hops))).square().sum().backward()
    check_equal(second.weight.grad, first.weight.grad)
    for name, parameter in conv.named_parameters():
        check_equal(lc.get_parameter(name).grad, parameter.grad)


# The LC formula


def formula(layer, conv, hops, initial):
    """Compute each hop of the output, from the formula of the layer."""

    def one(k):
        if layer.name == "SAGEConv":
            rst = hops[k + 1] @ conv.fc_neigh.weight.T
            if "mean" in layer.args:
                own = hops[k] @ conv.fc_self.weight.T
                return own + rst + conv.fc_self.bias
            return rst + conv.bias
        if layer.name == "TAGConv":
            parts = conv.lin.weight.T.split(D)
            found = (hops[k + j] @ part for j, part in enumerate(parts))
            return sum(found) + conv.lin.bias
        if layer.name == "SGConv":
            return hops[k + 3] @ conv.fc.weight.T + conv.fc.bias
        if layer.name == "APPNPConv":
            factors = [0.2, 0.2 * 0.8, 0.2 * 0.8**2, 0.8**3]
            return sum(f * hops[k + j] for j, f in enumerate(factors))
        eye = torch.eye(D)
        beta = torch.log(torch.tensor(0.5 / 2 + 1))
        weights = [conv.weight1, conv.weight1]
        if conv.weight2 is not None:
            weights[1] = conv.weight2
        one, two = ((1 - beta) * eye + beta * w for w in weights)
        return 0.7 * hops[k + 1] @ one + 0.3 * initial[k] @ two + conv.bias

    return [one(k) for k in range(len(hops) - layer.K)]


@GRAPH
@EVERY
def test_a_stack_of_two_is_the_lc_formula(layer, kind):
    g = make_graph(kind)
    conv1, conv2 = layer.plain(), layer.plain()
    for parameter in conv2.parameters():
        parameter.data.mul_(-0.7)
    x = hops_by_hand(layer, g, 2 * layer.K)
    h = [torch.relu(hop) for hop in formula(layer, conv1, x, x)]
    expected = formula(layer, conv2, h, x)
    assert len(expected) == 1
    h = [torch.relu(hop) for hop in call(layer, conv1, g, x)]
    check_equal(call(layer, conv2, g, h, x), expected[0])


@EVERY
def test_a_stack_of_two_is_not_dgls(layer):
    """Swapping a filter with ReLU changes the model."""
    g = make_graph("directed, loops")
    conv, lc = layer.dgl(), layer.plain()
    hops = hops_by_hand(layer, g, 2 * layer.K)
    h = torch.relu(call(layer, conv, g, hops[0]))
    other = call(layer, conv, g, h, hops[0])
    h = [torch.relu(hop) for hop in call(layer, lc, g, hops)]
    assert (call(layer, lc, g, h, hops) - other).abs().max() > 1e-3


@EVERY
def test_lists_tensors_and_hop_features_give_the_same(layer):
    g = make_graph("undirected, some loops")
    norm = "both" if layer.norm == "in" else None
    found = precompute(layer, g, 2 * layer.K + 1, norm=norm)
    conv1, conv2 = layer.lc(), layer.lc()

    def stack(x, relu):
        return call(layer, conv2, None, relu(call(layer, conv1, None, x)), x)

    lists = stack([*found], lambda h: [torch.relu(hop) for hop in h])
    tensors = stack(torch.stack([*found]), torch.relu)
    features = stack(found, torch.relu)
    assert len(lists) == 2
    assert tensors.shape == (2, N, D)
    assert features.hops == [0, 1]
    for hop in range(2):
        check_equal(tensors[hop], lists[hop])
        check_equal(features[hop], lists[hop])
    rows = torch.tensor([7, 0, 8])
    check_equal(stack(found.rows(rows), torch.relu)[0], lists[0][rows])
    needed = found[: 2 * layer.K + 1]
    alone = stack(needed.rows(rows), torch.relu)
    assert isinstance(alone, torch.Tensor)
    check_equal(alone, lists[0][rows])
    one = stack(needed.rows(rows[:1]), torch.relu)
    check_equal(one, lists[0][rows[:1]])


@EVERY
def test_gradients_of_a_stack_are_right(layer):
    conv1, conv2 = layer.plain(), layer.plain()
    hops = torch.randn(2 * layer.K + 1, 2, D).requires_grad_()

    def stack(hops):
        h = torch.tanh(call(layer, conv1, None, hops))
        return call(layer, conv2, None, h, hops)

    assert torch.autograd.gradcheck(stack, hops)


def test_hops_that_are_not_read_can_be_none():
    hops = [None, None, None, torch.ones(2, D)]
    assert LAYERS["SG"].plain()(None, hops).shape == (2, D)
    assert LAYERS["SAGE gcn"].plain()(None, hops)[2].shape == (2, D)
    assert LAYERS["SAGE gcn"].plain()(None, hops)[:2] == [None, None]
    with pytest.raises(DGLError, match="reads hops 0, 1 and 2"):
        LAYERS["TAG"].plain()(None, hops)


def test_dropout_of_sage_is_on_rows_of_both_hops():
    for name in ("SAGE mean", "SAGE gcn"):
        conv = LAYERS[name].plain(feat_drop=1.0)
        hops = torch.randn(2, 5, D)
        bias = conv.fc_self.bias if name == "SAGE mean" else conv.bias
        check_equal(conv(None, hops), bias.expand(5, D))
        expected = LAYERS[name].plain()(None, hops)
        check_equal(conv.eval()(None, hops), expected)


def test_a_cache_has_no_effect():
    conv = LAYERS["SG"].plain(cached=True)
    conv(None, torch.randn(4, 5, D))
    hops = torch.randn(4, 5, D)
    check_equal(conv(None, hops), LAYERS["SG"].plain()(None, hops))


# What is refused


@pytest.mark.parametrize("cls", [plain.LCSAGEConv, nn.LCSAGEConv])
def test_what_sage_can_not_do_is_refused(cls):
    for kind in ("pool", "lstm"):
        with pytest.raises(DGLError, match=f"'{kind}' has no LC version"):
            cls(4, 2, kind)
    with pytest.raises(DGLError, match="'sum' is not known"):
        cls(4, 2, "sum")
    with pytest.raises(DGLError, match="bipartite"):
        cls((4, 3), 2, "mean")
    with pytest.raises(DGLError, match="pair of features"):
        cls(4, 2, "mean")(None, (torch.ones(5, 4), torch.ones(3, 4)))


def test_a_pair_of_hop_features_is_refused():
    g = make_graph("undirected")
    hops = precompute(LAYERS["SAGE mean"], g, 1)
    with pytest.raises(DGLError, match="pair of features"):
        nn.LCSAGEConv(D, 2, "mean")(g, (hops, hops))


def test_dropped_edges_are_refused():
    with pytest.raises(DGLError, match=r"edge_drop=0\.5 has no LC version"):
        nn.LCAPPNPConv(3, 0.1, 0.5)
    nn.LCAPPNPConv(3, 0.1, edge_drop=0)


@pytest.mark.parametrize("k", [-1, 1.5])
def test_a_number_of_hops_is_checked(k):
    for make in (
        lambda: nn.LCTAGConv(4, 2, k),
        lambda: nn.LCSGConv(4, 2, k),
        lambda: nn.LCAPPNPConv(k, 0.1),
    ):
        with pytest.raises(DGLError, match=f"k={k} should be"):
            make()


@EVERY
def test_misuse_is_a_clear_error(layer):
    g = make_graph("undirected")
    x = make_features(N, D, dtype=torch.float64)
    lc, alone = layer.lc(), layer.plain()
    with pytest.raises(DGLError, match="block_aggregate"):
        call(layer, lc, g, x)
    with pytest.raises(DGLError, match="a list of them from hop 0 on"):
        call(layer, alone, g, x)
    with pytest.raises(DGLError, match=f"the layer reads hops? .*{layer.K}"):
        call(layer, alone, g, [x] * layer.K)
    short = HopFeatures([x], [0], FilterSpec(_norm(layer), False))
    with pytest.raises(DGLError, match=rf"{layer.K} of .* have hops \[0\]"):
        call(layer, lc, None, short)
    if layer.name != "APPNPConv":
        wide = torch.ones(4, 5, 7)
        with pytest.raises(DGLError, match="7 columns"):
            call(layer, alone, None, wide)
    left = HopFeatures([x] * 4, range(4), FilterSpec("left", False))
    with pytest.raises(DGLError, match="norm='left'"):
        call(layer, lc, None, left)
    weight = make_weight(g)
    unweighted = FilterSpec(
        "right" if layer.name == "SAGEConv" else "none", False
    )
    hops = HopFeatures([x] * 4, range(4), unweighted)
    with pytest.raises(DGLError, match="edge_weight"):
        call(layer, lc, None, hops, edge_weight=weight)


def _norm(layer):
    norm = {"add loop": "right"}.get(layer.norm, layer.norm)
    return norm if norm in NORMS else "both"


def test_initial_features_have_the_same_rows_columns_and_kind():
    conv = nn.LCGCN2Conv(D, 1)
    x = torch.ones(5, D)
    with pytest.raises(DGLError, match="feat_0 has 3 columns"):
        conv(None, [x, x], [x[:, :3]])
    with pytest.raises(DGLError, match="feat has 1 rows, but feat_0 has 5"):
        conv(None, [x[:1], x[:1]], [x])
    hops = HopFeatures([x, x], [0, 1], FilterSpec(_norm(LAYERS["GCN2"])))
    with pytest.raises(DGLError, match="both hop features and plain hop"):
        conv(None, hops, [x])
    with pytest.raises(DGLError, match=r"hop 1 of .* hops \[0\] and hop 0 of"):
        conv(None, x, hops)
    # A tensor is hop 0, which is all that the last layer reads.
    check_equal(conv(None, hops, x), conv(None, hops, hops))


def test_layers_of_one_model_need_one_filter():
    g = make_graph("undirected")
    sage, tag = nn.LCSAGEConv(D, D, "mean"), LAYERS["TAG"].lc()
    hops = precompute(LAYERS["SAGE mean"], g, 3)
    with pytest.raises(DGLError, match=r"LCTAGConv has norm='in'.*'right'"):
        tag(g, torch.relu(sage(g, hops)))
    hops = precompute(LAYERS["TAG"], g, 3, norm="both")
    with pytest.raises(DGLError, match=r"LCSAGEConv has norm='right'.*'both'"):
        sage(g, torch.relu(tag(g, hops)))
    gcn2 = LAYERS["GCN2"].lc()
    assert gcn2(g, torch.relu(tag(g, hops)), hops).shape == (N, D)
