"""The measured coefficients."""

import pytest
import torch
from dgl import DGLError

from dgl_lc.precompute import calibrate
from dgl_lc.precompute.planning.calibrate import _aggregation, _peak_bytes
from dgl_lc.precompute.planning.published import Volumes


def test_peak_bytes_are_the_allocators():
    def work():
        first = torch.empty(1000, dtype=torch.uint8)
        second = torch.empty(500, dtype=torch.uint8)
        del first
        torch.empty(200, dtype=torch.uint8)
        del second

    cpu = torch.device("cpu")
    assert _peak_bytes([work, work], cpu) == [1500, 1500]


def test_the_formula_covers_a_size_that_was_not_measured():
    found = calibrate()
    for name in ("alpha_A", "alpha_S", "alpha_D", "beta_S", "beta_X"):
        assert getattr(found, name) >= 0
    n, m, d = 5_000, 90_000, 24
    cpu = torch.device("cpu")
    work = _aggregation(n, m, d, torch.float32, cpu)
    volumes = Volumes.of(n, m - n, d)
    predicted = found.beta_S * volumes.S + found.beta_X * volumes.X
    (peak,) = _peak_bytes([work], cpu)
    assert peak <= predicted <= 1.2 * peak


def test_other_devices_are_refused():
    with pytest.raises(DGLError, match="device='meta'"):
        calibrate("meta")
    if not torch.cuda.is_available():
        with pytest.raises(DGLError, match="cannot be used"):
            calibrate("cuda")
