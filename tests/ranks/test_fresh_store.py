"""A part of a store that earlier starts have not written to."""

import os
import threading
import time

import pytest
import torch.distributed as dist
from dgl import DGLError

from dgl_lc.ranks.call import RankCall
from dgl_lc.ranks.fresh_store import fresh_store
from dgl_lc.ranks.group import find_ranks
from dgl_lc.testing.run_ranks import run_ranks


def start(store, size):
    """Start so many ranks, as threads; give the part of each."""
    found = [None] * size

    def run(rank):
        found[rank] = fresh_store(store.clone(), rank, size, seconds=20)

    threads = [threading.Thread(target=run, args=(r,)) for r in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@pytest.fixture
def store():
    return dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)


def test_a_restart_sees_nothing_of_the_start_before(store):
    first = start(store, 3)
    first[1].set("address", "old")
    assert all(own.get("address") == b"old" for own in first)
    again = start(store, 3)
    assert not any(own.check(["address"]) for own in again)
    again[2].set("address", "new")
    assert all(own.get("address") == b"new" for own in again)
    # Another number of ranks.
    assert not any(own.check(["address"]) for own in start(store, 2))


def test_a_rank_that_does_not_start_is_named(store):
    start(store, 2)
    with pytest.raises(DGLError, match="ranks 1 of 2 have not started"):
        fresh_store(store, 0, 2, seconds=0.3)


def _call_after_restart():
    os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "True"
    ranks = find_ranks()
    # What a call of an earlier start left in the store.
    for step in (1, 2):
        ranks.store.set(f"dgl_lc/1/{step}/1", '"old"')
        ranks.store.add(f"dgl_lc/1/{step}/1/there", 1)
    dist.barrier()
    time.sleep(0.3 * ranks.rank)
    with RankCall(ranks, "test") as call:
        found = call.gather(ranks.rank)
    return found, "old" in call.hosts


def test_a_call_reads_nothing_of_an_earlier_start():
    assert run_ranks(2, _call_after_restart) == [([0, 1], False)] * 2
