"""The bytes that an edge shard takes, counted before they are allocated."""

from typing import NamedTuple

from ..._common.rows import copy_bytes
from ...storage.write_hops import bytes_for
from ..cpu.chunks import scratch_bytes, slot_bytes, table_bytes
from ..cpu.column_buffers import buffer_bytes
from ..cpu.scaling import scale_bytes
from ..graph.filters import block_bytes, diagonal_bytes
from ..graph.in_edges import count_bytes
from ..graph.sort_space import sort_bytes
from ..planning.cost import FIXED, FIXED_THREAD
from ..planning.cpu import LEAST_BLOCK
from ..planning.plans import Item
from ..planning.work import Work
from .edge_shards import EdgeShard
from .row_exchange import PIECE_BYTES, RowExchange, Swap, piece_bytes_of


class ShardSizes(NamedTuple):
    """Sizes of an edge shard, which its memory depends on.

    Attributes
    ----------
    rows, edges : int
        Destinations of the shard, and edges into them.
    held_edges : int
        Edges whose sources are in memory by destination, where they had to
        be sorted: those of the shard, or of one edge block of it, or all that
        the survey has sorted to find the frontier.
    held : tuple of int
        For hop 0, 1, …: the rows that the rank holds, of the shard and of
        others. Of hop 0 they are the rows copied from the features, none
        where the features are read in place.
    kept : int
        Rows of the result.
    lists : int
        Bytes of lists of rows: of all ranks for each hop (the frontier), of
        the shard, of others that it reads, and those that others read.
    swaps : tuple of Swap
        What is exchanged.
    """

    rows: int
    edges: int
    held_edges: int
    held: tuple[int, ...]
    kept: int
    lists: int
    swaps: tuple[Swap, ...]

    @classmethod
    def of(cls, shard: EdgeShard, exchange: RowExchange) -> "ShardSizes":
        """Take the sizes of a shard whose exchange was planned."""
        found = cls.without_exchange(shard)
        return found._replace(
            lists=found.lists + exchange.list_bytes(),
            swaps=tuple(exchange.swaps.values()),
        )

    @classmethod
    def without_exchange(cls, shard: EdgeShard) -> "ShardSizes":
        """Take the sizes of a shard, as if nothing were exchanged."""
        features = shard.feature_rows
        arrays = [*shard.foreign.values(), *shard.all_rows, features]
        lists = {id(rows): rows.nbytes for rows in arrays if rows is not None}
        held = [0 if features is None else len(features)]
        for hop in range(1, shard.request.last + 1):
            foreign = shard.foreign.get(hop, ())
            held.append(len(shard.rows[hop]) + len(foreign))
        edges = -(-shard.num_edges // shard.edge_blocks)
        known = shard.filter.edges
        if known.owned and known.indices is not None:
            edges = known.num_edges
        return cls(
            shard.high - shard.low, shard.num_edges, edges, tuple(held),
            shard.num_kept, sum(lists.values()) + shard.list_bytes(), (),
        )  # fmt: skip

    def exchanging(self, swaps: tuple[Swap, ...], rank: int) -> "ShardSizes":
        """Add what a rank exchanges: one swap for hops that are read alike."""
        sent = sum(4 * swap.sent_rows(rank) for swap in swaps
                   if not swap.gathers)  # fmt: skip
        return self._replace(lists=self.lists + sent, swaps=swaps)

    def buffered_rows(self) -> tuple[int, int]:
        """Rows of the buffers for even and for odd hops."""
        return max(self.held[::2]), max(self.held[1::2])


def numbered_nodes(work: Work) -> int:
    """Count the nodes whose rows are numbered: all, or none."""
    in_place = work.K == 1 and work.shares_features
    return 0 if in_place else work.num_nodes


def edge_shard_bytes(
    work: Work,
    sizes: ShardSizes,
    width: int,
    edge_blocks: int = 1,
    piece_bytes: int = PIECE_BYTES,
) -> dict[Item, int]:
    """Count the bytes of a rank that computes an edge shard, by purpose.

    Parameters
    ----------
    work : Work
        The sizes of the call. Of its rows and entries of hops nothing is
        used but their number.
    sizes : ShardSizes
        Those of the shard.
    width : int
        Columns of a block.
    edge_blocks, piece_bytes : int
        As in :class:`EdgeShard` and :class:`RowExchange`.

    Returns
    -------
    dict
        Bytes by :class:`Item`, without the result.
    """
    n, acc = work.num_nodes, work.accumulator_size
    stays = edge_blocks == 1 or not work.owned
    weight_size = acc if work.weighted else 0
    edges = work.num_edges * acc if work.copies_weight else 0
    if work.owned:
        edges += block_bytes(sizes.held_edges, 0)
        edges += -(-sizes.edges // edge_blocks) * weight_size
    entries = sizes.edges + sizes.rows
    tables = 1 if work.all_rows else work.K
    row_bytes = width * work.itemsize
    items = {
        Item.COLUMN_BUFFERS: buffer_bytes(
            sizes.buffered_rows(), width, work.itemsize
        ),
        Item.EDGES: edges,
        Item.DEGREES: count_bytes(n, work.owned, work.mapped)
        + diagonal_bytes(n, work.num_diagonals, acc),
        Item.FRONTIER: sizes.lists + 4 * numbered_nodes(work)
        + (8 + 4) * sizes.kept,
        Item.CHUNKS: tables * table_bytes(entries, edge_blocks)
        + work.threads * (scratch_bytes(entries, acc) + scale_bytes(acc))
        + slot_bytes(sizes.edges, edge_blocks, width, acc),
        Item.COPYING: copy_bytes(width, work.input_size),
        Item.EXCHANGE: piece_bytes_of(sizes.swaps, row_bytes, piece_bytes),
    }  # fmt: skip
    if work.copies_nodes:
        items[Item.NODES] = 8 * work.kept_rows
    # What follows is given back before the buffers are made.
    later = items[Item.COLUMN_BUFFERS] + 4 * numbered_nodes(work)
    sorting = 0
    if work.owned:
        sorting = sort_bytes(
            sizes.rows if stays else n, work.num_edges, work.index_size,
            work.expands, work.threads,
        )  # fmt: skip
    items[Item.SORTING] = max(0, sorting - later) if stays else sorting
    # Marks, another copy of the places that are kept, and pieces of ids.
    finding = n + 8 * sizes.kept + piece_bytes // 8 * (len(sizes.swaps) > 0)
    finding -= later + items[Item.SORTING]
    items[Item.FINDING] = max(0, finding)
    items[Item.FIXED] = FIXED + FIXED_THREAD * work.threads
    return items


def sorted_blocks(work: Work, edges: int, budget: int | None) -> int:
    """Choose in how many blocks a shard's edges are sorted.

    Sorted edges take a quarter of the memory at the most, but blocks do not
    become so small that each takes longer to begin than to sort.
    """
    if not work.owned or budget is None:
        return 1
    return max(1, min(-(-16 * edges // budget), edges // LEAST_BLOCK))


def rank_bytes(
    work: Work, sizes: ShardSizes, width: int, edge_blocks: int
) -> dict[Item, int]:
    """Count all bytes of a rank that computes an edge shard, by purpose.

    Beside those of the shard: writing its rows to a store, and their places.
    """
    items = edge_shard_bytes(work, sizes, width, edge_blocks)
    store = bytes_for(sizes.kept, width, work.itemsize, work.threads)
    return items | {Item.STORE: store, Item.PLACES: 8 * work.kept_rows}
