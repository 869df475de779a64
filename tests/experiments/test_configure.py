"""The paper's parameters as options: every entry of every search space."""

import pytest
import torch
from dgl import DGLError

from dgl_lc import lc_transform
from dgl_lc.data import block_model
from dgl_lc.experiments.configure import configure, make_optimizer
from dgl_lc.experiments.named_models import MODELS, make_model
from dgl_lc.experiments.paper import BEST, OUR_SPACES, SPACES
from dgl_lc.experiments.train_one import prepare
from dgl_lc.training import fit

DATA = block_model(60, num_classes=3, num_feats=6, seed=1)
AUTO = ["autoGCN", "autoJKNet", "autoGPRGNN"]
ALL = {
    **OUR_SPACES,
    **SPACES,
    **{n: SPACES[n.removeprefix("auto")] for n in AUTO},
}


def entries(space):
    """Yield the first values, then each other value of one parameter."""
    first = {name: values[0] for name, values in space.items()}
    yield first
    for name, values in space.items():
        for value in values[1:]:
            yield {**first, name: value}


def built(name, options):
    """Make a model and what it reads."""
    model = make_model(name.removeprefix("auto"), DATA, 8, **options)
    seen, _, _ = prepare(model, DATA)
    if name in AUTO:
        lc = lc_transform(model, *seen)
        return lc.module, lc.precompute(*seen)
    return model, seen


@pytest.mark.parametrize("name", [name for name in ALL if name != "ShaDow-GAT"])
def test_every_entry_makes_a_model_that_takes_a_step(name):
    for params in entries(ALL[name]):
        options, training = configure(name, params)
        model, inputs = built(name, options)
        before = [p.detach().clone() for p in model.parameters()]
        optimizer = make_optimizer(model, training)
        assert (optimizer is None) == (name != "FSGNN")
        training.pop("groups", None)
        found = fit(
            model, inputs, DATA.labels, DATA.train, DATA.valid, epochs=1,
            optimizer=optimizer, **training,
        )  # fmt: skip
        assert len(found.history) == 1
        after = list(model.parameters())
        assert any(map(lambda a, b: not a.equal(b), before, after))


def test_every_model_can_be_configured_without_parameters():
    for name in [*MODELS, *AUTO]:
        options, training = configure(name, {})
        assert options == ({"num_layers": 3} if name == "FSGNN" else {})
        assert training == {}
        assert make_optimizer(built(name, options)[0], training) is None


@pytest.mark.parametrize(
    ("name", "params", "options"),
    [
        ("GCN", BEST["Flickr"]["GCN"], {"num_layers": 2, "dropout": 0.0}),
        (
            "JKNet",
            BEST["Reddit"]["JKNet"],
            {"num_layers": 3, "dropout": 0.5, "mode": "cat"},
        ),
        ("LCJKNet", {"pooling": "max"}, {"mode": "max"}),
        ("autoJKNet", {"pooling": "max"}, {"mode": "max"}),
        (
            "LCGPRGNN",
            BEST["papers100M"]["LCGPRGNN"],
            {"num_layers": 4, "K": 5, "alpha": 1.0, "dropout": 0.5,
             "dprate": 0.0},
        ),
        ("LCAPPNP", {"mlp_layers": 3, "K": 7}, {"num_layers": 3, "K": 7}),
        ("SGC", BEST["arxiv"]["SGC"], {"K": 2}),
        (
            "FSGNN",
            BEST["arxiv"]["FSGNN"],
            {"num_layers": 3, "K": 3, "dropout": 0.7, "dropout2": 0.6},
        ),
        (
            "ShaDow-GAT",
            {"lr": 0.1, "weight_decay": 0.2, "num_heads": 4, "pooling": "max"},
            {"num_heads": 4, "pooling": "max"},
        ),
    ],
)  # fmt: skip
def test_parameters_become_options_of_the_model(name, params, options):
    given = dict(params)
    found, training = configure(name, params)
    assert found == options
    assert params == given
    if name != "FSGNN":
        assert training == {
            key: params[key] for key in ("lr", "weight_decay") if key in params
        }


def test_fsgnn_has_a_rate_and_a_decay_for_each_part():
    params = {
        "lr1": 1.0, "wd1": 2.0, "lr2": 3.0, "wd2": 4.0, "lr3": 5.0, "wd3": 6.0,
        "lr_att": 7.0, "wd_att": 8.0,
    }  # fmt: skip
    options, training = configure("FSGNN", params)
    model = make_model("FSGNN", DATA, 8, **options)
    optimizer = make_optimizer(model, training)
    assert isinstance(optimizer, torch.optim.Adam)
    found = {
        parameter: (group["lr"], group["weight_decay"])
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    expected = {
        "layers": (1.0, 2.0), "hidden": (3.0, 4.0), "output": (5.0, 6.0),
        "att": (7.0, 8.0),
    }  # fmt: skip
    assert found == {
        parameter: expected[name.split(".")[0]]
        for name, parameter in model.named_parameters()
    }


def test_what_fsgnn_is_not_given_for_a_part_is_that_of_all():
    assert configure("FSGNN", {"lr": 0.1, "weight_decay": 0.2})[1] == {
        "lr": 0.1, "weight_decay": 0.2,
    }  # fmt: skip
    rest = {"lr": 0.1, "weight_decay": 0.0}
    assert configure("FSGNN", {"lr": 0.1, "wd2": 0.3})[1]["groups"] == {
        "layers": rest, "hidden": {"lr": 0.1, "weight_decay": 0.3},
        "output": rest, "att": rest,
    }  # fmt: skip
    assert configure("FSGNN", {"wd1": 0.3})[1]["groups"]["att"]["lr"] == 0.01


def test_groups_of_another_model_are_refused():
    _, training = configure("FSGNN", BEST["arxiv"]["FSGNN"])
    for name, options in [("GCN", {}), ("FSGNN", {"num_layers": 2})]:
        with pytest.raises(DGLError, match=f"{name} has the parts .*layers"):
            make_optimizer(make_model(name, DATA, 8, **options), training)


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("lcgcn", {}, "model 'lcgcn' is not one of.*Did you mean 'LCGCN'"),
        ("autoGPRGN", {}, "'autoGPRGN'.*mean 'autoGPRGNN'"),
        ("SHADOW", {}, "'SHADOW'.*mean 'ShaDow-GAT'"),
        ("GCN", {"dropuot": 0}, "GCN has no parameter 'dropuot'.*'dropout'"),
        ("GCN", {"pooling": "max"}, "GCN has no parameter 'pooling'"),
        ("GPRGNN", {"num_layers": 4}, "'num_layers'.*'mlp_layers'"),
        ("FSGNN", {"num_layers": 2}, "'num_layers'"),
        ("FSGNN", {"lr4": 0.1}, "'lr4'.*'lr"),
        ("LCGCN", {"hid_feats": 8}, "'hid_feats'"),
        ("JKNet", {"pooling": "cat"}, "pooling='cat'.*'concat'"),
    ],
)
def test_an_unknown_name_is_named_with_the_closest(name, params, message):
    with pytest.raises(DGLError, match=message):
        configure(name, params)
