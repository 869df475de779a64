"""Training: what is learned, kept, written and refused."""

import copy
import math

import dgl
import pandas as pd
import pytest
import torch
from dgl import DGLError
from dgl.base import DGLWarning
from tiny_task import DATA, SPLIT, make
from torch import nn

from dgl_lc.data import block_model
from dgl_lc.experiments.named_models import MODELS
from dgl_lc.experiments.originals import GCN
from dgl_lc.experiments.train_one import prepare, train_model
from dgl_lc.nn import LCGPRGNN, SGC
from dgl_lc.testing.reference import dense_filter
from dgl_lc.training import Fit, fit, predict


@pytest.fixture(scope="module")
def hops():
    return make().precompute(DATA.graph, DATA.feat)


def accuracy(model, inputs, ids):
    found = predict(model, inputs, ids).argmax(dim=1)
    return float((found == DATA.labels[ids]).float().mean())


def test_it_learns(hops):
    model = make()
    before = accuracy(model, hops, DATA.test)
    found = fit(model, hops, *SPLIT, epochs=60, lr=0.05)
    assert accuracy(model, hops, DATA.test) > before + 0.2
    assert list(found.history.columns) == [
        "train_loss", "valid_loss", "valid_accuracy", "train_seconds",
        "seconds",
    ]  # fmt: skip
    assert found.history.index.tolist() == list(range(1, 61))
    assert "validation accuracy" in str(found)


class Falling(nn.Module):
    """Counts its steps; its validation loss is best at step 3."""

    def __init__(self):
        super().__init__()
        self.steps = nn.Parameter(torch.zeros(()))

    def forward(self, graph, batch):
        rows = batch.shape[0]
        logits = torch.zeros(rows, DATA.num_classes)
        labels = DATA.labels[batch.nodes]
        off = (self.steps - 3).abs()
        logits[torch.arange(rows), labels] = 5 - off
        return logits


def test_the_best_weights_are_a_copy_and_put_back(hops):
    model = Falling()

    class Count(torch.optim.Optimizer):
        def __init__(self, parameters):
            super().__init__(parameters, {"lr": 1.0})

        def step(self, closure=None):
            model.steps.data += 1

    found = fit(
        model, hops, *SPLIT, epochs=50, patience=4,
        optimizer=Count(model.parameters()), batch_size=10_000,
    )  # fmt: skip
    assert found.best_epoch == 3
    assert model.steps.item() == 3
    assert len(found.history) == 3 + 4


def test_the_same_seed_gives_the_same_weights(hops):
    models = [make(LCGPRGNN, K=2, dropout=0.5) for _ in range(3)]
    inputs = models[0].precompute(DATA.graph, DATA.feat)
    state = torch.get_rng_state()
    for model, seed in zip(models, (3, 3, 4), strict=True):
        fit(model, inputs, *SPLIT, epochs=3, batch_size=64, seed=seed)
    a, b, c = (dict(m.named_parameters()) for m in models)
    assert all(torch.equal(a[key], b[key]) for key in a)
    assert not all(torch.equal(a[key], c[key]) for key in a)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_nan_loss_stops_and_keeps_the_last_good_weights(hops):
    model = make()

    def break_it(row):
        if row["epoch"] == 2:
            kept.update(copy.deepcopy(model.state_dict()))
            model.fc.weight.data[0, 0] = torch.nan

    kept: dict = {}
    with pytest.raises(DGLError, match=r"nan in epoch 3, batch 1.*epoch 2"):
        fit(model, hops, *SPLIT, epochs=5, on_epoch=break_it, lr=1e-3)
    for key, value in kept.items():
        assert torch.equal(model.state_dict()[key], value)


@pytest.mark.parametrize("monitor", ["loss", "accuracy"])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_bad_row_of_the_validation_is_an_error(hops, bad, monitor):
    inputs = [None, None, hops[2].clone()]
    inputs[2][DATA.valid[3]] = bad
    model = make()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(
        DGLError, match=r"validation loss is nan in epoch 1, batch 1.*began"
    ):
        fit(model, inputs, *SPLIT, epochs=3, monitor=monitor)
    for key, value in before.items():
        assert torch.equal(model.state_dict()[key], value)


def test_a_validation_that_goes_bad_keeps_the_best_weights(hops):
    model = make()
    kept: dict = {}

    class Breaking(torch.optim.SGD):
        def step(self, closure=None):
            super().step(closure)
            if len(kept) and self.steps == 2:
                model.fc.weight.data.fill_(torch.inf)
            self.steps += 1

    optimizer = Breaking(model.parameters(), lr=1e-3)
    optimizer.steps = 0

    def keep(row):
        kept.update(copy.deepcopy(model.state_dict()))

    with pytest.raises(DGLError, match=r"validation loss.*epoch 3.*epoch 2"):
        fit(model, hops, *SPLIT, epochs=5, on_epoch=keep, optimizer=optimizer,
            batch_size=10_000)  # fmt: skip
    for key, value in kept.items():
        assert torch.equal(model.state_dict()[key], value)


def test_a_fit_without_a_best_epoch_can_be_printed():
    columns = [
        "train_loss", "valid_loss", "valid_accuracy", "train_seconds",
        "seconds",
    ]  # fmt: skip
    none = Fit(pd.DataFrame(columns=columns), 0)
    assert str(none) == "no best epoch among 0"
    assert none.seconds == 0
    one = Fit(pd.DataFrame([[1, 1, 0.5, 1, 1]], [1], columns=columns), 0)
    assert str(one) == "no best epoch among 1"
    assert math.isnan(one.valid_accuracy)


def test_of_equal_epochs_the_first_is_kept(hops):
    model = make()
    # Nothing changes in a step, so that all epochs are equally good.
    found = fit(model, hops, *SPLIT, epochs=6, patience=3, lr=0.0)
    assert found.best_epoch == 1
    assert len(found.history) == 4
    assert found.history.valid_loss.nunique() == 1
    # Steps that change no prediction: the weights are those of epoch 1.
    seen = []
    found = fit(
        model, hops, *SPLIT, epochs=4, lr=1e-9, monitor="accuracy",
        on_epoch=lambda row: seen.append(copy.deepcopy(model.state_dict())),
    )  # fmt: skip
    assert found.history.valid_accuracy.nunique() == 1
    assert found.best_epoch == 1
    assert torch.equal(model.fc.weight, seen[0]["fc.weight"])
    assert not torch.equal(model.fc.weight, seen[3]["fc.weight"])


def test_the_whole_graph_trains_by_the_same_call():
    model = make(GCN)
    inputs = (dgl.add_self_loop(DATA.graph), DATA.feat)
    fit(model, inputs, *SPLIT, epochs=40, lr=0.05)
    assert accuracy(model, inputs, DATA.test) > 0.5
    assert len(predict(model, inputs)) == 400


def test_coefficients_of_gprgnn_do_not_decay():
    model = make(LCGPRGNN, K=2)
    inputs = model.precompute(DATA.graph, DATA.feat)
    seen = {}

    class Spy(torch.optim.Adam):
        def __init__(self, groups, lr):
            super().__init__(groups, lr=lr)
            for group in self.param_groups:
                for p in group["params"]:
                    seen[p] = group["weight_decay"]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.optim, "Adam", Spy)
        fit(model, inputs, *SPLIT, epochs=1, weight_decay=0.1)
    decays = {name: seen[p] for name, p in model.named_parameters()}
    assert decays.pop("gamma") == 0
    assert set(decays.values()) == {0.1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train": []}, "train is empty"),
        ({"valid": torch.ones(399).bool()}, "valid is a mask of 399 entries"),
        ({"train": [True, False]}, "train is a mask of 2 entries.* 400 nodes"),
        ({"valid": torch.zeros(400, dtype=torch.bool)}, "valid is empty"),
        ({"labels": DATA.labels[:7]}, "labels has 7"),
        ({"labels": DATA.labels.double()}, "labels should hold"),
        ({"labels": DATA.labels + 1}, "classes"),
        ({"monitor": "f1"}, "monitor='f1'"),
        ({"epochs": 0}, "epochs=0"),
        ({"inputs": (DATA.graph, DATA.feat[:5])}, "feat has 5 rows"),
    ],
)
def test_wrong_input_is_named(hops, change, message):
    options = {
        "inputs": hops, "labels": DATA.labels, "train": DATA.train,
        "valid": DATA.valid, "epochs": 1, **change,
    }  # fmt: skip
    with pytest.raises(DGLError, match=message):
        fit(make(), **options)


def test_predictions_are_in_the_order_of_the_nodes(hops):
    model = make().train()
    nodes = torch.tensor([7, 3, 7, 399])
    every = predict(model, hops)
    torch.testing.assert_close(
        predict(model, hops, nodes, batch_size=3), every[nodes]
    )
    assert model.training
    assert len(every) == 400


def inductive():
    data = block_model(300, num_feats=8, seed=5)
    data.inductive = True
    return data


def test_no_edge_of_other_nodes_leaks_into_inductive_training():
    data = inductive()
    model = SGC(8, data.num_classes)
    seen, unseen, _ = prepare(model, data)
    assert sorted(seen.nodes.tolist()) == sorted(data.train.tolist())
    # The training subgraph alone, by dense products.
    train = data.train.sort().values
    sub = dgl.node_subgraph(data.graph, train)
    matrix = torch.from_numpy(dense_filter(sub))
    expected = matrix @ matrix @ data.feat[train].double()
    torch.testing.assert_close(
        seen.rows(train)[2].double(), expected, atol=1e-5, rtol=1e-5
    )
    # Features of the other nodes change nothing in training, and do in
    # the evaluation.
    others = torch.cat([data.valid, data.test])
    changed = data.feat.clone()
    changed[others] += 100.0
    again, other, _ = prepare(
        model, type(data)(**{**vars_of(data), "feat": changed})
    )
    assert torch.equal(again[2], seen[2])
    assert not torch.equal(other[2], unseen[2])


def vars_of(data):
    names = type(data).__dataclass_fields__
    return {
        name: getattr(data, name)
        for name in names
        if type(data).__dataclass_fields__[name].init
    }


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("setting", ["transductive", "inductive"])
def test_every_model_trains(name, setting):
    data = inductive() if setting == "inductive" else DATA
    result = train_model(name, data, hid_feats=8, epochs=2, batch_size=100)
    assert 0 <= result.test_accuracy <= 1
    assert result.num_parameters > 0
    assert result.total_seconds >= result.fit.seconds


def masked(ids):
    mask = torch.zeros(len(DATA.labels), dtype=torch.bool)
    mask[ids] = True
    return mask


@pytest.mark.parametrize("whole", [False, True])
def test_masks_train_and_predict_as_ids_do(hops, whole):
    inputs = (DATA.graph, DATA.feat) if whole else hops
    train, valid = DATA.train.sort().values, DATA.valid.sort().values

    def losses(*split):
        torch.manual_seed(0)
        model = SGC(DATA.num_feats, DATA.num_classes)
        found = fit(model, inputs, DATA.labels, *split, epochs=3)
        return model, found.history["train_loss"].tolist()

    model, wanted = losses(train, valid)
    assert losses(masked(train), masked(valid).numpy())[1] == wanted
    ids = predict(model, inputs, valid)
    for mask in (masked(valid), masked(valid).tolist()):
        assert torch.equal(predict(model, inputs, mask), ids)
    with pytest.raises(DGLError, match="nodes is a mask of 2 entries"):
        predict(model, inputs, [True, False])
    with pytest.raises(DGLError, match="holds 400"):
        predict(model, inputs, [400])


def test_nodes_that_are_in_train_and_in_valid_are_counted(hops):
    labels, train, valid = SPLIT
    both = torch.cat([valid, train[:3]])
    with pytest.warns(DGLWarning, match=r"^3 of \d+ nodes of valid") as warned:
        fit(make(), hops, labels, train, both, epochs=1)
    assert warned[0].filename == __file__
