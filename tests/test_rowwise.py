"""Row-wise functions on hop features, and everything that is refused."""

import io

import dgl
import pytest
import torch
import torch.nn.functional as F
from dgl import DGLError
from dgl.nn import JumpingKnowledge
from torch import nn
from torch.utils.checkpoint import checkpoint

from dgl_lc import HopFeatures, block_aggregate
from dgl_lc.hops import FilterSpec
from dgl_lc.nn import LCGPRGNN, LCGraphConv
from dgl_lc.testing.random_graphs import make_features


@pytest.fixture
def hops():
    g = dgl.graph(([0, 1, 2, 3, 4, 0], [1, 2, 3, 4, 0, 2]))
    return block_aggregate(g, make_features(5, 4), 3)


def each(hops, function):
    """The function of every hop by itself."""
    return {k: function(hops[k]) for k in hops.hops}


def assert_hops(found, expected):
    assert isinstance(found, HopFeatures)
    assert found.hops == list(expected)
    for k, tensor in expected.items():
        torch.testing.assert_close(found[k], tensor)


LINEAR = nn.Linear(4, 3)
NORM = nn.LayerNorm(4)
PRELU = nn.PReLU(4)
W = torch.randn(4, 6)

ROWWISE = {
    "relu": torch.relu,
    "F.relu": F.relu,
    "method": lambda h: h.relu(),
    "elu": F.elu,
    "gelu": F.gelu,
    "leaky_relu": lambda h: F.leaky_relu(h, 0.1),
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "silu": F.silu,
    "softplus": F.softplus,
    "prelu": PRELU,
    "clamp": lambda h: h.clamp(min=0.1),
    "abs": abs,
    "power": lambda h: h**2,
    "linear": LINEAR,
    "matmul": lambda h: h @ W,
    "torch.matmul": lambda h: torch.matmul(h, W),
    "bias": lambda h: h + torch.arange(4.0),
    "from the left": lambda h: 1 - h,
    "scale": lambda h: 2 * h / 3,
    "negative": lambda h: -h,
    "layer_norm": NORM,
    "softmax": lambda h: F.softmax(h, dim=-1),
    "log_softmax": lambda h: h.log_softmax(dim=1),
    "normalize": F.normalize,
    "cat": lambda h: torch.cat([h, h * 2], dim=1),
    "stack and max": lambda h: torch.stack([h, -h], dim=-1).max(dim=-1)[0],
    "max values": lambda h: torch.stack([h, -h], dim=2).max(dim=2).values,
    "max of two": lambda h: torch.max(h, -h),
    "maximum": lambda h: torch.maximum(h, h * 0),
    "sum": lambda h: h.sum(dim=1, keepdim=True),
    "mean": lambda h: torch.mean(h, 1),
    "columns": lambda h: h[:, 1:3],
    "one column": lambda h: h[..., 0],
    "chunks": lambda h: h.chunk(2, dim=1)[1],
    "where": lambda h: torch.where(h > 0, h, h * 0.5),
    "equal": lambda h: h * (h == 0),
    "double": lambda h: h.double(),
    "row factor": lambda h: h * torch.full((1, 4), 3.0),
    "inplace": lambda h: nn.ReLU(inplace=True)(h * 1),
    "sequence": nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Dropout(0.0)),
    "autocast": lambda h: _autocast(h),
}


def _autocast(h):
    with torch.autocast("cpu", torch.bfloat16):
        return LINEAR(h)


@pytest.mark.parametrize("name", ROWWISE)
def test_row_wise_functions_act_on_every_hop(hops, name):
    function = ROWWISE[name]
    with torch.no_grad():
        assert_hops(function(hops), each(hops, function))


def test_an_inplace_module_changes_the_value_it_was_given(hops):
    h = hops * 1
    expected = each(hops, torch.relu)
    F.relu(h, inplace=True)
    assert_hops(h, expected)
    assert (hops[1] < 0).any()


def test_an_inplace_module_changes_hop_0_alone_as_well(hops):
    h = hops[:1]
    found = F.relu(h, inplace=True)
    assert torch.equal(found, torch.relu(hops[0]))
    assert torch.equal(h[0], found)
    assert (hops[0] < 0).any()


REFUSED = {
    "mean over nodes": lambda h, g: h.mean(0),
    "mean over all": lambda h, g: h.mean(),
    "max over all": lambda h, g: torch.max(h),
    "sum over nodes": lambda h, g: torch.sum(h, dim=-2),
    "cat of rows": lambda h, g: torch.cat([h, h], dim=0),
    "cat without dim": lambda h, g: torch.cat([h, h]),
    "stack first": lambda h, g: torch.stack([h, h]),
    "softmax over nodes": lambda h, g: F.softmax(h, dim=0),
    "softmax without dim": lambda h, g: F.softmax(h),
    "attention": lambda h, g: torch.softmax(h @ h.t(), dim=1) @ h,
    "attention by T": lambda h, g: h @ h.T,
    "product with itself": lambda h, g: torch.matmul(h, h),
    "product from the left": lambda h, g: torch.eye(5) @ h,
    "norm of all rows": lambda h, g: F.layer_norm(h, (5, 4)),
    "sort": lambda h, g: torch.sort(h, dim=0),
    "unknown": lambda h, g: torch.fft.fft(h),
    "einsum": lambda h, g: torch.einsum("nd,dk->nk", h, W),
    "mask": lambda h, g: h[torch.ones(5, dtype=torch.bool)],
    "row": lambda h, g: h[0, :],
    "row of columns": lambda h, g: h.sum(dim=1)[..., 0],
    "loss": lambda h, g: F.cross_entropy(h, torch.zeros(5).long()),
    "truth": lambda h, g: bool(h),
    "numpy": lambda h, g: h.numpy(),
    "in place": lambda h, g: h.relu_(),
    "view": lambda h, g: h.view(-1),
    "three dimensions": lambda h, g: h * torch.ones(5, 5, 4),
    "other rows": lambda h, g: h + torch.ones(3, 4),
    "as weights": lambda h, g: F.linear(torch.ones(2, 4), h),
    "other ranks": lambda h, g: h + h.unsqueeze(-1),
    "squeeze all": lambda h, g: h.squeeze(),
    "batch attention": lambda h, g: nn.MultiheadAttention(4, 2)(h, h, h),
}


@pytest.mark.parametrize("name", REFUSED)
def test_whatever_may_mix_rows_is_refused(hops, name):
    g = dgl.graph(([0], [1]), num_nodes=5)
    with pytest.raises((DGLError, AttributeError, TypeError)):
        REFUSED[name](hops, g)


@pytest.mark.parametrize("name", ["mean over nodes", "unknown", "attention"])
def test_a_refusal_says_what_to_do(hops, name):
    with pytest.raises(DGLError, match="lc_transform"):
        REFUSED[name](hops, None)


def test_node_data_of_a_graph_does_not_take_hop_features(hops):
    g = dgl.graph(([0, 1], [1, 2]), num_nodes=5)
    g.ndata["h"] = hops
    call = dgl.function.copy_u("h", "m"), dgl.function.sum("m", "h")
    with pytest.raises(DGLError, match="LCGraphConv"):
        g.update_all(*call)


def test_a_plain_tensor_with_a_row_for_each_node_is_hop_0(hops):
    factor = torch.rand(5, 1)
    found = hops * factor
    torch.testing.assert_close(found, hops[0] * factor)
    # A factor of the nodes does not pass through the filter: what is left
    # can't be aggregated again.
    with pytest.raises(DGLError, match="hop 0"):
        LCGraphConv(4, 2)(None, found)


def test_a_plain_tensor_meets_nothing_but_hop_0(hops):
    with pytest.raises(DGLError, match="no hop in common"):
        hops[1:] + torch.ones(5, 4)


def test_one_row_is_hop_0_unless_it_is_a_parameter():
    g = dgl.graph(([0], [0]))
    hops = block_aggregate(g, torch.ones(1, 4), 2)
    row = torch.full((1, 4), 2.0)
    assert torch.equal(hops + row, torch.full((1, 4), 3.0))
    assert (hops + nn.Parameter(row)).hops == [0, 1, 2]


def test_values_meet_on_the_hops_they_share(hops):
    found = hops[:3] + hops.shift()
    assert found.hops == [0, 1, 2]
    torch.testing.assert_close(found[1], hops[1] + hops[2])
    found = hops.select([0, 2, 3]) * hops.select([0, 1, 3])
    assert found.hops == [0, 3]
    torch.testing.assert_close(found[3], hops[3] ** 2)


def test_values_of_other_nodes_or_filters_do_not_meet(hops):
    a, b = hops.rows(torch.tensor([0, 1])), hops.rows(torch.tensor([1, 0]))
    with pytest.raises(DGLError, match="different nodes"):
        a + b
    other = HopFeatures(list(hops), hops.hops, FilterSpec("right"))
    with pytest.raises(DGLError, match="different filters"):
        hops + other


def test_gradients_flow_through_all_hops(hops):
    weight = torch.randn(4, 3, requires_grad=True)
    stack = torch.relu(hops @ weight).stack
    stack.sum().backward()
    found, weight.grad = weight.grad, None
    sum(torch.relu(hops[k] @ weight).sum() for k in hops.hops).backward()
    torch.testing.assert_close(found, weight.grad)


def test_batch_norm_pools_its_statistics_over_hops(hops):
    norm = nn.BatchNorm1d(4)
    found = norm(hops)
    expected = nn.BatchNorm1d(4)(torch.cat(list(hops)))
    torch.testing.assert_close(found.stack, expected)
    assert norm.num_batches_tracked == 1


@pytest.mark.parametrize("mode", ["cat", "max"])
def test_jumping_knowledge_acts_on_hop_features(hops, mode):
    jump = JumpingKnowledge(mode)
    found = jump([hops, torch.relu(hops)])
    assert_hops(found, each(hops, lambda x: jump([x, torch.relu(x)])))


def test_jumping_knowledge_with_an_lstm_is_refused(hops):
    with pytest.raises((DGLError, TypeError)):
        JumpingKnowledge("lstm", 4, 2)([hops, hops])


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = LCGraphConv(4, 8), LCGraphConv(8, 3)
        self.drop = nn.Dropout(0.0)

    def forward(self, g, x):
        return self.conv2(g, self.drop(F.relu(self.conv1(g, x))))


def test_checkpointing_gives_the_same_gradients(hops):
    model = Model()
    weight = model.conv1.weight
    model(None, hops)[0].sum().backward()
    expected, weight.grad = weight.grad, None
    h = checkpoint(model.conv1, None, hops, use_reentrant=False)
    model.conv2(None, F.relu(h))[0].sum().backward()
    torch.testing.assert_close(weight.grad, expected)


def test_models_and_hop_features_can_be_pickled(hops):
    model = Model()
    file = io.BytesIO()
    torch.save((model, hops), file)
    file.seek(0)
    # Written by this test itself.
    loaded, found = torch.load(file, weights_only=False)
    torch.testing.assert_close(loaded(None, found)[0], model(None, hops)[0])


# Compiling warns of what it does not compile.
@pytest.mark.skipif(
    torch.__version__.startswith("2.2."),
    reason="the compiler of torch 2.2 stops with an error of its own",
)
@pytest.mark.filterwarnings("ignore")
def test_torch_compile_gives_the_same(hops):
    model = Model().eval()
    for batch in (hops, hops[2:3], hops.rows(torch.tensor([3, 1]))):
        compiled = torch.compile(model, backend="eager")
        found, expected = compiled(None, batch), model(None, batch)
        if isinstance(expected, HopFeatures):
            assert_hops(found, {k: expected[k] for k in expected.hops})
        else:
            torch.testing.assert_close(found, expected)


@pytest.mark.filterwarnings("ignore")
def test_a_weight_times_hops_under_compile_is_right(hops):
    weight = torch.randn(4, 3)
    found = torch.compile(lambda h: h @ weight, backend="eager")(hops)
    assert_hops(found, each(hops, lambda x: x @ weight))


@pytest.mark.filterwarnings("ignore")
def test_what_is_refused_is_refused_under_compile(hops):
    compiled = torch.compile(lambda h: h.mean(0), backend="eager")
    with pytest.raises((DGLError, torch._dynamo.exc.TorchDynamoException)):
        compiled(hops)


@pytest.mark.filterwarnings("ignore")
def test_a_whole_model_compiles(hops):
    model = LCGPRGNN(4, 8, 3, K=3)
    batch = hops.rows(torch.tensor([3, 1, 4]))
    compiled = torch.compile(model, backend="eager")
    torch.testing.assert_close(compiled(None, batch), model(None, batch))
