"""Chunks cover every entry once, whatever the degrees."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dgl_lc._common.threads import ranges
from dgl_lc.precompute.cpu.chunks import (
    CAPACITY,
    FIRST,
    FROM_EDGE,
    LAST,
    SLOT,
    TO_EDGE,
    cut_chunks,
)

DEGREES = st.lists(
    st.one_of(
        st.integers(0, 3),
        st.integers(0, 3 * CAPACITY),
        st.sampled_from([CAPACITY - 2, CAPACITY - 1, CAPACITY, CAPACITY + 1]),
    ),
    min_size=1,
    max_size=12,
)


@given(degrees=DEGREES, blocks=st.integers(1, 9), data=st.data())
def test_every_edge_of_every_row_is_in_one_chunk(degrees, blocks, data):
    indptr = np.concatenate([[0], np.cumsum(degrees)])
    m, n = int(indptr[-1]), len(degrees)
    bounds = np.array([0] + [end for _, end in ranges(m, blocks)])
    rows = None
    if data.draw(st.booleans()):
        chosen = data.draw(st.sets(st.integers(0, n - 1)))
        rows = np.array(sorted(chosen), np.int32)
    count = n if rows is None else len(rows)
    table, starts, slots = cut_chunks(rows, indptr, bounds)
    assert starts[0] == 0
    assert starts[-1] == len(table)

    covered = {position: [] for position in range(count)}
    begun = dict.fromkeys(range(count), 0)
    whole = set()
    for block in range(blocks):
        for chunk in table[starts[block] : starts[block + 1]]:
            entries = 0
            assert bounds[block] <= chunk[FROM_EDGE]
            assert chunk[TO_EDGE] <= bounds[block + 1]
            for position in range(chunk[FIRST], chunk[LAST]):
                row = position if rows is None else rows[position]
                start = max(indptr[row], chunk[FROM_EDGE])
                stop = min(indptr[row + 1], chunk[TO_EDGE])
                covered[position].append((start, stop))
                begun[position] += start == indptr[row]
                entries += stop - start + (start == indptr[row])
                if chunk[SLOT] < 0:
                    assert position not in whole
                    whole.add(position)
            assert entries <= CAPACITY
            if chunk[SLOT] >= 0:
                assert chunk[LAST] == chunk[FIRST] + 1

    for position, parts in covered.items():
        row = position if rows is None else rows[position]
        edges = [e for start, stop in parts for e in (start, stop)]
        assert edges == sorted(edges)
        assert sum(b - a for a, b in parts) == degrees[row]
        assert begun[position] == 1  # the self-loop, once
        if position in whole:
            assert len(parts) == 1
    used = table[table[:, SLOT] >= 0, SLOT]
    assert list(used) == list(range(slots))


def test_a_hub_gives_many_chunks_of_equal_size():
    indptr = np.array([0, 10 * CAPACITY, 10 * CAPACITY + 4])
    table, _, slots = cut_chunks(None, indptr, np.array([0, indptr[-1]]))
    assert slots == 11
    assert len(table) == 12
