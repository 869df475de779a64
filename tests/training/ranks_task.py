"""A model and runs on several ranks, for the tests of training on ranks."""

import numpy as np
import torch
from tiny_task import DATA
from torch import nn

from dgl_lc.hops import HopFeatures
from dgl_lc.precompute import block_aggregate
from dgl_lc.testing.run_ranks import run_ranks
from dgl_lc.training import fit

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
    options = {
        "epochs": 4, "lr": 0.05, "weight_decay": 0.01, "labels": DATA.labels,
        **options,
    }  # fmt: skip
    labels = options.pop("labels")
    found = fit(model, hops, labels, train, DATA.valid, **options)
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
    assert set(found["history"]) == set(expected["history"])
    for name in set(expected["history"]) - {"train_seconds", "seconds"}:
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


def attempt(function):
    """Give the error of a call, and its kind."""
    try:
        function()
    except BaseException as error:
        return type(error).__name__, str(error)
    return None
