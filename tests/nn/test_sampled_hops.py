"""A sum over hops from some hops of each row: exact in expectation."""

import itertools

import pytest
import torch
from dgl import DGLError
from hypothesis import given, settings
from hypothesis import strategies as st
from night import cases

from dgl_lc.nn import LCGPRGNN
from dgl_lc.nn import sampled_hops as module
from dgl_lc.nn.sampled_hops import chances, draw_hops, sample_hops

weights_of_hops = st.lists(
    st.floats(-10, 10, allow_subnormal=False), min_size=1, max_size=8
)


@given(weights=weights_of_hops, data=st.data())
@settings(max_examples=cases(30, 1000))
def test_chances_sum_to_the_number_of_hops_and_none_is_above_one(weights, data):
    count = data.draw(st.integers(1, len(weights)))
    weights = torch.tensor(weights)
    found = chances(weights, count)
    assert found.sum().item() == pytest.approx(count)
    assert (found <= 1).all()
    assert (found > 0).all()
    # The larger a weight, the more likely its hop.
    order = weights.abs().argsort()
    assert (found[order].diff() >= -1e-9).all()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_not_followed(value):
    found = chances(torch.tensor([value, 1.0, 2.0]), 1)
    assert found.tolist() == pytest.approx([1 / 3] * 3)


def every_start(chance, count):
    """All that systematic sampling can draw, with the probability of each.

    What is drawn changes only where an end of a chance passes a whole step.
    """
    ends = {float(end) % 1 for end in chance.cumsum(0)} | {0.0, 1.0}
    for low, high in itertools.pairwise(sorted(ends)):
        yield (low + high) / 2, high - low


@given(weights=weights_of_hops, data=st.data())
@settings(max_examples=cases(20, 500))
def test_the_estimate_is_exact_in_expectation(weights, data):
    """Over all that can be drawn, of any function of the rows."""
    count = data.draw(st.integers(1, len(weights)))
    weights = torch.tensor(weights, dtype=torch.float64, requires_grad=True)
    generator = torch.Generator().manual_seed(0)
    hops = torch.randn(
        len(weights), 1, 3, generator=generator, dtype=torch.float64
    )
    matrix = torch.randn(3, 2, generator=generator, dtype=torch.float64)
    matrix.requires_grad_()

    def apply(rows):
        return torch.tanh(rows @ matrix)

    total, certain = 0.0, 0.0
    chance = chances(weights, count)
    with pytest.MonkeyPatch.context() as patch:
        for start, probability in every_start(chance, count):
            patch.setattr(
                module.th, "rand",
                lambda *_, start=start, **__: torch.tensor([start]).double(),
            )  # fmt: skip
            drawn, factors = sample_hops(hops, weights, count)
            assert drawn.shape == (count, 1, 3)
            estimate = (factors[..., None] * apply(drawn)).sum(0)
            total = total + probability * estimate
            certain += probability
    assert certain == pytest.approx(1)
    wanted = torch.tensordot(weights, apply(hops), dims=1)
    torch.testing.assert_close(total, wanted)
    for found, expected in zip(
        torch.autograd.grad(total.sum(), (weights, matrix)),
        torch.autograd.grad(wanted.sum(), (weights, matrix)),
        strict=True,
    ):
        torch.testing.assert_close(found, expected)


def test_hops_of_a_row_differ_and_are_drawn_by_their_chances():
    chance = chances(torch.tensor([0.1, 0.1, 0.1, 0.1, 0.6]), 3)
    torch.manual_seed(0)
    drawn = draw_hops(chance, 3, 20_000)
    assert drawn.shape == (3, 20_000)
    assert (drawn.sort(0).values.diff(dim=0) > 0).all()
    share = torch.bincount(drawn.flatten(), minlength=5) / 20_000
    torch.testing.assert_close(share, chance.float(), atol=0.015, rtol=0)


def make(**options):
    torch.manual_seed(1)
    return LCGPRGNN(5, 8, 3, K=4, **options)


def some_hops(rows=6):
    return torch.randn(5, rows, 5, generator=torch.Generator().manual_seed(2))


def test_all_hops_of_a_row_give_the_whole_sum():
    model, whole = make(sampled_hops=5), make()
    hops = some_hops()
    torch.testing.assert_close(model(None, hops), whole(None, hops))


def test_the_mean_of_many_passes_is_the_output_of_all_hops():
    model, whole = make(sampled_hops=2), make()
    hops = some_hops(3)
    many = hops.repeat(1, 20_000, 1)
    torch.manual_seed(0)
    mean = model(None, many).view(20_000, 3, 3).mean(0)
    spread = model(None, many).view(20_000, 3, 3).std(0)
    assert (spread > 0.01).any()
    far = (mean - whole(None, hops)).abs()
    assert (far < 5 * spread / 20_000**0.5 + 1e-6).all()


def test_evaluation_reads_all_hops():
    model, whole = make(sampled_hops=1).eval(), make().eval()
    hops = some_hops()
    assert torch.equal(model(None, hops), whole(None, hops))
    assert not torch.allclose(model.train()(None, hops), whole(None, hops))


def test_hops_of_weight_zero_get_gradients():
    model = make(sampled_hops=1, alpha=1.0)
    assert model.gamma[1:].abs().max() == 0
    model(None, some_hops(500)).sum().backward()
    assert (model.gamma.grad.abs() > 0).all()


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("K", [0, 1])
def test_few_rows_and_hops(rows, K):
    model = LCGPRGNN(5, 8, 3, K=K, sampled_hops=1, dropout=0.5)
    found = model(None, torch.ones(K + 1, rows, 5))
    assert found.shape == (rows, 3)
    found.sum().backward()


def test_it_is_saved_and_checked():
    model = make(sampled_hops=2)
    assert LCGPRGNN(**model.config).config == model.config
    assert make().config["sampled_hops"] is None
    for wrong, message in ((0, "sampled_hops=0"), (6, "more than the 5 hops")):
        with pytest.raises(DGLError, match=message):
            make(sampled_hops=wrong)
