"""Digests: the same for the same content, another for any other."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from dgl import DGLError
from hypothesis import given
from hypothesis import strategies as st

from dgl_lc._common import digest as module
from dgl_lc._common.digest import digest

#: Some 5 blocks of 4 MiB, the last in part and not of whole words.
ROWS, COLUMNS = 7001, 333
#: Digests of today: they are stored in files, and must not change unseen.
KNOWN = {
    "empty": "1c42565c47f1398390d3d06737e423d3",
    "small": "d4715bf8a6332fc1dae382dbf21348c0",
    "large": "1091036c6ea35b0c332f746c43a5f844",
}


@pytest.fixture(scope="module")
def large():
    values = np.random.default_rng(0).standard_normal((ROWS, COLUMNS))
    return values.astype(np.float64)


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of 4 KiB, so that a small array has many."""
    monkeypatch.setattr(module, "_BLOCK_BYTES", 1 << 12)


def flipped(array, byte, bit):
    changed = array.copy()
    changed.reshape(-1).view(np.uint8)[byte] ^= 1 << bit
    return changed


def test_known_digests_have_not_changed():
    counting = np.arange(2_500_000, dtype=np.int32).reshape(-1, 5)
    assert digest(np.zeros((0, 3), np.float32)) == KNOWN["empty"]
    assert digest(np.arange(10, dtype=np.int64)) == KNOWN["small"]
    assert digest(counting) == KNOWN["large"]


def test_single_bits_of_a_large_array_count(large):
    before = digest(large)
    places = [0, 1, 7, 8, large.nbytes // 2, large.nbytes - 8]
    # Sign bits of first, middle and last values; both sides of a block's end.
    places += [7 + 8 * (large.size // 2), large.nbytes - 1]
    places += [(1 << 22) - 1, 1 << 22]
    found = {digest(flipped(large, p, b)) for p in places for b in (0, 7)}
    assert len(found) == 2 * len(places)
    assert before not in found


@given(
    st.sampled_from(["float64", "float32", "float16", "int8", "bool"]),
    st.integers(1, 3000), st.data(),
)  # fmt: skip
def test_any_flipped_bit_counts(dtype, size, data):
    values = np.random.default_rng(size).integers(0, 2, size).astype(dtype)
    byte = data.draw(st.integers(0, values.nbytes - 1))
    bit = data.draw(st.integers(0, 7))
    assert digest(flipped(values, byte, bit)) != digest(values)


@given(st.lists(st.integers(0, 20 * 64 * 8 - 1), min_size=2, max_size=4,
                unique=True))  # fmt: skip
def test_several_flipped_bytes_do_not_cancel_out(places):
    # Values whose low bits are zero, as of integers kept as float64, and
    # changes of the sign bits alone: nothing spreads upwards by a product.
    values = np.ones(20 * 64)
    signs = values.copy()
    for place in places:
        signs[place // 8] *= -1
    changed = values.copy()
    for place in places:
        changed.view(np.uint8)[place] ^= 128
    assert digest(changed) != digest(values)
    if (signs != values).any():
        assert digest(signs) != digest(values)


def test_sign_bits_in_one_lane_do_not_cancel_out():
    # Two changes of the highest bit cancel out in a plain sum of products.
    # A lane's words are 64 values apart, so the first 64 pairs of each
    # distance meet in a lane, and the others do not.
    values = np.ones(64 * 40)
    found = {digest(values)}
    count = 1
    for first in (0, 63, 64):
        for distance in (1, 64, 128, 64 * 16, 64 * 32):
            changed = values.copy()
            changed[[first, first + distance]] *= -1
            found.add(digest(changed))
            count += 1
    assert len(found) == count


def test_swapped_rows_count(large):
    before = digest(large)
    for one, other in ((0, 1), (0, ROWS - 1), (1500, 5000), (64, 128)):
        changed = large.copy()
        changed[[one, other]] = changed[[other, one]]
        assert digest(changed) != before


@given(st.integers(0, 300), st.integers(0, 300))
def test_swapped_values_count(one, other):
    values = np.arange(301, dtype=np.float32)
    changed = values.copy()
    changed[[one, other]] = changed[[other, one]]
    assert (digest(changed) == digest(values)) == (one == other)


def test_swapped_blocks_count(small_blocks):
    values = np.arange(4096, dtype=np.int64)
    changed = values.reshape(8, 512)[[0, 2, 1, 3, 4, 5, 6, 7]].reshape(-1)
    assert digest(changed) != digest(values)


def test_shape_and_type_count():
    values = np.zeros(24, np.float32)
    shapes = [(24,), (24, 1), (1, 24), (4, 6), (6, 4), (2, 3, 4)]
    found = {digest(values.reshape(shape)) for shape in shapes}
    types = ["float64", "int32", "int64", "uint32", ">f4", "complex64"]
    found |= {digest(values.view(np.int32).view(t)) for t in ("i4", "u4")}
    found |= {digest(np.zeros(24, t)) for t in (*types, "float16", "bool")}
    # int32 and uint32 are there twice, with equal content.
    assert len(found) == len(shapes) + len(types) + 2
    # Zeros at the end are data, not what fills up a block.
    assert len({digest(np.zeros(n, np.uint8)) for n in range(600)}) == 600


def test_empty_arrays_differ_by_shape_and_type():
    shapes = [(0,), (0, 3), (3, 0), (0, 0)]
    found = {digest(np.empty(s, t)) for s in shapes for t in ("f4", "f8")}
    assert len(found) == 8
    assert digest(torch.empty(0, 3)) == digest(np.empty((0, 3), np.float32))


@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.float64, torch.float16, torch.int64, torch.bool,
     torch.complex64],
)  # fmt: skip
def test_arrays_and_tensors_have_the_same_digest(dtype):
    tensor = torch.arange(5000).remainder(7).to(dtype).view(50, 100)
    assert digest(tensor) == digest(tensor.numpy())
    assert digest(tensor.T) == digest(tensor.T.contiguous())


def test_a_single_value_has_a_digest():
    found = [digest(np.ones(())), digest(torch.tensor(1.0))]
    assert len({*found, digest(torch.tensor([1.0]))}) == 3


def test_numbers_that_numpy_lacks_have_a_digest():
    values = torch.randn(300, 70).bfloat16()
    bits = values.view(torch.int16)
    assert digest(values) == digest(values.clone())
    assert digest(values) != digest(bits)
    assert digest(values.T) == digest(values.T.contiguous())
    changed = bits.clone()
    changed[299, 69] ^= 1
    assert digest(changed.view(torch.bfloat16)) != digest(values)


def test_gradients_and_conjugates_change_nothing():
    values = torch.randn(10, dtype=torch.complex64, requires_grad=True)
    assert digest(values) == digest(values.detach())
    assert digest(values.conj()) == digest(values.detach().numpy().conj())


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=4).flatmap(
        lambda shape: st.tuples(
            st.just(shape),
            st.permutations(range(len(shape))),
            st.lists(
                st.sampled_from([1, 2, -1, -3]),
                min_size=len(shape), max_size=len(shape),
            ),
        )
    ),
    st.sampled_from([64, 100, 512, 4096]),
)  # fmt: skip
def test_the_memory_layout_does_not_count(how, block_bytes):
    shape, axes, steps = how
    base = np.random.default_rng(0).standard_normal(shape)
    view = base.transpose(axes)[tuple(slice(None, None, s) for s in steps)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK_BYTES", block_bytes)
        assert digest(view) == digest(np.ascontiguousarray(view))
        repeated = np.broadcast_to(view, (3, *view.shape))
        assert digest(repeated) == digest(np.ascontiguousarray(repeated))


def test_a_large_view_is_copied_block_by_block(large):
    tracemalloc = pytest.importorskip("tracemalloc")
    view = np.repeat(large, 4, axis=0)[:, ::-1]
    digest(view[:10])
    tracemalloc.start()
    found = digest(view)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # A block for each thread, and a little.
    assert peak < (torch.get_num_threads() + 1) * (1 << 22)
    assert found == digest(np.ascontiguousarray(view))


def test_the_number_of_threads_does_not_count(large):
    threads = torch.get_num_threads()
    try:
        found = set()
        for number in (1, 2, 5):
            torch.set_num_threads(number)
            found.add(digest(large))
    finally:
        torch.set_num_threads(threads)
    assert len(found) == 1


def test_what_an_earlier_process_gave_is_given_again():
    assert digest(np.arange(10_000, dtype=np.float32)) == (
        "fb5fd35e1420a1cbae724961e7311654"
    )


# By day, the process is the one that gave the digest above.
@pytest.mark.slow
def test_another_process_gives_the_same():
    code = (
        "import numpy as np; from dgl_lc._common.digest import digest;"
        "print(digest(np.arange(10_000, dtype=np.float32)))"
    )
    seeds = {**os.environ, "PYTHONHASHSEED": "7"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True,
        env=seeds, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == digest(np.arange(10_000, dtype=np.float32))


@pytest.mark.parametrize("mode", ["r", "c", "r+"])
def test_memory_maps_have_the_digest_of_their_content(tmp_path, mode, large):
    np.save(tmp_path / "a.npy", large)
    assert digest(np.load(tmp_path / "a.npy", mmap_mode=mode)) == digest(large)


def test_a_memory_map_may_begin_at_any_byte(tmp_path):
    values = np.arange(10_000, dtype=np.int64)
    (tmp_path / "a.bin").write_bytes(b"odd" + values.tobytes())
    mapped = np.memmap(tmp_path / "a.bin", np.int64, "r", offset=3)
    assert digest(mapped) == digest(values)


@pytest.mark.parametrize(
    "wrong",
    [[1, 2], np.array([object()]), np.array(["a"]), "text",
     torch.eye(3).to_sparse()],
)  # fmt: skip
def test_what_has_no_bytes_is_refused(wrong):
    with pytest.raises(DGLError, match="digest can"):
        digest(wrong)
