"""Training on several ranks: the same steps as in one process."""

import os
import re
import signal
import warnings

import dgl
import numpy as np
import pytest
import ranks_task
import torch
import torch.distributed as dist
from dgl import DGLError
from night import NIGHT
from ranks_task import HOPS, Net, assert_equal, attempt, together, train_with
from tiny_task import DATA
from torch import nn

from dgl_lc.hops import HopFeatures
from dgl_lc.ranks import call as calls
from dgl_lc.ranks.call import RankFailed
from dgl_lc.testing.run_ranks import RankErrors, run_ranks
from dgl_lc.training import epochs, fit

# The same steps as one process

#: Numbers of training nodes: with an uneven last batch, and with fewer nodes
#: than ranks.
COUNTS = (45, 50, 3, 1)


def _steps(batch_size):
    if dist.is_initialized():
        # Other weights on other ranks: those of rank 0 count.
        batch_size //= dist.get_world_size()
    found = []
    for count in COUNTS:
        model = Net()
        if dist.is_initialized():
            model.last.weight.data += dist.get_rank()
        found.append(
            train_with(model, train=DATA.train[:count], batch_size=batch_size)
        )
    return found


#: By day one number of ranks, which does not divide the number of rows.
SIZES = pytest.mark.parametrize("size", [2, 3] if NIGHT else [3])


@pytest.mark.parametrize("size", [1, 2, 3, 4] if NIGHT else [1, 3])
def test_ranks_take_the_steps_of_one_process(size):
    expected = _steps(24)
    for found, one in zip(together(size, _steps, 24), expected, strict=True):
        assert_equal(found, one)
    assert np.all(found["weights"]["unused"] == 1)


def _plateau(optimizer):
    return torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, mode="max", patience=0, threshold=0.2
    )


def _own_loss(logits, target):
    return torch.nn.functional.cross_entropy(logits, target, reduction="none")


def _spread(logits, target):
    return float(logits.std() + target.double().mean())


#: Columns of 0 and 1, and rows of probabilities.
_MANY = (DATA.labels[:, None] <= torch.arange(DATA.num_classes)).double()
_SOFT = 0.2 / DATA.num_classes + 0.8 * torch.nn.functional.one_hot(DATA.labels)
OPTIONS = (
    {"class_weight": "balanced", "metric": "macro_f1", "monitor": "macro_f1",
     "scheduler": _plateau, "clip_norm": 0.05},
    {"labels": _MANY, "loss": "bce", "metric": "roc_auc",
     "class_weight": "balanced"},
    {"labels": _SOFT, "class_weight": 1.0 + torch.arange(DATA.num_classes)},
    {"loss": _own_loss, "metric": _spread, "monitor": "_spread"},
)  # fmt: skip


def _with_options(batch_size):
    if dist.is_initialized():
        batch_size //= dist.get_world_size()
    return [
        train_with(Net(), train=DATA.train[:count], batch_size=batch_size,
                   **options)
        for options in OPTIONS
        for count in (45, 3)
    ]  # fmt: skip


@SIZES
def test_ranks_weigh_rows_and_measure_as_one_process(size):
    expected = _with_options(24)
    every = together(size, _with_options, 24)
    for found, one in zip(every, expected, strict=True):
        assert_equal(found, one)


def _no_step():
    """Validate without a step, so that weights are equal to the last bit."""
    options = {"lr": 0.0, "weight_decay": 0.0, "epochs": 1}
    return train_with(Net(), **options)


def _stop_early():
    share = dist.get_world_size() if dist.is_initialized() else 1
    options = {"lr": 0.5, "epochs": 60, "patience": 3}
    return train_with(Net(), batch_size=12 // share, **options)


@SIZES
def test_the_validation_is_that_of_one_process(size):
    found, expected = together(size, _no_step), _no_step()
    for name in ("valid_loss", "valid_accuracy"):
        np.testing.assert_allclose(
            found["history"][name], expected["history"][name], rtol=1e-12
        )
    found, expected = together(size, _stop_early), _stop_early()
    assert len(found["history"]["seconds"]) < 60
    assert_equal(found, expected)


# Checkpoints


def _part(file, epochs, batch_size, dropout=0.0):
    """Train up to an epoch, with a checkpoint that only rank 0 can see."""
    rank = 0
    if dist.is_initialized():
        rank = dist.get_rank()
        batch_size //= dist.get_world_size()
    file = file.with_name(f"{file.name}-{rank}")
    return train_with(
        Net(dropout=dropout), epochs=epochs, batch_size=batch_size,
        checkpoint=file,
    )  # fmt: skip


def test_a_run_resumes_with_another_number_of_ranks(tmp_path):
    file = tmp_path / "run"
    expected = train_with(Net(), epochs=8, batch_size=24)
    together(3, _part, file, 2, 24)
    assert [path.name for path in tmp_path.iterdir()] == ["run-0"]
    together(2, _part, file, 4, 24)
    _part(file, 6, 24)
    found = together(4, _part, file, 8, 24)
    assert_equal(found, expected)
    assert [path.name for path in tmp_path.iterdir()] == ["run-0"]
    with pytest.raises(DGLError, match=r"is 24.* is 12 \(all ranks"):
        _part(file, 10, 12)


def test_dropout_resumes_with_the_same_masks(tmp_path):
    expected = together(2, _part, tmp_path / "a", 4, 24, 0.5)
    together(2, _part, tmp_path / "b", 2, 24, 0.5)
    assert_equal(together(2, _part, tmp_path / "b", 4, 24, 0.5), expected)


# What ranks do not do together


class Noisy(nn.Module):
    """Adds a number of its own on each rank, in training."""

    def __init__(self):
        super().__init__()
        self.net = Net(dropout=0.5)
        self.masks = []

    def forward(self, graph, batch):
        if self.training:
            self.masks.append(torch.rand(()).item())
        return self.net(graph, batch)


def _masks():
    model = Noisy()
    train_with(model, batch_size=12)
    return model.masks


def test_each_rank_has_dropout_of_its_own_which_can_be_repeated():
    first, second = run_ranks(2, _masks)
    assert len(set(first) | set(second)) == len(first) + len(second)
    assert run_ranks(2, _masks) == [first, second]


def _bad_calls():
    rank = dist.get_rank()
    model = Net()
    other = HopFeatures([h.clone() for h in HOPS], HOPS.hops, HOPS.filter)
    other[0][DATA.train[0]] = torch.nan if rank == 1 else 1.0
    odd = HopFeatures([h.clone() for h in HOPS], HOPS.hops, HOPS.filter)
    odd[0][DATA.valid[-1]] = torch.inf
    bad = HopFeatures([h.clone() for h in HOPS], HOPS.hops, HOPS.filter)
    bad[2][DATA.train[7]] = torch.nan
    labels = DATA.labels.clone()
    labels[DATA.train[3]] += rank

    def fails(graph, batch):
        if rank == 1:
            raise OSError("the disk is gone")
        return Net.forward(model, graph, batch)

    broken = Net()
    broken.forward = fails

    def stop(row):
        if row["epoch"] == 2:
            raise KeyboardInterrupt("enough")

    def change(row):
        model.last.bias.data += 1

    def train(**options):
        options = {"train": DATA.train[:50], "labels": DATA.labels, **options}
        return lambda: fit(
            model, options.pop("inputs", HOPS), options.pop("labels"),
            options.pop("train"), DATA.valid, epochs=3, **options,
        )  # fmt: skip

    calls = {
        "lr": train(lr=0.1 + rank),
        "batch_size": train(batch_size=10 + rank),
        "epochs": lambda: fit(
            Net(), HOPS, DATA.labels, DATA.train, DATA.valid, epochs=3 + rank
        ),
        "train": train(train=DATA.train[: 50 - rank]),
        "labels": train(labels=labels),
        "inputs": train(inputs=other),
        "model": lambda: train_with(Net(dropout=0.1 * rank)),
        "graph": train(inputs=(dgl.add_self_loop(DATA.graph), DATA.feat)),
        "empty on one rank": train(train=DATA.train[: 50 * (1 - rank)]),
        "valid": train(inputs=odd),
        "nan": train(inputs=bad),
        "forward": lambda: train_with(broken),
        "on_epoch": train(on_epoch=stop),
        "weights": train(on_epoch=change),
        "clip_norm": train(clip_norm=1.0 + rank),
        "class_weight": train(class_weight=[1.0 + rank] * DATA.num_classes),
        "metric": train(metric=lambda a, b: [0.5, torch.nan][rank]),
    }
    found = {name: attempt(call) for name, call in calls.items()}
    # After all these errors the group is as good as before.
    found["after"] = attempt(lambda: train_with(Net()))
    return found


def test_what_differs_or_fails_is_an_error_on_all_ranks():
    found = run_ranks(2, _bad_calls)
    wanted = {
        "lr": "optimizer's lr .* is .* on rank 0 and .* on rank 1",
        "batch_size": "batch_size is .* on rank 0",
        "epochs": "epochs is 3 on rank 0 and 4 on rank 1",
        "train": r"train \(digest\) is",
        "labels": r"labels of train \(digest\) is",
        "inputs": r"inputs: tensor 0 \(digest\) is",
        "model": "module 'dropout' is",
        "graph": "inputs is a graph with its features.*process_group=False",
        "empty on one rank": "train is empty",
        "valid": "validation loss is nan on rank 1 in epoch 1, batch 1",
        "nan": r"the loss is nan on rank [01] in epoch 1, batch 1",
        "forward": "the disk is gone",
        "on_epoch": "enough",
        "weights": "weights of ranks differ after epoch 2",
        "clip_norm": "clip_norm is .* on rank 0",
        "class_weight": "class_weight is .* on rank 0",
        "metric": "metric of the validation is nan",
    }
    for name, text in wanted.items():
        for rank in range(2):
            _, message = found[rank][name]
            assert re.search(text, message), (name, rank, message)
    assert found[0]["empty on one rank"][0] == "RankFailed"
    assert found[0]["on_epoch"][0] == "KeyboardInterrupt"
    assert found[1]["on_epoch"][0] == "RankFailed"
    assert found[1]["forward"][0] == "OSError"
    assert "failed on rank 1: OSError" in found[0]["forward"][1]
    kinds = {found[rank]["nan"][0] for rank in range(2)}
    assert kinds == {"DGLError", "RankFailed"}
    assert found[0]["after"] is None
    assert found[1]["after"] is None


def _schedule():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    rows = []

    def on_epoch(row):
        rows.append(row["epoch"])
        schedule.step()

    batch_size = 24
    if dist.is_initialized():
        batch_size //= dist.get_world_size()
    found = train_with(
        model, optimizer=optimizer, on_epoch=on_epoch, batch_size=batch_size
    )
    return found, rows, optimizer.param_groups[0]["lr"]


def test_a_schedule_of_rank_0_reaches_all_ranks():
    expected, _, rate = _schedule()
    (found, rows, first), (other, none, second) = run_ranks(2, _schedule)
    assert (rows, none) == ([1, 2, 3, 4], [])
    assert first == second == rate
    assert_equal(found, expected)
    assert_equal(other, expected)


def _killed(file):
    calls.BEAT_SECONDS = 0.2
    epochs._CHECKPOINT_SECONDS = 0.0
    rank, model = dist.get_rank(), Net()

    steps = []

    def kill(*_):
        if rank == 1 and len(steps) == 10:
            os.kill(os.getpid(), signal.SIGKILL)
        steps.extend([1] * model.training)

    model.register_forward_pre_hook(kill)
    train_with(model, batch_size=12, epochs=8, checkpoint=file)


def test_a_rank_that_is_killed_ends_the_others(tmp_path):
    file = tmp_path / "run"
    with pytest.raises(RankErrors) as caught:
        run_ranks(2, _killed, file)
    error = caught.value.errors[0]
    assert isinstance(error, RankFailed)
    assert "no sign of life of rank 1" in str(error)
    assert "its last stage was: epoch 4" in str(error)
    # Three whole epochs of three steps were written.
    found = train_with(Net(), batch_size=24, epochs=8, checkpoint=file)
    assert_equal(found, train_with(Net(), batch_size=24, epochs=8))


# Batch norm


def _normed():
    model = Net(norm=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # Some pieces of the last batch are empty.
        found = train_with(model, train=DATA.train[:51], batch_size=8)
    return found, [(str(w.message), w.filename) for w in caught]


def test_batch_norm_on_the_cpu_is_local_and_a_warning():
    found = run_ranks(3, _normed)
    for own, caught in found:
        ((message, file),) = caught
        assert "norm: batch norm is not synchronised" in message
        assert file == ranks_task.__file__
        np.testing.assert_equal(own, found[0][0])
    assert found[0][0]["weights"]["norm.num_batches_tracked"] > 0
