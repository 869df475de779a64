"""What starting the package and the command imports."""

import subprocess
import sys

import pytest

from dgl_lc.cli import COMMANDS


def imported_after(*codes):
    """The top-level modules that a new process has imported after each code.

    They are run one after the other.
    """
    names = "{name.partition('.')[0] for name in sys.modules}"
    lines = [
        line for code in codes for line in (code, f"print('now:', *{names})")
    ]
    found = subprocess.run(
        [sys.executable, "-c", "\n".join(["import sys", *lines])],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    printed = [line.split() for line in found.stdout.splitlines()]
    return [set(words[1:]) for words in printed if words[:1] == ["now:"]]


SLOW = {"torch", "dgl", "numpy", "numba", "pandas", "optuna", "matplotlib"}


def test_the_package_imports_nothing_slow():
    [found] = imported_after("import dgl_lc")
    assert not found & SLOW


def test_public_names_do_not_import_what_only_experiments_need():
    # Some versions of DGL import pandas themselves.
    of_dgl, found = imported_after(
        "import dgl_lc, dgl",
        "from dgl_lc import HopFeatures, LCError, block_aggregate\n"
        "from dgl_lc import lc_transform, data, nn, precompute, training",
    )
    assert "torch" in found
    assert not (found - of_dgl) & {"pandas", "optuna", "matplotlib"}


PARTS = {
    "store": ["info"],
    "reproduce": ["accuracy", "papers100m", "cpu-vs-blocks", "today"],
}
CALLS = [["--help"], ["--version"]] + [
    [name, *part, "--help"]
    for name in COMMANDS
    for part in [[], *([part] for part in PARTS.get(name, []))]
]


@pytest.mark.parametrize("call", CALLS, ids=" ".join)
def test_help_imports_nothing_slow(call):
    code = f"""
from dgl_lc.cli import main
try:
    main({call!r})
except SystemExit:
    pass
"""
    [found] = imported_after(code)
    assert "dgl_lc" in found
    assert not found & SLOW
