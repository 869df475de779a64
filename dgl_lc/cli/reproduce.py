"""``dgl-lc tune`` and ``dgl-lc reproduce``."""

import argparse
from pathlib import Path

import torch
from dgl import DGLError

from ..data import power_law_graph
from ..experiments import paper
from ..experiments.compare_schemes import compare_blocks
from ..experiments.papers100m import TABLE_MODELS as PAPERS_MODELS
from ..experiments.papers100m import reproduce_papers100m
from ..experiments.recorded_run import check_names
from ..experiments.results_folder import Results
from ..experiments.study import (
    TABLE_MODELS,
    Study,
    reproduce_accuracy,
    reproduce_time,
    reproduce_validation,
)
from ..experiments.tasks import load_tasks, nearest
from ..experiments.tuning import tune
from ..precompute.memory import parse_bytes

#: Where results go if no folder is given.
FOLDER = "results"


def add_commands(commands) -> None:
    """Add both to the parser."""
    _add_tune(commands)
    _add_reproduce(commands)


def _add_limits(parser) -> None:
    add = parser.add_argument
    common = paper.COMMON
    add("--out", type=Path, default=Path(FOLDER),
        help="folder of the results (%(default)s)")  # fmt: skip
    add("--epochs", type=int, default=common["epochs"],
        help="at most (%(default)s, the paper's)")  # fmt: skip
    add("--patience", type=int, default=common["patience"],
        help="epochs without a lower loss (%(default)s)")  # fmt: skip
    add("--batch-size", type=int, default=common["batch_size"],
        help="(%(default)s)")  # fmt: skip


def _add_training(parser) -> None:
    _add_limits(parser)
    add, common = parser.add_argument, paper.COMMON
    add("--hid-feats", type=int, default=common["hid_feats"],
        help="hidden columns (%(default)s)")  # fmt: skip
    add("--workers", type=int, default=1,
        help="processes, which share the threads (%(default)s)")  # fmt: skip


def _training(args: argparse.Namespace) -> dict[str, int]:
    names = ("epochs", "patience", "batch_size", "hid_feats", "workers")
    found = {name: getattr(args, name) for name in names if name in args}
    for name, value in found.items():
        if value < 1:
            flag = name.replace("_", "-")
            raise DGLError(f"--{flag} should be at least 1, got {value}.")
    found.pop("workers", None)
    return found


def _add_tune(commands) -> None:
    parser = commands.add_parser(
        "tune", help="tune a model's parameters on the validation nodes"
    )
    parser.add_argument("model", help="such as LCGCN")
    parser.add_argument("data", help="a data set's name, or its file")
    parser.add_argument(
        "--trials", type=int, default=paper.COMMON["trials"],
        help="of the study in all (%(default)s, the paper's)",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0)
    _add_training(parser)
    parser.set_defaults(run=_tune)


def _tune(args: argparse.Namespace) -> int:
    training = _training(args)
    found = tune(
        args.model, args.data, Results(args.out), trials=args.trials,
        seed=args.seed, workers=args.workers, **training,
    )  # fmt: skip
    print(
        f"{found['model']} on {found['data']}: validation accuracy "
        f"{100 * found['valid']:.2f} % with"
    )
    for name, value in found["params"].items():
        print(f"  {name:14} {value}")
    print(
        f"{found['trials']} trials ({found['different']} different ones), "
        f"{found['pruned']} of them pruned"
    )
    return 0


def _add_reproduce(commands) -> None:
    parser = commands.add_parser(
        "reproduce", help="the paper's tables and figures"
    )
    what = parser.add_subparsers(required=True, metavar="WHAT")
    for name, run, text in (
        ("accuracy", reproduce_accuracy, "test accuracy of all models"),
        ("time", reproduce_time, "seconds an epoch and in all"),
        ("validation-over-time", reproduce_validation, "the figure"),
    ):
        part = what.add_parser(name, help=text)
        part.add_argument(
            "--data", nargs="+", required=True,
            help="names of data sets, or their files",
        )  # fmt: skip
        part.add_argument(
            "--models", nargs="+", default=TABLE_MODELS, metavar="MODEL",
            help=f"(default: {', '.join(TABLE_MODELS)})",
        )  # fmt: skip
        part.add_argument("--seeds", type=int, default=5, help="(%(default)s)")
        part.add_argument(
            "--lr", type=float, help="for all models, instead of tuned ones"
        )
        part.add_argument("--weight-decay", type=float, help="likewise")
        part.add_argument("--dropout", type=float, help="likewise")
        _add_training(part)
        part.set_defaults(run=_study, action=run)
    _add_papers(what)
    _add_blocks(what)


def _study(args: argparse.Namespace) -> int:
    if args.seeds < 1:
        raise DGLError(f"--seeds should be at least 1, got {args.seeds}.")
    fixed = {
        name: getattr(args, name)
        for name in ("lr", "weight_decay", "dropout")
        if getattr(args, name) is not None
    }
    training = _training(args)
    check_names(args.models)
    args.action(
        Study(
            args.data, Results(args.out), args.models, args.seeds,
            args.workers, fixed, training,
        )
    )  # fmt: skip
    return 0


def _add_papers(what) -> None:
    part = what.add_parser("papers100m", help="the table on papers100M")
    add = part.add_argument
    add("--root", type=Path, required=True, help="folder of OGB's raw files")
    add("--models", nargs="+", default=PAPERS_MODELS, metavar="MODEL")
    add("--seeds", type=int, default=5, help="(%(default)s)")
    add("--memory", default="16GiB", help="for each stage (%(default)s)")
    add("--device", help="where to train")
    add("--synthetic", type=float, metavar="SCALE",
        help="first generate a data set of this scale there")  # fmt: skip
    add("--feat-dim", type=int, default=128, help="of it (%(default)s)")
    _add_limits(part)
    part.set_defaults(run=_papers)


def _papers(args: argparse.Namespace) -> int:
    training = _training(args)
    for name in args.models:
        if name not in PAPERS_MODELS:
            raise DGLError(
                f"model {name!r} is not in that table."
                f"{nearest(name, PAPERS_MODELS)} Choose from "
                f"{', '.join(PAPERS_MODELS)}."
            )
    reproduce_papers100m(
        args.root, Results(args.out), args.models, args.seeds,
        memory=args.memory, device=args.device, synthetic=args.synthetic,
        feat_dim=args.feat_dim, **training,
    )  # fmt: skip
    return 0


def _add_blocks(what) -> None:
    part = what.add_parser(
        "cpu-vs-blocks", help="precomputation: naive, published, ours"
    )
    add = part.add_argument
    add("--data", nargs="*", default=[],
        help="names of data sets, or their files: their graphs")  # fmt: skip
    add(
        "--nodes",
        type=int,
        nargs="*",
        default=[],
        help="of generated power-law graphs with 16 times as many edges",
    )
    add("--hops", type=int, default=3, help="(%(default)s)")
    add("--columns", type=int, default=128, help="random ones (%(default)s)")
    add("--memory", default="4GiB",
        help="for which the published scheme cuts (%(default)s)")  # fmt: skip
    add("--runs", type=int, default=3, help="the best counts (%(default)s)")
    add("--out", type=Path, default=Path(FOLDER))
    part.set_defaults(run=_blocks)


def _blocks(args: argparse.Namespace) -> int:
    memory = parse_bytes(args.memory, "--memory")
    if not args.data and not args.nodes:
        raise DGLError("give graphs by --data, or sizes by --nodes.")
    for name in ("hops", "columns", "runs"):
        if getattr(args, name) < 1:
            raise DGLError(f"--{name} should be at least 1.")
    results = Results(args.out)
    graphs = {}
    if args.data:
        for data in load_tasks(args.data).values():
            graphs[data.name] = data.graph
    for nodes in args.nodes:
        graphs[f"power law {nodes}"] = power_law_graph(nodes, 16 * nodes)
    for name, g in graphs.items():
        print(f"{name}: normalisation, aggregation", flush=True)
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(g.num_nodes(), args.columns, generator=generator)
        compare_blocks(g, x, args.hops, name, results.folder, memory, args.runs)
    return 0
