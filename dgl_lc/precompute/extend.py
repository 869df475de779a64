"""Extending a hop store: to more nodes, or to more hops."""

import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dgl
import numpy as np
import torch
from dgl import DGLError
from dgl.base import DGLWarning

from .._common.bytes import format_bytes, parse_bytes
from ..storage.disk_features import DiskFeatures
from ..storage.disk_graph import DiskGraph
from ..storage.folder import is_whole
from ..storage.hop_store import (
    COMPUTED,
    StoredHops,
    StoreHead,
    find_store,
    open_hop_store,
)
from ..storage.input_store import StoredInputs, open_store
from ..storage.merge_hops import (
    Fill,
    hop_source,
    merge,
    merge_bytes,
    remove_computed,
    remove_store,
    replace_store,
    row_source,
)
from ..storage.write_hops import StoreWriter
from .api import block_aggregate
from .checks import check_nodes, has_weights, take_graph
from .graph.adjacency import GraphLike
from .graph.in_edges import in_edges
from .request import Request
from .sinks import warn_if_unread

#: What a store that will replace another is called while it is written.
_SUFFIX = ".extending"


def extend_store(
    store: StoredHops | str | os.PathLike,
    g: GraphLike,
    feat: torch.Tensor | np.ndarray | DiskFeatures,
    *,
    nodes: torch.Tensor | Sequence[int] | str | None = None,
    K: int | None = None,
    edge_weight: Any = None,
    out: str | os.PathLike | None = None,
    memory: int | str | None = None,
    resume: bool = True,
    progress: bool | None = None,
    **options: Any,
) -> StoredHops:
    r"""Extend a hop store to more nodes, or to more hops.

    The result is a new store, equal bit for bit to the one that
    :func:`dgl_lc.block_aggregate` writes for the same nodes and hops, on the
    CPU and where ``memory`` allows for one edge block. With several edge
    blocks the sums of the rows that a block cuts may be rounded differently.

    To more nodes, only the rows that the store lacks are computed, and the
    hops that these depend on. To more hops, if the store has the rows of all
    nodes, the new hops are computed from its last one. Otherwise everything
    is computed again, with a warning.

    Parameters
    ----------
    store : StoredHops or path
        The store. It stays as it is until the new one is finished.
    g, feat, edge_weight
        What the store was made of, as for :func:`dgl_lc.block_aggregate`.
        Anything else is an error: their keys are compared.
    nodes : Tensor, sequence, or "all", optional
        Ids or a mask of nodes whose rows are added, behind those of the
        store; "all" for a store with a row for each node, in order.
    K : int, optional
        The new last hop.
    out : path, optional
        The folder of the new store. Default: it replaces the old one, in one
        step, when it is finished; until then it is in a folder beside it,
        ``<store>.extending``. Readers that have the old store open keep it.
    memory : int or str, optional
        Bytes that may be allocated, as for :func:`dgl_lc.block_aggregate`.
    resume : bool
        Resume an interrupted call with the same arguments. Default: True.
    progress : bool, optional
        Show progress bars. Default: in a terminal, if it takes a while.
    **options
        ``device`` and ``host_memory``, as for
        :func:`dgl_lc.block_aggregate`.

    Returns
    -------
    StoredHops
        The new store.

    Examples
    --------
    >>> import dgl, tempfile, torch
    >>> from dgl_lc.precompute import block_aggregate, extend_store
    >>> g, x = dgl.rand_graph(100, 500), torch.ones(100, 3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = f"{folder}/hops"
    ...     _ = block_aggregate(g, x, K=2, out=path)
    ...     extend_store(path, g, x, K=4).hops
    [0, 1, 2, 3, 4]
    """
    old = open_extendable(store)
    if nodes is None and K is None:
        raise DGLError(
            "there is nothing to extend: give nodes=, more nodes, or K=, a "
            "later last hop."
        )
    graph, weight = take_graph(g, feat, edge_weight)
    request = Request.of(
        graph, feat, _last_hop(old, K), old.filter.norm, old.filter.self_loop,
        match_weight(old, graph, weight), all_nodes(old, graph, nodes),
        _all_hops(old, K), old.dtype,
    )  # fmt: skip
    head = request.store_head()
    _check_key(old, "graph", head.made_from["graph"], "g")
    _check_key(old, "features", head.made_from["features"], "feat")
    warn_if_unread(old.folder, head.made_from, stacklevel=3)
    given = {**options, "resume": resume, "progress": progress}

    def write(path: Path) -> None:
        if head.hops == old.head.hops:
            found = place_rows(old, request)
            write_rows(path, old, request, head, found, memory, given)
        elif old.nodes is None:
            _write_hops(path, old, request, head, memory, given)
        else:
            warnings.warn(
                f"{old.folder} has the rows of some nodes only, from which "
                f"hop {head.hops[-1]} can't be computed: all hops are "
                f"computed again.",
                DGLWarning,
                stacklevel=4,
            )
            compute(request, path, memory=memory, **given)

    return write_or_replace(old, head, out, resume, write)


def open_extendable(store: StoredHops | str | os.PathLike) -> StoredHops:
    """Open a store that can be extended and updated: one of one filter."""
    if isinstance(store, StoredHops):
        return store
    found = store if isinstance(store, StoredInputs) else open_store(store)
    if isinstance(found, StoredInputs):
        raise DGLError(
            f"{found.folder} is a store of several filters, which can't be "
            f"extended or updated: precompute again into a new folder."
        )
    return found


def _last_hop(old: StoredHops, K: int | None) -> int:
    if K is not None and (isinstance(K, bool) or not isinstance(K, int)):
        raise DGLError(f"K should be an integer, got {K!r}.")
    if K is not None and K < old.K:
        raise DGLError(
            f"K={K} is less than the last hop of {old.folder}, {old.K}: a "
            f"store can be extended, not cut. Use its first hops as they are."
        )
    return old.K if K is None else K


def _all_hops(old: StoredHops, K: int | None) -> list[int]:
    return [*old.hops, *range(old.K + 1, _last_hop(old, K) + 1)]


def all_nodes(
    old: StoredHops, g: dgl.DGLGraph | DiskGraph, nodes: Any
) -> torch.Tensor | None:
    """The nodes of the store and those to be added, in this order."""
    if isinstance(nodes, str):
        if nodes != "all":
            raise DGLError(f"nodes={nodes!r} should be ids of nodes, or 'all'.")
        return None
    if old.nodes is None or nodes is None:
        return old.nodes
    added = check_nodes(g, nodes)
    assert added is not None
    has = torch.zeros(g.num_nodes(), dtype=torch.bool)
    has[old.nodes[old.nodes < len(has)]] = True
    return torch.cat([old.nodes, added[~has[added]]])


def match_weight(
    old: StoredHops,
    g: dgl.DGLGraph | DiskGraph,
    weight: Any,
    argument: str = "edge_weight",
) -> Any:
    """Return the weights to use; an error where a store is made otherwise.

    A graph on disk may have weights, which a filter without weights ignores.
    """
    given = weight is not None and weight is not False
    if not old.filter.weighted:
        if given:
            raise DGLError(
                f"{old.folder} was made without edge weights: omit {argument}."
            )
        return False
    on_disk = isinstance(g, DiskGraph) and has_weights(g)
    if not (given or (weight is None and on_disk)):
        raise DGLError(
            f"{old.folder} was made with edge weights: give {argument}."
        )
    return weight


def check_same_graph(
    old: StoredHops,
    graph: dgl.DGLGraph | DiskGraph,
    weight: torch.Tensor | None,
    argument: str,
) -> None:
    """Refuse a graph that a store was not made of."""
    _check_key(old, "graph", in_edges(graph).key(weight), argument)


def _check_key(old: StoredHops, part: str, key: str, argument: str) -> None:
    before = old.head.made_from.get(part)
    if before != key:
        raise DGLError(
            f"{argument} is not what {old.folder} was made of: its key is "
            f"{key!r}, and the store has {before!r}. Give the same {part}, or "
            f"precompute again."
        )


def write_or_replace(
    old: StoredHops,
    head: StoreHead,
    out: str | os.PathLike | None,
    resume: bool,
    write: Callable[[Path], None],
) -> StoredHops:
    """Have a store written to ``out``, or in the place of an old one."""
    if out is not None:
        folder = Path(out)
        if folder.resolve() == old.folder.resolve():
            raise DGLError(
                f"out={str(out)!r} is the store itself: omit out to replace "
                f"it, or choose another folder."
            )
        if not resume or _finished(folder, head) is None:
            write(folder)
        return open_hop_store(folder)
    target = old.folder.with_name(old.folder.name + _SUFFIX)
    if head == old.head:
        # A run that was killed at its very end leaves the store before it.
        if is_whole(target):
            remove_store(target)
        return old
    # Files of others would be lost.
    StoreWriter.check(old.folder)
    if is_whole(target):
        try:
            find_store(target, head)
        except DGLError:
            # The rest of another extension: only these have this name.
            remove_store(target)
    write(target)
    replace_store(target, old.folder)
    return open_hop_store(old.folder)


def _finished(folder: Path, head: StoreHead) -> StoredHops | None:
    found = find_store(folder, head)
    if found is not None:
        remove_computed(folder)
    return found


def place_rows(
    old: StoredHops, request: Request, changed: np.ndarray | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Find where each row of a new store comes from.

    Parameters
    ----------
    old : StoredHops
        The store that has some of them.
    request : Request
        The rows of the new store.
    changed : bool array, optional
        Nodes whose rows are not those of the old store any more.

    Returns
    -------
    places : int32 Tensor
        For each row of the new store, p for row p of the old one, or -1 - p
        for row p of those that have to be computed.
    missing : int64 Tensor
        The nodes whose rows have to be computed, ascending.
    """
    place = torch.full((request.graph.num_nodes(),), -1, dtype=torch.int32)
    rows = torch.arange(old.shape[0], dtype=torch.int32)
    if old.nodes is None:
        place[: len(rows)] = rows
    else:
        place[old.nodes] = rows
    if changed is not None:
        place[torch.from_numpy(changed)] = -1
    if request.nodes is None:
        missing = (place < 0).nonzero().squeeze(1)
    else:
        missing = request.nodes[place[request.nodes] < 0].unique()
    place[missing] = -1 - torch.arange(len(missing), dtype=torch.int32)
    return place if request.nodes is None else place[request.nodes], missing


def write_rows(
    path: Path,
    old: StoredHops,
    request: Request,
    head: StoreHead,
    found: tuple[torch.Tensor, torch.Tensor],
    memory: int | str | None,
    options: dict[str, Any],
) -> None:
    """Write a store of rows of an old one, and of rows that are computed.

    ``found`` is what :func:`place_rows` gives.
    """
    places, missing = found

    def source(memory: int | None) -> Fill:
        computed = None
        if len(missing):
            computed = compute(
                request, path / COMPUTED, nodes=missing, memory=memory,
                **options,
            )  # fmt: skip
        return row_source(old, computed, places)

    _merge(path, request, head, memory, options, source)


def _write_hops(
    path: Path,
    old: StoredHops,
    request: Request,
    head: StoreHead,
    memory: int | str | None,
    options: dict[str, Any],
) -> None:
    """Write a store of the hops of an old one, and of later hops."""
    later = request.last - old.K

    def source(memory: int | None) -> Fill:
        with warnings.catch_warnings():
            # The old store is known by its checksums, not by a file's time.
            warnings.filterwarnings("ignore", ".* is used again: the features")
            computed = compute(
                request, path / COMPUTED, feat=old.as_features(old.K),
                hops=list(range(1, later + 1)), memory=memory, **options,
            )  # fmt: skip
        return hop_source(old, computed)

    _merge(path, request, head, memory, options, source)


def _merge(
    path: Path,
    request: Request,
    head: StoreHead,
    memory: int | str | None,
    options: dict[str, Any],
    source: Callable[[int | None], Fill],
) -> None:
    """Write a store whose rows come from a source, made within a budget."""
    budget = None
    if memory is not None:
        taken = merge_bytes(head.rows) + 4 * request.graph.num_nodes()
        budget = parse_bytes(memory) - taken
        if budget <= 0:
            raise DGLError(
                f"memory={memory!r} is too small: where the rows come from, "
                f"and their checksums, take {format_bytes(taken)}. Give more."
            )
    resume, progress = options["resume"], options["progress"]
    with StoreWriter(path, head, request.nodes, resume, by_rows=True) as writer:
        if writer.finished:
            remove_computed(path)
        else:
            fill = source(budget)
            merge(writer, fill, progress, request.counts())


def compute(request: Request, out: Path, **options: Any) -> StoredHops:
    """Compute what was requested, with some options changed, to a folder."""
    call: dict[str, Any] = {
        "feat": request.source,
        "hops": request.kept,
        "nodes": request.nodes,
        **options,
    }
    found = block_aggregate(
        request.graph, call.pop("feat"), call["hops"][-1],
        norm=request.spec.norm, self_loop=request.spec.self_loop,
        edge_weight=_given_weight(request), dtype=request.dtype, out=out,
        process_group=False, **call,
    )  # fmt: skip
    assert isinstance(found, StoredHops)
    return found


def _given_weight(request: Request) -> Any:
    """Return the weights of a request as they are given."""
    if request.weight is None:
        return False
    return None if isinstance(request.graph, DiskGraph) else request.weight
