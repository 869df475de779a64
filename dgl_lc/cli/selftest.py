"""``dgl-lc selftest``: check a device's results, memory and speed."""

import argparse

from .flags import Commands, check_device, count


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    parser = commands.add_parser("selftest")
    parser.add_argument(
        "--device",
        help="cuda, cuda:1 or cpu (default: a GPU if there is one)",
    )
    parser.add_argument(
        "--nodes", type=count, default=500_000,
        help="number of nodes of the graph on which the speed is measured "
        "(default: %(default)s)",
    )  # fmt: skip
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    from ..testing.selftest import selftest

    if args.device is not None:
        # The report says why a GPU cannot be used.
        check_device(args.device, usable=False)
    return 0 if selftest(args.device, args.nodes) else 1
