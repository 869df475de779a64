"""``dgl-lc store``: inspect, verify and extend a hop store."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from .flags import Commands

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
