"""``dgl-lc plan``."""

import pytest

from dgl_lc.cli import main

PAPERS100M = ["plan", "--nodes", "111059956", "--edges", "1615685872",
              "--feats", "128", "--hops", "3", "--memory", "32GiB"]  # fmt: skip


def test_plan_of_papers100m(capsys):
    assert main(PAPERS100M) == 0
    text = capsys.readouterr().out
    assert "111,059,956 nodes, 1,615,685,872 edges" in text
    assert "fewest bytes" in text


def test_plan_that_does_not_fit_says_what_would(refused):
    error = refused(*PAPERS100M, "--device", "cpu")
    assert "is too small" in error
    assert "would be enough" in error


def test_plan_with_measured_coefficients(capsys):
    call = [*PAPERS100M, "--hops", "2", "--memory", "24GiB"]
    assert main([*call, "--calibrate", "--keep", "1500000"]) == 0
    assert "published" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--memory", "big"], "--memory='big'"),
        (["--hops", "0"], "--hops should be at least 1, got 0"),
        (["--edges", "-1"], "--edges should be at least 0, got -1"),
        (["--keep", "0"], "--keep should be from 1"),
    ],
)
def test_bad_flags_are_named(flags, message, refused):
    assert message in refused(*PAPERS100M, *flags)
