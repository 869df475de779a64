"""Bytes: reading, printing, allocating."""

import numpy as np
import pytest
from dgl import DGLError
from hypothesis import given
from hypothesis import strategies as st

from dgl_lc._common.bytes import (
    empty_rows,
    format_bytes,
    parse_bytes,
    require_memory,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [("24GiB", 24 * 2**30), ("1.5 kb", 1500), ("7", 7), ("2TB", 2 * 10**12),
     ("3PiB", 3 * 2**50),
     (np.int64(5), 5), ("512MiB", 2**29)],
)  # fmt: skip
def test_sizes_are_read(text, size):
    assert parse_bytes(text) == size


@pytest.mark.parametrize(
    "text",
    ["", "GiB", "1.2.3GB", "5 apples", "-1GB", "9" * 400 + "GiB", "४GiB",
     "0.2B", 0, 2**70, 10**4000, "1" * 10_000],
)  # fmt: skip
def test_nonsense_is_named(text):
    with pytest.raises(DGLError, match="host_memory="):
        parse_bytes(text, "host_memory")


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (2**40, "1 TiB"),
     (999 * 2**10, "999 KiB"), (1000 * 2**10, "1000 KiB"),
     (1023 * 2**10, "1023 KiB"), (2**20 - 1, "1 MiB"), (2**20, "1 MiB"),
     (-1001 * 2**30, "-1001 GiB"), (99.96 * 2**30, "100 GiB"),
     (1.5 * 2**50, "1.5 PiB"), (2**60, "1 EiB"), (2**73, "8192 EiB")],
)  # fmt: skip
def test_sizes_are_printed(size, text):
    assert format_bytes(size) == text


@given(st.floats(0, 2**69))
def test_sizes_are_printed_without_powers_of_ten(size):
    number, unit = format_bytes(size).split()
    assert "e" not in number
    assert float(number) < 1024
    scale = 1024 ** ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"].index(unit)
    assert float(number) * scale == pytest.approx(size, rel=6e-3, abs=0.5)


def test_memory_that_does_not_exist_is_an_error():
    require_memory(1, "a graph of num_nodes=1", "take a smaller one")
    with pytest.raises(DGLError, match=r"num_nodes=9 needs .* take a smaller"):
        require_memory(1 << 55, "num_nodes=9", "take a smaller one")


@given(st.integers(1, 100), st.integers(1, 100))
def test_rows_begin_on_a_cache_line(rows, columns):
    array = empty_rows(rows, columns, np.float32)
    assert array.shape == (rows, columns)
    assert array.ctypes.data % 64 == 0
    array[:] = 1
    assert array.sum() == rows * columns
