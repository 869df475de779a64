"""The order of samples that are shuffled in chunks."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dgl_lc.training.chunk_order import RowChunks


def order_of(places, chunks, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return chunks.order(torch.as_tensor(places), generator).tolist()


PLACES = st.lists(st.integers(0, 300), min_size=1, max_size=200)
SIZES = {"rows": st.integers(1, 40), "mixed": st.integers(1, 90)}


@given(places=PLACES, **SIZES)
def test_each_sample_comes_once_in_an_order_that_the_seed_fixes(
    places, rows, mixed
):
    chunks = RowChunks(rows, mixed)
    found = order_of(places, chunks, seed=3)
    assert sorted(found) == list(range(len(places)))
    assert order_of(places, chunks, seed=3) == found


@given(places=PLACES, **SIZES)
def test_what_is_mixed_lies_in_few_chunks(places, rows, mixed):
    chunks = RowChunks(rows, mixed)
    found = order_of(places, chunks)
    ranked = torch.tensor(places).argsort(stable=True).tolist()
    chunk_of = {sample: rank // rows for rank, sample in enumerate(ranked)}
    seen = []
    for first in range(0, len(found), mixed):
        window = found[first : first + mixed]
        own = {chunk_of[sample] for sample in window}
        # Those that are whole, and one at each end; the last one is short.
        assert len(own) <= -(-len(window) // rows) + 2
        seen += own
    # A chunk is read again only where a buffer ends within it.
    windows = -(-len(found) // mixed)
    assert len(seen) <= len(set(chunk_of.values())) + windows - 1


def test_chunks_and_rows_within_them_are_shuffled():
    found = torch.tensor(order_of(range(10_000), RowChunks(10, 1000)))
    first = found[:1000]
    # Rows of a window are from everywhere, and no chunk is left together.
    assert len((first // 1000).unique()) == 10
    together = (found[1:] - found[:-1]).abs() < 10
    assert float(together.float().mean()) < 0.05
    seeds = [order_of(range(100), RowChunks(10, 50), seed) for seed in range(5)]
    assert len(set(map(tuple, seeds))) == 5


@given(
    row_bytes=st.integers(0, 1 << 21),
    buffer=st.integers(1, 1 << 32),
    batch=st.integers(1, 1 << 18),
)
def test_two_halves_fit_in_the_buffer(row_bytes, buffer, batch):
    chunks = RowChunks.of(row_bytes, buffer, batch)
    assert chunks.mixed % batch == 0
    assert 1 <= chunks.rows <= max(1, chunks.mixed // 32)
    # At least one batch has to be held.
    fits = 2 * chunks.mixed * row_bytes <= buffer
    assert fits or chunks.mixed == batch
    assert RowChunks.parse(str(chunks)) == chunks


@pytest.mark.parametrize(
    "text",
    ["full", "", "chunks of 0, of which 5 rows mix", "chunks of 1, of which",
     "chunks of x, of which 5 rows mix", "chunks of -1, of which 5 rows mix",
     "chunks of 3, of which 5 rows mix, and more"],
)  # fmt: skip
def test_other_words_name_no_chunks(text):
    assert RowChunks.parse(text) is None


def test_chunks_lie_together_whatever_the_order_of_the_nodes():
    places = torch.randperm(1000)
    found = torch.tensor(order_of(places, RowChunks(100, 100)))
    for window in found.split(100):
        assert len((places[window] // 100).unique()) == 1
