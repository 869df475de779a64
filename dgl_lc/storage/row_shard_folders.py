"""Folders of row shards: a hop store for each rank."""

import re
from pathlib import Path

from dgl import DGLError

from ..ranks.group import find_ranks
from .hop_store import StoredHops, open_hop_store

_NAME = re.compile(r"shard-(\d+)-of-(\d+)")


def shard_folder(out: Path, rank: int, size: int) -> Path:
    """Give the folder of the store of a rank."""
    return out / f"shard-{rank}-of-{size}"


def find_shards(folder: Path) -> set[tuple[int, int]]:
    """List the shards in a folder: their numbers, and of how many."""
    if not folder.is_dir():
        return set()
    names = (_NAME.fullmatch(entry.name) for entry in folder.iterdir())
    return {(int(m[1]), int(m[2])) for m in names if m is not None}


def open_shard(folder: Path, shards: set[tuple[int, int]]) -> StoredHops:
    """Open the shard of this rank."""
    ranks = find_ranks()
    sizes = sorted({size for _, size in shards})
    if ranks is None:
        raise DGLError(
            f"{folder} holds row shards of {_listed(sizes)} ranks, and this "
            f"process is alone: open one of them by its own path, such as "
            f"{shard_folder(folder, *min(shards))}, or start as many ranks "
            f"with torchrun."
        )
    own = (ranks.rank, ranks.size)
    if own not in shards:
        here = sorted(number for number, size in shards if size == ranks.size)
        if here:
            raise DGLError(
                f"{folder} holds the shards {_listed(here)} of {ranks.size}, "
                f"and not that of rank {ranks.rank}: it was written on another "
                f"host. Start the ranks on the same hosts as then."
            )
        raise DGLError(
            f"{folder} holds row shards of {_listed(sizes)} ranks, and here "
            f"are {ranks.size}: start as many ranks, or precompute again."
        )
    return open_hop_store(shard_folder(folder, *own))


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))
