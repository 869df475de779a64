"""The automatic LC version trains as well as the LC module."""

import dgl
import numpy as np
import pytest
import torch

import dgl_lc.nn as lcnn
from dgl_lc import lc_transform
from dgl_lc.data import block_model
from dgl_lc.data.files import load_npz
from dgl_lc.experiments import originals
from dgl_lc.training import fit, predict


def accuracy(model, inputs, data, seed):
    fit(
        model, inputs, data.labels, data.train, data.valid, epochs=150,
        patience=50, weight_decay=5e-4, seed=seed, progress=False,
    )  # fmt: skip
    found = predict(model, inputs, data.test).argmax(1)
    return float((found == data.labels[data.test]).double().mean())


def scores(data, original, module, seeds):
    """Test accuracy of the automatic LC version, and of the LC module."""
    graph = dgl.add_self_loop(dgl.remove_self_loop(data.graph))
    rows = []
    for seed in range(seeds):
        torch.manual_seed(seed)
        lc = lc_transform(original(), graph, data.feat)
        inputs = lc.precompute(graph, data.feat)
        mine = accuracy(lc.module, inputs, data, seed)
        torch.manual_seed(seed)
        peer = module()
        hops = peer.precompute(graph, data.feat)
        rows.append((mine, accuracy(peer, hops, data, seed)))
    return np.array(rows)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["generated", "cora", "pubmed"])
@pytest.mark.parametrize("kind", ["GCN", "JKNet"])
def test_accuracy_is_that_of_the_lc_module(name, kind, request):
    if name == "generated":
        data = block_model(2_000, num_feats=32)
    else:
        path = request.getfixturevalue("shared_data") / f"{name}.npz"
        if not path.exists():
            pytest.skip(f"{path.name} is not at hand")
        data = load_npz(path, add_reverse=True)
    sizes = data.num_feats, 64, data.num_classes
    original, module = {
        "GCN": (
            lambda: originals.GCN(*sizes, dropout=0.5),
            lambda: lcnn.LCGCN(*sizes, dropout=0.5),
        ),
        "JKNet": (
            lambda: originals.JKNet(*sizes, dropout=0.5),
            lambda: lcnn.LCJKNet(*sizes, dropout=0.5),
        ),
    }[kind]
    found = scores(data, original, module, seeds=5)
    mean, spread = found.mean(0), found.std(0)
    print(f"{name} {kind}: {mean.round(4)} +- {spread.round(4)}")
    assert abs(mean[0] - mean[1]) < max(0.02, 2 * spread.max())
