"""Training: what is learned, kept, written and refused."""

import copy

import dgl
import pytest
import torch
from dgl import DGLError
from torch import nn

from dgl_lc.data import block_model
from dgl_lc.experiments.named_models import MODELS
from dgl_lc.experiments.originals import GCN
from dgl_lc.experiments.train_one import prepare, train_model
from dgl_lc.nn import FSGNN, LCGPRGNN, SGC
from dgl_lc.testing.reference import dense_filter
from dgl_lc.training import fit, load_model, predict, save_model

DATA = block_model(400, num_feats=16, seed=2)
SPLIT = (DATA.labels, DATA.train, DATA.valid)


def make(kind=SGC, **options):
    torch.manual_seed(0)
    sizes = [DATA.num_feats, DATA.num_classes]
    if kind is not SGC:
        sizes.insert(1, 8)
    return kind(*sizes, **options)


@pytest.fixture
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


def test_an_interrupted_run_goes_on_where_it_was(tmp_path):
    kind = {"K": 2, "dropout": 0.5}
    inputs = make(LCGPRGNN, **kind).precompute(DATA.graph, DATA.feat)
    options = {"batch_size": 64, "patience": 100}
    whole = make(LCGPRGNN, **kind)
    expected = fit(whole, inputs, *SPLIT, epochs=8, **options)

    def interrupt(row):
        if row["epoch"] == 4:
            raise KeyboardInterrupt

    model = make(LCGPRGNN, **kind)
    file = tmp_path / "deep" / "run.pt"
    with pytest.raises(KeyboardInterrupt):
        fit(model, inputs, *SPLIT, epochs=8, checkpoint=file,
            on_epoch=interrupt, **options)  # fmt: skip
    again = make(LCGPRGNN, **kind)
    found = fit(again, inputs, *SPLIT, epochs=8, checkpoint=file, **options)
    assert found.history.train_loss.tolist() == (
        expected.history.train_loss.tolist()
    )
    assert found.best_epoch == expected.best_epoch
    for key, value in whole.state_dict().items():
        assert torch.equal(again.state_dict()[key], value), key
    # Finished: called again, there is nothing left to do.
    third = make(LCGPRGNN, **kind)
    fit(third, inputs, *SPLIT, epochs=8, checkpoint=file, **options)
    assert torch.equal(third.gamma, whole.gamma)


def test_a_checkpoint_of_another_model_or_run_is_refused(tmp_path, hops):
    file = tmp_path / "run.pt"
    fit(make(), hops, *SPLIT, epochs=2, checkpoint=file)
    with pytest.raises(DGLError, match="of another model"):
        fit(make(bias=False), hops, *SPLIT, epochs=3, checkpoint=file)
    with pytest.raises(DGLError, match=r"lr=0.01 there, 0.5 here"):
        fit(make(), hops, *SPLIT, epochs=3, checkpoint=file, lr=0.5)
    fit(make(), hops, *SPLIT, epochs=3, checkpoint=file, lr=0.5, resume=False)
    file.write_text("no file of torch")
    with pytest.raises(DGLError, match="can't be read"):
        fit(make(), hops, *SPLIT, epochs=3, checkpoint=file)


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
        ({"valid": torch.zeros(400, dtype=torch.bool)}, "valid is a mask"),
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


@pytest.mark.parametrize("name", [n for n in MODELS if n.startswith("LC")])
def test_a_saved_model_gives_the_same_predictions(name, tmp_path):
    torch.manual_seed(0)
    model = MODELS[name](DATA.num_feats, 8, DATA.num_classes)
    inputs = model.precompute(DATA.graph, DATA.feat)
    save_model(model, tmp_path / "model.pt")
    again = load_model(tmp_path / "model.pt")
    assert not again.training
    torch.testing.assert_close(predict(again, inputs), predict(model, inputs))


def test_what_a_file_of_a_model_can_not_hold_is_refused(tmp_path):
    with pytest.raises(DGLError, match="not a whole model"):
        save_model(nn.Linear(2, 2), tmp_path / "model.pt")
    with pytest.raises(DGLError, match="no name"):
        save_model(make(FSGNN, activation=torch.sin), tmp_path / "model.pt")
    torch.save({"kind": "other"}, tmp_path / "other.pt")
    with pytest.raises(DGLError, match="not a model"):
        load_model(tmp_path / "other.pt")
    with pytest.raises(DGLError, match="is not there"):
        load_model(tmp_path / "none.pt")
    torch.save(nn.Linear(2, 2), tmp_path / "code.pt")
    with pytest.raises(DGLError, match="can't be read"):
        load_model(tmp_path / "code.pt")


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
