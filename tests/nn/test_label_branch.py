"""Models that read label features."""

import pytest
import torch
import torch.nn.functional as F
from dgl import DGLError
from model_cases import EVERY, IN, MODELS, OUT, make, make_feat, make_graph

import dgl_lc.nn
from dgl_lc.nn.model import HopModel
from dgl_lc.precompute import label_features, with_labels
from dgl_lc.training import load_model, predict, save_model

LABELS, TRAIN = torch.arange(13) % 4, torch.arange(9)
OPTIONS = {"label_feats": 4, "label_hops": 2}


def label_rows(K=2, **options):
    return label_features(
        make_graph(), LABELS, TRAIN, K, num_classes=4, dtype=torch.float64,
        **options,
    )  # fmt: skip


def inputs(model, **options):
    hops = model.precompute(make_graph(), make_feat())
    return with_labels(hops, label_rows(**options))


def test_every_whole_model_is_tried():
    whole = {
        name
        for name in dgl_lc.nn.__all__
        if issubclass(getattr(dgl_lc.nn, name), HopModel)
    }
    assert {name.split()[0] for name in MODELS} == whole


@EVERY
def test_logits_are_those_of_features_and_labels(name):
    model = make(name, **OPTIONS)
    branch = model.label_branch
    rows = inputs(model)
    found = model(None, rows)
    flat = torch.cat([rows.labels[1], rows.labels[2]], dim=1)
    hidden = F.relu(flat @ branch.hidden.weight.T + branch.hidden.bias)
    added = hidden @ branch.output.weight.T + branch.output.bias
    state = {
        key: value
        for key, value in model.state_dict().items()
        if not key.startswith("label_branch.")
    }
    plain = make(name)
    plain.load_state_dict(state)
    torch.testing.assert_close(found, plain(None, rows.features) + added)
    # A batch has the same rows as all nodes together.
    ids = torch.tensor([7, 2])
    torch.testing.assert_close(predict(model, rows, ids), found[ids])


@EVERY
def test_without_labels_nothing_changes(name):
    torch.manual_seed(3)
    one = MODELS[name]()
    after = torch.rand(1)
    torch.manual_seed(3)
    other = MODELS[name](label_feats=None)
    assert torch.equal(after, torch.rand(1))
    assert one.label_branch is None
    assert not any("label" in key for key in one.config)
    assert list(one.state_dict()) == list(other.state_dict())
    for mine, theirs in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(mine, theirs)


@EVERY
def test_both_parts_learn(name):
    model = make(name, **OPTIONS).train()
    model(None, inputs(model)).square().sum().backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None, key
    assert model.label_branch.hidden.weight.grad.abs().sum() > 0
    before = model.label_branch.output.weight.clone()
    model.reset_parameters()
    assert not torch.equal(model.label_branch.output.weight, before)


@EVERY
def test_a_saved_model_reads_labels_again(name, tmp_path):
    model = make(name, label_dropout=0.25, **OPTIONS)
    rows = inputs(model)
    model.label_recipe = rows.labels.label_recipe
    save_model(model, tmp_path / "model.pt")
    again = load_model(tmp_path / "model.pt")
    assert again.config == model.config
    assert again.label_recipe == model.label_recipe
    assert again.label_branch.dropout.p == 0.25
    torch.testing.assert_close(again(None, rows), model(None, rows))


def test_later_hops_of_labels_are_not_read():
    model = make("SGC", **OPTIONS)
    torch.testing.assert_close(
        model(None, inputs(model, K=3)), model(None, inputs(model))
    )


def test_halves_are_computed_with_the_precision_of_the_model():
    model = make("LCGCN", **OPTIONS).float()
    hops = model.precompute(make_graph(), make_feat().float())
    halves = label_rows().to(torch.bfloat16)
    found = model(None, with_labels(hops, halves))
    assert found.dtype == torch.float32


def test_mismatches_name_the_argument():
    model = make("SGC", **OPTIONS)
    hops = model.precompute(make_graph(), make_feat())
    with pytest.raises(DGLError, match="feat has no label features"):
        model(None, hops)
    with pytest.raises(DGLError, match="feat has no label features"):
        model(make_graph(), make_feat())
    other = label_features(
        make_graph(), LABELS, TRAIN, 2, num_classes=5, dtype=torch.float64
    )
    with pytest.raises(DGLError, match="made with label_feats=4"):
        model(None, with_labels(hops, other))
    with pytest.raises(DGLError, match=r"hops \[1\]: compute them with K=2"):
        model(None, with_labels(hops, label_rows(K=1)))
    with pytest.raises(DGLError, match="made without label_feats"):
        make("SGC")(None, with_labels(hops, label_rows()))
    for wrong in ({"label_feats": 0}, {"label_feats": 4, "label_hops": 0}):
        with pytest.raises(DGLError, match="should be a positive integer"):
            dgl_lc.nn.SGC(IN, OUT, **wrong)
