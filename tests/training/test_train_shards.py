"""Row shards: each rank trains and predicts with the rows that it holds."""

import re

import numpy as np
import pytest
import torch
import torch.distributed as dist
from ranks_task import HOPS, Net, assert_equal, train_with
from tiny_task import DATA

from dgl_lc.testing.run_ranks import RankErrors, run_ranks
from dgl_lc.training import predict


def shard_of(hops, nodes, rank, size):
    """Give the rows that a rank holds of these nodes."""
    found = hops.rows(nodes[rank::size])
    found.shard = (rank, size)
    return found


class Seen(Net):
    """Remembers the nodes of its batches."""

    def __init__(self):
        super().__init__()
        self.batches = []

    def forward(self, graph, batch):
        if self.training:
            self.batches.append(batch.nodes.tolist())
        return super().forward(graph, batch)


#: Places 0, 2, 4 … hold most of the training nodes.
UNEVEN = torch.cat(
    [torch.stack([DATA.train[:30], DATA.valid[:30]], 1).flatten(),
     DATA.train[30:35], DATA.valid[30:]]
)  # fmt: skip


def _shards(wrong):
    rank, size = dist.get_rank(), dist.get_world_size()
    if wrong == "rank":
        return train_with(Net(), shard_of(HOPS, UNEVEN, size - 1 - rank, size))
    if wrong == "nodes":
        return train_with(Net(), shard_of(HOPS, UNEVEN[:-9], rank, size))
    hops = shard_of(HOPS, UNEVEN, rank, size)
    model, train = Seen(), DATA.train[:35]
    whole = train_with(Net(), hops, train, batch_size=1000)
    batches = train_with(model, hops, train, batch_size=6)
    lone = DATA.train[30:31]
    few = train_with(Net(), hops, lone)
    found = [whole, few]
    if size == 2:
        found.append(predict(model, hops).numpy())
        found.append(predict(model, hops, UNEVEN[[5, 0, 5, 80]]).numpy())
    own = predict(model, hops, process_group=False).numpy()
    return found, model.batches, own, batches


@pytest.mark.parametrize("size", [2, 3])
def test_each_rank_trains_on_the_rows_that_it_holds(size):
    results = run_ranks(size, _shards, None)
    train = DATA.train[:35]
    expected = [
        train_with(Net(), HOPS, train, batch_size=1000),
        train_with(Net(), HOPS, DATA.train[30:31]),
    ]
    for found, _, _, batches in results:
        np.testing.assert_equal(found, results[0][0])
        np.testing.assert_equal(batches, results[0][3])
        for own, one in zip(found, expected, strict=False):
            assert_equal(own, one)
    steps = {len(batches) for _, batches, _, _ in results}
    assert len(steps) == 1
    first_epoch = [
        node
        for _, batches, _, _ in results
        for batch in batches[: len(batches) // 4]
        for node in batch
    ]
    assert sorted(first_epoch) == sorted(train.tolist())
    if size == 2:
        model = Seen()
        state = {
            k: torch.tensor(v) for k, v in results[0][3]["weights"].items()
        }
        model.load_state_dict(state)
        every = predict(model, HOPS, UNEVEN).numpy()
        np.testing.assert_allclose(results[0][0][2], every, rtol=1e-12)
        np.testing.assert_allclose(
            results[0][0][3], every[[5, 0, 5, 80]], rtol=1e-12
        )
        np.testing.assert_array_equal(results[1][2], results[0][0][2][1::2])


@pytest.mark.parametrize(
    ("wrong", "text"),
    [("rank", "row shard . of 2, and this is rank"),
     ("nodes", "row shards of all ranks have")],
)  # fmt: skip
def test_shards_that_do_not_fit_are_refused(wrong, text):
    with pytest.raises(RankErrors) as caught:
        run_ranks(2, _shards, wrong)
    assert len(caught.value.errors) == 2
    for error in caught.value.errors.values():
        assert re.search(text, str(error))
