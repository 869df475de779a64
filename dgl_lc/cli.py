"""The command ``dgl-lc``."""

import argparse
import dataclasses
import sys
import time

import numpy as np
import torch
from dgl import DGLError

from . import __version__
from .data import power_law_graph
from .precompute import block_aggregate, calibrate
from .precompute import plan as plan_call
from .precompute.memory import parse_bytes
from .precompute.plan import Work, make_plan
from .precompute.reference import dense_filter
from .precompute.threads import num_threads


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

    demo = commands.add_parser(
        "demo", help="precompute hop features of a generated graph, and check"
    )
    demo.add_argument(
        "--nodes",
        type=int,
        default=200_000,
        help="nodes of the large graph (default: 200000)",
    )
    demo.set_defaults(run=_demo)

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

    measure = commands.add_parser(
        "calibrate", help="measure the published optimiser's coefficients"
    )
    measure.add_argument("--device", default="cpu", help="cpu or cuda")
    measure.set_defaults(run=_calibrate)
    return parser


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
    print(make_plan(work, budget, args.device, coefficients))
    return 0


def _calibrate(args: argparse.Namespace) -> int:
    for name, value in dataclasses.asdict(calibrate(args.device)).items():
        print(f"{name:<8} {value:.3f}")
    return 0


def _demo(args: argparse.Namespace) -> int:
    if args.nodes < 2:
        raise DGLError("--nodes should be at least 2.")
    small, K = 2_000, 3
    g = power_law_graph(small, 10 * small)
    x = torch.randn(small, 64, generator=torch.Generator().manual_seed(0))
    print(f"A power-law graph of {small:,} nodes: compiling and computing")
    start = time.perf_counter()
    hops = block_aggregate(g, x, K)
    print(f"{hops}, first call {time.perf_counter() - start:.2f} s")
    error, expected = 0.0, x.double().numpy()
    matrix = dense_filter(g)
    for k in range(1, K + 1):
        expected = matrix @ expected
        error = max(error, np.abs(hops[k].numpy() - expected).max())
    verdict = "equal" if error < 1e-5 else "WRONG"
    print(f"against a dense float64 reference: {verdict}, max {error:.1e}\n")

    g = power_law_graph(args.nodes, 16 * args.nodes)
    x = torch.randn(args.nodes, 128)
    labelled = torch.arange(0, args.nodes, 70)
    print(plan_call(g, x, K), "\n")
    for text, nodes in (("all nodes", None), ("1.4 % of the nodes", labelled)):
        times = []
        for _ in range(3):
            start = time.perf_counter()
            block_aggregate(g, x, K, nodes=nodes, progress=False)
            times.append(time.perf_counter() - start)
        print(f"{text}: {min(times):.2f} s on {num_threads()} threads")
    return 0 if error < 1e-5 else 1


if __name__ == "__main__":
    sys.exit(main())
