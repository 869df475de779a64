"""``dgl-lc reproduce``: the paper's tables and figures."""

import argparse

from ..experiments.model_names import PAPERS_MODELS, TABLE_MODELS
from .flags import (
    Commands,
    add_limit_flags,
    add_results_flag,
    add_seeds_flag,
    add_training_flags,
    check_device,
    check_output_folder,
    count,
    given_path,
    non_negative_float,
    positive_float,
    rate,
    refuse,
    small_count,
    training_options,
)

#: What an interrupted command leaves.
_KEPT = "the runs that finished are kept; the same command resumes"


def add_command(commands: Commands) -> None:
    """Add the command's parser, and one for each table or figure."""
    parser = commands.add_parser("reproduce")
    parts = parser.add_subparsers(required=True, metavar="WHAT")
    for name, text in (
        ("accuracy", "table of the test accuracy"),
        ("time", "table of the training time, per epoch and in total"),
        ("validation-over-time",
         "figure of the validation accuracy over time"),
    ):  # fmt: skip
        _add_study(parts.add_parser(name, help=text))
        parts.choices[name].set_defaults(run=_run_study, what=name, kept=_KEPT)
    _add_papers100m(parts)
    _add_schemes(parts)
    _add_today(parts)


def _add_study(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--data", nargs="+", required=True,
        help="names of data sets, or their files")  # fmt: skip
    _add_models(parser, TABLE_MODELS)
    add_seeds_flag(parser)
    for flag, kind, text in (
        ("--lr", positive_float, "learning rate"),
        ("--weight-decay", non_negative_float, "weight decay"),
        ("--dropout", rate, "dropout rate"),
    ):
        add(flag, type=kind,
            help=f"{text} of all models, instead of the tuned one")  # fmt: skip
    add_training_flags(parser)


def _add_models(parser: argparse.ArgumentParser, models: list[str]) -> None:
    parser.add_argument(
        "--models", nargs="+", default=models, metavar="MODEL",
        help=f"names of the models (default: {', '.join(models)})",
    )  # fmt: skip


def _run_study(args: argparse.Namespace) -> int:
    from ..experiments import study
    from ..experiments.named_models import check_names
    from ..experiments.results_folder import ResultsFolder

    actions = {
        "accuracy": study.reproduce_accuracy,
        "time": study.reproduce_time,
        "validation-over-time": study.reproduce_validation,
    }
    fixed = {
        name: getattr(args, name)
        for name in ("lr", "weight_decay", "dropout")
        if getattr(args, name) is not None
    }
    check_names(args.models)
    check_output_folder(args.out, "--out")
    actions[args.what](
        study.Study(
            args.data, ResultsFolder(args.out), args.models, args.seeds,
            args.workers, fixed, training_options(args),
        )
    )  # fmt: skip
    return 0


def _add_papers100m(parts: Commands) -> None:
    parser = parts.add_parser(
        "papers100m", help="table of ogbn-papers100M, from files on disk"
    )
    add = parser.add_argument
    add("--root", type=given_path, required=True,
        help="folder of OGB's raw files")  # fmt: skip
    _add_models(parser, PAPERS_MODELS)
    add_seeds_flag(parser)
    add("--memory", default="16GiB",
        help="memory budget of each stage (default: %(default)s)")  # fmt: skip
    add("--device", help="device to train on, such as cpu or cuda")
    add("--synthetic", type=positive_float, metavar="SCALE",
        help="first generate a data set there, of this scale relative to "
        "ogbn-papers100M")  # fmt: skip
    add("--feat-dim", type=count, default=128,
        help="number of feature columns of the generated data set "
        "(default: %(default)s)")  # fmt: skip
    add_limit_flags(parser)
    parser.set_defaults(run=_run_papers100m, kept=_KEPT)


def _run_papers100m(args: argparse.Namespace) -> int:
    from .._common.bytes import parse_bytes
    from ..experiments.named_models import check_names
    from ..experiments.papers100m import reproduce_papers100m
    from ..experiments.results_folder import ResultsFolder

    check_names(args.models, PAPERS_MODELS)
    parse_bytes(args.memory, "--memory")
    if args.device is not None:
        check_device(args.device)
    check_output_folder(args.out, "--out")
    reproduce_papers100m(
        args.root, ResultsFolder(args.out), args.models, args.seeds,
        memory=args.memory, device=args.device, synthetic=args.synthetic,
        feat_dim=args.feat_dim, **training_options(args),
    )  # fmt: skip
    return 0


def _add_schemes(parts: Commands) -> None:
    parser = parts.add_parser(
        "cpu-vs-blocks",
        help="time of the precomputation: naive, published and ours",
    )
    add = parser.add_argument
    add("--data", nargs="*", default=[],
        help="names of data sets, or their files, whose graphs are "
        "used")  # fmt: skip
    add("--nodes", type=count, nargs="*", default=[],
        help="numbers of nodes of generated power-law graphs, which have 16 "
        "times as many edges")  # fmt: skip
    add("--hops", type=small_count, default=3,
        help="last hop, K (default: %(default)s)")  # fmt: skip
    add("--columns", type=count, default=128,
        help="number of random feature columns "
        "(default: %(default)s)")  # fmt: skip
    add("--memory", default="4GiB",
        help="memory budget for which the published scheme chooses its "
        "blocks (default: %(default)s)")  # fmt: skip
    add("--runs", type=small_count, default=3,
        help="number of runs, of which the fastest counts "
        "(default: %(default)s)")  # fmt: skip
    add_results_flag(parser)
    parser.set_defaults(run=_run_schemes)


def _run_schemes(args: argparse.Namespace) -> int:
    from .._common.bytes import parse_bytes
    from ..experiments.compare_schemes import reproduce_schemes
    from ..experiments.results_folder import ResultsFolder

    memory = parse_bytes(args.memory, "--memory")
    if not args.data and not args.nodes:
        refuse("no graph is given: give --data, --nodes, or both.")
    check_output_folder(args.out, "--out")
    reproduce_schemes(
        args.data, args.nodes, ResultsFolder(args.out), K=args.hops,
        columns=args.columns, memory=memory, runs=args.runs,
    )  # fmt: skip
    return 0


def _add_today(parts: Commands) -> None:
    parser = parts.add_parser(
        "today",
        help="table of models old and new, with and without labels, "
        "self-training and Correct and Smooth",
    )
    add = parser.add_argument
    add("--data", nargs="+", required=True,
        help="names of data sets, or their files")  # fmt: skip
    add("--models", nargs="+", metavar="MODEL",
        help="names of the models, such as 'GAMLP (jk)' (default: "
        "all)")  # fmt: skip
    add_seeds_flag(parser)
    add("--trials", type=small_count, default=12,
        help="number of trials of every model; each further piece has half "
        "as many (default: %(default)s)")  # fmt: skip
    add("--columns", type=count,
        help="replace wider features by so many principal components "
        "(default: no limit)")  # fmt: skip
    add(
        "--minutes",
        type=positive_float,
        help="start no training after so many minutes (default: no limit)",
    )
    for flag, kind, default, text in (
        ("--epochs", count, 200, "maximum number of epochs"),
        ("--patience", count, 40,
         "stop after this many epochs without a better validation metric"),
        ("--batch-size", count, 4096, "nodes per mini-batch"),
    ):  # fmt: skip
        add(flag, type=kind, default=default,
            help=f"{text} (default: %(default)s)")  # fmt: skip
    add("--precision", choices=["fp32", "bf16"], default="fp32",
        help="numbers of the training (default: %(default)s)")  # fmt: skip
    add_results_flag(parser)
    parser.set_defaults(run=_run_today, kept=_KEPT)


def _run_today(args: argparse.Namespace) -> int:
    from ..experiments.results_folder import ResultsFolder
    from ..experiments.today import Today, reproduce_today
    from ..experiments.today_space import ENTRANTS, contests

    models = args.models or list(ENTRANTS)
    contests(models)
    check_output_folder(args.out, "--out")
    reproduce_today(
        Today(
            args.data, ResultsFolder(args.out), models, args.seeds,
            args.trials, None if args.minutes is None else 60 * args.minutes,
            training_options(args) | {"precision": args.precision},
            args.columns,
        )
    )  # fmt: skip
    return 0
