"""The command ``dgl-lc``."""

import subprocess
import sys

import pytest

import dgl_lc
from dgl_lc.cli import main

SIZES = ["--nodes", "111059956", "--edges", "1615685872", "--feats", "128"]


def test_plan_of_papers100m(capsys):
    assert main(["plan", *SIZES, "--hops", "3", "--memory", "32GiB"]) == 0
    text = capsys.readouterr().out
    assert "111,059,956 nodes, 1,615,685,872 edges" in text
    assert "fewest bytes" in text


def test_plan_that_does_not_fit_says_what_would(capsys):
    call = ["plan", *SIZES, "--hops", "3", "--memory", "32GiB"]
    assert main([*call, "--device", "cpu"]) == 2
    error = capsys.readouterr().err
    assert "is too small" in error
    assert "would be enough" in error


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--memory", "big"], "--memory='big'"),
        (["--hops", "0"], "--hops should be at least 1"),
        (["--keep", "0"], "--keep should be from 1"),
    ],
)
def test_bad_flags_are_named(flags, message, capsys):
    call = ["plan", *SIZES, "--hops", "3", "--memory", "32GiB", *flags]
    assert main(call) == 2
    assert message in capsys.readouterr().err


def test_demo_checks_itself(capsys):
    assert main(["demo", "--nodes", "3000"]) == 0
    text = capsys.readouterr().out
    assert "reference: equal" in text
    assert "1.4 % of the nodes" in text


def test_calibrate_prints_the_coefficients(capsys):
    assert main(["calibrate"]) == 0
    assert "beta_X" in capsys.readouterr().out


def test_plan_with_measured_coefficients(capsys):
    call = ["plan", *SIZES, "--hops", "2", "--memory", "24GiB"]
    assert main([*call, "--calibrate", "--keep", "1500000"]) == 0
    assert "published" in capsys.readouterr().out


def test_version_from_the_shell():
    found = subprocess.run(
        [sys.executable, "-m", "dgl_lc.cli", "--version"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert found.stdout.strip() == dgl_lc.__version__
