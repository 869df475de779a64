"""Loaders that read stores in large pieces, with threads of their own."""

import errno
import gc
import os
import signal
import threading
import time

import dgl
import pytest
import torch
from dgl import DGLError
from hypothesis import given, settings
from hypothesis import strategies as st
from night import cases
from torch.testing import assert_close

from dgl_lc.nn import FSGNN
from dgl_lc.precompute import block_aggregate, label_features, with_labels
from dgl_lc.row_blocks import Room
from dgl_lc.storage import read_blocks
from dgl_lc.storage.hop_store import StoredHops
from dgl_lc.testing.random_graphs import make_features
from dgl_lc.training import HopLoader
from dgl_lc.training.chunk_order import RowChunks
from dgl_lc.training.pieces import PieceLoader

N = 500
GRAPH = dgl.rand_graph(N, 2000)
FEAT = make_features(N, 9)
HOPS = block_aggregate(GRAPH, FEAT, 2)
ROW = HOPS.row_bytes
LABELS = torch.arange(N) % 7
CHUNKS = RowChunks(16, 120)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def warm(folder):
    return block_aggregate(GRAPH, FEAT, 2, out=folder / "hops")


@pytest.fixture
def cold(warm, monkeypatch):
    """A store that is read as one that is larger than memory."""
    monkeypatch.setattr(warm, "is_cold", True)
    monkeypatch.setattr(read_blocks, "_TOGETHER", 1)
    return warm


def threads():
    return [t for t in threading.enumerate() if t.name.startswith("dgl-lc")]


def nodes_of(loader):
    return [batch.nodes.tolist() for batch in loader]


def assert_right(batch, labels):
    assert torch.equal(labels, LABELS[batch.nodes])
    for k in HOPS.hops:
        assert_close(batch[k], HOPS[k][batch.nodes])


IDS = st.lists(st.integers(0, N - 1), min_size=1, max_size=80)


@settings(max_examples=cases(15, 200), deadline=None)
@given(
    ids=IDS, batch=st.integers(1, 50), rows=st.integers(1, 30),
    windows=st.integers(1, 4), shuffle=st.booleans(), is_cold=st.booleans(),
)  # fmt: skip
def test_every_sample_comes_once_with_its_rows_and_label(
    warm, ids, batch, rows, windows, shuffle, is_cold
):
    chunks = RowChunks(rows, windows * batch) if shuffle else False
    before, warm.is_cold = warm.is_cold, is_cold
    try:
        loader = HopLoader(warm, ids, LABELS, batch, chunks, seed=5)
        seen = []
        for rows_of_batch, labels in loader:
            assert_right(rows_of_batch, labels)
            seen += rows_of_batch.nodes.tolist()
    finally:
        warm.is_cold = before
    assert sorted(seen) == sorted(ids)
    # The order is that of the same rows in memory.
    other = HopLoader(HOPS, ids, LABELS, batch, chunks, seed=5)
    assert [i for b in other for i in b[0].nodes.tolist()] == seen
    assert not threads()


def test_the_order_follows_from_seed_and_epoch(cold):
    def loader(seed):
        return HopLoader(cold, range(N), None, 32, CHUNKS, seed=seed)

    again = loader(1)
    first = [nodes_of(again) for _ in range(3)]
    other = loader(1)
    other.set_epoch(2)
    assert nodes_of(other) == first[2]
    assert nodes_of(loader(2)) != first[0]
    assert first[0] != first[1]


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_shards_are_equal_and_cover_all(cold, size):
    found = [
        HopLoader(
            cold, range(N), None, 10, "chunks", rank=rank, world_size=size,
            shuffle_buffer=ROW * 90,
        )
        for rank in range(size)
    ]  # fmt: skip
    seen = [[i for batch in nodes_of(one) for i in batch] for one in found]
    assert {len(own) for own in seen} == {-(-N // size)}
    assert set().union(*seen) == set(range(N))
    # Only the first samples are repeated, to fill up the last shards.
    assert sum(map(len, seen)) - N < size


@pytest.mark.parametrize("size", [2, 3])
def test_pieces_of_ranks_are_the_batches_of_one_process(cold, size):
    whole = HopLoader(cold, range(N), None, 12, CHUNKS)
    pieces = [
        PieceLoader(cold, range(N), None, 12 // size, CHUNKS, rank=rank,
                    world_size=size)
        for rank in range(size)
    ]  # fmt: skip
    for batch, *own in zip(whole, *pieces, strict=True):
        together = [i for piece in own for i in piece.nodes.tolist()]
        assert together == batch.nodes.tolist()


@pytest.mark.parametrize("buffer", [ROW * 200, ROW * 90, "1MiB"])
def test_the_buffer_is_not_exceeded(cold, buffer, monkeypatch):
    taken = {}

    def spy(self, key, size, real=Room.bytes):
        taken[self] = max(size, taken.get(self, 0))
        return real(self, key, size)

    monkeypatch.setattr(Room, "bytes", spy)
    monkeypatch.setattr(cold, "is_cold", False)
    loader = HopLoader(
        cold, range(N), None, 10, "chunks", shuffle_buffer=buffer
    )
    list(loader)
    list(loader)
    assert 0 < len(taken) <= 2  # also in the second epoch
    limit = buffer if isinstance(buffer, int) else 1 << 20
    assert 0 < sum(taken.values()) <= limit


def test_rows_of_chunks_are_read_at_once(cold, monkeypatch):
    asked = []

    def spy(store, places, *rest, real=read_blocks.read_block):
        asked.append(places.clone())
        return real(store, places, *rest)

    monkeypatch.setattr("dgl_lc.storage.hop_store.read_block", spy)
    nodes_of(HopLoader(cold, range(N), None, 24, CHUNKS))
    assert [len(places) for places in asked] == [120, 120, 120, 120, 20]
    for places in asked:
        runs = int((places.sort().values.diff() > 1).sum()) + 1
        assert runs <= -(-len(places) // 16) + 2


# Threads


def test_two_batches_are_ready_before_they_are_asked_for(warm, monkeypatch):
    taken = []
    real = read_blocks.StoredBlock.take

    def spy(self, which, nodes, out=None):
        taken.append(len(which))
        return real(self, which, nodes, out)

    monkeypatch.setattr(read_blocks.StoredBlock, "take", spy)
    batches = iter(HopLoader(warm, range(N), None, 10, CHUNKS))
    for number in range(1, 4):
        next(batches)
        until = time.monotonic() + 5
        while len(taken) < number + 2 and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.05)
        assert len(taken) == number + 2
    batches.close()
    assert not threads()


@pytest.mark.parametrize("shuffle", [False, "chunks", "full"])
def test_no_thread_is_left_behind(warm, shuffle):
    loader = HopLoader(warm, range(N), LABELS, 10, shuffle)
    for _ in loader:
        break
    assert not threads()

    def interrupted():
        for _ in loader:
            assert threads()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not threads()
    kept = iter(loader)
    next(kept)
    assert threads()
    del kept
    gc.collect()
    assert not threads()
    # An epoch that was left early harms no later one.
    for batch, labels in loader:
        assert_right(batch, labels)


def test_ctrl_c_while_a_disk_is_read_ends_the_threads(warm, monkeypatch):
    begun, ended = threading.Event(), threading.Event()

    def slow(store, file, target, begin):
        begun.set()
        time.sleep(0.1)

    monkeypatch.setattr(read_blocks, "_read", slow)
    monkeypatch.setattr(read_blocks, "_PIECE", ROW)

    def interrupt():
        begun.wait()
        os.kill(os.getpid(), signal.SIGINT)
        # Python ignores an interrupt within a callback of its garbage
        # collector, as hypothesis has one: then, as a user does, once more.
        while not ended.wait(5):
            os.kill(os.getpid(), signal.SIGINT)

    helper = threading.Thread(target=interrupt)
    helper.start()
    start = time.monotonic()
    # All pieces would take 50 seconds.
    with pytest.raises(KeyboardInterrupt):
        list(HopLoader(warm, range(N), None, N, RowChunks(N, N)))
    ended.set()
    helper.join()
    assert time.monotonic() - start < 25
    assert not threads()


def test_an_error_of_the_thread_reaches_the_user(warm, monkeypatch):
    def fail(*_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(read_blocks, "_read", fail)
    with pytest.raises(OSError, match="Input/output error"):
        list(HopLoader(warm, range(N), None, 10, CHUNKS))
    assert not threads()


def test_two_iterations_at_once_do_not_disturb_each_other(cold):
    loader = HopLoader(cold, range(N), LABELS, 10, CHUNKS)
    count = 0
    for one, other in zip(loader, loader, strict=True):
        assert_right(*one)
        assert_right(*other)
        count += 1
    assert count == 50


def test_kept_batches_do_not_change(cold):
    kept = list(HopLoader(cold, range(N), LABELS, 10, CHUNKS))
    for batch, labels in kept:
        assert_right(batch, labels)


# Damage


@pytest.mark.parametrize("shuffle", [False, CHUNKS])
@pytest.mark.parametrize("is_cold", [False, True])
def test_damaged_rows_are_found(tmp_path, shuffle, is_cold, monkeypatch):
    hops = block_aggregate(GRAPH, FEAT, 2, out=tmp_path / "hops")
    monkeypatch.setattr(read_blocks, "_TOGETHER", 1)
    hops.is_cold = is_cold
    with open(tmp_path / "hops/rows.npy", "r+b") as file:
        file.seek(128 + 77 * ROW + 30)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 4]))
    fine = [i for i in range(N) if i != 77]
    list(HopLoader(hops, fine, None, 10, shuffle))
    with pytest.raises(DGLError, match="row of node 77 is not what"):
        list(HopLoader(hops, range(N), None, 10, shuffle))
    assert not threads()


@pytest.mark.parametrize("is_cold", [False, True])
def test_a_file_that_is_cut_off_is_an_error(tmp_path, is_cold, monkeypatch):
    hops = block_aggregate(GRAPH, FEAT, 2, out=tmp_path / "hops")
    monkeypatch.setattr(read_blocks, "_TOGETHER", 1)
    hops.is_cold = is_cold
    # After the length was looked at.
    monkeypatch.setattr(StoredHops, "_check_length", lambda self: None)
    os.truncate(tmp_path / "hops/rows.npy", 128 + 100 * ROW + 5)
    with pytest.raises(DGLError, match="became shorter while it was open"):
        list(HopLoader(hops, range(N), None, 10, CHUNKS))


def test_places_that_do_not_exist_reach_no_kernel(warm):
    for places in ([-1, 3], [3, N]):
        with pytest.raises(IndexError, match="out of range"):
            warm.read(torch.tensor(places), Room())


def test_the_disk_is_asked_for_rows_that_lie_near_each_other_at_once():
    gap = read_blocks._GAP
    pieces = [(128, 100, 0), (300, 50, 100), (350 + gap, 10, 150),
              (361 + 2 * gap, 7, 160)]  # fmt: skip
    assert list(read_blocks._requests(pieces)) == [
        (0, 128, 232 + gap), (160, 361 + 2 * gap, 7)
    ]  # fmt: skip
    assert list(read_blocks._requests([])) == []
    large = [(0, 1 << 22, 0), (1 << 22, 1 << 22, 1 << 22)]
    assert list(read_blocks._requests(large)) == [
        (0, 0, 1 << 22), (1 << 22, 1 << 22, 1 << 22)
    ]  # fmt: skip


# Reading past the page cache


@pytest.mark.skipif(not hasattr(os, "O_DIRECT"), reason="no O_DIRECT here")
def test_a_cold_store_is_read_past_the_page_cache(cold, monkeypatch):
    opened = []
    real = StoredHops.open_direct

    def spy(self):
        opened.append(real(self))
        return opened[-1]

    monkeypatch.setattr(StoredHops, "open_direct", spy)
    for batch, labels in HopLoader(cold, range(N), LABELS, 10, CHUNKS):
        assert_right(batch, labels)
    assert len(opened) == 5
    # Nothing is left open.
    for number in filter(None, opened):
        with pytest.raises(OSError, match="Bad file"):
            os.fstat(number)


@pytest.mark.parametrize("fails", ["open", "read", "short"])
def test_other_file_systems_are_read_through_the_page_cache(
    cold, fails, monkeypatch
):
    real_open, real_read = os.open, os.preadv

    def open_file(path, flags, *rest):
        if fails == "open" and flags & getattr(os, "O_DIRECT", 0):
            raise OSError(errno.EINVAL, "Invalid argument")
        return real_open(path, flags, *rest)

    def preadv(number, buffers, offset):
        if number == cold.file_number:
            return real_read(number, buffers, offset)
        if fails == "read":
            raise OSError(errno.EINVAL, "Invalid argument")
        return 512

    monkeypatch.setattr(os, "open", open_file)
    monkeypatch.setattr(os, "preadv", preadv)
    for batch, labels in HopLoader(cold, range(N), LABELS, 10, CHUNKS):
        assert_right(batch, labels)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_and_some_nodes_will_do(tmp_path, dtype, monkeypatch):
    nodes = torch.randperm(N)[:300]
    options = {"nodes": nodes, "dtype": dtype}
    hops = block_aggregate(GRAPH, FEAT, 2, out=tmp_path / "hops", **options)
    expected = block_aggregate(GRAPH, FEAT, 2, **options)
    monkeypatch.setattr(read_blocks, "_TOGETHER", 1)
    for hops.is_cold in (False, True):
        for batch in HopLoader(hops, nodes[:200], None, 7, RowChunks(5, 35)):
            assert batch.dtype == dtype
            assert_close(batch.stack, expected.rows(batch.nodes).stack)


def test_inputs_of_several_filters_and_label_features_will_do(tmp_path):
    model = FSGNN(9, 4, 7, K=2)
    given = (GRAPH, FEAT)
    stored = model.precompute(*given, out=tmp_path / "inputs")
    expected = model.precompute(*given)
    labels = label_features(GRAPH, LABELS, range(50), 1, out=tmp_path / "l")
    for inputs, other in (
        (stored, expected),
        (with_labels(stored, labels), with_labels(expected, labels)),
        (with_labels(expected, labels), with_labels(expected, labels)),
    ):
        assert inputs.on_disk
        for shuffle in (False, RowChunks(16, 60)):
            loader = HopLoader(inputs, range(0, N, 2), None, 20, shuffle)
            seen = []
            for batch in loader:
                wanted = other.rows(batch.nodes)
                for one, two in zip(batch, wanted, strict=True):
                    assert_close(one, two)
                if hasattr(batch, "labels"):
                    assert_close(batch.labels.stack, wanted.labels.stack)
                seen += batch.nodes.tolist()
            assert sorted(seen) == list(range(0, N, 2))
    assert not threads()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shuffle": "chunk"}, "shuffle='chunk' should be True, False"),
        ({"shuffle": 2}, "shuffle=2 should be"),
        ({"shuffle_buffer": "many"}, "shuffle_buffer='many'"),
        ({"shuffle_buffer": 0}, "shuffle_buffer"),
    ],
)
def test_wrong_options_are_named(change, message):
    options = {"shuffle": "chunks", **change}
    with pytest.raises(DGLError, match=message):
        HopLoader(HOPS, range(N), **options)
