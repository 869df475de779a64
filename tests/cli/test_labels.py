"""``dgl-lc train --labels``, and predictions with such a model."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from dgl_lc.cli import main
from dgl_lc.data import block_model, save_npz
from dgl_lc.nn import SGC
from dgl_lc.precompute import open_store
from dgl_lc.training import correct_and_smooth, load_model, save_model

DATA = block_model(200, num_feats=8, num_classes=3)


@pytest.fixture
def task(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_npz(DATA, "mine.npz")
    return ["--data", "mine.npz"]


@pytest.fixture
def train(task, short_flags):
    return ["train", *task, "--model", "LCGCN", *short_flags, "--labels", "2",
            "--save", "model.pt"]  # fmt: skip


def test_a_model_with_labels_predicts(task, train, tmp_path):
    assert main(train) == 0
    model = load_model("model.pt")
    assert model.config["label_feats"] == 3
    assert model.config["label_hops"] == 2
    assert model.label_recipe.K == 2
    predict = ["predict", *task, "--model", "model.pt", "--probabilities"]
    assert main([*predict, "--out", "one.npy"]) == 0
    # Label features in a store are the same.
    again = [*train[:-1], "two.pt", "--label-store", "labels"]
    assert main(again) == 0
    assert open_store("labels").label_recipe == model.label_recipe
    assert main([*predict, "--out", "two.npy", "--label-store", "labels"]) == 0
    np.testing.assert_allclose(
        np.load("one.npy"), np.load("two.npy"), atol=1e-5
    )
    # And are used again by the next command.
    assert main(again) == 0


def test_three_hops_are_the_default(task, short_flags):
    assert main(["train", *task, "--model", "SGC", *short_flags, "--save",
                 "model.pt", "--labels"]) == 0  # fmt: skip
    assert load_model("model.pt").config["label_hops"] == 3


def test_labels_with_stores_of_hop_features(train):
    assert main([*train, "--hops-out", "hops", "--label-store", "labels"]) == 0
    assert main([*train, "--store", "hops"]) == 0


@pytest.mark.parametrize("soft", [False, True])
def test_stages_with_labels(task, train, capsys, refused, soft):
    call = [*train, "--label-store", "labels", "--checkpoint", "run.pt",
            "--stages", "2", "--threshold", "0"]  # fmt: skip
    call += ["--soft-labels"] if soft else []
    assert main(call) == 0
    said = capsys.readouterr().out
    model = load_model("model.pt")
    assert os.path.exists("labels-stage2") == soft
    predict = ["predict", *task, "--model", "model.pt", "--nodes", "test",
               "--out", "p.npy"]  # fmt: skip
    store = "labels"
    if soft:
        store = re.search("^label features: (.*)$", said, re.M)[1]
        if model.label_recipe.soft:
            assert "label_rows" in refused(*predict)
        capsys.readouterr()
    else:
        assert not model.label_recipe.soft
    assert open_store(store).label_recipe == model.label_recipe
    assert main([*predict, "--label-store", store]) == 0
    right = (np.load("p.npy") == DATA.labels[DATA.test].numpy()).mean()
    assert f"test accuracy {right:.4f}" in said
    # Nothing is trained again, and the file says the same.
    capsys.readouterr()
    assert main(call) == 0
    again = capsys.readouterr().out
    assert again[again.index("best of") :] == said[said.index("best of") :]
    assert load_model("model.pt").label_recipe == model.label_recipe


def test_label_features_of_another_run_are_not_used(
    task, train, refused, capsys
):
    call = [*train, "--label-store", "labels", "--checkpoint", "run.pt",
            "--stages", "2", "--threshold", "0", "--soft-labels"]  # fmt: skip
    assert main(call) == 0
    before = open_store("labels-stage2").label_recipe
    # It is said before the first stage, not after it.
    other = [*call, "--seed", "1", "--checkpoint", "other.pt"]
    capsys.readouterr()
    message = refused(*other)
    assert "labels-stage2 has the label features of an earlier run" in message
    assert "as --label-store, or begin again with --no-resume" in message
    assert not os.path.exists("other.pt")
    assert open_store("labels-stage2").label_recipe == before
    # Once this was refused with the advice to give --no-resume.
    assert main([*other, "--no-resume"]) == 0
    after = open_store("labels-stage2").label_recipe
    assert after.labels != before.labels
    # Those of the first stage do not depend on the run.
    message = refused(*other, "--no-resume", "--labels", "1")
    assert "Choose another folder, or remove this one." in message


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--model", "GCN", "--labels"], "--labels: GCN is an original"),
        (["--model", "SGC", "--label-store", "s"], "--label-store is for"),
        (["--model", "SGC", "--labels", "0"], "--labels"),
        (
            ["--model", "SGC", "--labels", "--soft-labels"],
            "--soft-labels also needs --stages 2 or more and --label-store",
        ),
        (
            ["--model", "SGC", "--stages", "2", "--soft-labels"],
            "--soft-labels also needs --labels and --label-store",
        ),
    ],
)
def test_flags_that_do_not_go_together(task, refused, flags, named):
    assert named in refused("train", *task, *flags)


def test_a_model_of_unknown_label_features_is_refused(task, refused):
    torch.manual_seed(0)
    save_model(SGC(8, 3, label_feats=3), "unknown.pt")
    save_model(SGC(8, 3), "plain.pt")
    call = ["predict", *task, "--out", "p.npy", "--model"]
    assert "does not say how they were made" in refused(*call, "unknown.pt")
    flags = ["--label-store", "labels"]
    assert "omit it" in refused(*call, "plain.pt", *flags)


def test_a_store_of_other_labels_is_refused(task, train, refused):
    assert main([*train, "--label-store", "labels"]) == 0
    other = block_model(200, num_feats=8, num_classes=3)
    other.labels[other.train[0]] = (other.labels[other.train[0]] + 1) % 3
    save_npz(other, "other.npz")
    message = refused(
        "predict", "--data", "other.npz", "--model", "model.pt", "--out",
        "p.npy", "--label-store", "labels",
    )  # fmt: skip
    assert "was not made from the training labels" in message


def test_predictions_are_corrected_and_smoothed(task, train, refused):
    assert main(train) == 0
    call = ["predict", *task, "--model", "model.pt", "--out"]
    smooth = ["--correct-and-smooth", "0.7,0.6"]
    assert main([*call, "all.npy", "--probabilities"]) == 0
    assert main([*call, "smooth.npy", "--nodes", "test", *smooth]) == 0
    expected = correct_and_smooth(
        np.load("all.npy"), DATA.graph, DATA.labels, DATA.train,
        correction_alpha=0.7, smoothing_alpha=0.6, probabilities=True,
        nodes=DATA.test,
    )  # fmt: skip
    np.testing.assert_array_equal(np.load("smooth.npy"), expected.argmax(1))
    assert main([*call, "smooth.csv", *smooth[:1]]) == 0
    assert Path("smooth.csv").read_text().count("\n") == 201
    # Nothing else is left beside the files.
    assert not [name for name in os.listdir() if name.startswith(".")]
    flags = ["--probabilities", *smooth]
    assert "--probabilities" in refused(*call, "p.npy", *flags)
    for wrong in ("0.5", "0.5,2", "a,b"):
        flags = ["--correct-and-smooth", wrong]
        assert "--correct-and-smooth" in refused(*call, "p.npy", *flags)
