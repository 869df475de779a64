"""A call of ``block_aggregate``, checked, and the sizes of its work."""

from dataclasses import dataclass

import dgl
import numpy as np
import torch

from .._common.rows import copy_rows
from .._common.threads import num_threads
from ..hops import FilterSpec
from ..storage.disk_features import DiskFeatures
from ..storage.disk_graph import DiskGraph
from ..storage.hop_store import StoreHead
from ..storage.keys import array_key
from . import checks as inputs
from .cpu.gather import accumulator
from .graph.frontier import frontier
from .graph.in_edges import InEdges, in_edges
from .planning.cpu import Work

_ALL_ROWS = np.empty(0, np.int32)


@dataclass(frozen=True)
class Request:
    """What the user asked for.

    Attributes
    ----------
    kept : list of int
        The hops to give back, ascending.
    nodes : Tensor or None
        The rows to give back; None for all.
    shares_features : bool
        Whether the kernels can read the features where they are.
    """

    graph: dgl.DGLGraph | DiskGraph
    feat: torch.Tensor | DiskFeatures
    spec: FilterSpec
    weight: torch.Tensor | None
    nodes: torch.Tensor | None
    kept: list[int]
    dtype: torch.dtype
    shares_features: bool
    #: The features as they were given: a memory map is known by its file.
    source: torch.Tensor | np.ndarray | DiskFeatures

    @classmethod
    def of(cls, g, feat, K, norm, self_loop, weight, nodes, hops, dtype):
        """Check everything that can be checked without work."""
        inputs.check_graph(g, on_disk=True)
        on_disk, source = inputs.is_on_disk(feat), feat
        feat = inputs.check_features(g, feat)
        kept = inputs.check_hops(K, hops)
        weight = inputs.check_weight(g, weight)
        spec = inputs.check_spec(norm, self_loop, weight is not None)
        nodes = inputs.check_nodes(g, nodes)
        dtype = inputs.check_dtype(dtype, feat)
        shares = not on_disk and _has_rows(feat) and feat.dtype == dtype
        return cls(g, feat, spec, weight, nodes, kept, dtype, shares, source)

    def columns(self, first: int, last: int) -> torch.Tensor:
        """Some columns of features that the kernels can read."""
        assert isinstance(self.feat, torch.Tensor)
        return self.feat[:, first:last]

    def copy_columns(
        self,
        first: int,
        last: int,
        rows: torch.Tensor | None,
        target: torch.Tensor,
    ) -> None:
        """Copy some columns, of some rows or of all, to a target."""
        if isinstance(self.feat, torch.Tensor):
            copy_rows(self.feat[:, first:last], rows, target)
            return
        self.feat.copy_columns(first, last, rows, target)

    def ask_ahead(self, first: int, last: int) -> None:
        """Have columns on disk read, for later."""
        if isinstance(self.feat, DiskFeatures):
            self.feat.ask_ahead(first, last)

    @property
    def kind(self) -> str:
        """The name of the type in which hop features are stored."""
        return inputs.KINDS[self.dtype]

    @property
    def last(self) -> int:
        """The last hop that has to be computed."""
        return self.kept[-1]

    def store_head(self) -> StoreHead:
        """What a store of the result holds, and keys of what it depends on."""
        nodes = self.nodes
        edges = in_edges(self.graph)
        made_from = {
            "graph": edges.key(self.weight),
            "features": array_key(self.source),
            "nodes": None if nodes is None else array_key(nodes),
        }
        rows = self.graph.num_nodes() if nodes is None else len(nodes)
        return StoreHead(
            rows, self.feat.shape[1], tuple(self.kept), self.kind, self.spec,
            nodes is not None, made_from,
        )  # fmt: skip

    @property
    def accumulator(self) -> torch.dtype:
        """The type in which sums are made."""
        wide = accumulator(self.kind) is np.float64
        return torch.float64 if wide else torch.float32


@dataclass(frozen=True)
class Survey:
    """The graph's edges, and at which rows each hop is computed.

    Attributes
    ----------
    edges : InEdges or None
        None where no hop has to be computed.
    rows : list of int32 arrays
        For hop 0, 1, …: ascending row ids; an empty array stands for all.
    work : Work
        The sizes.
    """

    edges: InEdges | None
    rows: list[np.ndarray]
    work: Work


def survey(
    request: Request, budget: int | None, stored: bool = False
) -> Survey:
    """Read the graph and find the frontier."""
    graph, last = request.graph, request.last
    n, m = graph.num_nodes(), graph.num_edges() if last else 0
    edges = in_edges(graph) if last else None
    rows = [_ALL_ROWS] * (last + 1)
    if request.nodes is not None and edges is not None:
        # The frontier is found faster in sorted edges, if these fit at all.
        if last > 1 and (budget is None or 4 * m <= budget // 4):
            edges.load()
        rows = frontier(
            edges, request.nodes.numpy(), request.kept,
            request.spec.self_loop, first=int(request.shares_features),
        )  # fmt: skip
    weight = request.weight
    work = Work(
        num_nodes=n,
        num_edges=m,
        num_feats=request.feat.shape[1],
        kind=request.kind,
        hop_rows=tuple(len(r) or n for r in rows[1:]),
        hop_entries=tuple(
            _num_entries(edges.indptr, r) for r in rows[1:] if edges
        ),
        kept_rows=n if request.nodes is None else len(request.nodes),
        kept_hops=tuple(request.kept),
        all_rows=request.nodes is None,
        shares_features=request.shares_features,
        input_rows=len(rows[0]) or n,
        input_size=request.feat.dtype.itemsize,
        num_diagonals=request.spec.num_diagonals,
        weighted=weight is not None,
        copies_weight=weight is not None
        and (weight.dtype != request.accumulator or weight.stride(0) != 1),
        owned=edges is not None and edges.owned,
        index_size=4 if graph.idtype == torch.int32 else 8,
        threads=num_threads(),
        stored=stored,
        mapped=isinstance(graph, DiskGraph),
        self_loop=request.spec.self_loop,
    )
    return Survey(edges, rows, work)


def _has_rows(feat: torch.Tensor) -> bool:
    """Whether the numbers of a row lie together."""
    return feat.stride(1) == 1 or feat.shape[1] == 1


def _num_entries(indptr: np.ndarray, rows: np.ndarray) -> int:
    if len(rows) == 0:
        return int(indptr[-1])
    return int((indptr[1:][rows] - indptr[:-1][rows]).sum())
