"""``dgl-lc update``: update a hop store after its data changed."""

import argparse

from .flags import Commands, add_reverse_flag, given_path, load_options
from .store import KEPT, add_rewrite_flags, rewrite_options


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    parser = commands.add_parser("update")
    add = parser.add_argument
    add("path", type=given_path, help="folder of the hop store")
    add("--old-data", required=True,
        help="data that the store was made of: folder of a prepared task, npz "
        "file or folder, or name of a DGL data set")  # fmt: skip
    add("--data", required=True,
        help="new data; its first nodes are those of the old data")  # fmt: skip
    add("--nodes", type=given_path,
        help="file with the ids of nodes whose rows are added to a store of "
        "some nodes: one per line (csv, txt), or an array or mask "
        "(npy)")  # fmt: skip
    add_rewrite_flags(parser)
    add_reverse_flag(parser)
    parser.set_defaults(run=_run, kept=KEPT)


def _run(args: argparse.Namespace) -> int:
    from ..data import open_data
    from ..precompute import update_store
    from ..precompute.extend import open_extendable
    from ..training.read_nodes import read_nodes
    from ..training.task_store import edge_weight

    options = rewrite_options(args)
    store = open_extendable(args.path)
    old, new = (
        open_data(source, **load_options(args))
        for source in (args.old_data, args.data)
    )
    print(f"{old}\n{new}", flush=True)
    nodes = None if args.nodes is None else read_nodes(args.nodes, new)
    weighted = store.filter.weighted
    weights = [
        edge_weight(task.graph, weighted)["edge_weight"] for task in (old, new)
    ]
    found = update_store(
        store, old.graph, new.graph, new.feat, old_feat=old.feat,
        nodes=nodes, edge_weight=weights[1], old_edge_weight=weights[0],
        on_reach=lambda reach: print(reach, flush=True),
        **options,
    )  # fmt: skip
    print(found)
    return 0
