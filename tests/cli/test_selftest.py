"""``dgl-lc selftest``."""

import pytest
import torch

from dgl_lc.cli import main
from dgl_lc.testing.cpu_device import CpuDevice

CALL = ["selftest", "--device", "cpu", "--nodes", "2000"]


def test_the_report_of_a_device_that_is_right(capsys):
    assert main(CALL) == 0
    text = capsys.readouterr().out
    for words in ("torch.float16", "were allocated", "GB/s", "checks passed"):
        assert words in text
    assert "FAILED" not in text


def test_wrong_results_are_found(capsys, monkeypatch):
    def wrong(self, stream, target, source):
        target.copy_(source)
        target[:1] += 1

    monkeypatch.setattr(CpuDevice, "copy_out", wrong)
    assert main(CALL) == 1
    text = capsys.readouterr().out
    assert "FAILED  torch.float32" in text
    assert "FAILED  rows of some nodes: largest difference" in text
    assert "checks FAILED" in text


def test_a_check_that_raises_is_named_and_the_others_are_run(
    capsys, monkeypatch
):
    def broken(self, stream, target, source):
        raise RuntimeError("no copy")

    monkeypatch.setattr(CpuDevice, "copy_out", broken)
    assert main(CALL) == 1
    text = capsys.readouterr().out
    for subject in ("exact results", "rows of some nodes", "speed"):
        assert f"FAILED  {subject}: RuntimeError('no copy')" in text


def test_an_unknown_device_is_named(refused):
    assert "--device 'foo'" in refused("selftest", "--device", "foo")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_report_says_why(capsys):
    assert main(["selftest", "--device", "cuda"]) == 1
    assert "cuda cannot be used: " in capsys.readouterr().out
