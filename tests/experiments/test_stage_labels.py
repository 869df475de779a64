"""Label features of each stage of a self-training."""

import pytest
import torch
from dgl import DGLError

from dgl_lc.data import block_model
from dgl_lc.experiments.named_models import make_model
from dgl_lc.experiments.stage_labels import stage_folder
from dgl_lc.experiments.train_one import train_model
from dgl_lc.precompute import label_features, open_store, with_labels
from dgl_lc.training import fit, predict

DATA = block_model(150, num_classes=3, num_feats=6, seed=1)
OPTIONS = {"label_feats": 3, "label_hops": 2}
TRAINING = {"epochs": 3, "lr": 0.02, "threshold": 0.4}


def train(folder, stages, **options):
    return train_model(
        "LCGCN", DATA, hid_feats=8, options=OPTIONS, stages=stages,
        soft_labels=True, label_store=folder / "labels", **TRAINING, **options,
    )  # fmt: skip


def labels_of(soft=None):
    return label_features(DATA.graph, DATA.labels, DATA.train, 2, soft=soft)


def stacked(rows):
    return torch.stack(list(rows.rows(torch.arange(150))))


def test_later_stages_read_soft_labels_of_confident_nodes(tmp_path):
    found = train(tmp_path, 3)
    torch.manual_seed(0)
    model = make_model("LCGCN", DATA, 8, **OPTIONS)
    begin = {k: v.clone() for k, v in model.state_dict().items()}
    hops = model.precompute(DATA.graph, DATA.feat)
    labels, train_nodes, targets = labels_of(), DATA.train, DATA.labels
    losses, scores, recipes = [], [], []
    for stage in (1, 2, 3):
        stored = open_store(stage_folder(tmp_path / "labels", stage))
        # In a few parts of another order of sums: not the same to a bit.
        torch.testing.assert_close(stacked(stored), stacked(labels))
        recipes.append(stored.label_recipe)
        model.load_state_dict(begin)
        inputs = with_labels(hops, stored)
        run = fit(model, inputs, targets, train_nodes, DATA.valid,
                  seed=stage - 1, epochs=3, lr=0.02)  # fmt: skip
        losses.append(run.history.valid_loss.min())
        shares = predict(model, inputs, DATA.test).softmax(1)
        right = shares.argmax(1) == DATA.labels[DATA.test]
        scores.append(right.double().mean().item())
        sure = shares.amax(1) >= 0.4
        ids, soft = DATA.test[sure], shares[sure].half().float()
        assert len(ids)
        labels = labels_of((ids, soft))
        train_nodes = torch.cat([DATA.train, ids])
        targets = torch.nn.functional.one_hot(DATA.labels, 3).float()
        targets[ids] = soft / soft.sum(1, keepdim=True)
    expected = found.fit.history.groupby("stage").valid_loss.min()
    assert expected.tolist() == pytest.approx(losses, abs=1e-5)
    # What is left is the best stage, with label features of its own.
    best = int(expected.argmin())
    assert found.test_accuracy == scores[best]
    assert found.model.label_recipe == recipes[best]
    assert [recipe.soft for recipe in recipes] == [False, True, True]


@pytest.mark.parametrize("missing", ["store", "labels"])
def test_what_soft_labels_need_is_named(tmp_path, missing):
    options = {"options": OPTIONS, "label_store": tmp_path / "labels"}
    del options["label_store" if missing == "store" else "options"]
    with pytest.raises(DGLError, match="label_"):
        train_model(
            "LCGCN", DATA, hid_feats=8, stages=2, soft_labels=True, epochs=1,
            **options,
        )  # fmt: skip


def test_inductive_tasks_have_no_soft_labels(tmp_path):
    data = block_model(90, num_classes=3, num_feats=6)
    data.inductive = True
    with pytest.raises(DGLError, match="inductive"):
        train_model(
            "LCGCN", data, hid_feats=8, options=OPTIONS, stages=2, epochs=1,
            soft_labels=True, label_store=tmp_path / "labels",
        )  # fmt: skip
