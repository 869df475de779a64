"""Requests to a store that may not answer."""

import threading
import time

import pytest
import torch.distributed as dist

from dgl_lc.ranks.store_requests import StoreLost, StoreRequests


class Silent(dist.HashStore):
    """A store that answers only after it is let go."""

    def __init__(self):
        super().__init__()
        self.let_go = threading.Event()

    def add(self, key, amount):
        self.let_go.wait()
        return amount


def test_values_and_counters():
    requests = StoreRequests(dist.HashStore(), 5)
    requests.set("a", "text")
    assert requests.get("a") == "text"
    assert requests.count("b") == 0
    assert [requests.add("b", 2), requests.add("b", 3)] == [2, 5]
    assert requests.count("b") == 5
    requests.close()
    assert not requests._thread.is_alive()


def test_a_store_that_does_not_answer_is_given_up():
    store = Silent()
    requests = StoreRequests(store, 0.3)
    with pytest.raises(StoreLost, match="no answer in 0 s"):
        requests.count("a")
    # What is asked later is not waited for.
    began = time.monotonic()
    with pytest.raises(StoreLost, match="no answer"):
        requests.set("b", "text")
    requests.close()
    assert time.monotonic() - began < 0.25
    store.let_go.set()
    requests._thread.join(5)
    assert not requests._thread.is_alive()


def test_an_error_of_the_store_is_said():
    class Broken(dist.HashStore):
        def get(self, key):
            raise dist.DistNetworkError("Connection reset by peer\nmore")

    requests = StoreRequests(Broken(), 5)
    with pytest.raises(StoreLost, match=r"^Connection reset by peer$"):
        requests.get("a")
    requests.close()
