"""Members of an npz file, in slices."""

import zipfile
import zlib

import numpy as np
import pytest
from dgl import DGLError
from hypothesis import given
from hypothesis import strategies as st

from dgl_lc.storage.npz_stream import Member, crc32_of_both


def save(path, packed=False, **arrays):
    (np.savez_compressed if packed else np.savez)(path, **arrays)
    return path


@pytest.fixture(params=[False, True], ids=["stored", "deflated"])
def packed(request):
    return request.param


def example(rows=1000, columns=7, dtype=np.float32):
    rng = np.random.default_rng(0)
    return rng.integers(0, 100, (rows, columns)).astype(dtype)


def halves(member, size):
    rooms = [[np.empty(size, member.dtype)] for _ in range(2)]
    return [(u.copy(), v.copy()) for u, v in member.halves(*rooms)]


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i8", ">f4"])
def test_rows_come_in_slices(tmp_path, packed, dtype):
    a = example(dtype=dtype)
    member = Member(save(tmp_path / "a.npz", packed, b=np.ones(3), a=a), "a")
    assert member.shape == (1000, 7)
    assert member.dtype == np.dtype(dtype)
    assert member.stored != packed
    for begin in (0, 1, 512, 999, 1000):
        buffers = [np.empty((64, 7), dtype) for _ in range(2)]
        slices = [part.copy() for part in member.rows(buffers, begin)]
        assert all(len(part) <= 64 for part in slices)
        assert sum(len(part) for part in slices) == 1000 - begin
        if slices:
            assert np.array_equal(np.concatenate(slices), a[begin:])
    assert np.array_equal(member.whole(), a)


@given(
    count=st.integers(0, 3000),
    size=st.integers(1, 4000),
    packed=st.booleans(),
)
def test_halves_are_read_in_step(tmp_path_factory, count, size, packed):
    folder = tmp_path_factory.mktemp("npz")
    a = np.random.default_rng(count).integers(0, 50, (2, count))
    member = Member(save(folder / "a.npz", packed, a=a), "a")
    for _ in range(2):
        pairs = halves(member, size)
        joined = [np.concatenate(part) for part in zip(*pairs, strict=True)]
        assert np.array_equal(joined if count else [[], []], a)


def test_the_second_half_is_unpacked_from_there_again(tmp_path, monkeypatch):
    a = np.random.default_rng(0).integers(0, 50, (2, 400_000))
    member = Member(save(tmp_path / "a.npz", True, a=a), "a")
    unpacked = []
    crc32 = zlib.crc32

    def record(data, *more):
        unpacked.append(len(data))
        return crc32(data, *more)

    monkeypatch.setattr(zlib, "crc32", record)
    for _ in range(3):
        pairs = halves(member, 70_000)
        second = np.concatenate([part for _, part in pairs])
        assert np.array_equal(second, a[1])
    # Both halves three times, and the first once more to find the second.
    assert sum(unpacked) // 3_200_000 == 7


@given(st.binary(max_size=50), st.binary(max_size=3000))
def test_checksums_are_joined(one, two):
    whole = crc32_of_both(zipfile.crc32(one), zipfile.crc32(two), len(two))
    assert whole == zipfile.crc32(one + two)


def test_columns_behind_each_other(tmp_path, packed):
    a = np.asfortranarray(example())
    member = Member(save(tmp_path / "a.npz", packed, a=a), "a")
    assert member.fortran
    assert np.array_equal(member.whole(), a)
    with pytest.raises(DGLError, match="stored column by column"):
        next(member.rows([np.empty((10, 7))]))


def test_large_files_have_longer_headers(tmp_path):
    # As for more than 4 GiB: sizes in an extra field.
    a = example()
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        for name in "ab":
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, a)
    for name in "ab":
        assert np.array_equal(Member(tmp_path / "a.npz", name).whole(), a)


def test_missing_files_and_members(tmp_path):
    save(tmp_path / "a.npz", a=np.ones(3), b=np.ones(3))
    with pytest.raises(DGLError, match=r"a\.npz has no c; it has a, b"):
        Member(tmp_path / "a.npz", "c")
    with pytest.raises(DGLError, match=r"none\.npz does not exist"):
        Member(tmp_path / "none.npz", "c")


def test_pickled_objects_are_refused(tmp_path, packed):
    save(tmp_path / "a.npz", packed, a=np.array([{}, []], dtype=object))
    with pytest.raises(DGLError, match="pickled Python objects"):
        Member(tmp_path / "a.npz", "a")


def test_a_file_that_was_cut_off(tmp_path, packed):
    path = save(tmp_path / "a.npz", packed, a=example(), b=np.ones(3))
    data = path.read_bytes()
    for size in (0, 10, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:size])
        with pytest.raises(DGLError, match=r"a\.npz: a cannot be read"):
            Member(path, "a")


def test_a_flipped_byte_is_found(tmp_path, packed):
    a = example(rows=5000)
    path = save(tmp_path / "a.npz", packed, a=a)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)
    member = Member(path, "a")
    with pytest.raises(DGLError, match=r"a\.npz: a (is damaged|cannot be)"):
        member.whole()
    with pytest.raises(DGLError, match=r"a\.npz: a (is damaged|cannot be)"):
        halves(member, 1000)


def test_another_compression_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a.npy", b"something")
    with pytest.raises(DGLError, match="NumPy does not use"):
        Member(tmp_path / "a.npz", "a")


def test_a_header_that_lies(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        with archive.open("a.npy", "w") as file:
            np.lib.format.write_array(file, np.ones(10))
            file.write(b"more")
        archive.writestr("b.npy", b"not numpy's")
    with pytest.raises(DGLError, match="its header says 208 bytes"):
        Member(tmp_path / "a.npz", "a")
    with pytest.raises(DGLError, match="b cannot be read"):
        Member(tmp_path / "a.npz", "b")
