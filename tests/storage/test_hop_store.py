"""Hop stores: exactness, interruptions, damage, other keys."""

import errno
import json
import multiprocessing
import os
import pickle
import types

import dgl
import numpy as np
import pytest
import torch
from dgl import DGLError
from hypothesis import given
from hypothesis import strategies as st

from dgl_lc.data import build_disk_graph, write_features
from dgl_lc.precompute import (
    block_aggregate,
    edge_blocks,
    open_store,
)
from dgl_lc.precompute.planning.work import Work
from dgl_lc.storage import write_hops
from dgl_lc.storage.hop_store import StoreHead
from dgl_lc.storage.row_checksums import add_checksums, factors
from dgl_lc.training import HopLoader


def random_graph(n=60, m=300, seed=0):
    generator = torch.Generator().manual_seed(seed)
    ends = torch.randint(n, (2, m), generator=generator)
    return dgl.graph((ends[0], ends[1]), num_nodes=n)


@pytest.fixture
def g():
    return random_graph()


@pytest.fixture
def x():
    return torch.randn(60, 40, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("dtype", [
    torch.float32, torch.float64, torch.float16, torch.bfloat16
])  # fmt: skip
@pytest.mark.parametrize("nodes", [None, [5, 3, 59, 5]])
@pytest.mark.parametrize("hops", [None, [2], [0, 3]])
def test_a_store_is_the_result_in_memory(g, x, tmp_path, dtype, nodes, hops):
    options = {"nodes": nodes, "hops": hops, "dtype": dtype}
    expected = block_aggregate(g, x, 3, **options)
    found = block_aggregate(g, x, 3, out=tmp_path / "s", **options)
    assert found.hops == expected.hops
    assert found.filter == expected.filter
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
    again = open_store(tmp_path / "s")
    again.verify()
    assert torch.equal(again.stack, found.stack)


@given(
    st.integers(1, 30), st.integers(0, 80), st.integers(1, 40),
    st.integers(0, 3), st.booleans(), st.integers(0, 99),
)  # fmt: skip
def test_any_size(tmp_path_factory, n, m, columns, K, some, seed):
    g = random_graph(n, m, seed)
    x = torch.randn(n, columns, generator=torch.Generator().manual_seed(seed))
    nodes = torch.arange(0, n, 2).flip(0) if some else None
    path = tmp_path_factory.mktemp("any") / "s"
    expected = block_aggregate(g, x, K, nodes=nodes)
    found = block_aggregate(g, x, K, nodes=nodes, out=path)
    torch.testing.assert_close(found.stack, expected.stack)


def test_features_on_disk(g, x, tmp_path):
    np.save(tmp_path / "x.npy", x.numpy())
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    expected = block_aggregate(g, x, 2)
    for nodes in (None, [7, 8]):
        path = tmp_path / f"s{nodes is None}"
        found = block_aggregate(g, mapped, 2, nodes=nodes, out=path)
        rows = expected if nodes is None else expected.rows(nodes)
        torch.testing.assert_close(found.stack, rows.stack)


def test_a_batch_is_that_of_memory(g, x, tmp_path):
    ids = torch.arange(0, 60, 3)
    labels = torch.arange(60) % 4
    kept = block_aggregate(g, x, 2, nodes=ids, out=tmp_path / "s")
    held = block_aggregate(g, x, 2, nodes=ids)
    options = {"batch_size": 7, "shuffle": True, "seed": 3}
    pairs = zip(
        HopLoader(kept, ids, labels, **options),
        HopLoader(held, ids, labels, **options),
        strict=True,
    )
    for (one, y), (other, z) in pairs:
        torch.testing.assert_close(one.stack, other.stack)
        assert torch.equal(y, z)


def test_what_is_there_is_not_computed_again(g, x, tmp_path, monkeypatch):
    block_aggregate(g, x, 2, out=tmp_path / "s")
    monkeypatch.setattr("dgl_lc.precompute.api.CpuExecutor", lambda *_: 1 / 0)
    # The same graph with its edges in another order and another format.
    ends = torch.stack(g.edges())[:, torch.randperm(g.num_edges())]
    same = dgl.graph((ends[0], ends[1]), num_nodes=60).formats("csc")
    assert block_aggregate(same, x.clone(), 2, out=tmp_path / "s").K == 2


@pytest.mark.parametrize(("change", "name"), [
    ({"K": 3}, "hops"), ({"nodes": [1, 2]}, "rows"),
    ({"norm": "right"}, "norm"), ({"self_loop": False}, "self_loop"),
    ({"dtype": torch.float16}, "dtype"), ({"feat": "other"}, "features"),
    ({"g": "other"}, "graph"),
])  # fmt: skip
def test_a_store_of_something_else_is_an_error(g, x, tmp_path, change, name):
    block_aggregate(g, x, 2, out=tmp_path / "s")
    call = {"g": g, "feat": x, "K": 2, **change}
    if call["g"] == "other":
        # The same degrees: two edges exchange their ends.
        u, v = g.edges()
        v[0], v[1] = v[1].clone(), v[0].clone()
        call["g"] = dgl.graph((u, v), num_nodes=60)
    if isinstance(call["feat"], str):
        call["feat"] = x.clone()
        call["feat"][17, 3] += 1
    with pytest.raises(
        DGLError, match=rf"something else: .*it was made with {name}="
    ):
        block_aggregate(**call, out=tmp_path / "s")
    open_store(tmp_path / "s").verify()


def test_an_interrupted_run_goes_on(g, x, tmp_path, monkeypatch):
    expected = block_aggregate(g, x, 3, nodes=[3, 50], out=tmp_path / "t")
    done = []
    keep = write_hops.StoreWriter.keep

    def failing(self, hop, first, values, places):
        done.append((hop, first))
        if (hop, first) == (2, 16) and done.count((hop, first)) < 3:
            raise KeyboardInterrupt
        keep(self, hop, first, values, places)

    monkeypatch.setattr(write_hops.StoreWriter, "keep", failing)
    monkeypatch.setattr(Work, "widths", lambda self: [16])
    call = {"nodes": [3, 50], "out": tmp_path / "s"}
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            block_aggregate(g, x, 3, **call)
        with pytest.raises(DGLError, match="was not finished"):
            open_store(tmp_path / "s")
    found = block_aggregate(g, x, 3, **call)
    found.verify()
    assert torch.equal(found.stack, expected.stack)
    # The first block was made once, the second three times.
    assert done.count((1, 0)) == 1
    assert done.count((1, 16)) == 3


def test_damaged_checksums_are_not_resumed_from(g, x, tmp_path, monkeypatch):
    keep = write_hops.StoreWriter.keep

    def failing(self, hop, first, values, places):
        if first == 16:
            raise KeyboardInterrupt
        keep(self, hop, first, values, places)

    monkeypatch.setattr(Work, "widths", lambda self: [16])
    with monkeypatch.context() as patch:
        patch.setattr(write_hops.StoreWriter, "keep", failing)
        with pytest.raises(KeyboardInterrupt):
            block_aggregate(g, x, 3, out=tmp_path / "s")
    state = json.loads((tmp_path / "s/state.json").read_text())
    path = tmp_path / f"s/checksums-{state['notes']['turn']}.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(DGLError, match=rf"{path.name} is damaged"):
        block_aggregate(g, x, 3, out=tmp_path / "s")


def _aggregate_and_die(path, calls):
    """Precompute, and be killed at the n-th write."""
    count = [0]
    for name in ("save_array", "write_draft", "write_manifest"):
        original = getattr(write_hops, name)

        def dying(*args, original=original):
            count[0] += 1
            if count[0] == calls:
                os._exit(9)
            found = original(*args)
            count[0] += 1
            if count[0] == calls:
                os._exit(9)
            return found

        setattr(write_hops, name, dying)
    x = torch.randn(60, 40, generator=torch.Generator().manual_seed(1))
    block_aggregate(random_graph(), x, 3, out=path)
    os._exit(0)


def test_killed_at_any_write(g, x, tmp_path, monkeypatch):
    expected = block_aggregate(g, x, 3, out=tmp_path / "t")
    monkeypatch.setattr(Work, "widths", lambda self: [16])
    torch.set_num_threads(1)  # a fork keeps no threads
    context = multiprocessing.get_context("fork")
    deaths = 0
    for calls in range(1, 40):
        path = tmp_path / f"s{calls}"
        process = context.Process(target=_aggregate_and_die, args=(path, calls))
        process.start()
        process.join()
        if process.exitcode == 0:
            break
        assert process.exitcode == 9
        deaths += 1
        found = block_aggregate(g, x, 3, out=path)
        found.verify()
        assert torch.equal(found.stack, expected.stack)
        assert found.filter.graph == expected.filter.graph is not None
    assert 8 < deaths < 39


def test_a_flipped_byte_is_found(g, x, tmp_path):
    hops = block_aggregate(g, x, 2, nodes=[9, 4, 30], out=tmp_path / "s")
    size = (tmp_path / "s/rows.npy").stat().st_size
    with open(tmp_path / "s/rows.npy", "r+b") as file:
        file.seek(size - 1)
        byte = file.read(1)[0]
        file.seek(size - 1)
        file.write(bytes([byte ^ 4]))
    hops = open_store(tmp_path / "s")
    hops.rows([9, 4])
    with pytest.raises(DGLError, match="row of node 30 is not what"):
        hops.rows([4, 30])
    with pytest.raises(DGLError, match="row of node 30"):
        hops.verify()


def test_two_writers_are_kept_apart(g, x, tmp_path):
    spec = block_aggregate(g, x, 0).filter
    head = StoreHead(3, 4, (0,), "float32", spec, False, {})
    one = write_hops.StoreWriter(tmp_path / "s", head)
    with one, pytest.raises(DGLError, match="another process"):
        block_aggregate(g, x, 1, out=tmp_path / "s")


def test_a_disk_that_is_too_small(g, x, tmp_path, monkeypatch):
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr(write_hops.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(DGLError, match="1000 B of disk are free"):
        block_aggregate(g, x, 2, out=tmp_path / "s")


def test_some_of_the_disk_is_left_free(g, x, tmp_path, monkeypatch):
    """60 rows of 3 hops and 40 columns, and three checksums for each."""
    needed = 60 * 3 * 40 * 4 + 60 * 24
    for missing in (1, 0):
        usage = type("Usage", (), {"free": needed + 2**26 - missing})
        monkeypatch.setattr(
            write_hops.shutil, "disk_usage", lambda _, usage=usage: usage
        )
        if missing:
            with pytest.raises(DGLError, match="of disk are free"):
                block_aggregate(g, x, 2, out=tmp_path / "s")
        else:
            block_aggregate(g, x, 2, out=tmp_path / "s")


def test_a_disk_that_fills_up(g, x, tmp_path, monkeypatch):
    save, count = write_hops.save_array, [0]

    def full(path, array):
        count[0] += 1
        if count[0] == 3:
            raise OSError(28, "No space left on device")
        return save(path, array)

    monkeypatch.setattr(write_hops, "save_array", full)
    monkeypatch.setattr(Work, "widths", lambda self: [16])
    with pytest.raises(DGLError, match=r"disk is full.*is kept"):
        block_aggregate(g, x, 2, out=tmp_path / "s")
    found = block_aggregate(g, x, 2, out=tmp_path / "s")
    found.verify()
    expected = block_aggregate(g, x, 2).stack
    torch.testing.assert_close(found.stack, expected)


@pytest.mark.skipif(
    not hasattr(os, "posix_fallocate"), reason="the system cannot do this"
)
def test_all_of_the_disk_is_taken_at_the_beginning(g, x, tmp_path, monkeypatch):
    """Writing to a memory map on a full disk would kill the process."""

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(DGLError, match=r"disk is full"):
        block_aggregate(g, x, 2, out=tmp_path / "s")


def test_folders_that_are_no_store(g, x, tmp_path):
    with pytest.raises(DGLError, match="not the folder of a hop store"):
        open_store(tmp_path)
    (tmp_path / "mine.txt").write_text("")
    with pytest.raises(DGLError, match=r"holds 'mine.txt'"):
        block_aggregate(g, x, 2, out=tmp_path)
    with pytest.raises(DGLError, match="mine"):
        block_aggregate(g, x, 2, out=tmp_path / "mine.txt")
    assert (tmp_path / "mine.txt").exists()


@pytest.mark.parametrize(
    "damage", ["rows.npy", "checksums.npy", "manifest.json"]
)
def test_broken_files(g, x, tmp_path, damage):
    block_aggregate(g, x, 2, out=tmp_path)
    (tmp_path / damage).write_bytes(b"\x93NUMPY")
    with pytest.raises(DGLError, match=r"cannot be read|has 6 bytes"):
        open_store(tmp_path)


def test_another_format(g, x, tmp_path):
    block_aggregate(g, x, 2, out=tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    manifest["version"] = 99
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(
        DGLError,
        match=r"version 99.*write the folder again with block_aggregate",
    ):
        open_store(tmp_path)


def test_memory_does_not_hold_the_result(g, x, tmp_path):
    wide = torch.randn(60, 20_000)
    with pytest.raises(DGLError, match="memory"):
        block_aggregate(g, wide, 3, memory="5MiB")
    block_aggregate(g, wide, 3, memory="5MiB", out=tmp_path)


@given(st.integers(0, 15), st.integers(0, 31))
def test_one_changed_bit_changes_the_sum(place, bit):
    rows = np.arange(16, dtype=np.uint32).reshape(1, 16)
    before, after = np.zeros(1, np.uint64), np.zeros(1, np.uint64)
    add_checksums(rows, factors(16), before)
    rows[0, place] ^= np.uint32(1) << np.uint32(bit)
    add_checksums(rows[:, :7], factors(16)[:7], after)
    add_checksums(rows[:, 7:], factors(16)[7:], after)
    assert before[0] != after[0]


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_every_bit_of_a_value_counts(bits):
    """The sign of a float64 too, which is its highest bit."""
    kind = np.dtype(f"u{bits // 8}")
    rows = np.arange(1, 8, dtype=kind).reshape(1, 7)
    before = np.zeros(1, np.uint64)
    add_checksums(rows, factors(7), before)
    for bit in range(bits):
        changed = rows.copy()
        changed[0, 3] ^= kind.type(1 << bit)
        after = np.zeros(1, np.uint64)
        add_checksums(changed, factors(7), after)
        assert before[0] != after[0], bit


def test_values_that_change_places_change_the_checksum():
    rows = np.array([[5, 9]], np.uint64)
    sums = np.zeros(2, np.uint64)
    add_checksums(rows, factors(2), sums[:1])
    add_checksums(rows[:, ::-1].copy(), factors(2), sums[1:])
    assert sums[0] != sums[1]


def test_a_pickled_store_is_its_path(g, x, tmp_path):
    hops = block_aggregate(g, x, 2, nodes=[4, 2], out=tmp_path / "s")
    text = pickle.dumps(hops)
    assert len(text) < 1000
    again = pickle.loads(text)
    assert torch.equal(again.rows([2]).stack, hops.rows([2]).stack)
    block_aggregate(g, x + 1, 2, out=tmp_path / "s", resume=False)
    with pytest.raises(DGLError, match="not the store that was pickled"):
        pickle.loads(text)


def test_a_reader_keeps_its_rows_when_the_store_is_written_again(
    g, x, tmp_path
):
    hops = block_aggregate(g, x, 2, out=tmp_path / "s")
    before = hops.rows(torch.arange(60)).stack
    block_aggregate(g, x + 1, 2, out=tmp_path / "s", resume=False)
    assert torch.equal(hops.rows(torch.arange(60)).stack, before)


@pytest.fixture
def on_disk(g, x, tmp_path):
    """The graph and its features, as folders."""
    ends = torch.stack(g.edges()).numpy()
    np.save(tmp_path / "edges.npy", ends)
    np.save(tmp_path / "x.npy", x.numpy())
    graph = build_disk_graph(tmp_path / "edges.npy", 60, tmp_path / "graph")
    feat = write_features(tmp_path / "x.npy", tmp_path / "feat", width=16)
    return graph, feat


@pytest.mark.parametrize("nodes", [None, [5, 3, 59, 5]])
@pytest.mark.parametrize("hops", [None, [0], [3]])
@pytest.mark.parametrize("norm", ["both", "left"])
def test_a_graph_on_disk(g, x, on_disk, tmp_path, nodes, hops, norm):
    options = {"nodes": nodes, "hops": hops, "norm": norm}
    expected = block_aggregate(g, x, 3, **options)
    held = block_aggregate(*on_disk, 3, **options)
    kept = block_aggregate(*on_disk, 3, out=tmp_path / "s", **options)
    for found in (held, kept):
        torch.testing.assert_close(found.stack, expected.stack)


def test_features_on_disk_of_another_graph(on_disk):
    with pytest.raises(DGLError, match="feat has 60 rows, but g has 61"):
        block_aggregate(random_graph(61), on_disk[1], 2)


def test_weights_in_memory_of_a_graph_on_disk_are_refused(on_disk):
    weight = torch.ones(on_disk[0].num_edges())
    with pytest.raises(DGLError, match="should be None or 'weight'"):
        block_aggregate(*on_disk, 2, edge_weight=weight)


def test_edge_blocks_are_of_dgls_graphs(on_disk):
    with pytest.raises(DGLError, match=r"got DiskGraph: use g\.to_dgl"):
        edge_blocks(on_disk[0], 2)


def test_column_blocks_across_files(g, x, on_disk, tmp_path, monkeypatch):
    monkeypatch.setattr(Work, "widths", lambda self: [24])
    found = block_aggregate(*on_disk, 2, out=tmp_path / "s")
    torch.testing.assert_close(found.stack, block_aggregate(g, x, 2).stack)


def test_rows_are_asked_for_ahead(g, x, tmp_path, monkeypatch):
    hops = block_aggregate(g, x, 2, out=tmp_path / "s")
    asked = []
    monkeypatch.setattr(
        os, "posix_fadvise", lambda _, *about: asked.append(about)
    )
    loader = HopLoader(hops, torch.arange(60), batch_size=25, shuffle=True)
    list(loader)
    assert not asked  # it fits in memory
    hops.is_cold = True
    expected = [batch.stack.clone() for batch in loader]
    loader.set_epoch(1)
    asked.clear()
    for one, other in zip(loader, expected, strict=True):
        assert torch.equal(one.stack, other)
    row, begin = 3 * 40 * 4, 128
    assert sorted(asked) == [
        (begin + place * row, row, os.POSIX_FADV_WILLNEED)
        for place in range(60)
    ]


def test_a_store_that_is_larger_than_memory(g, x, tmp_path, monkeypatch):
    """The system does not promise so much memory for a private mapping."""
    expected = block_aggregate(g, x, 2, out=tmp_path / "s").stack
    original = np.memmap

    def refusing(path, mode, **options):
        if mode == "c":
            raise OSError(errno.ENOMEM, "Cannot allocate memory")
        return original(path, mode=mode, **options)

    monkeypatch.setattr(np, "memmap", refusing)
    hops = open_store(tmp_path / "s")
    assert torch.equal(hops.rows(torch.arange(60)).stack, expected)


def test_a_whole_hop_is_checked_when_it_is_first_asked_for(g, x, tmp_path):
    block_aggregate(g, x, 2, out=tmp_path / "s")
    with open(tmp_path / "s/rows.npy", "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\x55")
    for read in (lambda h: h[2], list, lambda h: h.stack, lambda h: h[1:]):
        with pytest.raises(DGLError, match="row of node 59 is not what"):
            read(open_store(tmp_path / "s"))


def test_a_file_that_is_cut_off_while_it_is_open(g, x, tmp_path):
    """Reading a map beyond the end of its file would end the process."""
    hops = block_aggregate(g, x, 2, out=tmp_path / "s")
    os.truncate(tmp_path / "s/rows.npy", 200)
    for read in (lambda h: h.rows([59]), lambda h: h[2], list):
        with pytest.raises(DGLError, match="became shorter"):
            read(hops)


@pytest.mark.timeout(20)
def test_rows_are_asked_for_in_the_file_that_is_mapped(
    g, x, tmp_path, monkeypatch
):
    block_aggregate(g, x, 1, out=tmp_path / "s")
    # Only a store that may not fit in memory asks for its rows.
    monkeypatch.setattr(
        "psutil.virtual_memory", lambda: types.SimpleNamespace(available=0)
    )
    store = open_store(tmp_path / "s")
    path = tmp_path / "s" / "rows.npy"
    mapped = path.stat().st_ino
    path.rename(tmp_path / "old")
    os.mkfifo(path)  # opening it would wait for ever
    asked = []

    def record(number, at, length, advice):
        assert advice == os.POSIX_FADV_WILLNEED
        asked.append((os.fstat(number).st_ino, at, length))

    monkeypatch.setattr(os, "posix_fadvise", record)
    store.prefetch(torch.tensor([7, 2]))
    row = 2 * 40 * 4
    start = (tmp_path / "old").stat().st_size - 60 * row
    assert asked == [
        (mapped, start + 2 * row, row), (mapped, start + 7 * row, row)
    ]  # fmt: skip
