"""Flags that several commands share, and checks of their values."""

import argparse
from pathlib import Path
from typing import TypeAlias

from dgl import DGLError

from ..experiments.paper import COMMON

#: What ``add_subparsers`` returns, to which a command adds its parser.
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def check_at_least(args: argparse.Namespace, least: int, *names: str) -> None:
    """Raise an error that names the first flag with a value below ``least``."""
    for name in names:
        value = getattr(args, name)
        if value < least:
            flag = name.replace("_", "-")
            raise DGLError(f"--{flag} should be at least {least}, got {value}.")


def add_reverse_flag(parser: argparse.ArgumentParser) -> None:
    """Add ``--add-reverse``."""
    parser.add_argument(
        "--add-reverse", action="store_true",
        help="add the reverse of every edge of the data set",
    )  # fmt: skip


def load_options(args: argparse.Namespace) -> dict[str, bool]:
    """Return the options of ``dgl_lc.data.load`` that flags ask for."""
    return {"add_reverse": True} if args.add_reverse else {}


def add_results_flag(parser: argparse.ArgumentParser) -> None:
    """Add ``--out``, the folder of the experiments' results."""
    parser.add_argument(
        "--out", type=Path, default=Path("results"),
        help="folder of the results (default: %(default)s)",
    )  # fmt: skip


def add_seeds_flag(parser: argparse.ArgumentParser) -> None:
    """Add ``--seeds``, the number of runs of each model."""
    parser.add_argument(
        "--seeds", type=int, default=5,
        help="number of runs per model, each with its own seed "
        "(default: %(default)s)",
    )  # fmt: skip


def add_limit_flags(parser: argparse.ArgumentParser) -> None:
    """Add the folder of the results, and the limits of a training run."""
    add_results_flag(parser)
    add = parser.add_argument
    add("--epochs", type=int, default=COMMON["epochs"],
        help="maximum number of epochs "
        "(default: %(default)s, as in the paper)")  # fmt: skip
    add("--patience", type=int, default=COMMON["patience"],
        help="stop after this many epochs without a lower validation loss "
        "(default: %(default)s)")  # fmt: skip
    add("--batch-size", type=int, default=COMMON["batch_size"],
        help="nodes per mini-batch (default: %(default)s)")  # fmt: skip


def add_training_flags(parser: argparse.ArgumentParser) -> None:
    """Add the limits, the hidden size and the number of processes."""
    add_limit_flags(parser)
    parser.add_argument(
        "--hid-feats", type=int, default=COMMON["hid_feats"],
        help="hidden feature size (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--workers", type=int, default=1,
        help="number of processes, which share the threads "
        "(default: %(default)s)",
    )  # fmt: skip


def training_options(args: argparse.Namespace) -> dict[str, int]:
    """Check the flags of training; return those that a run takes."""
    names = ("epochs", "patience", "batch_size", "hid_feats", "workers")
    given = [name for name in names if name in args]
    check_at_least(args, 1, *given)
    return {name: getattr(args, name) for name in given if name != "workers"}
