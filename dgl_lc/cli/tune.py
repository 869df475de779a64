"""``dgl-lc tune``: tune a model's parameters."""

import argparse

from ..experiments.paper import COMMON
from .flags import (
    Commands,
    add_training_flags,
    check_output_folder,
    count,
    seed,
    training_options,
)


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    parser = commands.add_parser("tune")
    parser.add_argument("model", help="name of the model, such as LCGCN")
    parser.add_argument("data", help="name of a data set, or its file")
    parser.add_argument(
        "--trials", type=count, default=COMMON["trials"],
        help="number of trials of the study, those of earlier calls included "
        "(default: %(default)s, as in the paper)",
    )  # fmt: skip
    parser.add_argument(
        "--seed", type=seed, default=0,
        help="random seed of the sampler and of every trial "
        "(default: %(default)s)",
    )  # fmt: skip
    add_training_flags(parser)
    parser.set_defaults(
        run=_run,
        kept="the trials that finished are kept; the same command resumes",
    )


def _run(args: argparse.Namespace) -> int:
    from ..experiments.results_folder import ResultsFolder
    from ..experiments.tuning import tune

    check_output_folder(args.out, "--out")
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
