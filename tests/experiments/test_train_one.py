"""Training one model."""

import pytest
import torch

from dgl_lc.data import block_model
from dgl_lc.experiments.train_one import accuracy, prepare, train_model
from dgl_lc.nn import LCGCN
from dgl_lc.training import predict

DATA = block_model(120, num_classes=3, num_feats=6, seed=1)


def test_accuracy_is_the_share_of_right_classes():
    logits = torch.eye(3)[[0, 1, 2, 2]]
    assert accuracy(logits, torch.tensor([0, 1, 2, 0])) == 0.75


@pytest.mark.parametrize(
    ("name", "rows"), [("GCN", 120), ("LCGPRGNN", 72 * 6), ("SGC", 72)]
)
def test_what_is_reported_of_a_trained_model(name, rows):
    found = train_model(name, DATA, hid_feats=8, epochs=3)
    assert found.name == name
    assert found.data == DATA.name
    assert found.rows == rows
    assert len(DATA.train) == 72
    parameters = found.model.parameters()
    assert found.num_parameters == sum(p.numel() for p in parameters)
    total = found.precompute_seconds + found.fit.seconds
    assert found.total_seconds == total
    assert (found.precompute_seconds == 0) == (name == "GCN")
    _, unseen, _ = prepare(found.model, DATA)
    logits = predict(found.model, unseen, DATA.test)
    assert found.test_accuracy == accuracy(logits, DATA.labels[DATA.test])


def test_options_of_the_precomputation_reach_it():
    hops, same, _ = prepare(LCGCN(6, 8, 3), DATA, dtype=torch.float16)
    assert hops is same
    assert hops.dtype == torch.float16
