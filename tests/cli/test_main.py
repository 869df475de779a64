"""The command ``dgl-lc`` as a whole."""

import subprocess
import sys
from pathlib import Path

import pytest

import dgl_lc
from dgl_lc import experiments
from dgl_lc.cli import main

COMMANDS = [
    ["demo"], ["train"], ["predict"], ["plan"], ["precompute"], ["selftest"],
    ["tune"], ["calibrate"], ["store"], ["store", "info"], ["store", "verify"],
    ["reproduce"], ["reproduce", "accuracy"], ["reproduce", "time"],
    ["reproduce", "validation-over-time"], ["reproduce", "papers100m"],
    ["reproduce", "cpu-vs-blocks"], ["warmup"],
]  # fmt: skip


@pytest.mark.parametrize("module", ["dgl_lc", "dgl_lc.cli"])
def test_version_from_the_shell(module):
    found = subprocess.run(
        [sys.executable, "-m", module, "--version"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert found.stdout.strip() == dgl_lc.__version__


def test_every_command_is_listed(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    text = capsys.readouterr().out
    for command in COMMANDS:
        assert f"\n    {command[0]}" in text


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_explains_each_of_its_flags(command, capsys):
    with pytest.raises(SystemExit, match="0"):
        main([*command, "--help"])
    _, *flags = capsys.readouterr().out.split("\n  -")
    assert flags
    for flag in flags:
        # The flag, its value, and at least two words of help.
        assert len(flag.split()) > 3, flag


def test_the_experiments_do_not_parse_arguments():
    for path in Path(experiments.__file__).parent.glob("*.py"):
        assert "argparse" not in path.read_text(), path
