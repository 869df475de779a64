"""``dgl-lc store``: inspect, verify and extend a hop store."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .flags import (
    Commands,
    add_reverse_flag,
    check_device,
    check_output_folder,
    count,
    given_path,
    load_options,
    refuse,
)

if TYPE_CHECKING:
    from ..storage.hop_store import StoredHops


def add_command(commands: Commands) -> None:
    """Add the command's parser, and those of its parts."""
    parser = commands.add_parser("store")
    parts = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, run, text in (
        ("info", _info, "show what the store holds"),
        ("verify", _verify, "compare all rows with their checksums"),
    ):
        part = parts.add_parser(name, help=text)
        part.add_argument("path", type=Path, help="folder of the hop store")
        part.set_defaults(run=run)
    _add_extend(parts)


def _add_extend(parts: Commands) -> None:
    part = parts.add_parser("extend", help="add nodes or hops to the store")
    part.add_argument("path", type=given_path, help="folder of the hop store")
    add = part.add_argument
    add("--data", required=True,
        help="data that the store was made of: folder of a prepared task, npz "
        "file or folder, or name of a DGL data set")  # fmt: skip
    add("--hops", type=count, help="new last hop, K")
    which = part.add_mutually_exclusive_group()
    which.add_argument(
        "--nodes", type=given_path,
        help="file with the ids of nodes whose rows are added: one per line "
        "(csv, txt), or an array or mask (npy)",
    )  # fmt: skip
    which.add_argument(
        "--all", action="store_true", help="add the rows of all other nodes"
    )
    add_rewrite_flags(part)
    add_reverse_flag(part)
    part.set_defaults(run=_extend, kept=KEPT)


#: What an interrupted extension or update leaves.
KEPT = "the store is as it was; the same command resumes"


def add_rewrite_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of commands that write a store from another."""
    add = parser.add_argument
    add("--out", type=given_path,
        help="folder of the new store (default: it replaces the old one when "
        "it is finished)")  # fmt: skip
    add("--memory", help="memory budget, such as 4GiB")
    add("--device", help="device to compute on: cpu (default) or cuda")


def rewrite_options(args: argparse.Namespace) -> dict[str, Any]:
    """Check the flags of :func:`add_rewrite_flags`; return the options."""
    if args.device is not None:
        check_device(args.device)
    check_output_folder(args.out or args.path.absolute().parent, "--out")
    return {"out": args.out, "memory": args.memory, "device": args.device}


def _extend(args: argparse.Namespace) -> int:
    from ..data import open_data
    from ..precompute import extend_store
    from ..precompute.extend import open_extendable
    from ..training.read_nodes import read_nodes
    from ..training.task_store import edge_weight

    if args.hops is None and args.nodes is None and not args.all:
        refuse("give --hops, --nodes or --all: what the store should get.")
    options = rewrite_options(args)
    # A store of several filters is refused before the data is read.
    store = open_extendable(args.path)
    data = open_data(args.data, **load_options(args))
    nodes: Any = "all" if args.all else None
    if args.nodes is not None:
        nodes = read_nodes(args.nodes, data)
    found = extend_store(
        store, data.graph, data.feat, nodes=nodes, K=args.hops,
        **edge_weight(data.graph, store.filter.weighted), **options,
    )  # fmt: skip
    print(found)
    return 0


def _info(args: argparse.Namespace) -> int:
    from ..precompute import open_store
    from ..storage.hop_store import StoredHops

    found = open_store(args.path)
    if isinstance(found, StoredHops):
        _print_hops(found)
        return 0
    print(f"inputs   {len(found)}, in {len(found.parts)} hop stores")
    for number, name in enumerate(found.names):
        print(f"{number:<8} {name}")
    for name, part in found.parts.items():
        print(f"\n{name}")
        _print_hops(part)
    return 0


def _print_hops(hops: "StoredHops") -> None:
    from .._common.bytes import format_bytes

    head = hops.head
    filter_ = ", ".join(f"{k}={v}" for k, v in vars(head.spec).items())
    print(
        f"rows     {head.rows:,}{' of some nodes' * head.some_nodes}\n"
        f"hops     {', '.join(map(str, head.hops))}\n"
        f"columns  {head.columns}\n"
        f"dtype    {head.kind}\n"
        f"filter   {filter_}\n"
        f"size     {format_bytes(hops.nbytes)}"
    )
    for name, key in head.made_from.items():
        print(f"{name:<8} {key}")


def _verify(args: argparse.Namespace) -> int:
    from ..precompute import open_store
    from ..storage.input_store import StoredInputs

    found = open_store(args.path)
    found.verify()
    parts = ""
    if isinstance(found, StoredInputs):
        parts = f" of all {len(found.parts)} parts"
    print(f"all {found.shape[0]:,} rows{parts} match their checksums")
    return 0
