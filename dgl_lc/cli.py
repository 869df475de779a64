"""The command ``dgl-lc``."""

import argparse
import dataclasses
import sys
from pathlib import Path

import torch
from dgl import DGLError

from . import __version__
from ._common.bytes import format_bytes, parse_bytes
from ._common.threads import num_threads
from .data import DiskData, NodeData, load
from .experiments.commands import add_commands
from .experiments.demo import run_demo
from .experiments.run import MODELS, train_model
from .nn.model import HopModel
from .precompute import block_aggregate, calibrate, open_store
from .precompute.checks import KINDS
from .precompute.planning.cpu import make_plan
from .precompute.planning.device import make_device_plan
from .precompute.planning.plans import beside_published
from .precompute.planning.work import Work
from .precompute.selftest import selftest
from .storage.hop_store import read_manifest
from .training import save_model


def main(argv: list[str] | None = None) -> int:
    """Run the command; return its exit code."""
    args = _parser().parse_args(argv)
    try:
        return args.run(args)
    except DGLError as error:
        print(f"dgl-lc: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dgl-lc", description="Graph neural networks that train like an "
        "MLP: block-wise precomputation of hop features.",
    )  # fmt: skip
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    _add_demo(commands)
    _add_train(commands)
    _add_plan(commands)
    _add_precompute(commands)
    _add_selftest(commands)
    add_commands(commands)
    _add_store(commands)
    measure = commands.add_parser(
        "calibrate", help="measure the published optimiser's coefficients"
    )
    measure.add_argument("--device", default="cpu", help="cpu or cuda")
    measure.set_defaults(run=_calibrate)
    return parser


def _add_demo(commands) -> None:
    demo = commands.add_parser(
        "demo", help="train models and their LC versions on a generated graph",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )  # fmt: skip
    demo.add_argument(
        "--nodes", type=int, default=20_000, help="nodes of the graph"
    )
    demo.add_argument(
        "--epochs", type=int, default=150, help="at most, for each model"
    )
    demo.add_argument(
        "--hid-feats", type=int, default=128, help="hidden columns"
    )
    demo.add_argument(
        "--out", type=Path, default=Path("dgl-lc-demo"),
        help="folder for the table and the picture",
    )  # fmt: skip
    demo.add_argument("--seed", type=int, default=0)
    demo.set_defaults(run=_demo)


def _add_train(commands) -> None:
    train = commands.add_parser(
        "train", help="train a model on a graph of your own",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )  # fmt: skip
    train.add_argument(
        "--model", required=True, help="such as LCGPRGNN; see the README"
    )
    train.add_argument(
        "--data", required=True, help="npz file or folder, a dataset of DGL "
        "by its name, or 'synthetic'",
    )  # fmt: skip
    numbers = [
        ("--hid-feats", int, 256, "hidden columns"),
        ("--epochs", int, 2000, "at most"),
        ("--patience", int, 300, "epochs without an improvement"),
        ("--batch-size", int, 4096, "nodes in a batch"),
        ("--lr", float, 0.001, "learning rate"),
        ("--weight-decay", float, 0.0, "of Adam"),
        ("--seed", int, 0, "of weights, shuffling and dropout"),
    ]
    for flag, kind, value, text in numbers:
        train.add_argument(flag, type=kind, default=value, help=text)
    options = [
        ("--dropout", float, "of the model"),
        ("--num-layers", int, "of the model"),
        ("--hops", int, "the model's K"),
        ("--mode", str, "of JKNet: cat or max"),
        ("--alpha", float, "of GPRGNN and APPNP"),
        ("--dprate", float, "of GPRGNN: dropped before the propagation"),
        ("--device", str, "where to train"),
        ("--memory", str, "for the precomputation, such as 8GiB"),
        ("--checkpoint", Path, "file to go on from after an interruption"),
        ("--save", Path, "file for the trained model"),
        ("--history", Path, "csv file for loss, accuracy and seconds"),
    ]
    for flag, kind, text in options:
        # No default: what is not given is the model's own.
        train.add_argument(
            flag, type=kind, default=argparse.SUPPRESS, help=text
        )
    train.add_argument(
        "--monitor", choices=["loss", "accuracy"], default="loss",
        help="of the validation: what has to improve",
    )  # fmt: skip
    train.add_argument(
        "--add-reverse", action="store_true",
        help="give every edge of the file its reverse",
    )  # fmt: skip
    train.set_defaults(run=_train)


def _add_plan(commands) -> None:
    plan = commands.add_parser(
        "plan", help="how a graph of some size would be cut, and the cost"
    )
    sizes = [
        ("--nodes", int, "nodes of the graph"),
        ("--edges", int, "edges of the graph, both directions counted"),
        ("--feats", int, "columns of the features"),
        ("--hops", int, "the last hop, K"),
        ("--memory", str, "memory of the device, such as 32GiB"),
    ]
    for flag, kind, text in sizes:
        plan.add_argument(flag, type=kind, required=True, help=text)
    plan.add_argument(
        "--device", choices=["cuda", "cpu"], default="cuda",
        help="cuda: a device with memory of its own, features and result "
        "stay on the host; cpu: the result is in the same memory "
        "(default: cuda)",
    )  # fmt: skip
    plan.add_argument(
        "--dtype",
        default="float32",
        choices=["float32", "float64", "float16", "bfloat16"],
        help="how hop features are stored",
    )
    plan.add_argument(
        "--keep",
        type=int,
        metavar="ROWS",
        help="rows of the result (default: all nodes)",
    )
    plan.add_argument(
        "--calibrate", action="store_true",
        help="measure the published scheme's coefficients on this machine",
    )  # fmt: skip
    plan.set_defaults(run=_plan)


def _add_precompute(commands) -> None:
    precompute = commands.add_parser(
        "precompute", help="compute hop features, into a store on disk"
    )
    add = precompute.add_argument
    add("--data", required=True, help="a folder that prepare_ogb made, an npz "
        "file or folder, or a dataset of DGL by its name")  # fmt: skip
    add("--hops", type=int, required=True, help="the last hop, K")
    add("--out", type=Path, required=True, help="folder of the store")
    add("--device", help="where to compute: cpu (default) or cuda")
    add("--memory", help="bytes that may be allocated there, such as 4GiB")
    add("--host-memory", help="bytes on the host, of a run on a GPU")
    add("--norm", choices=["both", "right", "left", "none"], default="both")
    add("--no-self-loop", action="store_true",
        help="take the graph's edges as they are")  # fmt: skip
    add("--dtype", choices=list(KINDS.values()),
        help="how they are stored (default: as the features)")  # fmt: skip
    add("--split-only", action="store_true",
        help="only the rows of the nodes of the split")  # fmt: skip
    add("--add-reverse", action="store_true",
        help="give every edge of a file its reverse")  # fmt: skip
    precompute.set_defaults(run=_precompute)


def _add_selftest(commands) -> None:
    test = commands.add_parser(
        "selftest",
        help="try a GPU: exact, within memory, and how fast; a report",
    )
    test.add_argument(
        "--device", help="cuda, cuda:1 or cpu (default: a GPU if there is one)"
    )
    test.add_argument(
        "--nodes", type=int, default=500_000,
        help="of the graph on which it is timed (%(default)s)",
    )  # fmt: skip
    test.set_defaults(run=_selftest)


def _selftest(args: argparse.Namespace) -> int:
    return 0 if selftest(args.device, args.nodes) else 1


def _add_store(commands) -> None:
    store = commands.add_parser("store", help="look at a hop store")
    parts = store.add_subparsers(required=True, metavar="COMMAND")
    for name, run, text in (
        ("info", _store_info, "what is in it"),
        ("verify", _store_verify, "compare all rows with their check sums"),
    ):
        part = parts.add_parser(name, help=text)
        part.add_argument("path", type=Path, help="folder of the store")
        part.set_defaults(run=run)


def _precompute(args: argparse.Namespace) -> int:
    data: DiskData | NodeData
    if (Path(args.data) / "graph").is_dir():
        data = DiskData(args.data)
    else:
        data = load(args.data, **_reverse(args))
    print(data, flush=True)
    nodes = None
    if args.split_only:
        nodes = torch.cat([data.train, data.valid, data.test])
    dtype = args.dtype and getattr(torch, args.dtype)
    hops = block_aggregate(
        data.graph, data.feat, args.hops, norm=args.norm,
        self_loop=not args.no_self_loop, nodes=nodes, device=args.device,
        memory=args.memory, host_memory=args.host_memory, dtype=dtype,
        out=args.out,
    )  # fmt: skip
    print(hops)
    return 0


def _store_info(args: argparse.Namespace) -> int:
    manifest = read_manifest(args.path)
    size = (args.path / "rows.npy").stat().st_size
    filter_ = ", ".join(f"{k}={v}" for k, v in manifest["filter"].items())
    print(
        f"rows     {manifest['rows']:,}"
        f"{' of some nodes' if manifest['some_nodes'] else ''}\n"
        f"hops     {', '.join(map(str, manifest['hops']))}\n"
        f"columns  {manifest['columns']}\n"
        f"dtype    {manifest['dtype']}\n"
        f"filter   {filter_}\n"
        f"size     {format_bytes(size)}"
    )
    for name, key in manifest["key"].items():
        print(f"{name:<8} {key}")
    return 0


def _store_verify(args: argparse.Namespace) -> int:
    hops = open_store(args.path)
    hops.verify()
    print(f"{hops.shape[0]:,} rows are as they were written")
    return 0


def _reverse(args: argparse.Namespace) -> dict[str, bool]:
    return {"add_reverse": True} if args.add_reverse else {}


def _plan(args: argparse.Namespace) -> int:
    for name, least in (("nodes", 1), ("edges", 0), ("feats", 1), ("hops", 1)):
        if getattr(args, name) < least:
            raise DGLError(f"--{name} should be at least {least}.")
    kept = args.nodes if args.keep is None else args.keep
    if not 1 <= kept <= args.nodes:
        raise DGLError(f"--keep should be from 1 to --nodes={args.nodes}.")
    work = Work(
        num_nodes=args.nodes,
        num_edges=args.edges,
        num_feats=args.feats,
        kind=args.dtype,
        hop_rows=(args.nodes,) * args.hops,
        hop_entries=(args.edges,) * args.hops,
        kept_rows=kept,
        kept_hops=tuple(range(args.hops + 1)),
        all_rows=kept == args.nodes,
        threads=num_threads(),
    )
    budget = parse_bytes(args.memory, "--memory")
    coefficients = calibrate("cpu") if args.calibrate else None
    if args.device == "cpu":
        print(make_plan(work, budget, coefficients))
    else:
        plan = make_device_plan(work, budget)
        print(beside_published(plan, coefficients))
    return 0


def _calibrate(args: argparse.Namespace) -> int:
    for name, value in dataclasses.asdict(calibrate(args.device)).items():
        print(f"{name:<8} {value:.3f}")
    return 0


def _demo(args: argparse.Namespace) -> int:
    run_demo(args.nodes, args.epochs, args.hid_feats, args.out, args.seed)
    return 0


def _train(args: argparse.Namespace) -> int:
    given = vars(args)
    names = {"hops": "K"}
    options = {
        names.get(name, name): given[name]
        for name in (
            "dropout", "num_layers", "hops", "mode", "alpha", "dprate"
        )
        if name in given
    }  # fmt: skip
    if args.model not in MODELS:
        raise DGLError(
            f"--model {args.model} is not known: choose one of "
            f"{', '.join(MODELS)}."
        )
    if "save" in given and not issubclass(MODELS[args.model], HopModel):
        raise DGLError(
            f"--save: {args.model} is an original, and only models of "
            f"dgl_lc.nn are saved with their configuration."
        )
    data = load(args.data, **_reverse(args))
    print(data, flush=True)
    training = {
        name: given[name] for name in ("device", "checkpoint") if name in given
    }
    result = train_model(
        args.model, data, hid_feats=args.hid_feats, seed=args.seed,
        options=options, epochs=args.epochs, patience=args.patience,
        batch_size=args.batch_size, lr=args.lr, monitor=args.monitor,
        weight_decay=args.weight_decay,
        precompute={"memory": given["memory"]} if "memory" in given else {},
        **training,
    )  # fmt: skip
    if result.precompute_seconds:
        print(f"precomputation: {result.precompute_seconds:.2f} s")
    print(result.fit)
    print(f"test accuracy {result.test_accuracy:.4f}")
    if "history" in given:
        result.fit.history.to_csv(given["history"])
    if "save" in given:
        save_model(result.model, given["save"])
        print(f"saved: {given['save']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
