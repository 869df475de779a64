"""Which rank computes what: columns, edges, or both."""

from dataclasses import dataclass
from typing import Any

from dgl import DGLError

#: What a user may give as ``split``.
Split = str | tuple[int, int] | None


@dataclass(frozen=True)
class RankLayout:
    """A mesh of ranks: groups of them take columns, and share the edges.

    Rank ``c * edges + e`` computes columns that its group ``c`` has claimed,
    at the destinations of edge shard ``e``.

    Attributes
    ----------
    columns, edges : int
        The number of groups, and of edge shards in each.
    """

    columns: int
    edges: int

    @property
    def is_mesh(self) -> bool:
        """Whether ranks share both columns and edges."""
        return self.columns > 1 and self.edges > 1

    def group(self, rank: int) -> int:
        """Give the group of a rank."""
        return rank // self.edges

    def shard(self, rank: int) -> int:
        """Give the edge shard of a rank."""
        return rank % self.edges

    def members(self, group: int) -> list[int]:
        """List the ranks of a group."""
        return list(range(group * self.edges, (group + 1) * self.edges))


def check_split(split: Any, size: int) -> RankLayout | None:
    """Check what the user asked for; None to choose."""
    if split is None:
        return None
    if isinstance(split, str):
        if split == "columns":
            return RankLayout(size, 1)
        if split == "edges":
            return RankLayout(1, size)
    elif isinstance(split, (tuple, list)) and len(split) == 2:
        whole = all(type(n) is int and n > 0 for n in split)
        if whole and split[0] * split[1] == size:
            return RankLayout(*split)
        raise DGLError(
            f"split={tuple(split)!r}: the product of the two should be the "
            f"number of ranks, {size}."
        )
    raise DGLError(
        f"split={split!r} should be 'columns', 'edges', or a pair (groups of "
        f"columns, edge shards)."
    )


def cut_columns(
    num_feats: int,
    itemsize: int,
    widest: int,
    groups: int,
    known: int | None = None,
    begin: int = 0,
) -> list[tuple[int, int]]:
    """Cut the columns into units that groups of ranks claim.

    Two units for each group, so that a fast rank can take more of them, if
    rows of two cache lines are left; else one. Rows are whole numbers of 16
    bytes. ``widest`` is what fits on every rank, ``known`` the width of units
    of an earlier run, which is kept if it fits. Columns before ``begin`` are
    there already.
    """
    least = max(1, 16 // itemsize)
    line = 64 // itemsize
    width = min(widest, num_feats)
    for times in (2, 1):
        wanted = -(-num_feats // (times * groups))
        if wanted >= (2 * line if times == 2 else 1):
            width = min(width, -(-wanted // least) * least)
            break
    if known is not None and known <= widest:
        width = known
    return [
        (first, min(first + width, num_feats))
        for first in range(begin, num_feats, width)
    ]
