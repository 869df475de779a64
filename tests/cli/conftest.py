"""What the tests of the commands share."""

import pytest

from dgl_lc.cli import main


@pytest.fixture
def refused(capsys):
    """Runs a command with a bad argument; returns the line it prints."""

    def run(*call):
        try:
            code = main(list(call))
        except SystemExit as end:  # an error of argparse
            code = end.code
        assert code == 2
        message = capsys.readouterr().err
        assert message.startswith("dgl-lc: ")
        assert message.count("\n") == 1
        assert message.endswith("\n")
        return message

    return run


@pytest.fixture
def short_flags():
    """Flags of a training run that takes little time."""
    return ["--epochs", "4", "--patience", "4", "--hid-feats", "8",
            "--batch-size", "64"]  # fmt: skip
