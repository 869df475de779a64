"""Hubs, cut into parts that a GPU sums side by side."""

import torch

#: Rows with more entries than this are cut. Nobody has measured it.
LONGEST = 4096


def hub_tails(indptr: torch.Tensor, longest: int = LONGEST) -> torch.Tensor:
    """Cut the rows with more than ``longest`` entries, on the host.

    Returns ``(row, first entry, end)`` of each part, of int32, the parts of a
    row one after the other. A row of m entries has ``m // longest`` parts of
    almost equal length, so all of them are at most :func:`scratch_rows`.

    >>> hub_tails(torch.tensor([0, 2, 13, 13]), longest=4)
    tensor([[ 1,  2,  7],
            [ 1,  7, 13]], dtype=torch.int32)
    """
    indptr = indptr.long()
    lengths = indptr.diff()
    hubs = (lengths > longest).nonzero().flatten()
    counts = lengths[hubs] // longest
    row = hubs.repeat_interleave(counts)
    before = (counts.cumsum(0) - counts).repeat_interleave(counts)
    part = torch.arange(len(row), device=row.device) - before
    start, length = indptr[row], lengths[row]
    count = counts.repeat_interleave(counts)
    first = start + part * length // count
    end = start + (part + 1) * length // count
    return torch.stack([row, first, end], dim=1).int()


def scratch_rows(num_edges: int, longest: int = LONGEST) -> int:
    """The most parts that hubs can be cut into, in a block of ``num_edges``.

    >>> scratch_rows(10_000)
    2
    """
    return num_edges // longest
