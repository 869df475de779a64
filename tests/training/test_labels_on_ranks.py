"""Label features on several ranks: whole, and with row shards."""

import numpy as np
import pytest
import torch
import torch.distributed as dist
from ranks_task import FEAT, assert_equal
from test_train_shards import UNEVEN, shard_of
from tiny_task import DATA

from dgl_lc.nn import LCGCN
from dgl_lc.precompute import block_aggregate, label_features, with_labels
from dgl_lc.testing.run_ranks import run_ranks
from dgl_lc.training import fit, predict

# Made when the module is imported, which is before a group is initialised.
HOPS = block_aggregate(DATA.graph, FEAT, 2)
OPTIONS = {"parts": 3, "dtype": torch.float64}


def label_rows(**options):
    return label_features(
        DATA.graph, DATA.labels, DATA.train, 2, **OPTIONS, **options
    )


def train_and_predict(inputs):
    torch.manual_seed(0)
    model = LCGCN(
        DATA.num_feats, 8, DATA.num_classes, num_layers=2, label_dropout=0.0,
        label_feats=DATA.num_classes, label_hops=2,
    ).double()  # fmt: skip
    found = fit(
        model, inputs, DATA.labels, DATA.train[:35], DATA.valid, epochs=4,
        batch_size=1000,
    )  # fmt: skip
    return {
        "weights": {k: v.numpy() for k, v in model.state_dict().items()},
        "history": found.history.to_dict("list"),
        "best_epoch": found.best_epoch,
        "logits": predict(model, inputs, DATA.valid).numpy(),
        "recipe": model.label_recipe,
    }


def _on_ranks(case, folder):
    rank, size = dist.get_rank(), dist.get_world_size()
    if case == "whole":
        return train_and_predict(with_labels(HOPS, label_rows()))
    shard = shard_of(HOPS, UNEVEN, rank, size)
    if case == "store":
        labels = label_rows(nodes=UNEVEN, out=folder)
    else:
        labels = label_rows(nodes=shard.nodes)
    return train_and_predict(with_labels(shard, labels))


@pytest.mark.parametrize("case", ["whole", "store", "shard"])
def test_ranks_train_as_one_process(tmp_path, case):
    expected = train_and_predict(with_labels(HOPS, label_rows()))
    for found in run_ranks(2, _on_ranks, case, tmp_path / "labels"):
        assert_equal(found, expected)
        np.testing.assert_allclose(found["logits"], expected["logits"])
        assert found["recipe"] == expected["recipe"]
