"""Training on several ranks: the same steps as in one process."""

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


def assert_equal(found, expected, rtol=1e-9):
    """The same run, to rounding."""
    for key, value in expected["weights"].items():
        np.testing.assert_allclose(
            found["weights"][key], value, rtol=rtol, atol=1e-12, err_msg=key
        )
    for name in ("train_loss", "valid_loss", "valid_accuracy"):
        np.testing.assert_allclose(
            found["history"][name], expected["history"][name], rtol=1e-12
            if name != "train_loss" and rtol is None else 1e-9,
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
