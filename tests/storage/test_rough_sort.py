"""How much a rough sort holds: never more than its memory."""

from hypothesis import given
from hypothesis import strategies as st

from dgl_lc.storage.rough_sort import RoughSize


@given(
    slice_pairs=st.integers(1, 5000),
    least=st.integers(0, 20),
    odd=st.integers(0, 5000),
    threads=st.integers(1, 8),
    weight_size=st.sampled_from([0, 4, 8]),
    more=st.integers(0, 1 << 20),
    edges=st.integers(0, 1 << 20),
)
def test_it_grows_within_its_memory(
    slice_pairs, least, odd, threads, weight_size, more, edges
):
    pairs = slice_pairs * (1 + least) + odd % slice_pairs
    small = RoughSize(pairs, pairs // slice_pairs + 1, threads, weight_size)
    room = small.num_bytes + more
    size = small.grown(room, edges, slice_pairs)
    assert size.num_bytes <= room
    assert size.pairs >= small.pairs
    if size is not small:
        assert 4 * size.pairs <= edges
        # There is room for where the buckets of each slice begin, and of one
        # more slice, which is shorter than the others.
        assert size.pairs == (size.slices - 1) * slice_pairs


def test_it_takes_what_there_is():
    small = RoughSize(1000, 2, 1, 0)
    # A slice of 1000 pairs takes 8000 bytes and where 256 buckets begin.
    room = 2 * small.num_bytes + 10 * (8000 + 8 * 257)
    size = small.grown(room, 10**6, 1000)
    assert 10_000 <= size.pairs <= 12_000
    assert small.grown(room, 4000, 1000) is small
