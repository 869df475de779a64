"""Rows between ranks: how many bytes, in which pieces, and what can fail."""

import os
import signal
from unittest import mock

import numpy as np
import pytest
import torch
import torch.distributed as dist
from dgl import DGLError

from dgl_lc.precompute.sharded.edge_engine import EdgeShardEngine
from dgl_lc.precompute.sharded.edge_shards import EdgeShard, cut_destinations
from dgl_lc.precompute.sharded.row_exchange import RowExchange, Swap
from dgl_lc.precompute.survey import survey
from dgl_lc.ranks import call as calls
from dgl_lc.ranks import collectives
from dgl_lc.ranks.call import RankFailed
from dgl_lc.ranks.collectives import Collectives
from dgl_lc.ranks.group import Ranks
from dgl_lc.testing.run_ranks import RankErrors, run_ranks

from . import edge_cases

#: Three hops of 60 nodes, of which every rank reads some of the others'.
CASE = edge_cases.draw(0) | {
    "n": 60, "m": 200, "shape": "random", "format": "coo", "K": 3,
    "hops": [1, 3], "norm": "both", "self_loop": True, "weighted": False,
    "nodes": None, "columns": 17, "width": 5, "feat": "float32",
    "dtype": "float32", "edge_blocks": 1, "piece": 700,
}  # fmt: skip


def test_the_fewer_bytes_of_all_ranks_decide():
    # Two ranks, ten rows each, one hop of 8 bytes per row.
    def swap(wanted, hops=1, rows=10):
        return Swap(np.array([[0, wanted], [wanted, 0]]), rows, 8, hops)

    assert swap(10).gathers  # 2 * 10 * 8 bytes against 2 * 10 * (4 + 8)
    assert swap(7).gathers  # 160 against 168
    assert not swap(6).gathers  # 160 against 144
    assert not swap(7, hops=4).gathers  # ids are sent once for all hops
    assert not swap(7, rows=11).gathers  # rows are padded
    assert swap(7).sent_bytes(0) == 10 * 8
    assert swap(6).sent_bytes(0) == 6 * 4 + 6 * 8
    uneven = Swap(np.array([[0, 1, 2], [3, 0, 4], [5, 6, 0]]), 50, 8, 2)
    assert [uneven.sent_rows(r) for r in range(3)] == [8, 7, 6]
    assert [uneven.id_bytes(r) for r in range(3)] == [12, 28, 44]
    assert [uneven.sent_bytes(r) for r in range(3)] == [140, 140, 140]


def _both_ways():
    """Compute rows of all nodes and of two, both ways."""
    found = {None: [], 2: []}
    for nodes, results in found.items():
        case = CASE | {"nodes": nodes, "norm": "left"}
        with edge_cases.this_call() as call:
            for gathers in (False, True):
                with mock.patch.object(Swap, "gathers", gathers):
                    request = edge_cases.make_request(case, None)
                    results.append(edge_cases.run_shard(case, request, call))
    return found


@pytest.fixture(scope="module")
def both_ways():
    return run_ranks(3, _both_ways)


@pytest.mark.parametrize("nodes", [None, 2])
def test_lists_and_gathers_give_the_same_numbers(both_ways, nodes):
    found = [own[nodes] for own in both_ways]
    for rank, (lists, gathers) in enumerate(found):
        for hop, rows in lists["hops"].items():
            assert np.array_equal(rows, gathers["hops"][hop])
        for own in (lists, gathers):
            assert own["payload"] == own["planned"][rank]
    # Rows of hop 1 and of hop 2 are in the second count.
    assert sum(own[1]["payload"] for own in found) > sum(
        own[0]["payload"] for own in found
    )


def _record(pieces):
    return [_record_one(piece) for piece in pieces]


def _record_one(piece):
    sizes = []
    with (
        mock.patch.object(
            dist, "all_to_all_single", _spy(dist.all_to_all_single, sizes)
        ),
        edge_cases.this_call() as call,
    ):
        case = CASE | {"piece": piece}
        request = edge_cases.make_request(case, None)
        found = edge_cases.run_shard(case, request, call)
    return sizes, found["hops"][3]


def _spy(original, sizes):
    def call(received, sent, *args, **kwargs):
        sizes.append((received.nbytes, sent.nbytes))
        return original(received, sent, *args, **kwargs)

    return mock.create_autospec(original, side_effect=call)


def test_pieces_are_bounded():
    pieces = (1, 100, 1 << 20)
    found = list(zip(*run_ranks(3, _record, pieces), strict=True))
    for piece, ranks in zip(pieces, found, strict=True):
        for sizes, _ in ranks:
            # A row of five columns for each of the two others fits at least.
            assert max(map(max, sizes)) <= max(piece, 2 * 5 * 4)
            assert len(sizes) == len(ranks[0][0])
    rounds = [len(ranks[0][0]) for ranks in found]
    assert rounds[0] > rounds[1] > rounds[2]
    # Of one list of ids and, in four column blocks, the rows of two hops.
    assert rounds[2] == 1 + 4 * 2
    for rank in range(3):
        for other in found[1:]:
            assert np.array_equal(found[0][rank][1], other[rank][1])


def _some_columns():
    with edge_cases.this_call() as call:
        found = survey(request := edge_cases.make_request(CASE, None))
        ranks = call.ranks
        bounds = cut_destinations(found.edges.indptr, ranks.size)
        shard = EdgeShard(request, found, bounds, ranks.rank)
        exchange = RowExchange(shard, call)
        engine = EdgeShardEngine(shard, exchange, call, 7)
        sink = edge_cases.Collected(request, shard)
        payloads = [(exchange.planned_bytes(columns=0), exchange.payload_bytes)]
        for first, last in ((0, 7), (10, 14)):
            sink.columns = slice(first, last)
            engine.column_block(first, last, sink, bool)
        return [
            *payloads,
            (exchange.planned_bytes(columns=11), exchange.payload_bytes),
        ]


def test_the_payload_of_some_columns_is_known_as_well():
    for found in run_ranks(2, _some_columns):
        for planned, payload in found:
            assert planned == payload > 0
        assert found[0] != found[1]


def _without_exchange():
    with edge_cases.this_call() as call:
        case = CASE | {"K": 1, "hops": [1]}
        with mock.patch.object(
            Collectives, "all_gather", side_effect=AssertionError
        ):
            request = edge_cases.make_request(case, None)
            return edge_cases.run_shard(case, request, call)["payload"]


def test_one_hop_needs_no_exchange():
    assert run_ranks(2, _without_exchange) == [0, 0]


def _quick():
    calls.BEAT_SECONDS = 0.1
    calls._FAREWELL_SECONDS = 1.0


def _fail(how):
    _quick()
    with edge_cases.this_call() as call:
        original = RowExchange._send_rows

        def send(self, hop, values):
            if call.ranks.rank == 1 and hop == 2:
                if how == "die":
                    os.kill(os.getpid(), signal.SIGKILL)
                raise ValueError("no room")
            original(self, hop, values)

        with mock.patch.object(RowExchange, "_send_rows", send):
            request = edge_cases.make_request(CASE, None)
            edge_cases.run_shard(CASE, request, call)


def test_a_rank_that_died_is_named_with_the_stage():
    with pytest.raises(RankErrors) as caught:
        run_ranks(3, _fail, "die")
    for rank in (0, 2):
        error = caught.value.errors[rank]
        assert isinstance(error, DGLError)
        text = str(error)
        assert "exchanging rows of hop 2, columns 0 to 5" in text
        silent = text.partition("no sign of life of ")[2]
        assert silent.startswith("rank 1 (")
        assert "rank 0" not in silent
        assert "rank 2" not in silent
        assert "--max-restarts" in text


def test_what_a_rank_reports_reaches_those_that_wait_for_it():
    with pytest.raises(RankErrors) as caught:
        run_ranks(3, _fail, "raise")
    assert "no room" in str(caught.value.errors[1])
    for rank in (0, 2):
        error = caught.value.errors[rank]
        assert isinstance(error, RankFailed)
        assert "failed on rank 1: ValueError: no room" in str(error)


def _other_rows(alike):
    case = CASE | {"K": 2, "hops": [2], "nodes": 3}

    def other(request):
        found = survey(request)
        if dist.get_rank() == 1:
            rest = np.setdiff1d(np.arange(case["n"]), found.rows[1])
            rest = rest.astype(np.int32)
            found.rows[1] = rest[: len(found.rows[1])] if alike else rest
        return found

    with (
        edge_cases.this_call() as call,
        mock.patch.object(edge_cases, "survey", other),
    ):
        request = edge_cases.make_request(case, None)
        edge_cases.run_shard(case, request, call)


def _both_other_rows():
    found = []
    for alike in (True, False):
        with pytest.raises(DGLError) as caught:
            _other_rows(alike)
        found.append(str(caught.value))
    return found


def test_rows_that_the_owner_does_not_compute_are_refused():
    alike, unlike = zip(*run_ranks(2, _both_other_rows), strict=True)
    assert any("do not have the same graph" in text for text in alike)
    assert any("the number of rows of each hop is" in text for text in unlike)


def _staged():
    """Compute as if the group had NCCL alone; its tensors are marked."""
    staged, handed = set(), []
    cuda = torch.device("cuda", 3)
    gather = "all_gather_single"
    if not hasattr(dist, gather):
        gather = "all_gather_into_tensor"
    real_empty, real_to = torch.empty, torch.Tensor.to

    def empty(*size, device=None, **options):
        found = real_empty(*size, **options)
        if device == cuda:
            staged.add(found.data_ptr())
        return found

    def to(self, device):
        assert device == cuda
        found = real_to(self, "cpu", copy=True)
        staged.add(found.data_ptr())
        return found

    def spy(original):
        def call(received, sent, *args, **kwargs):
            handed.extend(
                own.data_ptr() in staged for own in (received, sent) if len(own)
            )
            return original(received, sent, *args, **kwargs)

        return mock.create_autospec(original, side_effect=call)

    with (
        mock.patch.object(Ranks, "backends", {"nccl"}),
        mock.patch.object(
            torch.cuda,
            "current_device",
            mock.create_autospec(torch.cuda.current_device, return_value=3),
        ),
        mock.patch.object(collectives.torch, "empty", empty),
        mock.patch.object(torch.Tensor, "to", to),
        mock.patch.object(
            dist, "all_to_all_single", spy(dist.all_to_all_single)
        ),
        mock.patch.object(dist, gather, spy(getattr(dist, gather))),
        edge_cases.this_call() as call,
    ):
        ours = Collectives(call)
        assert ours._device == cuda
        rank, size = call.ranks.rank, call.ranks.size
        sent = torch.full((size - 1,), rank, dtype=torch.uint8)
        received = torch.zeros(size - 1, dtype=torch.uint8)
        sizes = [int(other != rank) for other in range(size)]
        ours.begin("test")
        ours.all_to_all(sent, sizes, received, sizes)
        everyone = torch.zeros(size, dtype=torch.uint8)
        ours.all_gather(sent[:1], everyone)
    return received.tolist(), everyone.tolist(), handed, ours.payload_bytes


def test_pieces_of_a_group_with_nccl_go_through_the_device():
    for rank, found in enumerate(run_ranks(3, _staged)):
        received, everyone, handed, payload = found
        assert received == [other for other in range(3) if other != rank]
        assert everyone == [0, 1, 2]
        assert handed == [True] * 4
        assert payload == 4


def test_a_group_with_gloo_takes_tensors_of_the_cpu():
    ranks = mock.create_autospec(Ranks, instance=True)
    for backends in ({"gloo"}, {"gloo", "nccl"}):
        ranks.backends = backends
        assert collectives._device_of(ranks) is None
