"""Threads and ranges."""

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgl_lc._common.threads import ranges, run_parallel


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
        run_parallel(work, 10_000, 2)
    assert len(done) < 10_000
