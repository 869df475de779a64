"""Models by name."""

import pytest
import torch
from dgl import DGLError

from dgl_lc import nn
from dgl_lc.data import block_model
from dgl_lc.experiments import named_models
from dgl_lc.experiments.model_names import (
    HOP_MODELS,
    NAMES,
    ORIGINALS,
    PAPERS_MODELS,
    TABLE_MODELS,
)
from dgl_lc.experiments.named_models import (
    MODELS,
    check_names,
    make_model,
    module_of,
)
from dgl_lc.nn.model import HopModel

DATA = block_model(60, num_classes=3, num_feats=6, seed=1)


def test_the_names_are_those_of_the_classes():
    assert [*ORIGINALS, *HOP_MODELS] == list(MODELS)
    classes = [(name, getattr(nn, name)) for name in nn.__all__]
    whole = [name for name, found in classes if issubclass(found, HopModel)]
    assert whole == HOP_MODELS


def test_models_of_all_tables_are_known():
    check_names(TABLE_MODELS)
    check_names(PAPERS_MODELS, list(MODELS))
    assert len(set(NAMES)) == len(NAMES)


def test_an_unknown_model_is_an_error_with_the_known_ones():
    with pytest.raises(DGLError, match=r"'JKnet' is not one of GCN, .*'JKNet'"):
        check_names(["GCN", "JKnet"])
    with pytest.raises(DGLError, match="'GCN' is not one of SGC, LCGCN"):
        check_names(["GCN"], ["SGC", "LCGCN"])
    with pytest.raises(DGLError, match="'autoGCN' is not one of"):
        make_model("autoGCN", DATA, 8)


def test_an_automatic_version_has_the_module_of_its_original():
    assert module_of("autoJKNet") == "LCJKNet"
    assert [module_of(name) for name in MODELS] == list(MODELS)


@pytest.mark.parametrize("name", MODELS)
def test_models_are_made_for_the_sizes_of_a_data_set(name):
    model = make_model(name, DATA, 8)
    shapes = {dim for p in model.parameters() for dim in p.shape}
    assert {DATA.num_feats, DATA.num_classes} <= shapes


@pytest.mark.parametrize("option", ["alpha", "in_feats"])
def test_an_option_that_the_model_does_not_have_is_an_error(option):
    with pytest.raises(DGLError, match=f"SGC has no option {option}. It has K"):
        make_model("SGC", DATA, 8, **{option: 1})


@pytest.mark.parametrize("name", MODELS)
def test_the_memory_of_a_model_is_known_before_it_is_made(name, monkeypatch):
    asked = []
    monkeypatch.setattr(named_models, "_SMALL", 0)
    monkeypatch.setattr(
        named_models, "require_memory", lambda size, *_: asked.append(size)
    )
    torch.manual_seed(0)
    model = make_model(name, DATA, 72)
    count = sum(parameter.numel() for parameter in model.parameters())
    rows = DATA.graph.num_nodes() if name in ORIGINALS else 0
    assert asked == [16 * count + 4 * rows * 72] * (name != "SGC")
    # The weights are those of a model that was not checked.
    monkeypatch.setattr(named_models, "_SMALL", 1000)
    torch.manual_seed(0)
    same = make_model(name, DATA, 72)
    for one, other in zip(model.parameters(), same.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("name", ["GCN", "LCGCN", "FSGNN"])
def test_a_hidden_size_that_memory_cannot_hold_is_refused(name):
    with pytest.raises(DGLError, match=f"{name} with hid_feats=1.* of memory"):
        make_model(name, DATA, 100_000_000_000)
