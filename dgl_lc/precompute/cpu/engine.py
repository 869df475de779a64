"""Carrying out a plan on the CPU."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from tqdm.auto import tqdm

from ..._common.bytes import row_stride
from ..._common.rows import bits, copy_rows, empty, streams, whole_lines
from ..._common.threads import ranges, run_parallel
from ...hops import HopFeatures
from ...storage.hop_store import StoredHops, open_store
from ...storage.write_hops import StoreWriter
from ..graph.edge_kernels import number_rows
from ..graph.filters import Filter
from ..planning.cpu import Plan, Work
from ..request import Request, Survey
from . import chunks as chunk_kernels
from .chunks import FIRST, SLOT
from .gather import accumulator, sum_rows, tiles

_NO_PLACES = np.empty(0, np.int32)
#: Rows that are scaled at a time.
SCALE_ROWS = 1 << 14


def run(
    request: Request, survey: Survey, plan: Plan, progress: bool | None
) -> HopFeatures:
    """Compute the hop features, one column block after the other."""
    work = plan.work
    engine = Engine(request, survey, plan) if work.K else None
    result = {}
    for hop in request.kept:
        if hop == 0 and work.all_rows and work.shares_features:
            result[hop] = request.columns(0, work.num_feats)
        else:
            result[hop] = empty(work.kept_rows, work.num_feats, request.dtype)
    with _progress(work, progress) as bar:
        for first, last in plan.column_blocks():
            columns = {
                hop: tensor[:, first:last] for hop, tensor in result.items()
            }
            _column_block(request, engine, first, last, columns, bar)
    return HopFeatures(
        list(result.values()), request.kept, request.spec, request.nodes
    )


def run_to_disk(
    request: Request,
    survey: Survey,
    plan: Plan,
    store: StoreWriter,
    progress: bool | None,
) -> StoredHops:
    """As :func:`run`, into a store, from its last whole column block on."""
    work = plan.work
    engine = Engine(request, survey, plan) if work.K else None
    blocks = plan.column_blocks(store.done)
    with (
        _progress(work, progress) as bar,
        ThreadPoolExecutor(1, "dgl-lc read") as reader,
    ):
        bar.update(_work_bytes(work) * store.done // work.num_feats)
        for place, (first, last) in enumerate(blocks):
            with store.columns(last):
                for following in blocks[place + 1 : place + 2]:
                    reader.submit(request.ask_ahead, *following)
                _stored_block(request, engine, first, last, store, bar)
    store.finish()
    return open_store(store.folder)


def _work_bytes(work: Work) -> int:
    return work.num_feats * work.itemsize * sum(work.hop_entries)


def _progress(work: Work, progress: bool | None) -> tqdm:
    return tqdm(
        total=_work_bytes(work),
        desc="hop features", unit="B", unit_scale=True,
        disable=None if progress is None else not progress,
        delay=2 if progress is None else 0,
    )  # fmt: skip


def _column_block(request, engine, first, last, result, bar) -> None:
    """All hops of columns first to last, into the result's columns."""
    width, all_rows = last - first, request.nodes is None
    if request.shares_features:
        values = request.columns(first, last)
    elif all_rows and 0 in result:
        values = result[0]
        request.copy_columns(first, last, None, values)
    elif request.last > 0:
        values = engine.read(request, first, last)
    if not all_rows and 0 in result:
        request.copy_columns(first, last, request.nodes, result[0])
    scaled = False
    for hop in range(1, request.last + 1):
        direct = all_rows and hop in result
        target = result[hop] if direct else engine.buffer(hop, width)
        engine.apply(hop, values, target, bar, scaled)
        if hop in result and not direct:
            copy_rows(target, engine.places(hop, request.nodes), result[hop])
        scaled = not direct and hop < request.last and engine.scale(hop, target)
        values = target


def _stored_block(request, engine, first, last, store, bar) -> None:
    """All hops of columns first to last, into a store."""
    width, nodes = last - first, request.nodes
    if engine is None:
        # Hop 0 alone.
        rows = request.graph.num_nodes() if nodes is None else len(nodes)
        values = torch.empty(rows, width, dtype=request.dtype)
        request.copy_columns(first, last, nodes, values)
        store.keep(0, first, values, None)
        return
    shares = request.shares_features
    if shares:
        values, places = request.columns(first, last), nodes
    else:
        values = engine.read(request, first, last)
        places = None if nodes is None else engine.places(0, nodes)
    if 0 in request.kept:
        store.keep(0, first, values, places)
    scaled = not shares and engine.scale(0, values)
    for hop in range(1, request.last + 1):
        target = engine.buffer(hop, width)
        engine.apply(hop, values, target, bar, scaled)
        if hop in request.kept:
            at = None if nodes is None else engine.places(hop, nodes)
            store.keep(hop, first, target, at)
        scaled = hop < request.last and engine.scale(hop, target)
        values = target


class Engine:
    """Applies the filter to a column block; owns the work space."""

    def __init__(self, request: Request, survey: Survey, plan: Plan):
        work = plan.work
        assert survey.edges is not None
        self.rows = survey.rows
        self._kind = request.kind
        self._shares_features = request.shares_features
        self._num_nodes = work.num_nodes
        acc = accumulator(request.kind)
        weight = None
        if request.weight is not None:
            weight = request.weight.to(request.accumulator).contiguous()
        self._filter = Filter(
            survey.edges, request.spec, acc,
            None if weight is None else weight.numpy(), plan.num_edge_blocks,
        )  # fmt: skip
        self._tables: dict[int, tuple[np.ndarray, np.ndarray, int]] = {}
        self._place = _NO_PLACES
        if any(len(rows) for rows in survey.rows[:-1]):
            self._place = np.empty(work.num_nodes, np.int32)
        size = min(chunk_kernels.CAPACITY, work.num_edges + work.num_nodes)
        self._scratch: list[tuple[np.ndarray, ...]] = [
            (
                np.empty(size + 1, np.int64),
                np.empty(size, np.int32),
                np.empty(size, acc),
                np.empty(size, acc),
            )
            for _ in range(work.threads)
        ]
        stride = row_stride(plan.column_width, work.itemsize)
        self._buffers = [
            empty(rows, stride, request.dtype) for rows in work.buffered_rows()
        ]

    def buffer(self, hop: int, width: int) -> torch.Tensor:
        """Where a hop goes that is not written to the result."""
        rows = len(self.rows[hop]) or self._num_nodes
        return self._buffers[hop % 2][:rows, :width]

    def read(self, request: Request, first: int, last: int) -> torch.Tensor:
        """The rows of the features that are needed, in the first buffer."""
        values, rows = self.buffer(0, last - first), self.rows[0]
        request.copy_columns(
            first, last, torch.from_numpy(rows) if len(rows) else None, values
        )
        return values

    def places(self, hop: int, nodes: torch.Tensor) -> torch.Tensor:
        """In which rows of a hop's buffer the nodes are."""
        rows = self.rows[hop]
        if len(rows) == 0:
            return nodes
        return torch.from_numpy(np.searchsorted(rows, nodes.numpy()))

    def scale(self, hop: int, values: torch.Tensor) -> bool:
        """Multiply a hop's rows by the right diagonal; False if not done.

        Done once for each row it need not be looked up for each edge, all
        over memory. Halves are left alone: they would be rounded twice.
        """
        right, rows = self._filter.right, self.rows[hop]
        if len(right) == 0 or values.element_size() < 4:
            return False
        parts = ranges(len(values), -(-len(values) // SCALE_ROWS))

        def work(_, part):
            first, last = parts[part]
            own = rows[first:last] if len(rows) else slice(first, last)
            factor = torch.from_numpy(right[own]).unsqueeze(1)
            values[first:last].mul_(factor.to(values.dtype))

        run_parallel(work, len(parts))
        return True

    def apply(
        self,
        hop: int,
        values: torch.Tensor,
        target: torch.Tensor,
        bar: tqdm,
        scaled: bool = False,
    ) -> None:
        """``target = S values``, at the rows of this hop.

        ``scaled``: the values were multiplied by the right diagonal.
        """
        rows, sources = self.rows[hop], self.rows[hop - 1]
        place = _NO_PLACES
        if len(sources) and not (hop == 1 and self._shares_features):
            place = self._place
            number_rows(sources, place)
        table, starts, num_slots = self._chunks(hop)
        width = values.shape[1]
        slots: np.ndarray = np.empty(
            (num_slots, width), accumulator(self._kind)
        )
        x, out = bits(values), bits(target)
        menu = tiles(width, self._kind)
        whole, parts = [], []
        for at, w in menu:
            lines, stream = whole_lines(values, at, w), streams(target, at, w)
            kernel = sum_rows(w, self._kind, self._kind, lines, stream)
            whole.append((kernel, at))
            kernel = sum_rows(w, self._kind, str(slots.dtype), lines, False)
            parts.append((kernel, at))
        f, indptr = self._filter, self._filter.edges.indptr
        right = f.right[:0] if scaled else f.right
        row_bytes = width * values.element_size()

        for number, block in enumerate(f.blocks()):
            begin, end = int(starts[number]), int(starts[number + 1])

            def work(worker, item, block=block, begin=begin):
                chunk = table[begin + item]
                offsets, entries, coefs, scales = self._scratch[worker]
                count = chunk_kernels.assemble(
                    chunk, rows, indptr, block.indices, block.begin,
                    block.edge_ids, block.weight, f.left, right,
                    f.spec.self_loop, f.drop_loops, place,
                    offsets, entries, coefs, scales,
                )  # fmt: skip
                if chunk[SLOT] < 0:
                    kernels, array, first = whole, out, chunk[FIRST]
                else:
                    kernels, array, first = parts, slots, chunk[SLOT]
                for kernel, column in kernels:
                    kernel(
                        offsets[: count + 1], entries, coefs, scales,
                        x, column, array, first,
                    )  # fmt: skip
                bar.update(int(offsets[count]) * row_bytes)

            run_parallel(work, end - begin)
        self._add_slots(table, slots, rows, target)

    def _chunks(self, hop: int) -> tuple[np.ndarray, np.ndarray, int]:
        """The hop's chunk table; the same for all hops at all rows."""
        rows = self.rows[hop]
        key = hop if len(rows) else 0
        if key not in self._tables:
            self._tables[key] = chunk_kernels.cut_chunks(
                rows, len(rows) or self._num_nodes,
                self._filter.edges.indptr, self._filter.bounds,
            )  # fmt: skip
        return self._tables[key]

    def _add_slots(self, table, slots, rows, target) -> None:
        """Add up the parts of split rows, in the order of their edges."""
        split = table[table[:, SLOT] >= 0]
        for position in np.unique(split[:, FIRST]):
            mine = split[split[:, FIRST] == position]
            total = slots[mine[:, SLOT]].sum(axis=0)
            row = rows[position] if len(rows) else position
            if len(self._filter.left):
                total *= self._filter.left[row]
            target[int(position)] = torch.from_numpy(total)
