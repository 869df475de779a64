"""Prediction on several ranks."""

import numpy as np
import pytest
import torch
import torch.distributed as dist
from ranks_task import FEAT, HOPS, Net, attempt, together
from tiny_task import DATA

from dgl_lc.precompute import block_aggregate, open_store
from dgl_lc.training import predict


def _predict(folder):
    hops = open_store(folder)
    model = Net()
    nodes = torch.tensor([7, 3, 7, 399, 0])
    found = [
        predict(model, hops, nodes, batch_size=2),
        predict(model, hops, nodes[:1]),
        predict(model.train(), hops),
        predict(model, HOPS, HOPS[0][:, 0] > 0),
    ]
    assert model.training
    if dist.is_initialized():
        bad = Net()
        bad.last.bias.data += dist.get_rank()
        errors = [
            attempt(lambda: predict(bad, hops)),
            attempt(lambda: predict(model, hops, nodes[dist.get_rank() :])),
            attempt(lambda: predict(model, (DATA.graph, DATA.feat))),
            attempt(lambda: predict(model, hops, [])),
        ]
        texts = [text for _, text in errors]
        for text, wanted in zip(
            texts,
            ["last.bias (digest)", "nodes (digest)", "inputs is a graph",
             "nodes is empty"],
            strict=True,
        ):  # fmt: skip
            assert wanted in text
    return [logits.numpy() for logits in found]


@pytest.mark.parametrize("size", [2, 4])
def test_all_ranks_return_the_whole_prediction(tmp_path, size):
    block_aggregate(DATA.graph, FEAT, 2, out=tmp_path / "hops")
    expected = _predict(tmp_path / "hops")
    found = together(size, _predict, tmp_path / "hops")
    for own, one in zip(found, expected, strict=True):
        np.testing.assert_allclose(own, one, rtol=1e-12)
