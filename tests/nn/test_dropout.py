"""The quick dropout is a dropout."""

import dgl
import pytest
import torch

from dgl_lc import block_aggregate, lc_transform
from dgl_lc.experiments import originals
from dgl_lc.nn import dropout as dropout_file
from dgl_lc.nn.dropout import Dropout

PS = [1e-4, 0.1, 0.35, 0.5, 0.7, 0.9999]


@pytest.fixture(autouse=True)
def _seeded():
    with torch.random.fork_rng():
        torch.manual_seed(1)
        yield


def within(share, p, count):
    """Whether a share is within five standard deviations."""
    return abs(share - p) < 5 * (p * (1 - p) / count) ** 0.5 + 2**-17


@pytest.mark.parametrize("p", PS)
def test_drops_as_much_as_it_says_at_each_place(p):
    # Four values come from one draw, so each of the four is looked at.
    out = Dropout(p)(torch.ones(400_003))
    for place in range(4):
        here = out[place::4]
        assert within(float((here == 0).float().mean()), p, len(here))


@pytest.mark.parametrize("p", PS)
def test_drops_for_as_many_draws_as_it_says(p, monkeypatch):
    draws = torch.arange(-(2**15), 2**15, dtype=torch.int16)
    monkeypatch.setattr(dropout_file, "_draw", lambda count: draws)
    out = Dropout(p)(torch.ones(2**16))
    assert int((out == 0).sum()) == round(p * 2**16)


def test_neighbours_are_dropped_independently():
    kept = (Dropout(0.5)(torch.ones(400_003)) > 0).double()
    for shift in (1, 2, 3, 4, 8):
        both = float((kept[shift:] * kept[:-shift]).mean())
        assert within(both, 0.25, len(kept) - shift)


@pytest.mark.parametrize("p", PS)
def test_the_mean_stays(p):
    levels = round(p * 65536) / 65536
    out = Dropout(p)(torch.ones(10_000, dtype=torch.float64))
    kept = out[out > 0]
    assert torch.equal(kept, torch.full_like(kept, 1 / (1 - levels)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64,
                                   torch.float16, torch.bfloat16])  # fmt: skip
def test_types_shapes_and_strides_stay(dtype):
    feat = torch.ones(3, 7, 501, dtype=dtype).transpose(0, 2)
    out = Dropout(0.5)(feat)
    assert out.dtype == dtype
    assert out.shape == feat.shape
    assert set(out.unique().tolist()) == {0.0, 2.0}


def test_gradients_are_those_of_what_was_kept():
    feat = torch.randn(50, 60, requires_grad=True)
    out = Dropout(0.25)(feat)
    out.sum().backward()
    assert torch.equal(feat.grad == 0, out == 0)
    torch.testing.assert_close(feat.grad * feat.detach(), out.detach())


def test_the_seed_decides():
    feat, dropout = torch.ones(100, 100), Dropout(0.5)
    torch.manual_seed(3)
    first, second = dropout(feat), dropout(feat)
    torch.manual_seed(3)
    assert torch.equal(first, dropout(feat))
    assert not torch.equal(first, second)


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_nothing_or_all_is_dropped(p):
    feat = torch.randn(100, 100)
    assert torch.equal(Dropout(p)(feat), feat * (1 - p))


def test_evaluation_drops_nothing():
    feat = torch.randn(100, 100)
    assert Dropout(0.5).eval()(feat) is feat


def test_few_values_are_torchs():
    feat = torch.randn(10, 10)
    torch.manual_seed(5)
    found = Dropout(0.5)(feat)
    torch.manual_seed(5)
    assert torch.equal(found, torch.nn.Dropout(0.5)(feat))


def test_a_model_with_it_is_transformed():
    graph, feat = dgl.rand_graph(80, 400), torch.randn(80, 40)
    graph = dgl.add_self_loop(graph)
    model = originals.GCN(feat.shape[1], 64, 3, dropout=0.5)
    lc = lc_transform(model, graph, feat)
    assert any(isinstance(m, Dropout) for m in lc.module.modules())


def test_hop_features_drop_as_their_rows():
    feat = torch.ones(100, 40)
    hops = block_aggregate(dgl.rand_graph(100, 300), feat, 2)
    torch.manual_seed(3)
    found = Dropout(0.5)(hops).stack
    torch.manual_seed(3)
    assert torch.equal(found, Dropout(0.5)(hops.stack))
    assert not torch.equal(found, hops.stack)
