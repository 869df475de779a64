"""Descriptions of runs: a checkpoint of another run is not resumed."""

import os
import re
import subprocess
import sys

import dgl
import pytest
import torch
import torch.nn.functional as F
from dgl import DGLError
from dgl.nn import GraphConv
from tiny_task import DATA, DEEP, OPTIONS, SPLIT, make, run, stray
from torch import nn

import dgl_lc
from dgl_lc.experiments.originals import GCN
from dgl_lc.nn import LCGPRGNN, SGC
from dgl_lc.precompute import block_aggregate, open_store
from dgl_lc.training import fit


@pytest.fixture(scope="module")
def deep_hops():
    return make(LCGPRGNN, **DEEP).precompute(DATA.graph, DATA.feat)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "deep" / "run.pt"


def changed_labels(where):
    labels = DATA.labels.clone()
    labels[where[0]] = (labels[where[0]] + 1) % DATA.num_classes
    return labels


BETAS = (0.8, 0.9)
OTHER_RUNS = {
    "a label of train": ({"labels": changed_labels(DATA.train)}, "of training"),
    "a label of valid": ({"labels": changed_labels(DATA.valid)}, "validation"),
    "order of train": ({"train": DATA.train.flip(0)}, "train"),
    "fewer in valid": ({"valid": DATA.valid[1:]}, "valid"),
    "batch_size": ({"batch_size": 65}, "batch_size is 64, .* is 65"),
    "monitor": ({"monitor": "accuracy"}, "monitor"),
    "seed": ({"seed": 1}, "seed is 0, that of this run is 1"),
    "lr": ({"lr": 0.5}, "lr .*is 0.01, that of this run is 0.5"),
    "weight decay": ({"weight_decay": 1e-3}, "weight_decay .*0.001"),
    "optimizer": (
        {"optimizer": lambda m: torch.optim.SGD(m.parameters(), lr=0.01)},
        "optimizer is torch.optim.adam.Adam, .*SGD",
    ),
    "betas": (
        {"optimizer": lambda m: torch.optim.Adam(m.parameters(), 0.01, BETAS)},
        "betas",
    ),
    "dropout": ({"model": lambda: make(LCGPRGNN, K=2, dropout=0.4)}, "dropout"),
    "another class": ({"model": lambda: make(GCN)}, "model is LCGPRGNN"),
    "alpha": ({"model": lambda: make(LCGPRGNN, **DEEP, alpha=0.3)}, "alpha"),
    "float64": ({"model": lambda: make(LCGPRGNN, **DEEP).double()}, "float64"),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHER_RUNS)
def test_a_checkpoint_of_another_run_is_refused(deep_hops, file, name):
    run(deep_hops, 2, checkpoint=file)
    change, message = OTHER_RUNS[name]
    options = {
        "model": lambda: make(LCGPRGNN, **DEEP), "labels": DATA.labels,
        "train": DATA.train, "valid": DATA.valid, **change,
    }  # fmt: skip
    model = options.pop("model")()
    if "optimizer" in options:
        options["optimizer"] = options["optimizer"](model)
    before = file.read_bytes()
    weights = [p.clone() for p in model.parameters()]
    options = {"epochs": 3, "checkpoint": file, **OPTIONS, **options}
    with pytest.raises(DGLError, match=message) as caught:
        fit(model, deep_hops, **options)
    text = str(caught.value)
    assert "ame another file, or start again with resume=False" in text
    # Each thing that the user changed is named once, and not by digests.
    several = ("another class", "betas", "float64")
    assert name in several or ";" not in text
    assert not re.search("[0-9a-f]{32}", text)
    assert file.read_bytes() == before
    for a, b in zip(weights, model.parameters(), strict=True):
        assert torch.equal(a, b)
    assert stray(file) == []


def test_labels_of_other_nodes_may_change(deep_hops, file):
    run(deep_hops, 2, checkpoint=file)
    labels = changed_labels(DATA.test)
    fit(make(LCGPRGNN, **DEEP), deep_hops, labels, *SPLIT[1:], epochs=3,
        checkpoint=file, **OPTIONS)  # fmt: skip


def some_inputs(tmp_path):
    """Pairs of inputs of one shape that differ in one thing."""
    g, x = DATA.graph, DATA.feat
    other = x.clone()
    other[399, 15] *= -1
    fewer = dgl.remove_edges(g, [0])
    moved = dgl.add_edges(fewer, 0, 1)
    assert moved.num_edges() == g.num_edges()
    weighted = g.local_var()
    weighted.edata["w"] = torch.ones(g.num_edges())
    heavier = g.local_var()
    heavier.edata["w"] = torch.full((g.num_edges(),), 2.0)
    half = torch.cat([DATA.train, DATA.valid])
    stores = {}
    for name, feat in (("a", x), ("b", other)):
        block_aggregate(g, feat, 2, out=tmp_path / name)
        stores[name] = open_store(tmp_path / name)
    hops = block_aggregate(g, x, 2)
    return {
        "features": (hops, block_aggregate(g, other, 2)),
        "edges": (hops, block_aggregate(moved, x, 2)),
        "filter": (
            block_aggregate(g, x, 2, norm="right"),
            block_aggregate(g, x, 2, norm="left"),
        ),
        "number type": (hops, hops.to(torch.float64)),
        "hops": (hops, block_aggregate(g, x, 3)),
        "nodes": (
            block_aggregate(g, x, 2, nodes=half),
            block_aggregate(g, x, 2, nodes=half.flip(0)),
        ),
        "store": (stores["a"], stores["b"]),
        "store or memory": (stores["a"], hops),
        "sequence": ([x, x], [x, other]),
        "places in a sequence": ([None, x, x], [x, None, x]),
        "one tensor": (torch.stack([x, x]), torch.stack([x, other])),
        "arrays": ([x.numpy(), x.numpy()], [x.numpy(), other.numpy()]),
        "graph": ((g, x), (moved, x)),
        "graph's features": ((g, x), (g, other)),
        "graph's weights": ((weighted, x), (heavier, x)),
    }


class Last(nn.Module):
    """Reads the last of whatever inputs there are."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(DATA.num_feats, DATA.num_classes)

    def forward(self, graph, feat):
        rows = feat if isinstance(feat, torch.Tensor) else list(feat)[-1]
        rows = rows if rows.dim() == 2 else rows[-1]
        return self.fc(rows.to(self.fc.weight.dtype))


def test_a_checkpoint_with_other_inputs_is_refused(tmp_path):
    for name, (inputs, other) in some_inputs(tmp_path).items():
        file = tmp_path / f"{name}.pt"
        fit(Last(), inputs, *SPLIT, epochs=1, checkpoint=file)
        fit(Last(), inputs, *SPLIT, epochs=2, checkpoint=file)
        with pytest.raises(DGLError, match="inputs") as caught:
            fit(Last(), other, *SPLIT, epochs=3, checkpoint=file)
        assert not re.search(";|[0-9a-f]{32}", str(caught.value))
        with pytest.raises(DGLError, match="valid_inputs"):
            fit(Last(), inputs, *SPLIT, epochs=3, checkpoint=file,
                valid_inputs=other)  # fmt: skip
        fit(Last(), inputs, *SPLIT, epochs=3, checkpoint=file,
            valid_inputs=inputs)  # fmt: skip


class Functional(nn.Module):
    """Keeps its dropout and its activation as plain attributes."""

    def __init__(self, dropout=0.5, activation=F.relu):
        super().__init__()
        self.conv = GraphConv(
            DATA.num_feats, DATA.num_classes, activation=activation
        )
        self.dropout = dropout

    def forward(self, g, x):
        return F.dropout(self.conv(g, x), self.dropout, self.training)


def test_numbers_and_functions_of_a_users_model_count(file):
    inputs = (dgl.add_self_loop(DATA.graph), DATA.feat)
    fit(Functional(), inputs, *SPLIT, epochs=1, checkpoint=file)
    fit(Functional(), inputs, *SPLIT, epochs=2, checkpoint=file)
    with pytest.raises(DGLError, match=r"dropout=0.5.*dropout=0.1"):
        fit(Functional(0.1), inputs, *SPLIT, epochs=3, checkpoint=file)
    with pytest.raises(DGLError, match=r"relu.*elu"):
        fit(Functional(activation=F.elu), inputs, *SPLIT, epochs=3,
            checkpoint=file)  # fmt: skip


def test_a_model_without_a_configuration_has_checkpoints(file):
    class Own(SGC):
        @property
        def config(self):
            raise NotImplementedError

    model = make(SGC)
    model.__class__ = Own
    hops = model.precompute(DATA.graph, DATA.feat)
    fit(model, hops, *SPLIT, epochs=1, checkpoint=file)
    assert len(fit(model, hops, *SPLIT, epochs=2, checkpoint=file).history) == 2


def test_the_code_of_an_lc_version_counts(file):
    def version(dropout):
        torch.manual_seed(0)
        lc = dgl_lc.lc_transform(Functional(dropout), *inputs)
        return lc.module, lc.precompute(*inputs)

    inputs = (dgl.add_self_loop(DATA.graph), DATA.feat)
    fit(*version(0.5), *SPLIT, epochs=1, checkpoint=file)
    fit(*version(0.5), *SPLIT, epochs=2, checkpoint=file)
    with pytest.raises(DGLError, match=r"0\.1"):
        fit(*version(0.1), *SPLIT, epochs=3, checkpoint=file)


@pytest.mark.slow
def test_a_run_is_described_alike_in_another_process(deep_hops, file):
    code = f"""
import sys
sys.path[:0] = {sys.path!r}
import dgl_lc
import test_description as t
inputs = (t.dgl.add_self_loop(t.DATA.graph), t.DATA.feat)
t.fit(t.Functional(), inputs, *t.SPLIT, epochs=1, checkpoint={str(file)!r})
"""
    subprocess.run(
        [sys.executable, "-c", code], check=True, cwd=os.path.dirname(__file__)
    )
    inputs = (dgl.add_self_loop(DATA.graph), DATA.feat)
    found = fit(Functional(), inputs, *SPLIT, epochs=2, checkpoint=file)
    assert len(found.history) == 2
