"""The gather-sum kernel alone: widths, types, cache-line stores."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from night import pairwise

from dgl_lc._common.dtypes import VALUE_TYPES
from dgl_lc._common.rows import bits, empty
from dgl_lc.precompute.cpu.gather import (
    WIDTHS,
    max_width,
    sum_rows,
    tiles,
)


@given(st.integers(1, 700), st.sampled_from(list(VALUE_TYPES)))
def test_tiles_cover_every_column_with_widths_of_the_menu(width, kind):
    columns = set()
    for first, size in tiles(width, kind):
        assert size in WIDTHS
        assert size <= max_width(kind)
        assert 0 <= first <= first + size <= width
        columns |= set(range(first, first + size))
    assert columns == set(range(width))


@pytest.mark.parametrize(
    ("width", "kind", "lines", "stream"),
    pairwise(WIDTHS, VALUE_TYPES, [False, True], [False, True]),
)
def test_a_tile_is_summed_and_nothing_else_written(width, kind, lines, stream):
    if width > max_width(kind):
        width = max_width(kind)
    dtype, acc = VALUE_TYPES[kind].torch, VALUE_TYPES[kind].sums
    size = torch.empty(0, dtype=dtype).element_size()
    if stream and width * size % 64:
        stream = False
    rng = np.random.default_rng(width)
    degrees = rng.integers(0, 6, 30)
    degrees[3] = 200
    offsets = np.concatenate([[0], np.cumsum(degrees)])
    entries = rng.integers(0, 50, offsets[-1]).astype(np.int32)
    coefs = rng.random(offsets[-1]).astype(acc)
    scales = rng.random(30).astype(acc)
    x = torch.randn(50, 256).to(dtype)
    out = empty(40, 256, dtype)
    out.fill_(7)
    column = 64 // size
    kernel = sum_rows(width, kind, kind, lines, stream)
    kernel(offsets, entries, coefs, scales, bits(x), column, bits(out), 5)
    tile = slice(column, column + width)
    expected = torch.full((40, 256), 7.0, dtype=torch.float64)
    for i in range(30):
        part = slice(offsets[i], offsets[i + 1])
        rows = x[entries[part], tile].double().numpy()
        total = (coefs[part, None] * rows).sum(axis=0) * scales[i]
        expected[5 + i, tile] = torch.from_numpy(total)
    assert torch.allclose(
        out.double(),
        expected.to(dtype).double(),
        rtol={8: 1e-12, 4: 1e-4, 2: 2e-2}[size],
        atol={8: 1e-12, 4: 1e-5, 2: 2e-2}[size],
    )
    untouched = torch.ones(40, 256, dtype=torch.bool)
    untouched[5:35, tile] = False
    assert (out[untouched] == 7).all()


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_halves_are_rounded_as_torch_rounds(kind):
    """To nearest even, with infinities, NaN, overflow and subnormals."""
    values = torch.cat([
        torch.randn(4000) * 10 ** torch.linspace(-9, 5.5, 4000),
        torch.tensor([0.0, -0.0, 65504, 65519, 65520, 1e38, 3.4e38, 1e-45]),
        torch.tensor([float("inf"), -float("inf"), float("nan"), 6e-8]),
        torch.tensor([1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-11, 1 + 3 * 2**-11]),
    ])  # fmt: skip
    n = len(values) // 16 * 16
    x = values[:n].reshape(-1, 16).contiguous()
    out = torch.empty(len(x), 16, dtype=VALUE_TYPES[kind].torch)
    rows = np.arange(len(x) + 1)
    ones = np.ones(len(x), np.float32)
    kernel = sum_rows(16, "float32", kind, False, False)
    entries = rows[:-1].astype(np.int32)
    kernel(rows, entries, ones, ones, bits(x), 0, bits(out), 0)
    expected = x.to(VALUE_TYPES[kind].torch)
    same = (out == expected) | (out.isnan() & expected.isnan())
    assert same.all()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_parts_of_a_row_are_summed_in_float32(width, kind):
    x = torch.randn(50, 256).to(VALUE_TYPES[kind].torch)
    out = np.full((3, 256), 7, np.float32)
    offsets = np.array([0, 100, 101, 101])
    entries = np.random.default_rng(0).integers(0, 50, 101).astype(np.int32)
    coefs, scales = np.ones(101, np.float32), np.ones(3, np.float32)
    kernel = sum_rows(width, kind, "float32", False, False)
    kernel(offsets, entries, coefs, scales, bits(x), 32, out, 0)
    rows = x[entries, 32 : 32 + width].double()
    expected = torch.stack([rows[:100].sum(0), rows[100], 0 * rows[0]])
    found = torch.from_numpy(out)
    tile = found[:, 32 : 32 + width].double()
    assert torch.allclose(tile, expected, rtol=1e-5, atol=1e-4)
    assert (found[:, :32] == 7).all()
    assert (found[:, 32 + width :] == 7).all()


@pytest.mark.parametrize("width", [2, 16, 128])
@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "3.4e38", "-0.0"])
def test_special_numbers_of_bfloat16_stay_in_their_columns(width, value):
    x = torch.ones(1, width, dtype=torch.bfloat16)
    # Old versions of torch refuse to write a number that is rounded to inf.
    x[0, 1] = torch.tensor(float(value)).bfloat16()
    out = torch.empty_like(x)
    once, ones = np.array([0, 1]), np.ones(1, np.float32)
    kernel = sum_rows(width, "bfloat16", "bfloat16", False, False)
    kernel(once, np.zeros(1, np.int32), ones, ones, bits(x), 0, bits(out), 0)
    assert torch.equal(out.isnan(), x.isnan())
    assert torch.equal(out.nan_to_num(5), x.nan_to_num(5))
