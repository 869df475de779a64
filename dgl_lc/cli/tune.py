"""``dgl-lc tune``: tune a model's parameters."""

import argparse

from ..experiments.paper import COMMON
from ..experiments.results_folder import ResultsFolder
from ..experiments.tuning import tune
from .flags import Commands, add_training_flags, training_options


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    parser = commands.add_parser("tune")
    parser.add_argument("model", help="name of the model, such as LCGCN")
    parser.add_argument("data", help="name of a data set, or its file")
    parser.add_argument(
        "--trials", type=int, default=COMMON["trials"],
        help="number of trials of the study, those of earlier calls included "
        "(default: %(default)s, as in the paper)",
    )  # fmt: skip
    parser.add_argument(
        "--seed", type=int, default=0,
        help="random seed of the sampler and of every trial "
        "(default: %(default)s)",
    )  # fmt: skip
    add_training_flags(parser)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    training = training_options(args)
    found = tune(
        args.model, args.data, ResultsFolder(args.out), trials=args.trials,
        seed=args.seed, workers=args.workers, **training,
    )  # fmt: skip
    print(
        f"{found['model']} on {found['data']}: validation accuracy "
        f"{100 * found['valid']:.2f} % with"
    )
    for name, value in found["params"].items():
        print(f"  {name:14} {value}")
    print(
        f"{found['trials']} trials ({found['different']} of them different, "
        f"{found['pruned']} pruned)"
    )
    return 0
