"""``dgl-lc plan``: show how a precomputation would be cut into blocks."""

import argparse
from typing import TYPE_CHECKING

from .flags import DTYPES, Commands, check_at_least, refuse

if TYPE_CHECKING:
    from ..precompute.planning.work import Work


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    parser = commands.add_parser("plan")
    sizes = [
        ("--nodes", int, "number of nodes of the graph"),
        ("--edges", int, "number of edges, with both directions counted"),
        ("--feats", int, "number of feature columns"),
        ("--hops", int, "last hop, K"),
        ("--memory", str, "memory of the device, such as 32GiB"),
    ]
    for flag, kind, text in sizes:
        parser.add_argument(flag, type=kind, required=True, help=text)
    parser.add_argument(
        "--device", choices=["cuda", "cpu"], default="cuda",
        help="cuda: a device with its own memory, while features and result "
        "stay on the host; cpu: the result is in the same memory "
        "(default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--dtype", choices=DTYPES, default="float32",
        help="data type of the stored hop features (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--keep", type=int, metavar="ROWS",
        help="number of rows of the result (default: all nodes)",
    )  # fmt: skip
    parser.add_argument(
        "--calibrate", action="store_true",
        help="measure the coefficients of the published scheme on this "
        "machine",
    )  # fmt: skip
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
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
    kept = args.nodes if args.keep is None else args.keep
    if not 1 <= kept <= args.nodes:
        refuse(f"--keep should be from 1 to --nodes={args.nodes}, got {kept}.")
    return Work(
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
