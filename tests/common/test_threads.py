"""Threads and ranges."""

import threading
import time
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgl_lc._common.threads import ranges, run_in_order, run_parallel


@given(st.integers(0, 200), st.integers(1, 30))
def test_ranges_are_balanced_and_cover_all(total, parts):
    found = ranges(total, parts)
    assert len(found) == parts
    assert [i for a, b in found for i in range(a, b)] == list(range(total))
    sizes = [b - a for a, b in found]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_every_item_is_done_once(threads):
    done = []
    run_parallel(lambda worker, item: done.append(item), 100, threads)
    assert sorted(done) == list(range(100))


def test_a_worker_has_one_item_at_a_time():
    busy = set()

    def work(worker, item):
        assert worker not in busy
        busy.add(worker)
        time.sleep(0.001)
        busy.discard(worker)

    run_parallel(work, 60, 4)


def test_an_error_stops_the_others():
    done = []
    lock = threading.Lock()

    def work(worker, item):
        if item == 3:
            raise ValueError("item 3")
        with lock:
            done.append(item)
        time.sleep(0.001)

    with pytest.raises(ValueError, match="item 3"):
        run_parallel(work, 500, 2)
    assert len(done) < 500


def test_results_come_in_order_whoever_is_first():
    def work(item):
        time.sleep(0.01 * (item % 2 == 0))
        return item

    assert list(run_in_order(work, 9, threads=3)) == list(range(9))
    assert list(run_in_order(work, 0)) == []


def test_an_error_begins_no_further_item():
    begun = []

    def work(item):
        begun.append(item)
        if item == 2:
            raise ValueError("the third one")
        time.sleep(0.002)
        return item

    seen = []

    def collect():
        for item in run_in_order(work, 1000, threads=1):
            seen.append(item)

    with pytest.raises(ValueError, match="the third one"):
        collect()
    assert seen == [0, 1]
    assert len(begun) < 1000


def test_closing_waits_for_what_is_in_work():
    done = []

    def work(item):
        time.sleep(0.01)
        done.append(item)
        return item

    with closing(run_in_order(work, 1000, threads=2)) as results:
        assert next(results) == 0
    finished = len(done)
    assert finished < 1000
    time.sleep(0.05)
    assert len(done) == finished
