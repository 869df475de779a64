"""The bytes of an edge shard, counted before and measured."""

import sys

import pytest
import torch

from dgl_lc.data import power_law_graph
from dgl_lc.precompute.request import Request
from dgl_lc.precompute.sharded.edge_engine import EdgeShardEngine
from dgl_lc.precompute.sharded.edge_shards import EdgeShard, cut_destinations
from dgl_lc.precompute.sharded.row_exchange import RowExchange, Swap
from dgl_lc.precompute.sharded.shard_bytes import (
    ShardSizes,
    edge_shard_bytes,
)
from dgl_lc.precompute.survey import survey
from dgl_lc.testing.peak_memory import peak_memory
from dgl_lc.testing.random_graphs import make_features
from dgl_lc.testing.run_ranks import run_ranks

from . import edge_cases

N, M, COLUMNS, WIDTH = 150_000, 1_500_000, 24, 8
PIECE = 1 << 20
CASES = [
    {},
    {"formats": "csc", "dtype": torch.float64},
    {"formats": "csr", "nodes": True, "weighted": True},
    {"nodes": True, "dtype": torch.float64, "edge_blocks": 4},
    {"K": 1, "dtype": torch.float16},
    {"gathers": True},
]


class _Nowhere:
    def keep(self, hop, values, places):
        pass


def _request(formats="coo", nodes=False, weighted=False, K=3, n=N, m=M,
             dtype=torch.float32):  # fmt: skip
    g = power_law_graph(n, m, seed=1).formats(formats)
    generator = torch.Generator().manual_seed(0)
    chosen = torch.randperm(n, generator=generator)[: n // 200]
    weight = torch.rand(g.num_edges(), generator=generator)
    return Request.of(
        g, make_features(n, COLUMNS), K, hops=[1, K][-K:],
        nodes=chosen if nodes else None, dtype=dtype,
        weight=weight.double() if weighted else None,
    )  # fmt: skip


def _compute(request, call, edge_blocks):
    found = survey(request)
    bounds = cut_destinations(found.edges.indptr, call.ranks.size)
    shard = EdgeShard(request, found, bounds, call.ranks.rank, edge_blocks)
    exchange = RowExchange(shard, call, PIECE)
    engine = EdgeShardEngine(shard, exchange, call, WIDTH)
    for first in range(0, COLUMNS, WIDTH):
        engine.column_block(first, first + WIDTH, _Nowhere(), lambda _: None)
    return found.work, ShardSizes.of(shard, exchange)


def _measure(cases):
    edge_cases.give_memory_back()
    measured = []
    with edge_cases.this_call() as call:
        for case in cases:
            case = dict(case)
            blocks = case.pop("edge_blocks", 1)
            gathers = case.pop("gathers", None)
            if gathers is not None:
                Swap.gathers = gathers
            # Loads kernels and libraries.
            _compute(_request(**case, n=500, m=2000), call, blocks)
            request, sizes = _request(**case), []
            call.barrier("measuring")

            def run(request=request, blocks=blocks, sizes=sizes):
                sizes.append(_compute(request, call, blocks))

            peak = peak_memory(run)
            items = edge_shard_bytes(*sizes[0], WIDTH, blocks, PIECE)
            measured.append((peak, {i.label: b for i, b in items.items()}))
    return measured


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_bytes_that_are_counted_are_enough():
    for rank, found in enumerate(run_ranks(2, _measure, CASES)):
        for case, (peak, items) in zip(CASES, found, strict=True):
            counted = sum(items.values())
            print(rank, case, f"{peak:,} of {counted:,}", items)
            assert peak <= counted, (rank, case, items)
            # Not by counting far too much.
            assert peak >= 0.5 * counted, (rank, case, items)
