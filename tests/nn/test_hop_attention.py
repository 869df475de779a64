"""Models that weigh hops: weights, batches of any size, norms in training."""

import pytest
import torch
from dgl import DGLError
from hypothesis import given, settings
from hypothesis import strategies as st
from model_cases import (
    MODELS,
    gamlp_output,
    make,
    make_feat,
    make_graph,
    sagn_output,
)
from night import cases
from torch.nn import functional as F

from dgl_lc import nn
from dgl_lc.nn.hop_attention import WeighsHops
from dgl_lc.nn.normalization import BatchNorm
from dgl_lc.training import load_model, save_model

graph, feat = pytest.fixture(make_graph), pytest.fixture(make_feat)
FORMULAS = {"SAGN": sagn_output, "GAMLP": gamlp_output}
ATTENTIVE = [name for name in MODELS if name.split()[0] in FORMULAS]
WEIGHING = [name for name in MODELS if isinstance(make(name), WeighsHops)]
#: One of each kind whose rows are to be weighed: options, and its formula.
KINDS = {
    "SAGN": {"num_heads": 3, "zero_attention": False},
    "GAMLP": {"score": "sigmoid"},
    "GAMLP jk": {"mode": "jk", "residual": False},
}


def stacked_hops(rows, K, columns, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shape = (K + 1, rows, columns)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def made(name, columns, K, **options):
    kind = getattr(nn, name.split()[0])
    torch.manual_seed(1)
    model = kind(columns, 5, 3, K=K, **{**KINDS[name], **options})
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.double()


def no_dropout():
    return {"dropout": 0.0, "input_dropout": 0.0, "attention_dropout": 0.0}


@pytest.mark.parametrize("name", ATTENTIVE)
def test_weights_are_those_of_the_formula(name, graph, feat):
    model = make(name)
    hops = list(model.precompute(graph, feat))
    wanted = FORMULAS[name.split()[0]](model, hops, weights_alone=True)
    found = model.hop_attention(hops)
    torch.testing.assert_close(found, wanted.detach())
    assert len(found.T) == len(model.hop_names) == len(hops)
    torch.testing.assert_close(found.sum(1), torch.ones(13).double())


@pytest.mark.parametrize("name", KINDS)
@given(
    rows=st.integers(2, 17),
    K=st.integers(0, 4),
    columns=st.sampled_from([1, 3, 5, 8]),
    normalization=st.sampled_from(["batch", "layer", None]),
    num_layers=st.integers(1, 3),
)
@settings(max_examples=cases(12, 200))
def test_training_computes_the_formula_with_statistics_of_the_batch(
    name, rows, K, columns, normalization, num_layers
):
    model = made(
        name, columns, K, normalization=normalization, num_layers=num_layers,
        **no_dropout(),
    )  # fmt: skip
    hops = stacked_hops(rows, K, columns)
    formula = FORMULAS[name.split()[0]]
    wanted = formula(model, list(hops))
    torch.testing.assert_close(model(None, hops), wanted)
    wanted = formula(model.eval(), list(hops))
    torch.testing.assert_close(model(None, hops), wanted)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("normalization", ["batch", "layer", None])
@pytest.mark.parametrize("rows", [0, 1])
def test_one_row_and_no_rows_can_be_trained_on(name, normalization, rows):
    model = made(name, 4, 2, normalization=normalization, **no_dropout())
    hops = stacked_hops(rows, 2, 4)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    found = model(None, hops)
    assert found.shape == (rows, 3)
    found.sum().backward()
    # There is nothing to learn statistics from.
    for key, value in model.state_dict().items():
        assert torch.equal(value, before[key]), key
    torch.testing.assert_close(model.eval()(None, hops), found)
    assert model.hop_attention(hops).shape == (rows, 3)


def test_batch_norm_pools_hops_and_learns_as_torch_does():
    ours, torchs = BatchNorm(4), torch.nn.BatchNorm1d(4)
    rows = torch.randn(3, 5, 4)
    torch.testing.assert_close(
        ours(rows).flatten(0, 1), torchs(rows.flatten(0, 1))
    )
    assert torch.equal(ours.running_var, torchs.running_var)
    with pytest.raises(ValueError, match="more than 1 value"):
        torchs(rows[0, :1])
    assert ours(rows[0, :1]).shape == (1, 4)


@pytest.mark.parametrize("name", WEIGHING)
def test_reading_weights_changes_nothing(name, graph, feat):
    model = MODELS[name]()
    model.train()
    # A module that the user has frozen.
    frozen = next(m for m in model.modules() if m is not model)
    frozen.eval()
    modes = [module.training for module in model.modules()]
    state = {key: value.clone() for key, value in model.state_dict().items()}
    inputs = model.precompute(graph, feat.float())
    found = model.hop_attention(inputs.rows(torch.tensor([3, 7])))
    assert not found.requires_grad
    assert found.shape == (2, model.num_inputs)
    assert [module.training for module in model.modules()] == modes
    assert all(torch.equal(model.state_dict()[k], v) for k, v in state.items())
    # Without dropout.
    again = model.hop_attention(inputs.rows(torch.tensor([3, 7])))
    assert torch.equal(found, again)


def test_weights_that_are_the_same_for_all_rows(graph, feat):
    model = make("LCGPRGNN")
    batch = model.precompute(graph, feat).rows(torch.tensor([4, 2, 2]))
    found = model.hop_attention(batch)
    assert torch.equal(found, model.gamma.detach().repeat(3, 1))
    model = make("FSGNN of some inputs")
    batch = model.precompute(graph, feat).rows(torch.tensor([4, 2]))
    found = model.hop_attention(batch)
    wanted = torch.softmax(model.att.detach(), 0)
    assert torch.equal(found, wanted.repeat(2, 1))
    assert model.hop_names == ["0", "2", "1 without loops"]


def test_dropouts_have_their_places():
    """What is dropped entirely leaves what does not depend on it."""
    hops = stacked_hops(6, 2, 4)
    for name in KINDS:
        options = {**no_dropout(), "normalization": None}
        model = made(name, 4, 2, **{**options, "input_dropout": 1.0})
        torch.testing.assert_close(
            model(None, hops), model.eval()(None, torch.zeros_like(hops))
        )
        model = made(name, 4, 2, **{**options, "attention_dropout": 1.0})
        if model.first is None:
            found = model(None, hops)
            torch.testing.assert_close(found, found[:1].expand_as(found))
        else:
            # Of the hops only the residual of hop 0 is left.
            other = hops.clone()
            other[1:] += 1
            torch.testing.assert_close(model(None, hops), model(None, other))
            assert not torch.allclose(
                model.eval()(None, hops), model(None, other)
            )


@pytest.mark.parametrize("name", KINDS)
def test_a_saved_model_weighs_hops_as_before(name, tmp_path):
    model = made(name, 4, 2).float().eval()
    hops = stacked_hops(5, 2, 4).float()
    save_model(model, tmp_path / "model.pt")
    again = load_model(tmp_path / "model.pt")
    assert again.config == model.config
    assert torch.equal(again(None, hops), model(None, hops))
    assert torch.equal(again.hop_attention(hops), model.hop_attention(hops))


@pytest.mark.parametrize("name", KINDS)
def test_a_model_learns_which_hop_counts(name):
    """Hop 1 tells the class; hops 0 and 2 are noise."""
    hops = stacked_hops(500, 2, 4).float()
    labels = (hops[1, :, 0] > 0).long()
    kind = getattr(nn, name.split()[0])
    options = {**KINDS[name], **no_dropout()}
    if name == "SAGN":
        # The hops begin with the same weight.
        options["zero_attention"] = True
    torch.manual_seed(0)
    model = kind(4, 16, 2, K=2, **options)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(60):
        optimizer.zero_grad()
        F.cross_entropy(model(None, hops), labels).backward()
        optimizer.step()
    right = model.eval()(None, hops).argmax(1) == labels
    assert right.float().mean() > 0.95
    assert model.hop_attention(hops).mean(0).argmax() == 1


@pytest.mark.parametrize(
    ("make_it", "message"),
    [
        (lambda: nn.SAGN(3, 3, 3, K=-1), "K=-1"),
        (lambda: nn.SAGN(3, 3, 3, num_heads=0), "num_heads=0"),
        (lambda: nn.SAGN(3, 3, 3, normalization="up"), "normalization='up'"),
        (lambda: nn.GAMLP(3, 3, 3, mode="cat"), "mode='cat'.*'recursive'"),
        (lambda: nn.GAMLP(3, 3, 3, score="tanh"), "score='tanh'"),
        (lambda: nn.GAMLP(3, 3, 3, alpha=2), "alpha=2"),
        (lambda: nn.GAMLP(3, 3, 3, normalization="l2"), "normalization='l2'"),
        (lambda: nn.GAMLP(3, 3, 3, jk_layers=0), "jk_layers=0"),
        (lambda: nn.FSGNN(3, 3, 3, normalization="up"), "normalization='up'"),
        (lambda: nn.FSGNN(3, 3, 3, K=1, select=[]), r"select=\[\].*0 to 2"),
        (lambda: nn.FSGNN(3, 3, 3, K=1, select=[3]), r"select=\[3\]"),
        (lambda: nn.FSGNN(3, 3, 3, K=1, select=[1, 1]), "different"),
        (lambda: nn.FSGNN(3, 3, 3, K=1, select=["0"]), "select"),
    ],
)
def test_wrong_arguments_are_named(make_it, message):
    with pytest.raises(DGLError, match=message):
        make_it()
