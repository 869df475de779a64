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
    count,
    given_path,
    hop_count,
    load_options,
    rank_split,
    refuse,
    split_nodes,
)

if TYPE_CHECKING:
    from ..precompute.planning.plans import Plan
    from ..precompute.planning.ranks import RanksPlan
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
    add("--ranks", type=count,
        help="plan for this many processes that compute together (torchrun); "
        "--memory is that of each")  # fmt: skip
    add(
        "--hosts",
        type=count,
        help="with --ranks: number of machines that they are on (default: 1)",
    )
    add("--split", type=rank_split, metavar="SPLIT",
        help="with --ranks: what they share: columns, edges, or groups of "
        "columns times edge shards, such as 4x16 (default: the fastest that "
        "fits)")  # fmt: skip
    add("--network", metavar="RATE",
        help="with --ranks: bandwidth of a host per second, such as 100Gbit "
        "or 1.25GB (default: 10Gbit)")  # fmt: skip
    add("--host-disk", metavar="SIZE",
        help="with --ranks and without --data: disk of a host for the graph, "
        "such as 500GB (default: no limit)")  # fmt: skip
    add("--calibrate", action="store_true",
        help="measure the coefficients of the published scheme on this "
        "machine, without --data")  # fmt: skip
    add_reverse_flag(parser)
    parser.set_defaults(run=_run)


#: Flags of the sizes of a graph, and those that need a real one.
_SIZES = ("nodes", "edges", "feats")
#: Larger ones are no graphs that anybody has, but typing errors.
_MOST = {"nodes": 2**32 - 1, "edges": 10**15, "feats": 10**6}
#: More nodes than this have no ids in a graph today.
_MOST_IDS = 2**31 - 1
_ONLY_SIZES = (*_SIZES, "keep", "calibrate", "host_disk")
_ONLY_DATA = ("split_only", "out", "add_reverse")
_ONLY_RANKS = ("hosts", "split", "network", "host_disk")


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
    _check_ranks(args)
    if args.data is not None:
        return _plan_data(args)
    for name in (*_SIZES, "memory"):
        if getattr(args, name) is None:
            refuse(
                f"--{name} is missing: give --data, or --nodes, --edges, "
                f"--feats and --memory."
            )
    return _plan_sizes(args)


def _check_ranks(args: argparse.Namespace) -> None:
    """Check the flags of many ranks."""
    from .._common.bytes import parse_bytes
    from ..precompute.planning.rank_rates import rates_with
    from ..precompute.planning.ranks import check_machines
    from ..precompute.sharded.layout import check_split

    if args.ranks is None:
        for name in _ONLY_RANKS:
            if getattr(args, name) is not None:
                flag = name.replace("_", "-")
                refuse(f"--{flag} is for --ranks: omit it, or give both.")
        return
    check_machines(args.ranks, args.hosts or 1, "--")
    check_split(args.split, args.ranks)
    rates_with(args.network, "--network")
    if args.host_disk is not None:
        parse_bytes(args.host_disk, "--host-disk")
    if args.device == "cuda" or args.calibrate:
        flag = "calibrate" if args.calibrate else "device cuda"
        refuse(f"--{flag} does not go with --ranks: omit it.")


def _plan_data(args: argparse.Namespace) -> int:
    import torch

    from ..data import open_data
    from ..precompute import estimate, plan
    from ..training.task_store import edge_weight

    out = args.out or Path()
    check_output_folder(out, "--out")
    data = open_data(args.data, **load_options(args))
    print(data, flush=True)
    nodes = None
    if args.split_only:
        nodes = split_nodes(data)
    options = {
        "nodes": nodes, "device": args.device, "memory": args.memory,
        "dtype": args.dtype and getattr(torch, args.dtype), "stored": True,
        **edge_weight(data.graph),
    }  # fmt: skip
    if args.ranks is not None:
        many = plan(
            data.graph, data.feat, args.hops, **options, ranks=args.ranks,
            hosts=args.hosts or 1, split=args.split, network=args.network,
        )  # fmt: skip
        print(many)
        return 0
    found = plan(data.graph, data.feat, args.hops, **options)
    if args.device == "cuda":
        # The time can be measured only where the device is.
        print(found)
    else:
        print(estimate(found, data.graph, data.feat, out))
    return 0


def _plan_sizes(args: argparse.Namespace) -> int:
    from .._common.bytes import parse_bytes

    work = _work(args)
    budget = parse_bytes(args.memory, "--memory")
    if args.ranks is not None:
        print(_plan_ranks(args, work, budget))
    else:
        print(_plan_one(args, work, budget))
    if args.nodes > _MOST_IDS:
        print(
            "planned with 32-bit unsigned ids; such a graph cannot be computed "
            "yet (ids are 31 bits)"
        )
    return 0


def _plan_one(args: argparse.Namespace, work: "Work", budget: int) -> "Plan":
    """Plan for one process."""
    from ..precompute import calibrate
    from ..precompute.planning.cpu import make_plan
    from ..precompute.planning.device import make_device_plan
    from ..precompute.planning.plans import beside_published

    coefficients = calibrate("cpu") if args.calibrate else None
    if args.device == "cpu":
        return make_plan(work, budget, coefficients)
    return beside_published(make_device_plan(work, budget), coefficients)


def _plan_ranks(
    args: argparse.Namespace, work: "Work", budget: int
) -> "RanksPlan":
    """Plan for many ranks, with graph, features and result on disk."""
    from .._common.bytes import parse_bytes
    from ..precompute.planning.rank_rates import rates_with
    from ..precompute.planning.rank_traffic import Machines, RankResult
    from ..precompute.planning.ranks import make_ranks_plan

    disk = args.host_disk and parse_bytes(args.host_disk, "--host-disk")
    machines = Machines(
        args.ranks, args.hosts or 1, budget, rates_with(args.network),
        host_disk=disk,
    )  # fmt: skip
    result = RankResult(stored=True, shared=True)
    return make_ranks_plan(work.on_disk(), machines, result, args.split)


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
