"""Rows of those nodes of each part that a source has, read ahead."""

from collections.abc import Callable, Generator, Sequence
from contextlib import closing

import torch

from ..node_rows import NodeRows
from .batch_reader import Batch, BatchReader, batches_at_once

#: Gives the nodes of a part, and tells for each whether the source has it.
Choose = Callable[[slice], tuple[torch.Tensor, torch.Tensor]]


def chosen_rows(
    rows: NodeRows, parts: Sequence[slice], choose: Choose, most: int
) -> Generator[tuple[torch.Tensor, NodeRows], None, None]:
    """Give a mask of the nodes of each part, and the rows of these nodes.

    Parameters
    ----------
    rows : NodeRows
        The source.
    parts : sequence of slice
        The parts.
    choose : callable
        Says which nodes of a part are read. It is called twice for each.
    most : int
        Nodes in a part, at most.
    """
    reader = BatchReader(rows)

    def batch(part: slice) -> Batch:
        ids, mask = choose(part)
        nodes = rows.node_ids(ids[mask])
        return nodes, rows.positions(nodes)

    if rows.on_disk:
        size = batches_at_once(rows, most)
        found = reader.in_blocks(
            [batch(part) for part in parts[first : first + size]]
            for first in range(0, len(parts), size)
        )
    else:
        found = reader.one_by_one(batch(part) for part in parts)
    with closing(found) as gathered:
        for part, given in zip(parts, gathered, strict=False):
            yield choose(part)[1], given
