"""Block-wise precomputation of hop features: the calls."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import overload

import numpy as np
import torch
from dgl import DGLError

from .._common.bytes import parse_bytes
from ..hops import HopFeatures
from ..ranks.call import RankCall
from ..ranks.group import Group, find_ranks
from ..storage.disk_features import DiskFeatures
from .column_blocks import Executor, progress_bar
from .cpu.engine import CpuExecutor
from .device import find_device
from .device.executor import (
    DeviceExecutor,
    device_budget,
    survey_for_device,
)
from .device.product import uses_triton
from .graph.adjacency import GraphLike
from .planning.cpu import (
    check_available,
    choose_plan,
    least_bytes,
    too_small,
)
from .planning.device import make_device_plan
from .planning.plans import Plan, beside_published, check_sizes
from .planning.published import Coefficients
from .planning.rank_traffic import RankResult
from .planning.ranks import RanksPlan
from .request import Request
from .sharded.layout import Split
from .sharded.plan import check_ranks, plan_on_ranks
from .sharded.rank_work import RankOptions
from .sharded.run import aggregate_on_ranks
from .sinks import make_sink
from .survey import (
    DoesNotFit,
    Survey,
    least_work,
    most_work,
    survey,
    work_at_all_rows,
)


def block_aggregate(
    g: GraphLike,
    feat: torch.Tensor | np.ndarray | DiskFeatures,
    K: int,
    *,
    norm: str = "both",
    self_loop: bool = True,
    edge_weight: torch.Tensor | np.ndarray | str | bool | None = None,
    nodes: torch.Tensor | Sequence[int] | None = None,
    hops: Sequence[int] | None = None,
    device: str | torch.device | None = None,
    memory: int | str | None = None,
    host_memory: int | str | None = None,
    plan: Plan | None = None,
    dtype: torch.dtype | None = None,
    out: str | os.PathLike | None = None,
    resume: bool = True,
    progress: bool | None = None,
    process_group: Group = None,
    split: Split = None,
    shared: bool = True,
) -> HopFeatures:
    r"""Precompute the hop features :math:`S^0 X, \dots, S^K X`.

    :math:`S = \tilde D^{-1/2} \tilde A \tilde D^{-1/2}` by default, as in
    :class:`dgl.nn.GraphConv` on a graph with self-loops. Messages go from
    source to destination; multi-edges count as often as they occur.

    Parameters
    ----------
    g : DGLGraph, DiskGraph, sparse matrix or pair
        A homogeneous graph on the CPU, or one on disk. Or a ``scipy.sparse``
        matrix, a torch sparse tensor (COO, CSR, CSC) or a pair of arrays
        ``(src, dst)``: entry (i, j) is an edge from i to j, as in
        ``dgl.from_scipy``, so that with norm="none" hop 1 is
        :math:`A^T X`. Every stored entry is an edge; entries that are not
        all one are used as ``edge_weight``. The arrays of CSR, CSC and COO
        matrices and of pairs are read where they are. Before the work is
        planned, and beyond ``memory``, other formats of scipy are converted
        to COO (8 or 16 bytes per edge), ids that are not both int32 or both
        int64 to int64, and integer values to floats. The edges are sorted
        in every call: for several calls make a DGLGraph.
    feat : Tensor, numpy.ndarray or DiskFeatures
        Features :math:`X`, a row for each node; a ``numpy.memmap`` is read
        in order, once for each column block, features on disk in column
        blocks once. A NaN or infinity in it spreads to the hop features of
        the nodes around it.
    K : int
        The last hop.
    norm : str
        "both", "right", "left" or "none", as in :class:`dgl.nn.GraphConv`.
        A node of degree 0 gets 0. Or "in", the filter of
        :class:`dgl.nn.TAGConv`, ``SGConv`` and ``GCN2Conv``: by the square
        roots of the in-degrees of both ends of an edge, of which 0 counts as
        1. On graphs in both directions "in" and "both" are the same.
    self_loop : bool
        If True, every node has exactly one self-loop, whether or not g has
        them; if False, the edges are taken as they are.
    edge_weight : Tensor, numpy.ndarray, str or False, optional
        Multiplies messages, in the order of the edges; NaN is an error.
        Degrees stay unweighted, and the self-loop that ``self_loop`` gives a
        node weighs 1, whatever the graph's own self-loops weigh. A string
        names weights in ``g.edata``. Default: the weights of a graph on disk
        that has any, or the values of a matrix that are not all one (False
        ignores them), and none for a DGLGraph, with a warning if it has
        ``g.edata["weight"]``.
    nodes : Tensor or sequence, optional
        Give only the rows of these ids, in this order, or of a mask (a bool
        for each node). Each hop is then computed only where it is needed for
        them, exactly.
    hops : sequence of int, optional
        Keep only these hops. Default: all, 0 to K.
    device : str or torch.device, optional
        Where to compute: "cpu" (default) or "cuda". Graph, features and
        result stay on the host. A GPU that cannot be used gives way to the
        CPU, with a warning.
    memory : int or str, optional
        Bytes that may be allocated where it computes, as 24 * 2**30 or
        "24GiB". On the CPU the result is included; default: the result, the
        edges, and work space of at most twice the size of the features (or
        128 MiB). On a GPU: 90 % of what is free.
    host_memory : int or str, optional
        Of a GPU run, the bytes that may be allocated on the host, the
        result included.
    plan : Plan, optional
        Cut the work as in this plan, made by
        :func:`dgl_lc.precompute.plan` for the same sizes. On a GPU its
        memory counts, if ``memory`` is not given.
    dtype : torch.dtype, optional
        How hop features are stored: float32, float64, float16 or bfloat16.
        Sums are made in float32 (float64 for float64). Default: as feat.
    out : path, optional
        A folder: the result is kept there, and read from there when rows
        are asked for (:func:`dgl_lc.precompute.open_store`). If the folder
        has the result of the same call already, nothing is computed.
    resume : bool
        With ``out``: resume an interrupted run, and use the result of an
        earlier call for the same. With False a store in the folder is
        deleted and computed again. Default: True.
    progress : bool, optional
        Show a progress bar. Default: in a terminal, if it takes a while.
    process_group : torch.distributed.ProcessGroup or False, optional
        The ranks that make this call together, each with the same arguments
        (``memory`` and ``device`` may be others). Default: the default group,
        if ``torch.distributed`` is initialised. False: this process alone.
    split : str or tuple, optional
        What each rank computes: "columns" (some columns of all hops),
        "edges" (the rows of some destinations) or a pair, the number of
        groups that share the columns and of ranks in a group that share the
        edges. Default: columns, unless there are too few for the ranks or
        they do not fit; :func:`dgl_lc.precompute.plan` shows what is chosen
        with ``ranks``.
    shared : bool, optional
        With ``out`` and several ranks: whether all of them see the same
        folder, which then gets one store. With False each rank gets a store
        of some of the rows, ``out/shard-R-of-P``. Default: True.

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
    budget = None if memory is None else parse_bytes(memory)
    host_budget = None
    if host_memory is not None:
        host_budget = parse_bytes(host_memory, "host_memory")
    ranks = find_ranks(process_group)
    if ranks is not None:
        with RankCall(ranks, "block_aggregate") as call:
            request = Request.of(
                g, feat, K, norm, self_loop, edge_weight, nodes, hops, dtype
            )
            options = RankOptions(
                split, shared, budget, host_budget, plan,
                None if out is None else Path(out), resume, progress,
            )  # fmt: skip
            return aggregate_on_ranks(
                call, request, find_device(device), _survey, options
            )
    request = Request.of(
        g, feat, K, norm, self_loop, edge_weight, nodes, hops, dtype
    )
    gpu = find_device(device)
    if gpu is None and host_memory is not None:
        if device is None or torch.device(device).type == "cpu":
            raise DGLError(
                "host_memory is for runs on a GPU: on the CPU give memory."
            )
        # The GPU that it was for cannot be used.
        budget = host_budget
    sink = make_sink(request, out, resume)
    finished = sink.finished()
    if finished is not None:
        return finished
    stored = out is not None
    executor: Executor
    if gpu is not None and request.last > 0:
        if plan is not None:
            check_sizes(plan, work_at_all_rows(request, stored))
            budget = plan.budget if budget is None else budget
        executor = DeviceExecutor(request, gpu, budget, host_budget, stored)
    else:
        in_buckets = plan is None or plan.work.bucket_sorted
        found = _survey(request, budget, stored, in_buckets)
        chosen = choose_plan(plan, found.work, budget)
        check_available(chosen)
        executor = CpuExecutor(request, found, chosen)
    with sink, progress_bar(executor.total, progress) as bar:
        executor.run(sink, bar.update)
        return sink.finish()


@overload
def plan(
    g: GraphLike,
    feat: torch.Tensor | np.ndarray | DiskFeatures,
    K: int,
    *,
    norm: str = ...,
    self_loop: bool = ...,
    edge_weight: torch.Tensor | np.ndarray | str | bool | None = ...,
    nodes: torch.Tensor | Sequence[int] | None = ...,
    hops: Sequence[int] | None = ...,
    device: str | torch.device | None = ...,
    memory: int | str | None = ...,
    dtype: torch.dtype | None = ...,
    coefficients: Coefficients | None = ...,
    stored: bool = ...,
    ranks: None = ...,
) -> Plan: ...


@overload
def plan(
    g: GraphLike,
    feat: torch.Tensor | np.ndarray | DiskFeatures,
    K: int,
    *,
    norm: str = ...,
    self_loop: bool = ...,
    edge_weight: torch.Tensor | np.ndarray | str | bool | None = ...,
    nodes: torch.Tensor | Sequence[int] | None = ...,
    hops: Sequence[int] | None = ...,
    device: str | torch.device | None = ...,
    memory: int | str | None = ...,
    dtype: torch.dtype | None = ...,
    coefficients: Coefficients | None = ...,
    stored: bool = ...,
    ranks: int,
    hosts: int = ...,
    split: Split = ...,
    shared: bool = ...,
    network: float | str | None = ...,
) -> RanksPlan: ...


def plan(
    g: GraphLike,
    feat: torch.Tensor | np.ndarray | DiskFeatures,
    K: int,
    *,
    norm: str = "both",
    self_loop: bool = True,
    edge_weight: torch.Tensor | np.ndarray | str | bool | None = None,
    nodes: torch.Tensor | Sequence[int] | None = None,
    hops: Sequence[int] | None = None,
    device: str | torch.device | None = None,
    memory: int | str | None = None,
    dtype: torch.dtype | None = None,
    coefficients: Coefficients | None = None,
    stored: bool = False,
    ranks: int | None = None,
    hosts: int = 1,
    split: Split = None,
    shared: bool = True,
    network: float | str | None = None,
) -> Plan | RanksPlan:
    """Plan a call of :func:`block_aggregate`, without computing anything.

    Parameters are those of :func:`block_aggregate`; ``coefficients`` (from
    :func:`dgl_lc.precompute.calibrate`) are for the published scheme that
    the plan is compared with. ``stored`` says whether the result goes to disk,
    as with ``out``. With ``device="cuda"`` and ``memory`` no GPU needs to be
    there.

    With ``ranks``, the number of processes that would make the call together
    on so many ``hosts``, the result is a RanksPlan: which split is the
    fastest that fits, bytes over the network, peak and time of each. The
    edges are read once for each number of edge shards, so that the bytes are
    exact. ``memory`` is that of each rank, ``network`` the bandwidth of a
    host per second, such as "10Gbit" (default) or 1.25e9 bytes.

    Examples
    --------
    >>> import dgl, torch
    >>> from dgl_lc.precompute import plan
    >>> g = dgl.rand_graph(1000, 8000)
    >>> p = plan(g, torch.ones(1000, 64), K=2, hops=[2], memory="8MiB")
    >>> p.num_edge_blocks, p.num_column_blocks, p.peak_bytes <= 8 * 2**20
    (1, 1, True)
    >>> p = plan(g, torch.ones(1000, 64), K=2, ranks=4, stored=True)
    >>> p.split, p.sent_bytes
    ('columns', (0, 0, 0, 0))
    """
    budget = None if memory is None else parse_bytes(memory)
    if ranks is not None:
        check_ranks(ranks, hosts, split, network, device)
    elif (hosts, split, network, shared) != (1, None, None, True):
        raise DGLError(
            "hosts, split, shared and network are for many ranks: give ranks=."
        )
    request = Request.of(
        g, feat, K, norm, self_loop, edge_weight, nodes, hops, dtype
    )
    if ranks is not None:
        return plan_on_ranks(
            request, ranks, hosts, budget, RankResult(stored, shared), split,
            network,
        )  # fmt: skip
    if device is None or torch.device(device).type == "cpu":
        work = _survey(request, budget, stored).work
        return choose_plan(None, work, budget, coefficients)
    if budget is None:
        gpu = find_device(device)
        if gpu is None:
            raise DGLError(
                f"device={str(device)!r} cannot be used here: give memory= to "
                f"plan for it."
            )
        budget = device_budget(gpu, None)
    work = survey_for_device(request, stored=stored).work
    found = make_device_plan(work, budget, uses_triton(), device=str(device))
    return beside_published(found, coefficients)


def check_budget(request: Request, budget: int, stored: bool) -> None:
    """Refuse a budget that is too small for sure, without reading the graph."""
    if min(map(least_bytes, least_work(request, stored))) > budget:
        raise too_small(most_work(request, stored), budget)


def _survey(
    request: Request,
    budget: int | None,
    stored: bool,
    in_buckets: bool = True,
) -> Survey:
    """Survey for the CPU; too small a budget is refused before it is read."""
    if budget is None:
        return survey(request, None, stored, in_buckets)
    check_budget(request, budget, stored)
    try:
        return survey(request, budget, stored, in_buckets)
    except DoesNotFit:
        raise too_small(most_work(request, stored), budget) from None
