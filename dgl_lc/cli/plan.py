"""``dgl-lc plan``: show how a precomputation would be cut, and its cost."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from .flags import (
    DTYPES,
    Commands,
    add_reverse_flag,
    check_at_least,
    check_output_folder,
    given_path,
    hop_count,
    load_options,
    refuse,
    split_nodes,
)

if TYPE_CHECKING:
    from ..precompute.planning.work import Work


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    parser = commands.add_parser("plan")
    add = parser.add_argument
    add("--data",
        help="folder of a prepared task, npz file or folder, or name of a DGL "
        "data set: also estimates the time on this machine")  # fmt: skip
    for flag, text in (
        ("--nodes", "number of nodes of the graph, without --data"),
        ("--edges", "number of edges, with both directions counted"),
        ("--feats", "number of feature columns"),
    ):
        add(flag, type=int, help=text)
    add("--hops", type=hop_count, required=True, help="last hop, K")
    add("--memory",
        help="memory of the device, such as 32GiB; with --data the default is "
        "that of dgl-lc precompute")  # fmt: skip
    add("--device", choices=["cuda", "cpu"],
        help="cuda: a device with its own memory, while features and result "
        "stay on the host; cpu: the result is in the same memory, or with "
        "--data on disk (default: cuda, with --data cpu)")  # fmt: skip
    add("--dtype", choices=DTYPES,
        help="data type of the stored hop features (default: float32, with "
        "--data that of the features)")  # fmt: skip
    add("--keep", type=int, metavar="ROWS",
        help="number of rows of the result, without --data (default: all "
        "nodes)")  # fmt: skip
    add("--split-only", action="store_true",
        help="with --data: plan for the rows of training, validation and "
        "test nodes only")  # fmt: skip
    add("--out", type=given_path,
        help="with --data: folder of the hop store, whose disk is measured "
        "(default: the current folder)")  # fmt: skip
    add("--calibrate", action="store_true",
        help="measure the coefficients of the published scheme on this "
        "machine, without --data")  # fmt: skip
    add_reverse_flag(parser)
    parser.set_defaults(run=_run)


#: Flags of the sizes of a graph, and those that need a real one.
_SIZES = ("nodes", "edges", "feats")
#: Larger ones are no graphs that anybody has, but typing errors.
_MOST = {"nodes": 2**31 - 1, "edges": 10**15, "feats": 10**6}
_ONLY_SIZES = (*_SIZES, "keep", "calibrate")
_ONLY_DATA = ("split_only", "out", "add_reverse")


def _run(args: argparse.Namespace) -> int:
    from .._common.bytes import parse_bytes

    foreign = _ONLY_DATA if args.data is None else _ONLY_SIZES
    for name in foreign:
        if getattr(args, name) not in (None, False):
            flag = name.replace("_", "-")
            this = "is for" if args.data is None else "does not go with"
            refuse(f"--{flag} {this} --data: omit it.")
    if args.memory is not None:
        parse_bytes(args.memory, "--memory")
    if args.data is not None:
        return _plan_data(args)
    for name in (*_SIZES, "memory"):
        if getattr(args, name) is None:
            refuse(
                f"--{name} is missing: give --data, or --nodes, --edges, "
                f"--feats and --memory."
            )
    return _plan_sizes(args)


def _plan_data(args: argparse.Namespace) -> int:
    import torch

    from ..data import open_data
    from ..precompute import estimate, plan
    from ..precompute.planning.plans import Plan
    from ..training.task_store import edge_weight

    out = args.out or Path()
    check_output_folder(out, "--out")
    data = open_data(args.data, **load_options(args))
    print(data, flush=True)
    nodes = None
    if args.split_only:
        nodes = split_nodes(data)
    found = plan(
        data.graph, data.feat, args.hops, nodes=nodes, device=args.device,
        memory=args.memory, dtype=args.dtype and getattr(torch, args.dtype),
        stored=True, **edge_weight(data.graph),
    )  # fmt: skip
    if not isinstance(found, Plan) or args.device == "cuda":
        # The time can be measured only where it computes.
        print(found)
    else:
        print(estimate(found, data.graph, data.feat, out))
    return 0


def _plan_sizes(args: argparse.Namespace) -> int:
    from .._common.bytes import parse_bytes
    from ..precompute import calibrate
    from ..precompute.planning.cpu import make_plan
    from ..precompute.planning.device import make_device_plan
    from ..precompute.planning.plans import beside_published

    work = _work(args)
    budget = parse_bytes(args.memory, "--memory")
    coefficients = calibrate("cpu") if args.calibrate else None
    if args.device == "cpu":
        print(make_plan(work, budget, coefficients))
    else:
        plan = make_device_plan(work, budget)
        print(beside_published(plan, coefficients))
    return 0


def _work(args: argparse.Namespace) -> "Work":
    """Check the sizes; return the work of a graph with those sizes."""
    from .._common.threads import num_threads
    from ..precompute.planning.work import Work

    check_at_least(args, 0, "edges")
    check_at_least(args, 1, "nodes", "feats", "hops")
    for name, most in _MOST.items():
        if getattr(args, name) > most:
            refuse(f"--{name} should be at most {most:,}.")
    kept = args.nodes if args.keep is None else args.keep
    if not 1 <= kept <= args.nodes:
        refuse(f"--keep should be from 1 to --nodes={args.nodes}, got {kept}.")
    return Work(
        num_nodes=args.nodes,
        num_edges=args.edges,
        num_feats=args.feats,
        kind=args.dtype or "float32",
        hop_rows=(args.nodes,) * args.hops,
        hop_entries=(args.edges,) * args.hops,
        kept_rows=kept,
        kept_hops=tuple(range(args.hops + 1)),
        all_rows=kept == args.nodes,
        threads=num_threads(),
    )
