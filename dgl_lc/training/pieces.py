"""Mini-batches of one of several ranks that train together."""

from collections.abc import Sequence
from typing import Any

import torch

from .loader import Cuts, HopLoader, batches_of


class PieceLoader(HopLoader):
    """Gives a rank's pieces of the batches of one process.

    All ranks go through the same nodes, in the order of one process. Each
    batch of ``world_size * batch_size`` nodes is cut into contiguous pieces,
    one for each rank, so that no node is repeated. Pieces of the last batch
    may be smaller, or empty.
    """

    @property
    def num_samples(self) -> int:
        """Number of nodes in an epoch of this rank."""
        return self._cut(0)[1][-1][1]

    def __len__(self) -> int:
        return -(-len(self.nids) // (self._world_size * self.batch_size))

    def _cut(self, epoch: int) -> tuple[torch.Tensor, Cuts]:
        order = self._order(epoch)
        whole = self.batch_size * self._world_size
        own, cuts, done = [], [], 0
        for first in range(0, len(order), whole):
            batch = order[first : first + whole]
            low = self._rank * self.batch_size
            high = low + self.batch_size
            if len(batch) < whole:
                low, high = piece(len(batch), self._rank, self._world_size)
            own.append(batch[low:high])
            cuts.append((done, done + high - low))
            done += high - low
        return torch.cat(own), cuts


class ShardLoader(HopLoader):
    """Gives batches of the nodes that this rank alone holds.

    All ranks take as many steps as the rank with the most nodes needs, so
    that the last batches of a rank may be empty.

    Parameters
    ----------
    *args, **kwargs
        As for :class:`HopLoader`.
    shard : int
        The number of this rank.
    counts : sequence of int
        The number of nodes of each rank.
    """

    _may_be_empty = True

    def __init__(
        self, *args: Any, shard: int, counts: Sequence[int], **kwargs: Any
    ):
        super().__init__(*args, **kwargs)
        # With one order for all, the same nodes of two ranks would meet in
        # every epoch.
        self._stream = (shard,)
        self._steps = -(-max(counts) // self.batch_size)

    def __len__(self) -> int:
        return self._steps

    def _cut(self, epoch: int) -> tuple[torch.Tensor, Cuts]:
        order, cuts = super()._cut(epoch)
        end = len(order)
        return order, cuts + [(end, end)] * (self._steps - len(cuts))


class RangeLoader(HopLoader):
    """Gives batches of a rank's contiguous range of the nodes, or none."""

    def _cut(self, epoch: int) -> tuple[torch.Tensor, Cuts]:
        low, high = (
            len(self.nids) * place // self._world_size
            for place in (self._rank, self._rank + 1)
        )
        order = torch.arange(low, high)
        return order, batches_of(len(order), self.batch_size)


class SampleLoader(HopLoader):
    """Gives batches that are drawn from the nodes, with repetition.

    Several ranks have pieces of the batches of one process.

    Parameters
    ----------
    *args, **kwargs
        As for :class:`HopLoader`.
    steps : int
        Batches of an epoch.
    shard : int, optional
        The number of this rank, if it draws from nodes that it alone holds.
    """

    _may_be_empty = True

    def __init__(
        self, *args: Any, steps: int, shard: int | None = None, **kwargs: Any
    ):
        super().__init__(*args, **kwargs)
        # Not the numbers that shuffle the training nodes.
        self._stream = (-1 % 2**32, *([] if shard is None else [shard]))
        self._steps = steps

    def __len__(self) -> int:
        return self._steps

    def _cut(self, epoch: int) -> tuple[torch.Tensor, Cuts]:
        if not len(self.nids):
            return torch.arange(0), [(0, 0)] * self._steps
        size = self.batch_size
        drawn = torch.randint(
            len(self.nids), (self._steps, self._world_size, size),
            generator=self._generator(epoch),
        )  # fmt: skip
        own = drawn[:, self._rank].reshape(-1)
        return own, batches_of(len(own), size)


def piece(count: int, rank: int, size: int) -> tuple[int, int]:
    """Cut ``count`` rows into contiguous pieces; give that of a rank.

    A piece has no rows, or at least two: batch norm can't train on one.

    >>> [piece(7, rank, 3) for rank in range(3)]
    [(0, 3), (3, 5), (5, 7)]
    >>> [piece(3, rank, 3) for rank in range(3)]
    [(0, 3), (3, 3), (3, 3)]
    """
    used = min(size, max(1, count // 2))
    each, more = divmod(count, used)
    first, last = (
        min(count, place * each + min(place, more))
        for place in (rank, rank + 1)
    )
    return first, last
