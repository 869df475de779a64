"""``dgl-lc store``: inspect and verify a hop store."""

import argparse
from pathlib import Path

from ..precompute import open_store
from ..precompute.memory import format_bytes
from ..precompute.store import read_manifest
from .flags import Commands


def add_command(commands: Commands) -> None:
    """Add the command's parser, and those of its parts."""
    parser = commands.add_parser("store", help="inspect or verify a hop store")
    parts = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, run, text in (
        ("info", _info, "show what the store holds"),
        ("verify", _verify, "compare all rows with their checksums"),
    ):
        part = parts.add_parser(name, help=text)
        part.add_argument("path", type=Path, help="folder of the hop store")
        part.set_defaults(run=run)


def _info(args: argparse.Namespace) -> int:
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


def _verify(args: argparse.Namespace) -> int:
    hops = open_store(args.path)
    hops.verify()
    print(f"all {hops.shape[0]:,} rows match their checksums")
    return 0
