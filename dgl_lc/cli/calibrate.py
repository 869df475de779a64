"""``dgl-lc calibrate``: measure the published optimiser's coefficients."""

import argparse
import dataclasses

from .flags import Commands, check_device


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    parser = commands.add_parser("calibrate")
    parser.add_argument(
        "--device", default="cpu",
        help="device to measure: cpu or cuda (default: %(default)s)",
    )  # fmt: skip
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    from ..precompute import calibrate

    found = calibrate(check_device(args.device))
    for name, value in dataclasses.asdict(found).items():
        print(f"{name:<8} {value:.3f}")
    return 0
