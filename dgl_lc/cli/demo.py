"""``dgl-lc demo``: compare models with their LC versions."""

import argparse
from pathlib import Path

from .flags import (
    Commands,
    check_output_folder,
    count,
    given_path,
    seed,
    small_count,
)


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    parser = commands.add_parser("demo")
    add = parser.add_argument
    add("--nodes", type=count, default=15_000,
        help="number of nodes of the generated graph "
        "(default: %(default)s)")  # fmt: skip
    add("--epochs", type=count, default=60,
        help="maximum number of epochs per model "
        "(default: %(default)s)")  # fmt: skip
    add("--hid-feats", type=count, default=128,
        help="hidden feature size (default: %(default)s)")  # fmt: skip
    add("--out", type=given_path, default=Path("dgl-lc-demo"),
        help="folder for the table, the figure, a page with both, the task "
        "and a hop store (default: %(default)s)")  # fmt: skip
    add("--seed", type=seed, default=0,
        help="random seed of the graph, and the first one of weights and "
        "dropout (default: %(default)s)")  # fmt: skip
    add("--seeds", type=small_count, default=3,
        help="how many times each model is trained, with one seed after "
        "another (default: %(default)s)")  # fmt: skip
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    from ..experiments.compare_models import run_demo

    check_output_folder(args.out, "--out")
    run_demo(
        args.nodes, args.epochs, args.hid_feats, args.out, args.seed,
        args.seeds,
    )  # fmt: skip
    return 0
