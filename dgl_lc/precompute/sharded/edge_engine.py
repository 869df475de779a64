"""Computing the hops of an edge shard."""

from typing import Protocol

import numpy as np
import torch

from ..._common.bytes import zeros
from ...ranks.call import RankCall
from ..column_blocks import Done
from ..cpu.column_buffers import ColumnBuffers
from ..cpu.filter_product import FilterProduct
from ..cpu.scaling import scale_rows
from ..graph.edge_kernels import number_rows
from .edge_shards import EdgeShard
from .row_exchange import RowExchange
from .shard_bytes import ShardSizes, numbered_nodes

#: Nodes whose rows are looked up together.
_NODES = 1 << 14


class Keeps(Protocol):
    """What takes the rows of a shard that were asked for."""

    def keep(
        self, hop: int, values: torch.Tensor, places: torch.Tensor | None
    ) -> None:
        """Take a hop: the rows at these places, or for None all.

        They are in the order of ``EdgeShard.kept_places``. They have to be
        copied: the memory is used again.
        """


class EdgeShardEngine:
    """Computes column blocks of an edge shard; owns the work space.

    All ranks compute the same column blocks in the same order. The numbers
    are the bits that one process writes to a store with one edge block:
    where hop features are stored as float32 or float64, the owner multiplies
    a row by the right diagonal, rounds it and sends it; halves are sent as
    they are, and multiplied in float32 where they are read.

    Parameters
    ----------
    shard : EdgeShard
        What to compute.
    exchange : RowExchange
        Brings the rows of other shards.
    call : RankCall
        The ranks: each says which hop it computes.
    width : int
        The most columns of a block.
    """

    def __init__(
        self,
        shard: EdgeShard,
        exchange: RowExchange,
        call: RankCall,
        width: int,
    ):
        request, work = shard.request, shard.survey.work
        self._shard, self._exchange, self._call = shard, exchange, call
        self._request = request
        #: What :meth:`column_block` tells it has done when all columns are.
        self.total = shard.survey.gathered_bytes()
        self._product = FilterProduct(
            shard.filter, shard.rows, request.kind, work.threads,
            shard.num_edges + shard.high - shard.low,
        )  # fmt: skip
        self._place = zeros(numbered_nodes(work), np.int32)
        self._numbered: tuple[int, int] | None = None
        kept = 0 if request.nodes is None else shard.num_kept
        self._found = zeros(kept, np.int32)
        self._buffers = ColumnBuffers(
            ShardSizes.of(shard, exchange).buffered_rows(), width, request.dtype
        )

    def column_block(
        self, first: int, last: int, sink: Keeps, done: Done
    ) -> None:
        """Compute all hops of columns first to last, and keep some."""
        request, shard, call = self._request, self._shard, self._call
        width, columns = last - first, f"columns {first} to {last}"

        def tell(amount: int) -> None:
            call.progress()
            done(amount)

        call.stage(f"reading features, {columns}")
        values = self._read(first, last)
        if 0 in request.kept:
            self._keep_features(values, sink)
        scaled = False
        for hop in range(1, request.last + 1):
            if hop > 1 or not request.shares_features:
                scaled = self._scale(hop - 1, values)
            if hop > 1:
                self._exchange.exchange(hop - 1, values, columns)
            call.stage(f"computing hop {hop}, {columns}")
            own = len(shard.rows[hop])
            foreign = len(shard.foreign[hop]) if hop < request.last else 0
            room = self._buffers.rows(hop, own + foreign, width)
            place = self._places(hop - 1)
            self._product.write(hop, values, place, room[:own], scaled, tell)
            if hop in request.kept:
                sink.keep(hop, room[:own], self._kept(hop))
            values = room

    def _read(self, first: int, last: int) -> torch.Tensor:
        """Give the rows of the features that are needed."""
        rows = self._shard.feature_rows
        if rows is None:
            return self._request.columns(first, last)
        values = self._buffers.rows(0, len(rows), last - first)
        ids = torch.from_numpy(rows)
        self._request.copy_columns(first, last, ids, values)
        return values

    def _scale(self, hop: int, values: torch.Tensor) -> bool:
        """Multiply rows of this shard by the right diagonal, if it is done.

        Halves are left alone: they would be rounded twice.
        """
        shard, right = self._shard, self._shard.filter.right
        if right is None or values.element_size() < 4:
            return False
        rows = shard.rows[hop]
        if hop == 0:
            # Every rank has read what it needs.
            assert shard.feature_rows is not None
            rows = shard.feature_rows
        scale_rows(values[: len(rows)], right, rows)
        return True

    def _places(self, hop: int) -> np.ndarray | None:
        """Number the rows of a hop as they lie in the buffer: own ones first.

        None stands for all rows of the features.
        """
        shard = self._shard
        if hop == 0:
            if shard.feature_rows is None:
                return None
            parts = [shard.feature_rows]
        else:
            parts = [shard.rows[hop], shard.foreign[hop]]
        key = (id(parts[0]), id(parts[-1]))
        if self._numbered != key:
            number_rows(parts[0], 0, self._place)
            if hop > 0:
                number_rows(parts[1], len(parts[0]), self._place)
            self._numbered = key
        return self._place

    def _keep_features(self, values: torch.Tensor, sink: Keeps) -> None:
        shard, rows = self._shard, self._shard.feature_rows
        if self._request.nodes is not None:
            sink.keep(0, values, self._kept(0))
            return
        begin = shard.low
        if rows is not None:
            begin = int(np.searchsorted(rows, np.int32(begin)))
        sink.keep(0, values[begin : begin + shard.num_kept], None)

    def _kept(self, hop: int) -> torch.Tensor | None:
        """Find the rows that were asked for; None for all of the shard's."""
        shard, found = self._shard, self._found
        if self._request.nodes is None:
            return None
        rows = shard.rows[hop] if hop else shard.feature_rows
        for low in range(0, len(found), _NODES):
            nodes = shard.kept_nodes(low, low + _NODES).astype(np.int32)
            own = found[low : low + _NODES]
            own[:] = nodes if rows is None else np.searchsorted(rows, nodes)
        return torch.from_numpy(found)
