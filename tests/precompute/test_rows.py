"""Tensors of rows."""

import pytest
import torch

from dgl_lc.precompute import rows
from dgl_lc.precompute.rows import can_gather, empty, gather_rows


@pytest.mark.parametrize("touched", [True, False])
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (1000, 16), (7, 4096)])
def test_rows_begin_on_a_cache_line(shape, touched, monkeypatch):
    monkeypatch.setattr(rows, "_STREAM_BYTES", 0 if touched else 1 << 40)
    tensor = empty(*shape, torch.float32)
    assert tensor.shape == shape
    assert tensor.data_ptr() % 64 == 0
    tensor.fill_(1.0)
    assert tensor.sum() == shape[0] * shape[1]


@pytest.mark.parametrize("large", [True, False])
@pytest.mark.parametrize("width", [1, 3, 100, 128, 300])
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16]
)
def test_rows_are_gathered_as_they_are(width, dtype, large, monkeypatch):
    monkeypatch.setattr(rows, "_PARALLEL_BYTES", 0 if large else 1 << 40)
    sources = [torch.randn(50, width + k)[:, k:].to(dtype) for k in range(3)]
    sources[0][7, 0] = torch.inf
    sources[1][8] = torch.nan
    places = torch.tensor([7, 0, 49, 7, 8])
    assert all(can_gather(source) for source in sources)
    out = torch.empty(15, width, dtype=dtype)
    gather_rows(sources, places, out)
    expected = torch.cat([source[places] for source in sources])
    torch.testing.assert_close(out, expected, rtol=0, atol=0, equal_nan=True)


def test_what_the_kernel_does_not_take_is_known():
    assert not can_gather(torch.ones(3, 4).t())
    assert not can_gather(torch.ones(3, 4, 5))
    assert not can_gather(torch.ones(3, 4, dtype=torch.int64))
