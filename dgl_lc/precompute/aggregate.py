r"""Block-wise precomputation of hop features on the CPU."""

import dataclasses
from collections.abc import Sequence

import dgl
import numpy as np
import psutil
import torch
from dgl import DGLError
from tqdm.auto import tqdm

from ..hops import FilterSpec, HopFeatures
from . import inputs
from .csc import InEdges, in_edges
from .filters import Filter
from .frontier import frontier
from .kernels import chunks as chunk_kernels
from .kernels.edges import number_rows
from .kernels.gather import accumulator, sum_rows, tiles
from .memory import empty_rows, parse_bytes
from .plan import COPY_ROWS, Plan, Work, make_plan, plan_for
from .published import Coefficients
from .threads import num_threads, run_parallel

_CACHE_LINE = 64
#: Results smaller than this stay in the cache for the next hop.
_STREAM_BYTES = 1 << 25
_HALVES = (torch.float16, torch.bfloat16)


def block_aggregate(
    g: dgl.DGLGraph,
    feat: torch.Tensor | np.ndarray,
    K: int,
    *,
    norm: str = "both",
    self_loop: bool = True,
    edge_weight: torch.Tensor | None = None,
    nodes: torch.Tensor | Sequence[int] | None = None,
    hops: Sequence[int] | None = None,
    device: str | torch.device | None = None,
    memory: int | str | None = None,
    plan: Plan | None = None,
    dtype: torch.dtype | None = None,
    progress: bool | None = None,
) -> HopFeatures:
    r"""Precompute the hop features :math:`S^0 X, \dots, S^K X`.

    :math:`S = \tilde D^{-1/2} \tilde A \tilde D^{-1/2}` by default, as in
    :class:`dgl.nn.GraphConv` on a graph with self-loops. Messages go from
    source to destination; multi-edges count as often as they occur.

    Parameters
    ----------
    g : DGLGraph
        A homogeneous graph on the CPU.
    feat : Tensor or numpy.ndarray
        Features :math:`X`, a row for each node; a ``numpy.memmap`` is read
        in order, once.
    K : int
        The last hop.
    norm : str
        "both", "right", "left" or "none", as in :class:`dgl.nn.GraphConv`.
        A node of degree 0 gets 0.
    self_loop : bool
        If True, every node has exactly one self-loop, whether or not g has
        them; if False, the edges are taken as they are.
    edge_weight : Tensor, optional
        Multiplies messages. Degrees stay unweighted, and the self-loop that
        ``self_loop`` gives a node weighs 1.
    nodes : Tensor or sequence of int, optional
        Give only these rows, in this order. Each hop is then computed only
        where it is needed for them, exactly.
    hops : sequence of int, optional
        Keep only these hops. Default: all, 0 to K.
    device : str or torch.device, optional
        Where to compute: "cpu".
    memory : int or str, optional
        Bytes that may be allocated, as 24 * 2**30 or "24GiB", the result
        included. Default: the result, the edges, and work space of at most
        half the size of the features (or 256 MiB).
    plan : Plan, optional
        Cut the work as in this plan, made by
        :func:`dgl_lc.precompute.plan` for the same sizes.
    dtype : torch.dtype, optional
        How hop features are stored: float32, float64, float16 or bfloat16.
        Sums are made in float32 (float64 for float64). Default: as feat.
    progress : bool, optional
        Show a progress bar. Default: in a terminal, if it takes a while.

    Returns
    -------
    HopFeatures
        ``result[k]`` is the tensor :math:`S^k X`. Hop 0 shares memory with
        feat where all rows are kept and the type is the same.

    Examples
    --------
    >>> import dgl, torch
    >>> from dgl_lc.precompute import block_aggregate
    >>> g = dgl.graph(([0, 1, 2, 2], [1, 2, 3, 0]))
    >>> hops = block_aggregate(g, torch.ones(4, 2), K=1, norm="right")
    >>> hops[1]
    tensor([[1., 1.],
            [1., 1.],
            [1., 1.],
            [1., 1.]])
    """
    inputs.check_device(device)
    job = _Job.of(g, feat, K, norm, self_loop, edge_weight, nodes, hops, dtype)
    budget = None if memory is None else parse_bytes(memory)
    if plan is None:
        plan = job.plan(budget)
    else:
        plan = job.adopt(plan, budget)
    return job.run(plan, progress)


def plan(
    g: dgl.DGLGraph,
    feat: torch.Tensor | np.ndarray,
    K: int,
    *,
    norm: str = "both",
    self_loop: bool = True,
    edge_weight: torch.Tensor | None = None,
    nodes: torch.Tensor | Sequence[int] | None = None,
    hops: Sequence[int] | None = None,
    memory: int | str | None = None,
    dtype: torch.dtype | None = None,
    coefficients: Coefficients | None = None,
) -> Plan:
    """Plan a call of :func:`block_aggregate`, without computing anything.

    Parameters are those of :func:`block_aggregate`; ``coefficients`` (from
    :func:`dgl_lc.precompute.calibrate`) are for the published scheme that
    the plan is compared with.

    Examples
    --------
    >>> import dgl, torch
    >>> from dgl_lc.precompute import plan
    >>> g = dgl.rand_graph(1000, 8000)
    >>> p = plan(g, torch.ones(1000, 64), K=2, hops=[2], memory="8MiB")
    >>> p.num_edge_blocks, p.num_column_blocks, p.peak_bytes <= 8 * 2**20
    (1, 1, True)
    """
    job = _Job.of(g, feat, K, norm, self_loop, edge_weight, nodes, hops, dtype)
    budget = None if memory is None else parse_bytes(memory)
    return job.plan(budget, coefficients)


@dataclasses.dataclass
class _Job:
    """A checked call of :func:`block_aggregate`."""

    graph: dgl.DGLGraph
    feat: torch.Tensor
    spec: FilterSpec
    weight: torch.Tensor | None
    nodes: torch.Tensor | None
    kept: list[int]
    dtype: torch.dtype
    shares_features: bool
    edges: InEdges | None = None
    rows: list[np.ndarray] | None = None

    @classmethod
    def of(cls, g, feat, K, norm, self_loop, weight, nodes, hops, dtype):
        inputs.check_graph(g)
        on_disk = inputs.is_on_disk(feat)
        feat = inputs.check_features(g, feat)
        kept = inputs.check_hops(K, hops)
        weight = inputs.check_weight(g, weight)
        spec = inputs.check_spec(norm, self_loop, weight is not None)
        nodes = inputs.check_nodes(g, nodes)
        dtype = inputs.check_dtype(dtype, feat)
        shares = (
            not on_disk
            and feat.dtype == dtype
            and (feat.stride(1) == 1 or feat.shape[1] == 1)
        )
        return cls(g, feat, spec, weight, nodes, kept, dtype, shares)

    @property
    def kind(self) -> str:
        return inputs.KINDS[self.dtype]

    @property
    def all_rows(self) -> bool:
        return self.nodes is None

    def look(self, budget: int | None) -> Work:
        """Read the graph, find the frontier; the sizes of the work."""
        last = self.kept[-1]
        n, m = self.graph.num_nodes(), self.graph.num_edges()
        if last == 0:
            hop_rows, hop_entries = (), ()
            self.rows = [np.empty(0, np.int32)]
        elif self.all_rows:
            self.edges = in_edges(self.graph)
            self.rows = [np.empty(0, np.int32)] * (last + 1)
            hop_rows, hop_entries = (n,) * last, (m,) * last
        else:
            self.edges = in_edges(self.graph)
            if last > 1 and (budget is None or 4 * m <= budget // 4):
                self.edges.load()
            self.rows = frontier(
                self.edges, self.nodes.numpy(), self.kept,
                self.spec.self_loop, first=1 if self.shares_features else 0,
            )  # fmt: skip
            hop_rows = tuple(len(r) or n for r in self.rows[1:])
            hop_entries = tuple(self._entries(r) for r in self.rows[1:])
        wanted = torch.from_numpy(np.empty(0, accumulator(self.kind))).dtype
        return Work(
            num_nodes=n,
            num_edges=m if last else 0,
            num_feats=self.feat.shape[1],
            kind=self.kind,
            hop_rows=hop_rows,
            hop_entries=hop_entries,
            kept_rows=n if self.all_rows else len(self.nodes),
            kept_hops=tuple(self.kept),
            all_rows=self.all_rows,
            shares_features=self.shares_features,
            input_rows=len(self.rows[0]) or n,
            input_size=self.feat.element_size(),
            num_diagonals=self.spec.num_diagonals,
            weighted=self.weight is not None,
            copies_weight=self.weight is not None
            and (self.weight.dtype != wanted or self.weight.stride(0) != 1),
            owned=self.edges.owned if self.edges else False,
            index_size=4 if self.graph.idtype == torch.int32 else 8,
            threads=num_threads(),
        )

    def _entries(self, rows: np.ndarray) -> int:
        if len(rows) == 0:
            return self.edges.num_edges
        indptr = self.edges.indptr
        return int((indptr[1:][rows] - indptr[:-1][rows]).sum())

    def plan(self, budget: int | None, coefficients=None) -> Plan:
        work = self.look(budget)
        available = psutil.virtual_memory().available
        return make_plan(
            work, budget, coefficients=coefficients, available=available
        )

    def adopt(self, plan: Plan, budget: int | None) -> Plan:
        """A plan that the user gave, if it is for this work."""
        work = self.look(budget)
        for name in ("num_nodes", "num_edges", "num_feats", "K", "kind"):
            given, here = getattr(plan.work, name), getattr(work, name)
            if given != here:
                raise DGLError(
                    f"plan was made for {name}={given}, but here it is "
                    f"{here}: make it anew with dgl_lc.precompute.plan."
                )
        budget = plan.budget if budget is None else budget
        found = plan_for(work, plan.num_edge_blocks, plan.column_width, budget)
        if found.peak_bytes > budget:
            raise DGLError(
                f"plan needs {found.peak_bytes:,} bytes here, more than "
                f"memory={budget:,}: make it anew, or leave plan out."
            )
        return found

    def run(self, plan: Plan, progress: bool | None) -> HopFeatures:
        work = plan.work
        engine = None
        if work.K > 0:
            engine = _Engine(self, plan)
        result = {hop: self._allocate(work, hop) for hop in self.kept}
        total = work.num_feats * self.feat.element_size()
        total *= sum(work.hop_entries)
        with tqdm(
            total=total, desc="hop features", unit="B", unit_scale=True,
            disable=None if progress is None else not progress,
            delay=2 if progress is None else 0,
        ) as bar:  # fmt: skip
            for first, last in plan.column_blocks():
                self._column_block(engine, result, first, last, bar)
        return HopFeatures(
            list(result.values()), self.kept, self.spec, self.nodes
        )

    def _allocate(self, work: Work, hop: int) -> torch.Tensor:
        if hop == 0 and self.all_rows and self.shares_features:
            return self.feat
        return _empty(work.kept_rows, work.num_feats, self.dtype)

    def _column_block(self, engine, result, first, last, bar) -> None:
        """All hops of columns first to last."""
        features = self.feat[:, first:last]
        if self.shares_features:
            values = features
        elif self.all_rows and 0 in self.kept:
            values = result[0][:, first:last]
            _copy_rows(features, None, values)
        elif engine is not None:
            values = engine.buffer(0, last - first)
            _copy_rows(features, self.rows[0], values)
        if not self.all_rows and 0 in self.kept:
            _copy_rows(features, self.nodes, result[0][:, first:last])
        for hop in range(1, self.kept[-1] + 1):
            direct = self.all_rows and hop in self.kept
            if direct:
                target = result[hop][:, first:last]
            else:
                target = engine.buffer(hop, last - first)
            engine.apply(hop, values, target, bar)
            if hop in self.kept and not direct:
                rows = self.rows[hop]
                places = self.nodes
                if len(rows):
                    found = np.searchsorted(rows, self.nodes.numpy())
                    places = torch.from_numpy(found)
                _copy_rows(target, places, result[hop][:, first:last])
            values = target


class _Engine:
    """Applies the filter to a column block; owns the work space."""

    def __init__(self, job: _Job, plan: Plan):
        work = plan.work
        self.kind, self.dtype = job.kind, job.dtype
        self.rows = job.rows
        acc = accumulator(self.kind)
        weight = None
        if job.weight is not None:
            wide = torch.float64 if acc is np.float64 else torch.float32
            weight = job.weight.to(wide).contiguous().numpy()
        self.filter = Filter(
            job.edges, job.spec, acc, weight, plan.num_edge_blocks
        )
        self.shares_features = job.shares_features
        self._tables: dict[int, tuple] = {}
        self._all_rows = job.all_rows
        self._num_nodes = work.num_nodes
        self._place = np.empty(0, np.int32)
        if any(len(rows) for rows in job.rows[:-1]):
            self._place = np.empty(work.num_nodes, np.int32)
        size = min(chunk_kernels.CAPACITY, work.num_edges + work.num_nodes)
        self._scratch = [
            (
                np.empty(size + 1, np.int64),
                np.empty(size, np.int32),
                np.empty(size, acc),
                np.empty(size, acc),
            )
            for _ in range(work.threads)
        ]
        line = _CACHE_LINE // work.itemsize
        stride = -(-plan.column_width // line) * line
        self._buffers = [
            _empty(rows, stride, self.dtype) if rows else None
            for rows in work.buffered_rows()
        ]

    def buffer(self, hop: int, width: int) -> torch.Tensor:
        """Where a hop goes that is not written to the result."""
        rows = len(self.rows[hop]) or self._num_nodes
        return self._buffers[hop % 2][:rows, :width]

    def _table(self, hop: int) -> tuple[np.ndarray, np.ndarray, int]:
        key = hop if len(self.rows[hop]) else 0
        if key not in self._tables:
            rows = self.rows[hop]
            self._tables[key] = chunk_kernels.cut_chunks(
                rows, len(rows) or self._num_nodes,
                self.filter.edges.indptr, self.filter.bounds,
            )  # fmt: skip
        return self._tables[key]

    def apply(self, hop, values, target, bar) -> None:
        """``target = S values`` at the rows of this hop."""
        rows, source_rows = self.rows[hop], self.rows[hop - 1]
        place = np.empty(0, np.int32)
        if len(source_rows) and not (hop == 1 and self.shares_features):
            place = self._place
            number_rows(source_rows, place)
        table, starts, num_slots = self._table(hop)
        width = values.shape[1]
        x, out = _bits(values), _bits(target)
        slots = np.empty((num_slots, width), accumulator(self.kind))
        whole = [
            (sum_rows(w, self.kind, self.kind, _streams(target, at, w)), at)
            for at, w in tiles(width, self.kind)
        ]
        parts = [
            (sum_rows(w, self.kind, str(slots.dtype), False), at)
            for at, w in tiles(width, self.kind)
        ]
        f, indptr = self.filter, self.filter.edges.indptr
        row_bytes = width * values.element_size()

        for number, block in enumerate(f.blocks()):
            begin = int(starts[number])

            def work(worker, item, block=block, begin=begin):
                chunk = table[begin + item]
                offsets, entries, coefs, scales = self._scratch[worker]
                count = chunk_kernels.assemble(
                    chunk, rows, indptr, block.indices, block.begin,
                    block.edge_ids, block.weight, f.left, f.right,
                    f.spec.self_loop, f.drop_loops, place,
                    offsets, entries, coefs, scales,
                )  # fmt: skip
                slot = chunk[chunk_kernels.SLOT]
                kernels, array, first = whole, out, chunk[0]
                if slot >= 0:
                    kernels, array, first = parts, slots, slot
                for kernel, column in kernels:
                    kernel(
                        offsets[: count + 1], entries, coefs, scales,
                        x, column, array, first,
                    )  # fmt: skip
                bar.update(int(offsets[count]) * row_bytes)

            run_parallel(work, int(starts[number + 1]) - begin)
        if num_slots:
            self._add_slots(table, slots, rows, target)

    def _add_slots(self, table, slots, rows, target) -> None:
        """Add up the parts of split rows, in the order of their edges."""
        split = table[table[:, chunk_kernels.SLOT] >= 0]
        for position in np.unique(split[:, chunk_kernels.FIRST]):
            mine = split[split[:, chunk_kernels.FIRST] == position]
            total = slots[mine[:, chunk_kernels.SLOT]].sum(axis=0)
            row = rows[position] if len(rows) else position
            if len(self.filter.left):
                total *= self.filter.left[row]
            target[int(position)] = torch.from_numpy(total)


def _empty(rows: int, columns: int, dtype: torch.dtype) -> torch.Tensor:
    """An uninitialised tensor that begins on a cache line."""
    size = torch.empty(0, dtype=dtype).element_size()
    raw = empty_rows(rows, columns * size, np.uint8)
    return torch.from_numpy(raw).view(dtype)


def _bits(tensor: torch.Tensor) -> np.ndarray:
    """The tensor as the kernels take it: halves as int16."""
    if tensor.dtype in _HALVES:
        tensor = tensor.view(torch.int16)
    return tensor.numpy()


def _streams(target: torch.Tensor, column: int, width: int) -> bool:
    """Whether a tile of the target can and should be written past the cache."""
    size = target.element_size()
    row = target.stride(0) * size
    starts = (target.data_ptr() + column * size) % _CACHE_LINE
    whole_lines = width * size % _CACHE_LINE == 0 and row % _CACHE_LINE == 0
    return whole_lines and starts == 0 and len(target) * row >= _STREAM_BYTES


def _copy_rows(source, rows, target) -> None:
    """``target = source[rows]``, a few rows at a time; all rows for None."""
    if rows is not None and not isinstance(rows, torch.Tensor):
        rows = torch.from_numpy(rows) if len(rows) else None
    for first in range(0, len(target), COPY_ROWS):
        part = slice(first, first + COPY_ROWS)
        target[part] = source[part] if rows is None else source[rows[part]]
