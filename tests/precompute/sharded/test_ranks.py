"""Column shards: one store of many ranks."""

import filecmp

import dgl
import pytest
import torch

from dgl_lc.precompute import block_aggregate, open_store
from dgl_lc.testing.run_ranks import run_ranks


def make(nodes=60, edges=300, columns=21, seed=0):
    torch.manual_seed(seed)
    ends = torch.randint(nodes, (2, edges))
    g = dgl.graph((ends[0], ends[1]), num_nodes=nodes)
    return g, torch.randn(nodes, columns)


def _store(folder, sizes, options):
    found = []
    for number, size in enumerate(sizes):
        g, x = make(*size)
        hops = block_aggregate(g, x, 2, out=f"{folder}/{number}", **options)
        found.append(torch.stack(list(hops)))
    return found


SIZES = [(60, 300, 21), (1, 0, 1), (7, 5, 2), (40, 900, 33)]


SPLITS = [(2, "columns"), (3, "columns"), (4, None), (2, "edges"),
          (3, "edges"), (4, "edges"), (4, (2, 2))]  # fmt: skip


@pytest.mark.parametrize(("size", "split"), SPLITS)
def test_a_store_of_ranks_has_the_bits_of_one_process(tmp_path, size, split):
    one, many = tmp_path / "one", tmp_path / "many"
    expected = _store(one, SIZES, {})
    for found in run_ranks(size, _store, many, SIZES, {"split": split}):
        for own, other in zip(found, expected, strict=True):
            assert torch.equal(own, other)
    for number in range(len(SIZES)):
        for file in ("rows.npy", "checksums.npy"):
            assert filecmp.cmp(
                one / str(number) / file, many / str(number) / file, False
            )
        assert not (many / str(number) / "parts").exists()
        assert open_store(many / str(number)).key == (
            open_store(one / str(number)).key
        )


def _rows(folder, sizes, options):
    found = []
    for number, size in enumerate(sizes):
        g, x = make(*size)
        out = f"{folder}/{number}" if folder else None
        hops = block_aggregate(g, x, 2, out=out, shared=False, **options)
        found.append((hops.nodes, torch.stack(list(hops)), hops.shard))
    return found


ROW_SIZES = [(60, 300, 21), (7, 5, 2), (40, 900, 33)]


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize(("size", "split"), SPLITS)
def test_row_shards(tmp_path, size, split, stored):
    folder = tmp_path / "many" if stored else None
    expected = _store(tmp_path / "one", ROW_SIZES, {})
    options = {"split": split}
    many = run_ranks(size, _rows, folder, ROW_SIZES, options)
    for rank, found in enumerate(many):
        for (nodes, own, shard), other in zip(found, expected, strict=True):
            assert nodes.tolist() == list(range(rank, other.shape[1], size))
            assert torch.equal(own, other[:, rank::size])
            assert shard == (rank, size)
