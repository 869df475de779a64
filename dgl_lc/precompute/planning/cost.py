"""What a cut of the work costs on the CPU.

The bytes of each item are counted by functions beside the code that
allocates them, so that the plan cannot drift from it.
"""

from typing import NamedTuple

from ..._common.rows import copy_bytes
from ...storage.write_hops import bytes_for as store_bytes
from ..cpu.chunks import scratch_bytes, slot_bytes, table_bytes
from ..cpu.column_buffers import buffer_bytes
from ..cpu.scaling import scale_bytes
from ..graph.bucket_sort import bucket_sort_bytes
from ..graph.edge_reader import slice_bytes
from ..graph.filters import block_bytes, diagonal_bytes
from ..graph.frontier import list_bytes, mark_bytes
from ..graph.in_edges import count_bytes
from ..graph.sort_space import sort_bytes
from ..places import place_bytes
from .plans import Item
from .work import Work

#: What a call takes whatever its sizes are: Python's objects, stacks of
#: threads, and arrays below the size that is given back to the system.
FIXED = 1 << 21
#: The same for each thread.
FIXED_THREAD = 1 << 18


class Cost(NamedTuple):
    """Peak bytes by purpose, bytes moved, and what stays resident."""

    items: dict[Item, int]
    bytes_moved: int
    resident: tuple[str, ...]

    @property
    def peak_bytes(self) -> int:
        """All bytes in use at the peak."""
        return sum(self.items.values())


def cost_of(work: Work, blocks: int, width: int) -> Cost:
    """Count what the work costs in so many edge blocks of such columns."""
    stays = blocks == 1 or not work.owned
    resident = ("edges", "column block") if stays else ("column block",)
    return Cost(
        _items(work, blocks, width), _moved(work, blocks, width), resident
    )


def _items(work: Work, blocks: int, width: int) -> dict[Item, int]:
    n, m, acc = work.num_nodes, work.num_edges, work.accumulator_size
    stays = blocks == 1 or not work.owned
    items = {
        Item.RESULT: work.result_bytes,
        Item.COLUMN_BUFFERS: buffer_bytes(
            work.buffered_rows(), width, work.itemsize
        ),
        Item.EDGES: _edge_bytes(work, blocks),
        Item.DEGREES: 0,
        Item.SORTING: 0,
        Item.FRONTIER: 0,
        Item.CHUNKS: 0,
        Item.COPYING: copy_bytes(width, work.input_size),
    }
    sorting = 0
    if work.K:
        items[Item.DEGREES] = count_bytes(
            n, work.owned, work.mapped
        ) + diagonal_bytes(n, work.num_diagonals, acc)
        items[Item.CHUNKS] = _chunk_bytes(work, blocks, width)
        if work.owned:
            sorting = sort_bytes(
                n, m, work.index_size, work.expands, work.threads
            )
    if work.row_lists():
        items[Item.FRONTIER] = sum(map(list_bytes, work.row_lists()))
        items[Item.FRONTIER] += place_bytes(n, work.kept_rows)
    if work.copies_nodes:
        items[Item.NODES] = 8 * work.kept_rows
    if work.stored:
        items[Item.STORE] = store_bytes(
            work.kept_rows, width, work.itemsize, work.threads
        )
    # What follows is given back before the result and the buffers are made.
    later = items[Item.RESULT] + items[Item.COLUMN_BUFFERS]
    items[Item.SORTING] = max(0, sorting - later) if stays else sorting
    if not work.all_rows and work.K:
        # Before sorting, which takes the same memory again.
        finding = mark_bytes(n)
        if work.owned:
            finding += slice_bytes(m, work.index_size, work.expands)
        if work.bucket_sorted:
            # All edges are sorted for it, even if they do not stay.
            sorting = bucket_sort_bytes(n, m, work.threads)
            sorting += block_bytes(m, 0) - _edge_bytes(work, blocks)
            finding = max(finding, sorting)
        finding -= later + items[Item.SORTING]
        items[Item.FINDING] = max(0, finding)
    items[Item.FIXED] = FIXED + FIXED_THREAD * work.threads
    return items


def _edge_bytes(work: Work, blocks: int) -> int:
    m, acc = work.num_edges, work.accumulator_size
    found = 0
    if work.owned:
        weight_size = acc if work.weighted else 0
        found = block_bytes(-(-m // blocks), weight_size)
    if work.copies_weight:
        found += m * acc
    return found


def _chunk_bytes(work: Work, blocks: int, width: int) -> int:
    m, acc = work.num_edges, work.accumulator_size
    entries = m + work.num_nodes
    tables = 1 if work.all_rows else work.K
    return (
        tables * table_bytes(entries, blocks)
        + work.threads * scratch_bytes(entries, acc)
        + work.threads * scale_bytes(acc)
        + slot_bytes(m, blocks, width, acc)
    )


def _moved(work: Work, blocks: int, width: int) -> int:
    stays = blocks == 1 or not work.owned
    columns = -(-work.num_feats // width)
    index_size = 4 if work.owned else work.index_size
    weight_size = work.accumulator_size if work.weighted else 0
    moved = columns * sum(
        (index_size + weight_size) * entries + 8 * rows
        for rows, entries in zip(work.hop_rows, work.hop_entries, strict=True)
    )
    row_bytes = work.num_feats * work.itemsize
    moved += row_bytes * sum(work.hop_rows)
    if not work.shares_features:
        moved += row_bytes * work.feature_rows
    if not stays:
        read = (2 * work.index_size + weight_size) * work.num_edges
        moved += columns * work.K * blocks * read
    return moved
