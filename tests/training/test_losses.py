"""Losses, weights of classes, and targets of all kinds, in ``fit``."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from dgl import DGLError
from hypothesis import given, settings
from hypothesis import strategies as st
from night import cases
from sklearn.utils.class_weight import compute_class_weight
from tiny_task import DATA, DEEP, SPLIT, make
from torch import nn

from dgl_lc.nn import LCGPRGNN
from dgl_lc.node_rows import NodeRows
from dgl_lc.training import HopLoader, fit, predict
from dgl_lc.training.losses import Objective, make_class_weight
from dgl_lc.training.targets import PseudoLabels, Targets, make_targets

CLASSES = DATA.num_classes
#: Several classes per node, and numbers, that depend on the features.
MANY = (DATA.feat[:, :3] + 0.5 * DATA.feat[:, 3:6] > 0).float()
NUMBERS = DATA.feat[:, :2] @ torch.tensor([[1.0, 2.0], [-1.0, 0.5]])


class Line(nn.Module):
    """A linear model of hop 0."""

    def __init__(self, columns, dtype=torch.float32):
        super().__init__()
        torch.manual_seed(0)
        self.last = nn.Linear(DATA.num_feats, columns, dtype=dtype)

    def forward(self, graph, batch):
        return self.last(batch[0].to(self.last.weight.dtype))


@pytest.fixture(scope="module")
def hops():
    return make(LCGPRGNN, **DEEP).precompute(DATA.graph, DATA.feat)


def train(hops, labels, columns, **options):
    model = Line(columns)
    options = {"epochs": 3, "batch_size": 64, **options}
    found = fit(model, hops, labels, DATA.train, DATA.valid, **options)
    return model, found


# Nothing changes without these options


def test_without_options_each_bit_is_that_of_a_plain_loop(hops):
    """The loop is what fit did before it had losses and metrics."""
    torch.manual_seed(0)
    model = make(LCGPRGNN, **DEEP)
    labels, train, valid = SPLIT
    spared = model.no_weight_decay
    named = list(model.named_parameters())
    groups = [
        {"params": [p for n, p in named if (n in spared) == kept],
         "weight_decay": 0.0 if kept else 1e-3}
        for kept in (False, True)
    ]  # fmt: skip
    optimizer = torch.optim.Adam(groups, lr=0.02)
    loader = HopLoader(hops, train, labels, 64, True, seed=5)
    checks = HopLoader(hops, valid, labels, 256)
    rows = []
    with torch.random.fork_rng():
        torch.manual_seed(5)
        for _ in range(4):
            model.train()
            total = 0.0
            for batch, target in loader:
                loss = F.cross_entropy(model(None, batch), target)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
                total += loss.item() * len(target)
            model.eval()
            lost, right = 0.0, 0
            with torch.no_grad():
                for batch, target in checks:
                    logits = model(None, batch)
                    each = F.cross_entropy(logits, target, reduction="none")
                    lost += float(each.double().sum())
                    right += int((logits.argmax(1) == target).sum())
            rows.append([total / len(train), lost / len(valid),
                         right / len(valid)])  # fmt: skip
    found = fit(
        make(LCGPRGNN, **DEEP), hops, *SPLIT, epochs=4, batch_size=64,
        lr=0.02, weight_decay=1e-3, seed=5,
    )  # fmt: skip
    columns = ["train_loss", "valid_loss", "valid_accuracy"]
    assert found.history[columns].values.tolist() == rows
    # The name of the default, and one-hot rows, are the same run to rounding.
    named = fit(
        make(LCGPRGNN, **DEEP), hops, *SPLIT, epochs=4, batch_size=64,
        lr=0.02, weight_decay=1e-3, seed=5, loss="cross_entropy",
        metric="accuracy", precision="fp32", class_weight=[1.0] * CLASSES,
    )  # fmt: skip
    np.testing.assert_allclose(named.history[columns].values, rows, rtol=1e-5)
    one_hot = F.one_hot(labels, CLASSES).float()
    soft = fit(
        make(LCGPRGNN, **DEEP), hops, one_hot, train, valid, epochs=4,
        batch_size=64, lr=0.02, weight_decay=1e-3, seed=5,
    )  # fmt: skip
    np.testing.assert_allclose(soft.history[columns].values, rows, rtol=1e-5)


# Values of losses, against torch's own in float64


def targets(values, **parts):
    return Targets(values, **parts)


@settings(max_examples=cases(20, 400), deadline=None)
@given(
    rows=st.integers(1, 9), classes=st.integers(2, 5),
    seed=st.integers(0, 1000), cut=st.integers(0, 9),
)  # fmt: skip
def test_weighted_losses_add_up_to_those_of_torch(rows, classes, seed, cut):
    draw = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, classes, generator=draw, dtype=torch.float64)
    values = torch.randint(classes, (rows,), generator=draw)
    weight = torch.rand(classes, generator=draw, dtype=torch.float64) + 0.1
    mine = Objective(None, weight)
    expected = F.cross_entropy(logits, values, weight=weight)
    whole, _ = mine.mean(logits, targets(values))
    torch.testing.assert_close(whole, expected)
    # Parts of ranks, of which one may be empty.
    parts = [
        mine.total(logits[part], targets(values[part]))
        for part in (slice(0, cut), slice(cut, None))
    ]
    total = sum(part[0] for part in parts) / sum(part[1] for part in parts)
    torch.testing.assert_close(total, expected)
    checked = mine.checked_total(logits, targets(values))
    assert checked[0] / checked[1] == pytest.approx(float(expected))
    # One-hot rows are the same as classes, whatever the weights.
    soft = F.one_hot(values, classes).double()
    place = torch.where(torch.arange(rows) % 2 == 0, torch.arange(rows), -1)
    mixed = targets(values, soft=soft, place=place)
    torch.testing.assert_close(mine.mean(logits, mixed)[0], expected)


@pytest.mark.parametrize(
    ("loss", "function"),
    [
        ("bce", F.binary_cross_entropy_with_logits),
        ("mse", F.mse_loss),
        ("l1", F.l1_loss),
    ],
)
def test_losses_of_columns_are_those_of_torch(loss, function):
    torch.manual_seed(0)
    logits = torch.randn(7, 3, dtype=torch.float64)
    values = torch.rand(7, 3, dtype=torch.float64)
    mine = Objective(loss)
    expected = function(logits, values)
    torch.testing.assert_close(mine.mean(logits, targets(values))[0], expected)
    total, weight = mine.checked_total(logits, targets(values))
    assert total / weight == pytest.approx(float(expected))
    assert float(mine.total(logits[:0], targets(values[:0]))[0]) == 0


def test_soft_and_weighted_rows_are_those_of_the_formula():
    torch.manual_seed(0)
    logits = torch.randn(6, 3, dtype=torch.float64)
    labels, soft = torch.tensor([0, 1, 2, 0, 1, 2]), torch.rand(2, 3).double()
    soft /= soft.sum(1, keepdim=True)
    given = PseudoLabels(labels, torch.tensor([4, 1]), soft, weight=0.25)
    ids = torch.tensor([5, 4, 0, 1])
    made = make_targets(given, NodeRows([logits]), ids, "cross_entropy")
    found, weight = Objective().mean(logits[ids], made.to("cpu"))
    logs = logits.log_softmax(1)
    expected = -(
        logs[5, 2] + 0.25 * (soft[0] @ logs[4]) + logs[0, 0]
        + 0.25 * (soft[1] @ logs[1])
    )  # fmt: skip
    assert weight == 2.5
    torch.testing.assert_close(found, expected / 2.5)
    # In another order, and cut.
    other = made.index_select(0, torch.tensor([3, 1, 2, 0]))[:2].to("cpu")
    found, _ = Objective().mean(logits[[1, 4]], other)
    expected = -(soft[1] @ logs[1] + soft[0] @ logs[4]) / 2
    torch.testing.assert_close(found, expected)


def test_balanced_weights_are_those_of_scikit_learn():
    values = torch.tensor([0, 0, 0, 2, 2, 3])
    found = make_class_weight("balanced", "cross_entropy", targets(values))
    wanted = compute_class_weight(
        "balanced", classes=np.array([0, 2, 3]), y=values.numpy()
    )
    assert found[[0, 2, 3]].tolist() == pytest.approx(wanted.tolist())
    assert found[1] == 1
    columns = torch.tensor([[1.0, 0, 0], [0, 0, 1], [0, 0, 1], [0, 0, 1]])
    found = make_class_weight("balanced", "bce", targets(columns))
    assert found.tolist() == pytest.approx([3.0, 1.0, 1 / 3])


# Training with them


def test_several_classes_per_node_are_learned(hops):
    model, found = train(hops, MANY, 3, loss="bce", epochs=60, lr=0.1)
    assert found.metric == "micro_f1"
    assert found.valid_metric > 0.9
    assert "validation micro_f1 0.9" in str(found)
    with pytest.raises(DGLError, match="read valid_metric"):
        _ = found.valid_accuracy
    weighted, _ = train(
        hops, MANY.bool(), 3, loss="bce", class_weight="balanced", lr=0.1,
        epochs=60,
    )  # fmt: skip
    assert not torch.equal(weighted.last.weight, model.last.weight)


@pytest.mark.parametrize("loss", ["mse", "l1"])
def test_numbers_are_learned(hops, loss):
    for labels, columns in ((NUMBERS, 2), (NUMBERS[:, 0].double(), 1)):
        _, found = train(
            hops, labels, columns, loss=loss, epochs=80, lr=0.05, metric="r2",
            monitor="r2",
        )  # fmt: skip
        assert found.valid_metric > 0.9


def test_a_loss_of_ones_own_gives_rows_or_their_mean(hops):
    def rows(logits, target):
        return F.cross_entropy(logits, target, reduction="none")

    labels = DATA.labels
    expected = train(hops, labels, CLASSES)[1].history.train_loss.tolist()
    for loss in (rows, nn.CrossEntropyLoss()):
        found = train(hops, labels, CLASSES, loss=loss)[1].history
        assert found.train_loss.tolist() == pytest.approx(expected, rel=1e-5)
        assert "valid_accuracy" in found

    def columns(logits, target):
        return (logits - target) ** 2

    expected = train(hops, NUMBERS, 2, loss="mse")[1].history.train_loss
    found = train(hops, NUMBERS, 2, loss=columns, metric="mae")[1].history
    assert found.train_loss.tolist() == pytest.approx(expected.tolist())


def test_balanced_weights_find_more_of_a_rare_class(hops):
    # Class 0 against all others, of which there are many more.
    rare = (DATA.labels == 0).long()

    def found(**options):
        model, _ = train(hops, rare, 2, epochs=20, **options)
        return int(predict(model, hops, DATA.test).argmax(1).sum())

    assert found(class_weight="balanced") > 2 * found()
    # A model may have more classes than the training nodes.
    train(hops, rare, 5, class_weight="balanced")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "hinge"}, "loss='hinge' should be one of cross_entropy, bce"),
        ({"loss": 3}, "loss=3 should be one of"),
        ({"loss": "bce"}, "labels holds [2-9].0 for node"),
        ({"loss": "bce", "labels": MANY}, "labels has 3 columns, but the m"),
        ({"loss": "mse", "labels": NUMBERS * torch.nan}, "labels holds nan"),
        ({"labels": NUMBERS}, "probabilities of classes for the cross"),
        ({"labels": torch.full((400, 3), 1 / 3)}, "of 3 classes, but the"),
        ({"loss": "mse", "labels": NUMBERS[None]}, "labels should hold a numb"),
        ({"loss": "mse", "labels": NUMBERS[:5]}, "labels has 5 entries"),
        ({"loss": lambda a, b: 3.0}, "loss should give .* and gives float"),
        ({"loss": lambda a, b: a[:2].sum(1)}, r"gives \(2,\)"),
        ({"class_weight": "even"}, "class_weight='even'"),
        ({"class_weight": [1.0, 2.0]}, "class_weight has 2 entries, and"),
        ({"class_weight": [1.0] * 9}, "class_weight has 9 entries, but the"),
        ({"class_weight": [0.0] * CLASSES}, "number above 0 for each class"),
        ({"class_weight": "balanced", "loss": F.cross_entropy}, "class_weight"),
        ({"loss": "bce", "labels": MANY, "class_weight": [1.0]}, "3 columns"),
    ],
)
def test_wrong_losses_and_labels_are_named(hops, options, message):
    labels = options.pop("labels", DATA.labels)
    with pytest.raises(DGLError, match=message):
        train(hops, labels, CLASSES, epochs=1, **options)
