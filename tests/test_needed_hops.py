"""Errors say which hops the model needs, where others were precomputed."""

import re

import dgl
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from dgl import DGLError
from dgl.nn import JumpingKnowledge
from torch import nn

from dgl_lc import HopFeatures, block_aggregate
from dgl_lc.needed_hops import precompute_with
from dgl_lc.nn import LCGraphConv
from dgl_lc.testing.random_graphs import make_features

LABELS = torch.tensor([0, 1, 0, 1, 0])
MASK = torch.tensor([True, False, True, True, False])
ONE, TWO = LCGraphConv(4, 4), LCGraphConv(4, 3)


@pytest.fixture
def g():
    return dgl.graph(([0, 1, 2, 3, 4, 0], [1, 2, 3, 4, 0, 2]))


@pytest.fixture
def precompute(g):
    return lambda **how: block_aggregate(g, make_features(5, 4), **how)


def read_advice(message):
    """The arguments of block_aggregate that a message advises."""
    found = re.search(
        r"precompute with (K=\d+)(?:, (hops=\[[\d, ]+\]))?", message
    )
    assert found, message
    how = {}
    for argument in filter(None, found.groups()):
        name, _, value = argument.partition("=")
        numbers = [int(digits) for digits in re.findall(r"\d+", value)]
        how[name] = numbers if name == "hops" else numbers[0]
    return how


def gcn(x):
    return TWO(None, torch.relu(ONE(None, x)))


def jknet(x):
    one = torch.relu(ONE(None, x))
    return JumpingKnowledge("cat")([one, TWO(None, one)])


def gprgnn(x):
    out, prop = 0.5 * x, LCGraphConv(4, 4, weight=False, bias=False)
    for _ in range(3):
        x = prop(None, x)
        out = out + 0.3 * x
    return out


def residual(x):
    h = torch.relu(ONE(None, x)) + x
    return TWO(None, h)


def skip_to_the_output(x):
    return gcn(x) + x[:, :3]


USES = {
    "mask": lambda out: out[MASK],
    "ids": lambda out: out[torch.tensor([1, 0])],
    "as many ids": lambda out: out[torch.randperm(5)],
    "list": lambda out: out[[1, 0]],
    "array": lambda out: out[np.array([1, 0])],
    "classes": lambda out: out.argmax(dim=1)[MASK],
    "batch": lambda out: out.rows(torch.arange(5))[MASK],
    "columns": lambda out: out[:, :2].float()[MASK],
    "loss": lambda out: F.cross_entropy(out, LABELS),
    "loss module": lambda out: nn.CrossEntropyLoss()(out, LABELS),
    "nll": lambda out: F.nll_loss(F.log_softmax(out, dim=-1), LABELS),
    "bce": lambda out: F.binary_cross_entropy_with_logits(
        out, torch.ones(5, 3)
    ),
    "mse": lambda out: F.mse_loss(out, torch.ones(5, 3)),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(
    ("model", "given", "right", "by"),
    [
        (gcn, {"K": 3}, {"K": 2, "hops": [2]}, 1),
        (gcn, {"K": 5, "hops": [4, 5]}, {"K": 2, "hops": [2]}, 3),
        (jknet, {"K": 4}, {"K": 2, "hops": [1, 2]}, 2),
        (gprgnn, {"K": 4}, {"K": 3}, 1),
        (residual, {"K": 3}, {"K": 2, "hops": [1, 2]}, 1),
    ],
)
def test_an_output_with_hops_left_says_what_to_precompute(
    precompute, use, model, given, right, by
):
    out = model(precompute(**given))
    assert isinstance(out, HopFeatures)
    with pytest.raises(DGLError, match=f"K is too large by {by}:") as error:
        USES[use](out)
    assert str(out.hops) in str(error.value)
    assert "hops.rows" not in str(error.value)
    assert read_advice(str(error.value)) == right
    found = model(precompute(**right))
    assert isinstance(found, torch.Tensor)
    if 0 in out.hops:
        assert "h[0]" in str(error.value)
        torch.testing.assert_close(found, out[0])


@pytest.mark.parametrize(
    ("model", "given", "right"),
    [
        (residual, {"K": 2, "hops": [2]}, {"K": 2, "hops": [1, 2]}),
        (residual, {"K": 3, "hops": [3]}, {"K": 3, "hops": [2, 3]}),
        (jknet, {"K": 3, "hops": [3]}, {"K": 3, "hops": [2, 3]}),
        (gprgnn, {"K": 4, "hops": [4]}, {"K": 4, "hops": [3, 4]}),
    ],
)
def test_values_without_a_common_hop_say_which_hops_they_need(
    precompute, model, given, right
):
    with pytest.raises(DGLError, match="no hop in common") as error:
        model(precompute(**given))
    assert read_advice(str(error.value)) == right


def test_all_hops_are_enough_for_several_residuals(precompute):
    """Each of them alone would need one more hop than the one before."""

    def model(x):
        h = torch.relu(ONE(None, x)) + x
        return TWO(None, h) + h[:, :3]

    with pytest.raises(DGLError, match="or all hops with K=2 if"):
        model(precompute(K=2, hops=[2]))
    assert isinstance(model(precompute(K=2)), torch.Tensor)


def test_the_advice_for_a_residual_is_right(precompute):
    found = residual(precompute(K=2, hops=[1, 2]))
    torch.testing.assert_close(found, residual(precompute(K=2)))


def test_following_the_advice_ends_in_a_model_that_runs(precompute):
    whole = gprgnn(precompute(K=3))
    numbers = {3}
    for _ in range(6):
        hops = sorted(numbers)
        try:
            found = gprgnn(precompute(K=hops[-1], hops=hops))
            break
        except DGLError as error:
            more = re.search(r"precompute hops \[(.*?)\] as well", str(error))
            if more is None:
                numbers |= set(read_advice(str(error))["hops"])
            else:
                numbers |= {int(hop) for hop in more[1].split(",")}
    torch.testing.assert_close(found, whole)


def test_a_skip_to_the_output_says_which_hop_it_needs(precompute):
    with pytest.raises(DGLError, match=r"precompute hops \[0\] as well"):
        skip_to_the_output(precompute(K=2, hops=[2]))
    skip_to_the_output(precompute(K=2, hops=[0, 2]))


@pytest.mark.parametrize("data", [torch.zeros(5, 2), F.one_hot(LABELS)])
def test_labels_are_joined_to_the_features_before(precompute, data):
    with pytest.raises(DGLError, match="join it to the features before block_"):
        torch.cat([precompute(K=2, hops=[1, 2]), data], dim=1)


def test_a_loss_of_what_no_layer_has_aggregated_says_so(precompute):
    with pytest.raises(DGLError, match="which no layer has aggregated"):
        F.cross_entropy(nn.Linear(4, 3)(precompute(K=2)), LABELS)


def test_arguments_of_block_aggregate_are_as_few_as_possible():
    assert precompute_with([0]) == "K=0"
    assert precompute_with([2, 0]) == "K=2, hops=[0, 2]"
    assert precompute_with(range(4)) == "K=3"
