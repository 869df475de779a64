"""Schedulers, clipped gradients, precision and functions of epochs."""

import pytest
import torch
from dgl import DGLError
from test_losses import CLASSES, Line, train
from tiny_task import DATA, DEEP, SPLIT, make
from torch.optim import lr_scheduler

from dgl_lc.nn import LCGPRGNN, SGC
from dgl_lc.training import fit


@pytest.fixture(scope="module")
def hops():
    return make(LCGPRGNN, **DEEP).precompute(DATA.graph, DATA.feat)


def go(hops, scheduler, epochs=6, **options):
    return train(
        hops, DATA.labels, CLASSES, scheduler=scheduler, epochs=epochs,
        lr=0.1, **options,
    )  # fmt: skip


SCHEDULERS = {
    "step": lambda o: lr_scheduler.StepLR(o, 2, 0.5),
    "cosine": lambda o: lr_scheduler.CosineAnnealingLR(o, 6),
    "milestones": lambda o: lr_scheduler.MultiStepLR(o, [2, 4], 0.1),
    "plateau": lambda o: lr_scheduler.ReduceLROnPlateau(
        o, patience=0, threshold=10.0
    ),
    "sequence": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.LinearLR(o), lr_scheduler.ExponentialLR(o, 0.5)], [3]
    ),
}


def test_the_rate_of_each_epoch_is_in_the_history(hops):
    _, found = go(hops, SCHEDULERS["step"])
    rates = [0.1, 0.1, 0.05, 0.05, 0.025, 0.025]
    assert found.history.lr.tolist() == pytest.approx(rates)
    _, found = go(hops, SCHEDULERS["plateau"])
    assert found.history.lr.iloc[-1] < 0.01
    assert "lr" not in go(hops, None)[1].history


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_run_resumes_with_its_scheduler(hops, name, tmp_path):
    options = {"clip_norm": 0.5, "class_weight": "balanced"}
    model, expected = go(hops, SCHEDULERS[name], **options)
    file = tmp_path / "run.pt"
    for epochs in (3, 6):
        resumed, found = go(
            hops, SCHEDULERS[name], epochs, checkpoint=file, **options
        )
    for column in ("train_loss", "valid_loss", "lr"):
        wanted = expected.history[column].tolist()
        assert found.history[column].tolist() == wanted
    assert torch.equal(resumed.last.weight, model.last.weight)


def test_an_optimizer_and_its_scheduler_may_be_given(hops):
    model = Line(CLASSES)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = lr_scheduler.StepLR(optimizer, 1, 0.5)
    found = fit(model, hops, *SPLIT, epochs=2, optimizer=optimizer,
                scheduler=scheduler)  # fmt: skip
    assert found.history.lr.tolist() == [0.1, 0.05]
    made = fit(
        Line(CLASSES), hops, *SPLIT, epochs=2, scheduler=SCHEDULERS["step"],
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    )  # fmt: skip
    assert made.history.train_loss.iloc[0] == found.history.train_loss.iloc[0]


def test_a_clipped_step_is_no_longer_than_the_norm(hops):
    def moved(clip_norm):
        model = Line(CLASSES)
        before = [p.detach().clone() for p in model.parameters()]
        fit(model, hops, *SPLIT, epochs=1, batch_size=10_000,
            clip_norm=clip_norm, optimizer=torch.optim.SGD(
                model.parameters(), lr=1.0))  # fmt: skip
        pairs = zip(model.parameters(), before, strict=True)
        squares = [(a.detach() - b).square().sum() for a, b in pairs]
        return float(sum(squares).sqrt())

    assert moved(None) > 0.02
    assert moved(0.01) == pytest.approx(0.01, rel=1e-3)


def test_bfloat16_learns_and_leaves_the_weights_in_float32(hops):
    seen = []

    class Spy(SGC):
        def forward(self, graph, feat, *args, **kwargs):
            found = super().forward(graph, feat, *args, **kwargs)
            seen.append((found.dtype, torch.is_autocast_cpu_enabled()))
            return found

    def learn(precision):
        torch.manual_seed(0)
        model = Spy(DATA.num_feats, CLASSES)
        rows = model.precompute(DATA.graph, DATA.feat)
        found = fit(model, rows, *SPLIT, epochs=40, lr=0.1,
                    precision=precision)  # fmt: skip
        return model, found

    model, found = learn("bf16")
    assert set(seen) == {(torch.bfloat16, True)}
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    plain = learn("fp32")[1]
    assert seen[-1] == (torch.float32, False)
    assert found.valid_accuracy > plain.valid_accuracy - 0.1
    first = found.history.train_loss.iloc[0], plain.history.train_loss.iloc[0]
    assert first[0] != first[1]
    assert first[0] == pytest.approx(first[1], rel=0.02)


def test_several_functions_get_each_row(hops):
    first, second = [], []
    go(hops, None, 2, on_epoch=[first.append, second.append])
    assert first == second
    assert [row["epoch"] for row in first] == [1, 2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scheduler": 3}, "scheduler should be a scheduler of"),
        ({"scheduler": lambda o: o}, "scheduler should make .* makes a Adam"),
        ({"scheduler": lr_scheduler.StepLR(
            torch.optim.SGD([torch.ones(1)], lr=1), 1)}, "another optimizer"),
        ({"scheduler": SCHEDULERS["plateau"], "monitor": "accuracy"},
         "mode='min', and of the monitored value a higher"),
        ({"scheduler": lambda o: lr_scheduler.OneCycleLR(o, 1, total_steps=2),
          "epochs": 5}, "ended before the run"),
        ({"clip_norm": 0}, "clip_norm=0 should be"),
        ({"clip_norm": float("nan")}, "clip_norm=nan"),
        ({"precision": "fp16"}, "'bf16' has the range of fp32"),
        ({"precision": "half"}, "precision='half' should be one of fp32, bf16"),
        ({"optimizer": "adam"}, "optimizer should be an optimizer of"),
        ({"optimizer": lambda p: p}, "optimizer should make .* a list"),
        ({"on_epoch": [3]}, "on_epoch should be a function"),
    ],
)  # fmt: skip
def test_wrong_options_are_named(hops, options, message):
    with pytest.raises(DGLError, match=message):
        train(hops, DATA.labels, CLASSES, **options)


#: Options, others of the same kind, and how the difference is named.
OTHERS = {
    "loss": ({}, {"loss": torch.nn.functional.cross_entropy},
             "loss is cross_entropy, .* torch.nn.functional.cross_entropy"),
    "metric": ({}, {"metric": "macro_f1"}, "metric is accuracy, .* macro_f1"),
    "class_weight": ({"class_weight": "balanced"}, {}, "class_weight is .*N"),
    "clip_norm": ({"clip_norm": 1.0}, {"clip_norm": 2.0}, "clip_norm is 1.0"),
    "precision": ({}, {"precision": "bf16"}, "precision is 'fp32'.* 'bf16'"),
    "scheduler": (
        {"scheduler": SCHEDULERS["milestones"]},
        {"scheduler": lambda o: lr_scheduler.MultiStepLR(o, [3, 4], 0.1)},
        "scheduler is ",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_a_checkpoint_of_other_options_is_refused(hops, name, tmp_path):
    first, second, message = OTHERS[name]
    options = {"epochs": 1, "checkpoint": tmp_path / "run.pt"}
    train(hops, DATA.labels, CLASSES, **options, **first)
    with pytest.raises(DGLError, match=f"of another run: its {message}"):
        train(hops, DATA.labels, CLASSES, **options, **second)
    train(hops, DATA.labels, CLASSES, **options, **first)


def test_checkpoints_from_before_these_options_are_resumed(
    hops, tmp_path, monkeypatch
):
    from dgl_lc.training import description

    file = tmp_path / "run.pt"
    with monkeypatch.context() as patch:
        patch.setattr(description, "_of_options", lambda *given: ())
        train(hops, DATA.labels, CLASSES, epochs=1, checkpoint=file)
    rows = []
    train(hops, DATA.labels, CLASSES, epochs=2, checkpoint=file,
          on_epoch=rows.append)  # fmt: skip
    assert [row["epoch"] for row in rows] == [2]
    with pytest.raises(DGLError, match="its loss is cross_entropy, "):
        train(hops, DATA.labels, CLASSES, epochs=2, checkpoint=file,
              loss=torch.nn.functional.cross_entropy)  # fmt: skip
