"""Row-wise functions on hop features, and everything that is refused."""

import io

import dgl
import numpy as np
import pytest
import scipy.sparse
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
    "axis": lambda h: h.mean(axis=1),
    "cat by axis": lambda h: torch.cat([h, h], axis=1),
    "threshold": lambda h: F.threshold(h, 0.1, 2.0),
    "nn.Threshold": nn.Threshold(0.1, 2.0),
    "zeros_like": torch.zeros_like,
    "ones_like": lambda h: torch.ones_like(h, dtype=torch.float64),
    "full_like": lambda h: torch.full_like(h, 3.0),
    "where with zeros": lambda h: torch.where(h > 0, h, torch.zeros_like(h)),
    "hstack": lambda h: torch.hstack([h, -h]),
    "flatten": lambda h: torch.stack([h, -h], dim=1).flatten(1),
    "nn.Flatten": lambda h: nn.Flatten()(h.unsqueeze(2)),
    "unflatten": lambda h: h.unflatten(1, (2, 2)).sum(dim=2),
    "addmm": lambda h: torch.addmm(torch.arange(6.0), h, W, beta=2),
    "addmm of one row": lambda h: torch.addmm(W[:1], h, W),
    "addmm of hops": lambda h: torch.addmm(h, h, W[:, :4], alpha=2),
    "group_norm": nn.GroupNorm(2, 4),
    "any": lambda h: (h > 0.5).any(dim=1),
    "all": lambda h: torch.all(h > 0, -1, keepdim=True),
    "median": lambda h: h.median(dim=1).values,
    "vector_norm": lambda h: torch.linalg.vector_norm(h, dim=1),
    "linalg.norm": lambda h: torch.linalg.norm(h, 1, 1),
    "narrow": lambda h: h.narrow(1, 1, 2),
    "unbind": lambda h: h.unbind(1)[2],
    "tensor_split": lambda h: h.tensor_split(2, dim=1)[1],
    "topk": lambda h: h.topk(2).indices,
    "sort": lambda h: torch.sort(h, descending=True).values,
    "argsort": lambda h: h.argsort(1),
    "atan": torch.atan,
    "flip": lambda h: h.flip(1),
    "flip by name": lambda h: torch.flip(h, dims=[-1]),
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
    "out": lambda h, g: torch.add(h, h, out=h),
    "out of a plain tensor": lambda h, g: torch.add(h, h, out=torch.ones(5, 4)),
    "batch attention": lambda h, g: nn.MultiheadAttention(4, 2)(h, h, h),
    "mean by axis": lambda h, g: h.mean(axis=0),
    "cat by axis": lambda h, g: torch.cat([h, h], axis=0),
    "hstack of columns": lambda h, g: torch.hstack([h.sum(1), h.sum(1)]),
    "flatten rows": lambda h, g: h.flatten(),
    "unflatten rows": lambda h, g: h.unflatten(0, (5, 1)),
    "addmm from the left": lambda h, g: torch.addmm(h, torch.eye(5), h),
    "addmm of a term": lambda h, g: torch.addmm(h, torch.eye(5), WIDE),
    "addmm of one tensor": lambda h, g: torch.addmm(
        *(lambda w: (w, h.rows(torch.arange(4))[1:2], w))(torch.eye(4))
    ),
    "any of all": lambda h, g: (h > 0).any(),
    "all over nodes": lambda h, g: (h > 0).all(dim=0),
    "norm of all": lambda h, g: torch.linalg.norm(h),
    "norm over nodes": lambda h, g: torch.linalg.vector_norm(h, dim=0),
    "rows by narrow": lambda h, g: h.narrow(0, 0, 5),
    "unbind": lambda h, g: h.unbind(),
    "parts of rows": lambda h, g: h.tensor_split(2),
    "best nodes": lambda h, g: h.topk(2, dim=0),
    "sorted nodes": lambda h, g: h.argsort(0),
    "noise": lambda h, g: torch.randn_like(h),
    "flip of rows": lambda h, g: h.flip(0),
    "flip of rows as well": lambda h, g: h.flip(1, 0),
    "flip of rows by name": lambda h, g: torch.flip(h, dims=[1, 0]),
    "instance_norm": lambda h, g: nn.InstanceNorm1d(5)(h),
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


ADVICE = {
    "mean": (lambda h: h.mean(0), "dim=0 mixes rows.*BatchNorm1d.*LayerNorm"),
    "normalize": (
        lambda h: F.normalize(h, dim=0),
        "dim=0 mixes rows.*BatchNorm1d.*LayerNorm",
    ),
    "cat": (
        lambda h: torch.cat([h, h], dim=0),
        "dim=0 joins rows.*columns are joined along dim=1",
    ),
    "chunk": (lambda h: h.chunk(2), "without dim= cuts or.*columns are dim=1"),
    "split": (lambda h: h.split(2), "cuts or moves rows.*columns are dim=1"),
    "flatten": (
        lambda h: h.flatten(),
        "start_dim=0 cuts or moves rows.*columns are dim=1",
    ),
    "InstanceNorm1d": (
        nn.InstanceNorm1d(5),
        r"nn\.InstanceNorm1d did this, use nn\.LayerNorm",
    ),
}


@pytest.mark.parametrize("name", ADVICE)
def test_what_acts_along_the_nodes_says_what_helps(hops, name):
    call, advice = ADVICE[name]
    with pytest.raises(DGLError, match=advice) as error:
        call(hops)
    assert "say dim=-1" not in str(error.value)
    assert "lc_transform on the model as written for dgl.nn" in str(error.value)


def test_numbers_of_elements_are_those_of_a_hop(hops):
    assert hops.numel() == torch.numel(hops) == hops[1].numel() == 20
    assert hops.is_floating_point()
    assert torch.is_floating_point(hops)


NODES = torch.rand(5, 1) + 0.5
WIDE = torch.rand(5, 4) + 0.5

#: A factor, a bound or a mask for each node: S (D h) is not D (S h).
FACTORS = {
    "mul": lambda h: h * NODES,
    "from the left": lambda h: NODES * h,
    "every column": lambda h: h * WIDE,
    "parameter": lambda h: h * nn.Parameter(NODES),
    "torch.mul": lambda h: torch.mul(h, NODES),
    "method": lambda h: h.mul(NODES),
    "by degrees": lambda h: h / NODES,
    "divided by h": lambda h: NODES / h,
    "torch.div": lambda h: torch.div(h, NODES, rounding_mode="floor"),
    "power": lambda h: h**NODES,
    "exponent": lambda h: NODES**h,
    "augmented": lambda h: _scale(h, NODES),
    "one column": lambda h: h[:, 0] * NODES[:, 0],
    "mask": lambda h: h * (NODES > 1),
    "where": lambda h: torch.where(NODES > 1, h, h * 0),
    "where, a method": lambda h: h.where(NODES > 1, h * 0),
    "masked_fill": lambda h: h.masked_fill(NODES > 1, 0.0),
    "lerp": lambda h: torch.lerp(h, -h, WIDE),
    "clamp": lambda h: h.clamp(min=WIDE),
    "logical_and": lambda h: torch.logical_and(h > 0, NODES > 1),
    "and": lambda h: (h > 0) & (NODES > 1),
    "mask from the left": lambda h: (NODES > 1) & (h > 0),
    "or": lambda h: (h > 0) | (NODES > 1),
}


def _scale(h, factor):
    h *= factor
    return h


@pytest.mark.parametrize("name", FACTORS)
def test_a_factor_per_node_is_refused(hops, name):
    for values in (hops, hops[1:], torch.relu(hops.shift())):
        with pytest.raises(
            DGLError, match=r"S \(D h\) is not D \(S h\)"
        ) as error:
            FACTORS[name](values)
        assert "block_aggregate(norm=…)" in str(error.value)
        assert "lc_transform" in str(error.value)
        assert ("h[0]" in str(error.value)) == (0 in values.hops)


@pytest.mark.parametrize("name", FACTORS)
def test_a_factor_per_node_scales_hop_0_alone(hops, name):
    function = FACTORS[name]
    expected = function(hops[0].clone())
    found = function(hops[:1])
    torch.testing.assert_close(found, expected, equal_nan=True)


#: The output of a last layer is a plain tensor, and is hop 0.
MEETINGS = {
    "sum": lambda h, x: h + x,
    "difference": lambda h, x: x - h,
    "cat": lambda h, x: torch.cat([h, x], dim=1),
    "stack": lambda h, x: torch.stack([h, x], dim=1),
    "maximum": lambda h, x: torch.maximum(h, x),
    "max": lambda h, x: torch.max(h, x),
    "equal": lambda h, x: h == x,
    "greater": lambda h, x: h > x,
    "where values": lambda h, x: torch.where(h > 0, h, x),
    "lerp end": lambda h, x: torch.lerp(h, x, 0.1),
    "hstack": lambda h, x: torch.hstack([h, x]),
    "addmm": lambda h, x: torch.addmm(x, h, W[:, :4]),
}


@pytest.mark.parametrize("name", MEETINGS)
def test_a_plain_tensor_with_a_row_for_each_node_is_hop_0(hops, name):
    found = MEETINGS[name](hops, WIDE)
    torch.testing.assert_close(found, MEETINGS[name](hops[0], WIDE))
    if name == "stack":
        found = found.sum(dim=1)
    # What is left can't be aggregated again.
    with pytest.raises(DGLError, match="hop 0"):
        LCGraphConv(4, 2)(None, found)


def test_one_row_is_a_factor_of_every_row_for_one_node_too():
    hops = block_aggregate(dgl.graph(([0], [0])), torch.ones(1, 4), 2)
    found = hops * torch.full((1, 4), 2.0)
    assert found.hops == [0, 1, 2]
    assert torch.equal(found[1], torch.full((1, 4), 2.0))


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
    with pytest.raises(DGLError, match=r"^\+: .* different filters.*lc_trans"):
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


# What a script does with features that are one tensor


@pytest.mark.parametrize(
    "make", [lambda h: h.numpy(), np.asarray, np.array],
    ids=["numpy", "asarray", "array"],
)  # fmt: skip
def test_arrays_are_made_of_one_hop(hops, make):
    with pytest.raises(DGLError, match=r"take hop k, h\[k\]\.numpy\(\)"):
        make(hops)


@pytest.mark.parametrize("name", ["item", "tolist"])
def test_values_are_of_one_hop(hops, name):
    with pytest.raises(
        DGLError, match=rf"^{name} converts one.*take hop k, h\[k\]\.{name}\(\)"
    ):
        getattr(hops, name)()


def test_a_matrix_from_the_left_is_refused_with_shift(hops):
    A = torch.eye(5)
    for call in (lambda: A @ hops, lambda: torch.mm(A, hops)):
        with pytest.raises(DGLError, match=r"from the left.*h\.shift\(\)"):
            call()
    with pytest.raises(DGLError, match=r"h\[k\]"):
        scipy.sparse.eye(5).tocsr() @ hops


INPLACE = {
    "add_": (lambda h: h.add_(1), r"write h = h\.add\("),
    "relu_": (lambda h: torch.relu_(h), r"write h = h\.relu\("),
    "dropout_": (lambda h: F.dropout_(h) if hasattr(F, "dropout_")
                 else torch.dropout_(h, 0.5, True), r"h = h\.dropout\("),
    "zero_": (lambda h: h.zero_(), "before block_aggregate"),
    "init": (nn.init.zeros_, "before block_aggregate"),
    "plain += h": (lambda h: torch.zeros(5, 4).__iadd__(h), r"x = x \+ h"),
    "plain *= h": (lambda h: torch.zeros(5, 4).__imul__(h), r"x = x \* h"),
    "plain.add_": (lambda h: torch.zeros(5, 4).add_(h), r"h = h\.add\("),
}  # fmt: skip


@pytest.mark.parametrize("name", INPLACE)
def test_functions_in_place_say_what_to_write(hops, name):
    call, advice = INPLACE[name]
    before = [tensor.clone() for tensor in hops]
    with pytest.raises(DGLError, match=advice):
        call(hops)
    for tensor, old in zip(hops, before, strict=True):
        assert torch.equal(tensor, old)


def test_augmented_assignments_make_new_values(hops):
    h = hops
    h += 1
    h *= 2
    h /= torch.full((4,), 4.0)
    assert_hops(h, each(hops, lambda x: (x + 1) / 2))


def test_a_plain_tensor_takes_the_type_of_hop_features(hops):
    mask = torch.tensor([True, False, True])
    for found in (mask.to(hops), mask.type_as(hops)):
        assert torch.equal(found, torch.tensor([1.0, 0.0, 1.0]))


def test_a_contiguous_copy_is_row_wise(hops):
    assert_hops(hops[:, ::2].contiguous(), each(hops, lambda x: x[:, ::2]))


def test_a_script_reads_what_it_reads_of_a_tensor(hops):
    rows, columns = hops.shape
    assert (rows, columns) == (5, 4)
    assert hops.size(0) == 5
    assert len(hops) == 4
    assert "rows=5" in str(hops)
    with pytest.raises(DGLError, match="say dim=-1"):
        hops.sum()
    with pytest.raises(DGLError, match="lc_transform"):
        hops.T  # noqa: B018
    with pytest.raises(DGLError, match="one_hot"):
        F.one_hot(hops)
