"""Stores that several writers put together of parts."""

import itertools
import random
import tempfile
from dataclasses import replace
from pathlib import Path

import dgl
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from night import cases

from dgl_lc.precompute import block_aggregate
from dgl_lc.storage import assemble_hops
from dgl_lc.storage.assemble_hops import (
    Part,
    byte_ranges,
    rows_of,
    write_range,
)
from dgl_lc.storage.hop_store import StoreHead


def _head(rows, hops, columns):
    spec = block_aggregate(([0], [0]), torch.ones(1, 1), 1).filter
    return StoreHead(
        rows=rows, hops=tuple(range(hops)), columns=columns, kind="float32",
        spec=spec, some_nodes=False, made_from={},
    )  # fmt: skip


@given(
    st.integers(1, 10**7), st.integers(1, 4), st.integers(1, 300),
    st.integers(1, 9),
)  # fmt: skip
def test_no_page_of_the_file_has_two_writers(rows, hops, columns, writers):
    head = _head(rows, hops, columns)
    bounds = byte_ranges(head, 4, writers)
    size = assemble_hops.HEADER + 4 * rows * hops * columns
    assert (bounds[0], bounds[-1]) == (0, size)
    assert (np.diff(bounds) >= 0).all()
    inner = bounds[1:-1]
    assert ((inner % 4096 == 0) | (inner == size)).all()
    # Each row begins in one range.
    starts = rows_of(bounds, 4 * hops * columns)
    assert (starts[0], starts[-1]) == (0, rows)
    assert (np.diff(starts) >= 0).all()


@settings(max_examples=cases(8, 150))
@given(
    st.integers(1, 400), st.integers(1, 3), st.integers(1, 40),
    st.integers(1, 5), st.integers(0, 99),
)  # fmt: skip
def test_writers_of_ranges_write_the_store_of_one(
    nodes, K, columns, writers, seed
):
    torch.manual_seed(seed)
    ends = torch.randint(nodes, (2, 3 * nodes))
    g = dgl.graph((ends[0], ends[1]), num_nodes=nodes)
    x = torch.randn(nodes, columns)
    chance = random.Random(seed)
    cuts = sorted({0, chance.randint(0, columns), columns})
    with pytest.MonkeyPatch.context() as patch, _folder() as folder:
        patch.setattr(assemble_hops, "_UNIT", 4096)
        patch.setattr(assemble_hops, "_PIECE", 1000)
        one = block_aggregate(g, x, K, out=folder / "one")
        parts = []
        for first, last in itertools.pairwise(cuts):
            own = folder / f"{first}"
            block_aggregate(g, x[:, first:last].contiguous(), K, out=own)
            parts.append(Part(own, first, last))
        whole = (folder / "one" / "rows.npy").read_bytes()
        many = folder / "many"
        many.mkdir()
        header = whole[: assemble_hops.HEADER]
        (many / "rows.npy").write_bytes(header.ljust(len(whole), b"\0"))
        head = replace(_head(nodes, K + 1, columns), hops=one.hops)
        bounds = byte_ranges(head, 4, writers)
        order = chance.sample(range(writers), writers)
        found = {
            own: write_range(
                many, head, parts, int(bounds[own]), int(bounds[own + 1])
            )
            for own in order
        }  # fmt: skip
        assert (many / "rows.npy").read_bytes() == whole
        checksums = np.concatenate([found[own] for own in range(writers)])
        expected = np.load(folder / "one" / "checksums.npy")
        assert np.array_equal(checksums, expected)


def _folder():
    class Made(tempfile.TemporaryDirectory):
        def __enter__(self):
            return Path(super().__enter__())

    return Made()
