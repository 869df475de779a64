"""Mini-batches of rows."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from itertools import islice, repeat
from typing import Any, TypeVar

import numpy as np
import torch
from dgl import DGLError

from ..node_rows import NodeRows
from .batch_reader import Batch, BatchReader, batches_at_once
from .chunk_order import RowChunks
from .shuffling import choose_chunks
from .targets import Targets, node_labels

#: What a model reads in batches: hop features, or plain hops from hop 0 on.
Inputs = NodeRows | Sequence | torch.Tensor
#: Where each batch of an epoch begins and ends, in the order of the epoch.
Cuts = list[tuple[int, int]]
#: What has an entry for each sample.
Entries = TypeVar("Entries", torch.Tensor, Targets, torch.Tensor | Targets)

#: Samples whose nodes and labels are looked up at once.
LOOKED_UP = 1 << 16


class HopLoader:
    """Gives mini-batches of hop features and labels, without a graph.

    Each batch is one gather of rows. With ``shuffle`` the samples themselves
    are shuffled again in every epoch. The order depends only on the seed, the
    number of the epoch and the way of shuffling.

    Rows of a store are read by threads of the loader, which keep two batches
    ready. They end with the iteration, also if it is left early.

    Parameters
    ----------
    hops : HopFeatures, or sequence of Tensor or NumPy array
        Hop features in memory or memory-mapped; or plain hops, or the inputs
        of a model of several filters, as tensors of which row i is node i.
        The place of a plain tensor is its hop, with None for a hop that is
        not needed, and batches are as the sequence: one tensor of shape
        (hops, rows, columns), or with None a list.
    nids : Tensor
        Ids of the nodes to go through, or a mask with an entry for each node
        of the graph.
    labels : Tensor, optional
        A label for each node of the graph. Default: batches without labels.
    batch_size : int, optional
        Nodes in a batch; the last batch has the rest. Default: 4096.
    shuffle : bool or str, optional
        Whether to shuffle the samples: True or "full" shuffles all of them,
        and reads rows of a store one by one. "chunks" is for a store that is
        larger than memory: about a MiB of rows that lie together is read at
        once, such chunks are shuffled, and the rows of many of them are mixed
        in a buffer. Default: False.
    device : torch.device, optional
        Device of the batches. For a GPU they are gathered into pinned memory
        and copied without waiting.
    seed : int, optional
        Seed of the shuffling. Default: 0.
    rank, world_size : int, optional
        Number of this shard, and of all shards. They are of equal size, as
        those of torch's DistributedSampler. Default: a single shard.
    shuffle_buffer : int or str, optional
        Bytes of the buffer of "chunks", at the most: half of it is read while
        batches are taken from the other half. Shards together have one order,
        and each takes its part of both halves. Default: "1GiB".

    Examples
    --------
    >>> import dgl, torch
    >>> from dgl_lc import block_aggregate
    >>> from dgl_lc.training import HopLoader
    >>> g = dgl.graph(([0, 1, 2], [1, 2, 0]))
    >>> hops = block_aggregate(g, torch.eye(3), K=2)
    >>> labels = torch.tensor([0, 1, 0])
    >>> for batch, y in HopLoader(hops, [2, 1], labels, batch_size=2):
    ...     print(batch, y)
    HopFeatures(hops=[0, 1, 2], rows=2, columns=3, dtype=torch.float32)
    tensor([0, 1])
    """

    #: Whether a loader without nodes is right.
    _may_be_empty = False
    #: What sets the order apart from those of other loaders of this seed.
    _stream: tuple[int, ...] = ()

    def __init__(
        self,
        hops: Inputs,
        nids: torch.Tensor,
        labels: torch.Tensor | Targets | None = None,
        batch_size: int = 4096,
        shuffle: bool | str | RowChunks = False,
        device: torch.device | str | None = None,
        *,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        shuffle_buffer: int | str | None = None,
    ):
        if batch_size < 1:
            raise DGLError(f"batch_size={batch_size} should be at least 1.")
        if not 0 <= rank < world_size:
            raise DGLError(
                f"rank={rank} should be between 0 and world_size - 1 = "
                f"{world_size - 1}."
            )
        self._hops = as_rows(hops)
        # Targets are those of nids alone, which are then ids and no mask.
        count = None
        if labels is not None and not isinstance(labels, Targets):
            count = len(labels)
        self.nids = self._hops.node_ids(nids, "nids", count)
        if len(self.nids) == 0 and not self._may_be_empty:
            raise DGLError("nids is empty: give at least one node.")
        self._places = self._hops.positions(self.nids)
        #: Whether each place of a plain sequence holds a tensor.
        self._given: list[bool] | None = None
        if not isinstance(hops, NodeRows):
            self._given = [tensor is not None for tensor in hops]
        self._labels: torch.Tensor | Targets | None = None
        if isinstance(labels, Targets):
            self._labels = labels
        elif labels is not None:
            self._labels = node_labels(labels, self._hops, self.nids)
        self.batch_size = batch_size
        self.shuffle = bool(shuffle)
        #: How samples are shuffled in chunks; None if they are not.
        self.chunks = choose_chunks(
            self._hops, shuffle, shuffle_buffer, batch_size * world_size
        )
        self.device = None if device is None else torch.device(device)
        self.seed = seed
        self._rank, self._world_size = rank, world_size
        self._epoch = 0
        self._reader = BatchReader(self._hops, self._onto_gpu)

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the epoch that the next iteration goes through.

        Later iterations count up from there.
        """
        self._epoch = epoch

    @property
    def num_samples(self) -> int:
        """Number of nodes in an epoch of this shard."""
        return -(-len(self.nids) // self._world_size)

    def __len__(self) -> int:
        return -(-self.num_samples // self.batch_size)

    def __iter__(self) -> Generator[Any, None, None]:
        order, cuts = self._cut(self._epoch)
        self._epoch += 1
        given: Iterator[torch.Tensor | Targets | None]
        given = repeat(None, len(cuts))
        if self._labels is not None:
            given = looked_up(self._labels, order, cuts)
        with closing(self._gather(order, cuts)) as gathered:
            for batch, labels in zip(gathered, given, strict=True):
                yield self._finish(batch, labels)

    def _gather(
        self, order: torch.Tensor, cuts: Cuts
    ) -> Generator[NodeRows, None, None]:
        """Gather the rows of the batches."""
        size = self._window
        batches = self._batches(order, cuts)
        if size is None:
            return self._reader.one_by_one(batches)
        return self._reader.in_blocks(
            list(islice(batches, size)) for _ in range(0, len(cuts), size)
        )

    def _batches(self, order: torch.Tensor, cuts: Cuts) -> Iterator[Batch]:
        """Give the nodes of each batch, and the places of their rows."""
        nids = looked_up(self.nids, order, cuts)
        if self._places is self.nids:
            return ((own, own) for own in nids)
        return zip(nids, looked_up(self._places, order, cuts), strict=True)

    @property
    def _window(self) -> int | None:
        """Batches whose rows are read at once; None to read each row alone."""
        if not self._reader.in_thread:
            return None
        if self.chunks is not None:
            whole = self.batch_size * self._world_size
            return max(1, self.chunks.mixed // whole)
        if self.shuffle:
            return None
        return batches_at_once(self._hops, self.batch_size)

    def _cut(self, epoch: int) -> tuple[torch.Tensor, Cuts]:
        """Return the places in nids of this epoch's samples, and batches."""
        order = self._shard(epoch)
        return order, batches_of(len(order), self.batch_size)

    def _shard(self, epoch: int) -> torch.Tensor:
        """Return the places in nids of this shard's samples, in order."""
        order = self._order(epoch)
        if self._world_size == 1:
            return order
        # Shards have equal sizes: the first samples fill up the last shards.
        whole = self.num_samples * self._world_size
        repeated = order.repeat(-(-whole // len(order)))[:whole]
        return repeated[self._rank :: self._world_size]

    def _order(self, epoch: int) -> torch.Tensor:
        """Return the places in nids of all samples of an epoch, in order."""
        count = len(self.nids)
        if not self.shuffle:
            return torch.arange(count)
        generator = self._generator(epoch)
        if self.chunks is not None:
            return self.chunks.order(self._places, generator)
        return torch.randperm(count, generator=generator)

    def _generator(self, epoch: int) -> torch.Generator:
        # Each seed and epoch has a stream of its own, so that a resumed run
        # draws the same order.
        state = np.random.SeedSequence([self.seed, epoch, *self._stream])
        generator = torch.Generator()
        generator.manual_seed(int(state.generate_state(1, np.uint64)[0]))
        return generator

    @property
    def _onto_gpu(self) -> bool:
        return self.device is not None and self.device.type == "cuda"

    def _finish(
        self, batch: NodeRows, labels: torch.Tensor | Targets | None
    ) -> Any:
        if self.device is not None:
            batch = batch.to(self.device, non_blocking=True)
            if labels is not None:
                if self._onto_gpu:
                    labels = labels.pin_memory()
                labels = labels.to(self.device, non_blocking=True)
        found: NodeRows | torch.Tensor | list = batch
        if self._given is not None:
            found = batch.stack.view(len(batch), *batch.shape)
            if not all(self._given):
                rows = iter(found)
                found = [next(rows) if there else None for there in self._given]
        return found if labels is None else (found, labels)


def looked_up(
    values: Entries, order: torch.Tensor, cuts: Cuts, at_once: int = LOOKED_UP
) -> Iterator[Entries]:
    """Look up the values of each batch, for several batches at once.

    One by one, the lookups of small batches wait for the memory: 16 of them
    take four times as long as one of all their samples.

    >>> order = torch.tensor([2, 0, 1])
    >>> list(looked_up(torch.tensor([5, 6, 7]), order, [(0, 2), (2, 3)]))
    [tensor([7, 5]), tensor([6])]
    """
    done = 0
    while done < len(cuts):
        first, last = cuts[done]
        begin = done
        done += 1
        while done < len(cuts) and cuts[done][1] - first <= at_once:
            last = cuts[done][1]
            done += 1
        # index_select is four times as fast as values[order].
        found = values.index_select(0, order[first:last])
        for low, high in cuts[begin:done]:
            yield found[low - first : high - first]


def batches_of(count: int, size: int) -> Cuts:
    """Cut so many samples into batches.

    >>> batches_of(5, 2)
    [(0, 2), (2, 4), (4, 5)]
    """
    return [
        (first, min(first + size, count)) for first in range(0, count, size)
    ]


def as_rows(hops: Inputs) -> NodeRows:
    """Return hop features, or plain tensors with a row for each node, as rows.

    None in a sequence stands for a hop that is not needed.
    """
    if isinstance(hops, NodeRows):
        return hops
    if isinstance(hops, torch.Tensor):
        if hops.dim() < 3:
            raise DGLError(
                f"hops should be hop features or a sequence of hop tensors, "
                f"got one tensor of shape {tuple(hops.shape)}."
            )
    elif isinstance(hops, str) or not isinstance(hops, Sequence):
        raise DGLError(
            f"hops should be hop features or a sequence of hop tensors, got "
            f"{type(hops).__name__}."
        )
    tensors = [torch.as_tensor(rows) for rows in hops if rows is not None]
    if not tensors or any(t.shape != tensors[0].shape for t in tensors):
        raise DGLError(
            f"hops should be tensors of one shape, got "
            f"{[tuple(t.shape) for t in tensors]}."
        )
    return NodeRows(tensors)
