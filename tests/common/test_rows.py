"""Tensors of rows."""

import pytest
import torch

from dgl_lc._common import rows
from dgl_lc._common.rows import empty


@pytest.mark.parametrize("touched", [True, False])
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (1000, 16), (7, 4096)])
def test_rows_begin_on_a_cache_line(shape, touched, monkeypatch):
    monkeypatch.setattr(rows, "_STREAM_BYTES", 0 if touched else 1 << 40)
    tensor = empty(*shape, torch.float32)
    assert tensor.shape == shape
    assert tensor.data_ptr() % 64 == 0
    tensor.fill_(1.0)
    assert tensor.sum() == shape[0] * shape[1]
