"""Sorting all edges by destination at once, with scratch of their size.

The edges are first dealt out to a few hundred buckets, each of which holds
the edges to a range of rows and is then sorted while it is in the cache. So
memory is only ever read and written in order, each edge is read twice, and
degrees are counted on the way. Threads share the edges, and later the
buckets; the order of a row's edges is that in which they are given, whatever
the number of threads.
"""

from typing import NamedTuple

import numpy as np

from ..._common.bytes import zeros
from ..._common.jit import jit
from ..._common.threads import num_threads, ranges, run_parallel

#: Each thread counts the edges out of all nodes for itself.
_MOST_THREADS = 8
#: The bits of a bucket's number. More buckets need more lines of the cache
#: while edges are dealt out, fewer are too large for it when they are sorted.
_BUCKET_BITS = 8
#: Bytes of an edge in its bucket.
_PAIR = 8


class SortedEdges(NamedTuple):
    """What :func:`sort_edges` fills; all arrays are zeros before.

    ``out_edges`` and ``loops`` of length 0 are not wanted.
    """

    indptr: np.ndarray
    out_edges: np.ndarray
    loops: np.ndarray
    indices: np.ndarray


def bucket_sort_bytes(num_nodes: int, num_edges: int, threads: int) -> int:
    """Count the bytes that :func:`sort_edges` takes beside its outputs."""
    threads = min(threads, _MOST_THREADS)
    counting = (threads - 1) * 4 * num_nodes
    sorting = _PAIR * num_edges + threads * 8 * (1 << _shift(num_nodes))
    return max(counting, sorting)


def _shift(num_nodes: int) -> int:
    """Choose the bits of a row's number within its bucket."""
    return max(0, max(num_nodes - 1, 0).bit_length() - _BUCKET_BITS)


def sort_edges(
    source: np.ndarray, target: np.ndarray, found: SortedEdges
) -> bool:
    """Sort edges by target; return whether all ends are in the graph.

    If an end is not, what was found is of no use.
    """
    n, m = len(found.indptr) - 1, len(source)
    shift = _shift(n)
    buckets = -(-n // (1 << shift))
    threads = min(num_threads(), _MOST_THREADS)
    parts = ranges(m, threads)
    counts = np.zeros((threads, buckets + 1), np.int64)
    if not _count(source, target, parts, shift, found.out_edges, counts, n):
        return False
    if m == 0:
        return True
    # Where each thread's edges of each bucket begin: by bucket, then thread.
    ends = counts[:, :buckets].T.reshape(-1).cumsum()
    begins = np.concatenate([[0], ends[:-1]]).reshape(buckets, threads)
    bounds = np.append(begins[:, 0], m)
    cursors = np.ascontiguousarray(begins.T)
    pairs = zeros(m, np.uint64)

    def deal(_: int, part: int) -> None:
        fill_buckets(source, target, *parts[part], shift, cursors[part], pairs)

    run_parallel(deal, threads)
    rooms = [zeros(1 << shift, np.int64) for _ in range(threads)]

    def sort(worker: int, bucket: int) -> None:
        low = bucket << shift
        sort_bucket(
            pairs, bounds[bucket], bounds[bucket + 1], low,
            min(low + (1 << shift), n), rooms[worker], found.indptr,
            found.loops, found.indices,
        )  # fmt: skip

    run_parallel(sort, buckets, threads)
    return True


def _count(
    source: np.ndarray,
    target: np.ndarray,
    parts: list[tuple[int, int]],
    shift: int,
    out_edges: np.ndarray,
    counts: np.ndarray,
    num_nodes: int,
) -> bool:
    """Count edges by bucket and by source; tell whether all are in range."""
    own = [out_edges, *(zeros(len(out_edges), np.int32) for _ in parts[1:])]
    inside = np.zeros(len(parts), np.bool_)

    def count(_: int, part: int) -> None:
        inside[part] = count_buckets(
            source, target, *parts[part], num_nodes, shift, counts[part],
            own[part],
        )  # fmt: skip

    run_parallel(count, len(parts))
    for more in own[1:]:
        out_edges += more
    return bool(inside.all())


@jit
def count_buckets(
    source: np.ndarray,
    target: np.ndarray,
    first: int,
    last: int,
    num_nodes: int,
    shift: int,
    counts: np.ndarray,
    out_edges: np.ndarray,
) -> bool:
    """Count edges first to last; False if an end is outside the graph."""
    wanted = len(out_edges) > 0
    for e in range(first, last):
        u, v = source[e], target[e]
        if u < 0 or u >= num_nodes or v < 0 or v >= num_nodes:
            return False
        counts[v >> shift] += 1
        if wanted:
            out_edges[u] += 1
    return True


@jit
def fill_buckets(
    source: np.ndarray,
    target: np.ndarray,
    first: int,
    last: int,
    shift: int,
    cursor: np.ndarray,
    pairs: np.ndarray,
) -> None:
    """Write edges to their buckets: the row in the upper half, the source."""
    mask = (1 << shift) - 1
    for e in range(first, last):
        v = np.int64(target[e])
        bucket = v >> shift
        # Another thread may have changed the graph since it was checked.
        if bucket < 0 or bucket >= len(cursor):
            continue
        at = cursor[bucket]
        if at >= len(pairs):
            continue
        cursor[bucket] = at + 1
        row = np.uint64(v & mask)
        pairs[at] = (row << np.uint64(32)) | np.uint64(source[e])


@jit
def sort_bucket(
    pairs: np.ndarray,
    begin: int,
    end: int,
    low: int,
    high: int,
    cursor: np.ndarray,
    indptr: np.ndarray,
    loops: np.ndarray,
    indices: np.ndarray,
) -> None:
    """Sort a bucket, the edges begin to end, to rows low to high."""
    num_rows = high - low
    for row in range(num_rows):
        cursor[row] = 0
    for e in range(begin, end):
        cursor[pairs[e] >> np.uint64(32)] += 1
    place = begin
    for row in range(num_rows):
        count = cursor[row]
        cursor[row] = place
        place += count
        indptr[low + row + 1] = place
    wanted = len(loops) > 0
    for e in range(begin, end):
        v = np.int64(pairs[e] >> np.uint64(32))
        u = np.int64(pairs[e] & np.uint64(0xFFFFFFFF))
        place = cursor[v]
        if place >= end:
            continue
        cursor[v] = place + 1
        indices[place] = u
        if wanted and u == low + v:
            loops[u] += 1
