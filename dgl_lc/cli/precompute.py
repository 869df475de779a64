"""``dgl-lc precompute``: compute hop features and store them on disk."""

import argparse
from pathlib import Path

from .flags import DTYPES, NORMS, Commands, add_reverse_flag, load_options


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    parser = commands.add_parser("precompute")
    add = parser.add_argument
    add("--data", required=True,
        help="folder that prepare_ogb has written, npz file or folder, or "
        "name of a DGL data set")  # fmt: skip
    add("--hops", type=int, required=True, help="last hop, K")
    add("--out", type=Path, required=True, help="folder of the hop store")
    add("--device", help="device to compute on: cpu (default) or cuda")
    add("--memory", help="memory budget on that device, such as 4GiB")
    add("--host-memory", help="memory budget on the host of a run on a GPU")
    add("--norm", choices=NORMS, default="both",
        help="norm of the filter, as in dgl.nn.GraphConv "
        "(default: %(default)s)")  # fmt: skip
    add("--no-self-loop", action="store_true",
        help="use the edges of the graph as they are, instead of giving "
        "every node one self-loop")  # fmt: skip
    add("--dtype", choices=DTYPES,
        help="data type of the stored hop features (default: that of the "
        "features)")  # fmt: skip
    add("--split-only", action="store_true",
        help="compute only the rows of training, validation and test "
        "nodes")  # fmt: skip
    add_reverse_flag(parser)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    import torch

    from ..data import open_data
    from ..precompute import block_aggregate

    data = open_data(args.data, **load_options(args))
    print(data, flush=True)
    nodes = None
    if args.split_only:
        nodes = torch.cat([data.train, data.valid, data.test])
    hops = block_aggregate(
        data.graph, data.feat, args.hops, norm=args.norm,
        self_loop=not args.no_self_loop, nodes=nodes, device=args.device,
        memory=args.memory, host_memory=args.host_memory,
        dtype=args.dtype and getattr(torch, args.dtype), out=args.out,
    )  # fmt: skip
    print(hops)
    return 0
