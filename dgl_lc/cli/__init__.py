"""The command ``dgl-lc``; each of its commands is a module here."""

import argparse
import sys

from dgl import DGLError

from .. import __version__
from . import (
    calibrate,
    demo,
    plan,
    precompute,
    reproduce,
    selftest,
    store,
    train,
    tune,
)

_COMMANDS = (
    demo, train, plan, precompute, selftest, tune, reproduce, store, calibrate,
)  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Run a command and return its exit code: 2 if an argument is wrong."""
    args = _make_parser().parse_args(argv)
    try:
        return args.run(args)
    except DGLError as error:
        print(f"dgl-lc: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        return 0


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dgl-lc",
        description="Graph neural networks that train like an MLP, by "
        "block-wise precomputation of hop features.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in _COMMANDS:
        command.add_command(commands)
    return parser
