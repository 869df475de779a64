"""Training one model."""

import dgl
import pytest
import torch
from dgl.base import DGLWarning

from dgl_lc.data import NodeData, block_model
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


def test_originals_and_h2gcn_say_that_they_ignore_weights():
    graph = dgl.graph(DATA.graph.edges(), num_nodes=120)
    graph.edata["weight"] = torch.full((graph.num_edges(),), 0.5)
    data = NodeData(
        graph, DATA.feat, DATA.labels, DATA.train, DATA.valid, DATA.test, 3,
        "weighted",
    )  # fmt: skip
    with pytest.warns(DGLWarning, match="GCN is an original and ignores"):
        train_model("GCN", data, hid_feats=8, epochs=1)
    with pytest.warns(DGLWarning, match="LCH2GCN ignores the weights"):
        train_model("LCH2GCN", data, hid_feats=8, epochs=1)
    train_model("LCGCN", data, hid_feats=8, epochs=1)  # without a warning
