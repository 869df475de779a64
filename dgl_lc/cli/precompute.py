"""``dgl-lc precompute``: compute hop features and store them on disk."""

import argparse
from typing import TYPE_CHECKING

from .flags import (
    DTYPES,
    NORMS,
    Commands,
    add_reverse_flag,
    check_device,
    check_output_folder,
    given_path,
    hop_count,
    load_options,
    rank_split,
    refuse,
    split_nodes,
)
from .ranks import one_after_the_other, ranks_of_launcher

if TYPE_CHECKING:
    from ..ranks.group import Ranks


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    parser = commands.add_parser("precompute")
    add = parser.add_argument
    add("--data", required=True,
        help="folder of a prepared task, npz file or folder, or name of a "
        "DGL data set")  # fmt: skip
    add("--hops", type=hop_count, required=True, help="last hop, K")
    add("--out", type=given_path, required=True,
        help="folder of the hop store")  # fmt: skip
    add("--device", help="device to compute on: cpu (default) or cuda")
    add("--memory", help="memory budget on that device, such as 4GiB")
    add("--host-memory", help="memory budget on the host of a run on a GPU")
    add("--norm", choices=NORMS, default="both",
        help="norm of the filter, as in dgl.nn.GraphConv, or in: by the "
        "in-degrees of both ends, as in dgl.nn.TAGConv (default: "
        "%(default)s)")  # fmt: skip
    add("--no-self-loop", action="store_true",
        help="use the edges of the graph as they are, instead of giving "
        "every node one self-loop")  # fmt: skip
    add("--dtype", choices=DTYPES,
        help="data type of the stored hop features (default: that of the "
        "features)")  # fmt: skip
    add("--split-only", action="store_true",
        help="compute only the rows of training, validation and test "
        "nodes")  # fmt: skip
    add("--split", type=rank_split, metavar="SPLIT",
        help="under torchrun: what ranks share: columns, edges, or groups of "
        "columns times edge shards, such as 4x16 (default: the fastest that "
        "fits)")  # fmt: skip
    add("--not-shared", action="store_true",
        help="under torchrun: hosts do not share the folder --out; each rank "
        "gets a store of its rows there")  # fmt: skip
    add_reverse_flag(parser)
    add("--no-resume", action="store_true",
        help="compute the hop features again, instead of resuming or opening "
        "the store")  # fmt: skip
    parser.set_defaults(
        run=_run,
        kept="the same command resumes after the last whole column block",
    )


def _run(args: argparse.Namespace) -> int:
    from .._common.bytes import parse_bytes

    check_output_folder(args.out, "--out")
    if args.device is not None:
        check_device(args.device)
    for flag in ("memory", "host_memory"):
        if getattr(args, flag) is not None:
            parse_bytes(getattr(args, flag), f"--{flag.replace('_', '-')}")

    with ranks_of_launcher() as ranks:
        if ranks is None and (args.split is not None or args.not_shared):
            refuse("--split and --not-shared are for several ranks: start "
                   "them with torchrun, or omit the flag.")  # fmt: skip
        return _precompute(args, ranks)


def _precompute(args: argparse.Namespace, ranks: "Ranks | None") -> int:
    import torch

    from ..data import open_data
    from ..precompute import block_aggregate
    from ..training.task_store import edge_weight

    data = one_after_the_other(
        ranks, "precompute", lambda: open_data(args.data, **load_options(args))
    )
    print(data, flush=True)
    nodes = None
    if args.split_only:
        nodes = split_nodes(data)
    hops = block_aggregate(
        data.graph, data.feat, args.hops, norm=args.norm,
        self_loop=not args.no_self_loop, nodes=nodes, device=args.device,
        memory=args.memory, host_memory=args.host_memory,
        dtype=args.dtype and getattr(torch, args.dtype), out=args.out,
        resume=not args.no_resume, split=args.split,
        shared=not args.not_shared, **edge_weight(data.graph),
    )  # fmt: skip
    print(hops)
    return 0
