"""The split that is planned for many ranks."""

import dataclasses

import dgl
import pytest
import torch
from dgl import DGLError
from hypothesis import given
from hypothesis import strategies as st

from dgl_lc.precompute import plan
from dgl_lc.precompute.planning.cpu import MemoryTooSmall
from dgl_lc.precompute.planning.plans import Item
from dgl_lc.precompute.planning.rank_modes import edge_mode
from dgl_lc.precompute.planning.rank_rates import Rates, parse_rate
from dgl_lc.precompute.planning.rank_traffic import Machines, RankResult
from dgl_lc.precompute.planning.ranks import list_modes, make_ranks_plan
from dgl_lc.precompute.planning.work import Work
from dgl_lc.precompute.sharded.planned_exchange import (
    largest_shard,
    model_shards,
)

NODES, EDGES = 111_059_956, 3_228_124_712
#: papers100M in both directions, on disk.
PAPERS = Work(
    num_nodes=NODES, num_edges=EDGES, num_feats=128, kind="float32",
    hop_rows=(NODES,) * 3, hop_entries=(EDGES,) * 3, kept_rows=NODES,
    kept_hops=(0, 1, 2, 3), shares_features=False, owned=False, index_size=4,
    stored=True, mapped=True,
)  # fmt: skip
STORE = RankResult(stored=True, shared=True)


def machines(ranks, hosts=None, memory=56 * 10**9, **options):
    rates = options.pop("rates", Rates())
    return Machines(ranks, hosts or ranks, memory, rates, **options)


def test_columns_are_shared_where_there_are_enough():
    for ranks in (1, 2, 4, 16):
        found = make_ranks_plan(PAPERS, machines(ranks), STORE)
        assert found.split == "columns"
        assert set(found.sent_bytes) == {0}
        assert len(found.sent_bytes) == ranks


def test_a_mesh_is_used_where_ranks_outnumber_columns():
    found = make_ranks_plan(PAPERS, machines(64), STORE)
    columns = found.modes[0]
    # 32 units of 16 bytes, which are a quarter of a cache line.
    assert columns.units == 32
    assert found.chosen.layout.is_mesh
    assert found.seconds < columns.seconds / 2
    few = dataclasses.replace(PAPERS, num_feats=4)
    assert make_ranks_plan(few, machines(16), STORE).chosen.layout.edges > 1


def test_edges_that_exceed_the_disk_are_shared():
    size = 4 * EDGES + 8 * NODES
    for share, least in ((1, 1), (2, 2), (4, 4)):
        here = machines(4, host_disk=size // share + 1)
        assert make_ranks_plan(PAPERS, here, STORE).chosen.layout.edges == least
    with pytest.raises(DGLError, match=r"host_disk.* is too small"):
        make_ranks_plan(PAPERS, machines(4, host_disk=10**9), STORE)


def test_a_slow_network_speaks_against_edges():
    work = dataclasses.replace(PAPERS, num_feats=16)
    fast, slow = (
        make_ranks_plan(work, machines(16, rates=Rates(network=rate)), STORE)
        for rate in (100e9 / 8, 1e7)
    )
    assert fast.chosen.layout.edges > slow.chosen.layout.edges == 1


def test_what_stays_on_a_host_does_not_use_its_network():
    """The ranks of a group are on one host, if they are as many."""
    modes = {}
    for network in (1e7, 1e12):
        here = machines(8, 2, 16 * 10**9, rates=Rates(network=network))
        for mode in list_modes(PAPERS, here, STORE):
            modes.setdefault(mode.layout.edges, []).append(mode.times.network)
    assert modes[4][0] == modes[4][1] > 0
    assert modes[8][0] > 10 * modes[8][1]


def test_the_split_that_was_asked_for_is_planned():
    for split in ("columns", "edges", (2, 8)):
        found = make_ranks_plan(PAPERS, machines(16), STORE, split)
        assert found.split == split
    with pytest.raises(DGLError, match="the product of the two"):
        make_ranks_plan(PAPERS, machines(16), STORE, (3, 5))


@pytest.mark.parametrize("owned", [True, False])
@pytest.mark.parametrize("split", [None, "columns", "edges", (2, 2)])
@pytest.mark.parametrize("stored", [True, False])
def test_what_is_said_to_be_enough_is_enough(owned, split, stored):
    work = dataclasses.replace(PAPERS, owned=owned, mapped=not owned)
    result = RankResult(stored, True)
    with pytest.raises(MemoryTooSmall, match="would be enough") as error:
        make_ranks_plan(work, machines(4, memory=2**20), result, split)
    enough = error.value.enough
    found = make_ranks_plan(work, machines(4, memory=enough), result, split)
    assert found.peak_bytes <= enough


@given(
    st.integers(1, 10**6), st.integers(0, 10**7), st.integers(1, 4),
    st.integers(2, 40), st.booleans(), st.booleans(),
)  # fmt: skip
def test_the_model_is_within_its_bound(n, m, K, ranks, whole, owned):
    work = dataclasses.replace(
        PAPERS, num_nodes=n, num_edges=m, hop_rows=(n,) * K, all_rows=whole,
        hop_entries=(m,) * K, kept_rows=max(1, n // 2), owned=owned,
        kept_hops=tuple(range(K + 1)),
    )  # fmt: skip
    here = machines(ranks, memory=2**50)
    for mode in list_modes(work, here, RankResult(False, True)):
        assert len(mode.sent_bytes) == ranks
        assert max(mode.sent_bytes) <= mode.most_sent
        assert mode.fits
        assert mode.seconds >= 0


@given(
    st.integers(2, 300), st.integers(0, 2000), st.integers(1, 4),
    st.integers(2, 5), st.booleans(), st.booleans(),
)  # fmt: skip
def test_no_shard_is_larger_than_the_largest(n, m, K, shards, hub, some):
    generator = torch.Generator().manual_seed(n * m)
    ends = torch.randint(n, (2, m), generator=generator)
    if hub:
        ends[1] = 0
    g, x = dgl.graph((ends[0], ends[1]), num_nodes=n), torch.ones(n, 8)
    found = plan(
        g, x, K, ranks=shards, split="edges", stored=True, memory="1GiB",
        nodes=[0, n - 1] if some else None,
    )  # fmt: skip
    work = dataclasses.replace(
        found.work, hop_rows=(n,) * K, hop_entries=(m,) * K, input_rows=None
    )
    most = edge_mode(
        work, found.machines, STORE, found.chosen.layout,
        largest_shard(work, shards, 2**30),
    )  # fmt: skip
    # Buffers for rows on their way are bounded, and not by the rows alone.
    found.chosen.items[Item.EXCHANGE] = most.items[Item.EXCHANGE] = 0
    assert found.peak_bytes <= most.peak_bytes


def test_the_model_is_near_a_random_graph():
    torch.manual_seed(0)
    n, m = 20_000, 60_000
    g, x = dgl.rand_graph(n, m), torch.ones(n, 16)
    exact = plan(g, x, 3, ranks=4, split="edges", stored=True)
    model = make_ranks_plan(exact.work, exact.machines, STORE, "edges")
    assert exact.exact
    assert not model.exact
    ratio = max(model.sent_bytes) / max(exact.sent_bytes)
    assert 0.95 < ratio < 1.05
    assert 0.9 < model.peak_bytes / exact.peak_bytes < 1.1


def test_one_hop_of_edge_shards_sends_nothing():
    work = dataclasses.replace(
        PAPERS, hop_rows=(NODES,), hop_entries=(EDGES,), kept_hops=(0, 1)
    )
    assert model_shards(work, 4, None).sizes[0].swaps == ()
    found = make_ranks_plan(work, machines(4), STORE, "edges")
    assert set(found.sent_bytes) == {0}


def test_a_plan_for_ranks_prints_a_column_per_split():
    text = str(make_ranks_plan(PAPERS, machines(64, 16, 14 * 10**9), STORE))
    lines = text.splitlines()
    words = [
        "64 ranks of 16 hosts", "per rank", "network 10 Gbit/s", "columns",
        "edges", " x ", "peak", "sent over the network", "sent, at most",
        "edges read", "* chosen: split=", "a model", "estimates",
        "one store that all hosts see",
    ]  # fmt: skip
    for word in words:
        assert word in text
    assert max(map(len, lines[1:])) <= 80
    header = next(line for line in lines if line.startswith("  split"))
    assert header.count("*") == 1


def test_a_plan_of_a_graph_says_that_bytes_are_exact():
    g, x = dgl.rand_graph(100, 400), torch.ones(100, 8)
    text = str(plan(g, x, 2, ranks=2, memory="256MiB"))
    assert "a model" not in text
    assert "at most" not in text
    assert "rows of each rank, in memory" in text
    text = str(plan(g, x, 2, ranks=2, stored=True, shared=False))
    assert "in a store of its own" in text


def test_no_hops_are_columns_only():
    g, x = dgl.rand_graph(100, 400), torch.ones(100, 8)
    found = plan(g, x, 0, ranks=4, split="edges", memory="256MiB")
    assert found.split == "columns"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ranks": 0}, "ranks=0 should be an integer from 1 to 4096"),
        ({"ranks": 2.0}, "ranks=2.0 should be"),
        ({"ranks": True}, "ranks=True should be"),
        ({"ranks": 2, "hosts": 0}, "hosts=0 should be"),
        ({"ranks": 2, "hosts": 3}, "hosts is 3, more than the 2 ranks"),
        ({"ranks": 4, "split": (2, 3)}, "split=.2, 3.: the product"),
        ({"ranks": 4, "split": "rows"}, "split='rows' should be"),
        ({"ranks": 4, "network": "fast"}, "network='fast' is not a band"),
        ({"ranks": 4, "device": "cuda"}, "ranks= plans for CPUs"),
        ({"ranks": 4, "memory": "1KiB"}, "per rank is too small"),
        ({"hosts": 2}, "give ranks="),
        ({"split": "edges"}, "give ranks="),
        ({"network": "10Gbit"}, "give ranks="),
    ],
)
def test_bad_arguments_are_named(options, message):
    g, x = dgl.rand_graph(100, 400), torch.ones(100, 8)
    with pytest.raises(DGLError, match=message):
        plan(g, x, 2, **options)


@pytest.mark.parametrize(
    ("text", "rate"),
    [("10Gbit", 1.25e9), ("100 Gbit/s", 1.25e10), ("1.25GB", 1.25e9),
     ("1 GiB/s", 2**30), (5, 5), (1.25e9, 1.25e9)],
)  # fmt: skip
def test_bandwidths_are_read(text, rate):
    assert parse_rate(text) == rate


@pytest.mark.parametrize(
    "bad",
    ["", "Gbit", "-1Gbit", "1e9", "0", 0, -1, True, None, [], float("nan"),
     float("inf"), 10**400, "9" * 400, "1.2.3GB", "1 parsec", "10Gb",
     "25Gbps", "25GBps"],
)  # fmt: skip
def test_bad_bandwidths_are_refused(bad):
    with pytest.raises(DGLError, match=r"rate=.* is not a bandwidth") as error:
        parse_rate(bad, "rate")
    assert len(str(error.value)) < 200
