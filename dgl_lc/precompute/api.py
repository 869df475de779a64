"""Block-wise precomputation of hop features: the calls."""

import os
import warnings
from collections.abc import Sequence
from pathlib import Path

import dgl
import numpy as np
import psutil
import torch
from dgl import DGLError
from dgl.base import DGLWarning

from .._common.bytes import format_bytes, parse_bytes
from ..hops import HopFeatures
from ..storage.disk_features import DiskFeatures
from ..storage.disk_graph import DiskGraph
from ..storage.hop_store import StoreHead, find_store, open_store
from ..storage.keys import is_unread
from ..storage.write_hops import StoreWriter
from .cpu.engine import run, run_to_disk
from .device import find_device
from .device.executor import device_budget, run_on_device, survey_for_device
from .device.product import uses_triton
from .planning.cpu import Plan, Work, beside_published, make_plan, plan_for
from .planning.device import make_device_plan
from .planning.published import Coefficients
from .request import Request, survey


def block_aggregate(
    g: dgl.DGLGraph | DiskGraph,
    feat: torch.Tensor | np.ndarray | DiskFeatures,
    K: int,
    *,
    norm: str = "both",
    self_loop: bool = True,
    edge_weight: torch.Tensor | None = None,
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
) -> HopFeatures:
    r"""Precompute the hop features :math:`S^0 X, \dots, S^K X`.

    :math:`S = \tilde D^{-1/2} \tilde A \tilde D^{-1/2}` by default, as in
    :class:`dgl.nn.GraphConv` on a graph with self-loops. Messages go from
    source to destination; multi-edges count as often as they occur.

    Parameters
    ----------
    g : DGLGraph or DiskGraph
        A homogeneous graph on the CPU, or one on disk.
    feat : Tensor, numpy.ndarray or DiskFeatures
        Features :math:`X`, a row for each node; a ``numpy.memmap`` is read
        in order, once for each column block, features on disk in column
        blocks once.
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
        Where to compute: "cpu" (default) or "cuda". Graph, features and
        result stay on the host. A GPU that cannot be used gives way to the
        CPU, with a warning.
    memory : int or str, optional
        Bytes that may be allocated where it computes, as 24 * 2**30 or
        "24GiB". On the CPU the result is included; default: the result, the
        edges, and work space of at most 5/4 of the size of the features (or
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
        With ``out``: go on where an interrupted run was. Default: True.
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
    budget = None if memory is None else parse_bytes(memory)
    host_budget = None
    if host_memory is not None:
        host_budget = parse_bytes(host_memory, "host_memory")
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
    if gpu is not None and request.last > 0:
        if plan is not None:
            _check_plan(plan, request)
            budget = plan.budget if budget is None else budget
        if out is None:
            return run_on_device(request, gpu, budget, host_budget, progress)
        head = request.store_head()
        if resume and (there := _find_store(Path(out), head)) is not None:
            return there
        with StoreWriter(out, head, request.nodes, resume) as store:
            if store.finished:
                return open_store(out)
            return run_on_device(
                request, gpu, budget, host_budget, progress, store
            )
    if out is None:
        found = survey(request, budget)
        plan = _choose_plan(plan, found.work, budget)
        return run(request, found, plan, progress)
    head = request.store_head()
    if resume and (there := _find_store(Path(out), head)) is not None:
        return there
    StoreWriter.check(out)
    found = survey(request, budget, stored=True)
    plan = _choose_plan(plan, found.work, budget)
    with StoreWriter(out, head, request.nodes, resume) as store:
        if store.finished:
            return open_store(out)
        return run_to_disk(request, found, plan, store, progress)


def _find_store(out: Path, head: StoreHead) -> HopFeatures | None:
    """The store of an earlier call for the same, if it was finished."""
    found = find_store(out, head)
    if found is not None and is_unread(head.made_from["features"]):
        warnings.warn(
            f"{out} is used again: the features are a memory map of a file "
            f"whose size, time and inode are the same as then. Its content "
            f"was not compared; resume=False computes the hop features again.",
            DGLWarning,
            stacklevel=3,
        )
    return found


def plan(
    g: dgl.DGLGraph | DiskGraph,
    feat: torch.Tensor | np.ndarray | DiskFeatures,
    K: int,
    *,
    norm: str = "both",
    self_loop: bool = True,
    edge_weight: torch.Tensor | None = None,
    nodes: torch.Tensor | Sequence[int] | None = None,
    hops: Sequence[int] | None = None,
    device: str | torch.device | None = None,
    memory: int | str | None = None,
    dtype: torch.dtype | None = None,
    coefficients: Coefficients | None = None,
) -> Plan:
    """Plan a call of :func:`block_aggregate`, without computing anything.

    Parameters are those of :func:`block_aggregate`; ``coefficients`` (from
    :func:`dgl_lc.precompute.calibrate`) are for the published scheme that
    the plan is compared with. With ``device="cuda"`` and ``memory`` no GPU
    needs to be there.

    Examples
    --------
    >>> import dgl, torch
    >>> from dgl_lc.precompute import plan
    >>> g = dgl.rand_graph(1000, 8000)
    >>> p = plan(g, torch.ones(1000, 64), K=2, hops=[2], memory="8MiB")
    >>> p.num_edge_blocks, p.num_column_blocks, p.peak_bytes <= 8 * 2**20
    (1, 1, True)
    """
    budget = None if memory is None else parse_bytes(memory)
    request = Request.of(
        g, feat, K, norm, self_loop, edge_weight, nodes, hops, dtype
    )
    if device is None or torch.device(device).type == "cpu":
        return _make_plan(survey(request, budget).work, budget, coefficients)
    if budget is None:
        gpu = find_device(device)
        if gpu is None:
            raise DGLError("memory is needed to plan for a GPU not there.")
        budget = device_budget(gpu, None)
    work = survey_for_device(request, None).work
    found = make_device_plan(work, budget, uses_triton(), device=str(device))
    return beside_published(found, coefficients)


def _make_plan(
    work: Work, budget: int | None, coefficients: Coefficients | None = None
) -> Plan:
    available = psutil.virtual_memory().available
    return make_plan(
        work, budget, coefficients=coefficients, available=available
    )


def _choose_plan(plan: Plan | None, work: Work, budget: int | None) -> Plan:
    if plan is None:
        return _make_plan(work, budget)
    return _adopt_plan(plan, work, budget)


def _adopt_plan(plan: Plan, work: Work, budget: int | None) -> Plan:
    """A plan that the user gave, if it is for this work."""
    sizes = {name: getattr(work, name) for name in _SIZES}
    _compare_sizes(plan, sizes)
    if plan.device != "cpu":
        # Made for a GPU that is not there.
        return _make_plan(work, budget)
    budget = plan.budget if budget is None else budget
    found = plan_for(work, plan.num_edge_blocks, plan.column_width, budget)
    if found.peak_bytes > budget:
        raise DGLError(
            f"plan needs {format_bytes(found.peak_bytes)} here, more than "
            f"memory={format_bytes(budget)}: make it anew, or leave it out."
        )
    return found


_SIZES = ("num_nodes", "num_edges", "num_feats", "K", "kind")


def _check_plan(plan: Plan, request: Request) -> None:
    """Whether the user's plan is for this request."""
    sizes = (
        request.graph.num_nodes(), request.graph.num_edges(),
        request.feat.shape[1], request.last, request.kind,
    )  # fmt: skip
    _compare_sizes(plan, dict(zip(_SIZES, sizes, strict=True)))


def _compare_sizes(plan: Plan, sizes: dict[str, object]) -> None:
    for name, here in sizes.items():
        given = getattr(plan.work, name)
        if given != here:
            raise DGLError(
                f"plan was made for {name}={given}, but here it is {here}: "
                f"make it anew with dgl_lc.precompute.plan."
            )
