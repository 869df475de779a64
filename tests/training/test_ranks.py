"""Training on several ranks: the same steps as in one process."""

import re

import dgl
import numpy as np
import pytest
import torch
import torch.distributed as dist
from dgl import DGLError
from tiny_task import DATA
from torch import nn

from dgl_lc.hops import HopFeatures
from dgl_lc.precompute import block_aggregate
from dgl_lc.ranks.call import RankFailed
from dgl_lc.testing.run_ranks import RankErrors, run_ranks
from dgl_lc.training import fit, predict

FEAT = DATA.feat.double()


class Net(nn.Module):
    """Two layers on hops 0 and 2, in float64; one of its weights is unused."""

    def __init__(self, norm=False, dropout=0.0):
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(2 * DATA.num_feats, 8, dtype=torch.float64)
        self.norm = nn.BatchNorm1d(8, dtype=torch.float64) if norm else None
        self.dropout = nn.Dropout(dropout)
        self.last = nn.Linear(8, DATA.num_classes, dtype=torch.float64)
        self.unused = nn.Parameter(torch.ones(2, dtype=torch.float64))

    def forward(self, graph, batch):
        assert isinstance(batch, HopFeatures)
        rows = self.first(torch.cat([batch[0], batch[2]], dim=1))
        if self.norm is not None:
            rows = self.norm(rows)
        return self.last(self.dropout(torch.tanh(rows)))


# Made when the module is imported, which is before a group is initialised.
HOPS = block_aggregate(DATA.graph, FEAT, 2)


def train_with(model, hops=HOPS, train=DATA.train[:50], **options):
    """Train; give what has to be equal on all ranks."""
    options = {"epochs": 4, "lr": 0.05, "weight_decay": 0.01, **options}
    found = fit(model, hops, DATA.labels, train, DATA.valid, **options)
    return {
        "weights": {k: v.numpy() for k, v in model.state_dict().items()},
        "history": found.history.to_dict("list"),
        "best_epoch": found.best_epoch,
    }


def assert_equal(found, expected):
    """The same run, to rounding."""
    for key, value in expected["weights"].items():
        np.testing.assert_allclose(
            found["weights"][key], value, rtol=1e-9, atol=1e-12, err_msg=key
        )
    for name in ("train_loss", "valid_loss", "valid_accuracy"):
        np.testing.assert_allclose(
            found["history"][name], expected["history"][name], rtol=1e-9
        )
    assert found["best_epoch"] == expected["best_epoch"]


def together(size, function, *args):
    """Run on ranks, which all find the same; give what rank 0 finds."""
    first, *others = run_ranks(size, function, *args)
    for other in others:
        np.testing.assert_equal(other, first)
    return first


# The same steps as one process

#: Numbers of training nodes: with an uneven last batch, and with fewer nodes
#: than ranks.
COUNTS = (50, 49, 3, 2, 1)


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


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_ranks_take_the_steps_of_one_process(size):
    expected = _steps(24)
    for found, one in zip(together(size, _steps, 24), expected, strict=True):
        assert_equal(found, one)
    assert np.all(found["weights"]["unused"] == 1)


def _no_step():
    """Validate without a step, so that weights are equal to the last bit."""
    options = {"lr": 0.0, "weight_decay": 0.0, "epochs": 1}
    return train_with(Net(), **options)


def _stop_early():
    share = dist.get_world_size() if dist.is_initialized() else 1
    options = {"lr": 0.5, "epochs": 60, "patience": 3}
    return train_with(Net(), batch_size=12 // share, **options)


@pytest.mark.parametrize("size", [2, 3])
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
    with pytest.raises(DGLError, match=r"batch_size is 24.* is 12"):
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


def _attempt(function):
    """Give the error of a call, and its kind."""
    try:
        function()
    except BaseException as error:
        return type(error).__name__, str(error)
    return None


def _bad_calls():
    rank = dist.get_rank()
    model = Net()
    other = HopFeatures([h.clone() for h in HOPS], HOPS.hops, HOPS.filter)
    other[0][DATA.train[0]] = torch.nan if rank == 1 else 1.0
    odd = HopFeatures([h.clone() for h in HOPS], HOPS.hops, HOPS.filter)
    odd[0][DATA.valid[-1]] = torch.inf
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
        "forward": lambda: train_with(broken),
        "on_epoch": train(on_epoch=stop),
        "weights": train(on_epoch=change),
    }
    found = {name: _attempt(call) for name, call in calls.items()}
    # After all these errors the group is as good as before.
    found["after"] = _attempt(lambda: train_with(Net()))
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
        "forward": "the disk is gone",
        "on_epoch": "enough",
        "weights": "weights of ranks differ after epoch 2",
    }
    for name, text in wanted.items():
        for rank in range(2):
            kind, message = found[rank][name]
            assert re.search(text, message), (name, rank, message)
    assert found[0]["empty on one rank"][0] == "RankFailed"
    assert found[0]["on_epoch"][0] == "KeyboardInterrupt"
    assert found[1]["on_epoch"][0] == "RankFailed"
    assert found[1]["forward"][0] == "OSError"
    assert "failed on rank 1: OSError" in found[0]["forward"][1]
    assert found[0]["after"] is None
    assert found[1]["after"] is None
