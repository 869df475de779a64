"""Hop features of nodes that have none yet, computed block by block."""

import warnings
from collections.abc import Iterator
from typing import Any

from dgl import DGLError
from dgl.base import DGLWarning

from .._common.bytes import format_bytes
from ..data import DiskData, NodeData
from ..hops import HopFeatures
from ..nn.model import HopModel
from ..nn.several_filters import SeveralFilters
from ..node_rows import NodeRows
from ..precompute import with_labels
from ..precompute.planning.cpu import MemoryTooSmall
from ..ranks.group import Group
from ..row_programs.row_module import RowModule
from .label_inputs import compute_labels, reads_labels
from .task_store import edge_weight
from .wanted_nodes import WantedNodes

#: What can predict: a model of dgl_lc.nn, or an LC version.
Model = HopModel | RowModule
#: More blocks are an error instead: each of them reads the graph.
_MOST_BLOCKS = 100


def computed_blocks(
    model: Model,
    data: NodeData | DiskData,
    wanted: WantedNodes,
    budget: int,
    weighted: bool,
    is_limited: bool,
    process_group: Group,
    label_rows: HopFeatures | None = None,
) -> Iterator[tuple[int, int, NodeRows | None]]:
    """Yield ranges of nodes, with the hop features that were computed.

    Blocks become smaller where they do not fit in the budget, down to a
    hundredth of the nodes. Several ranks compute a block together, and each
    has its row shard of it.
    """
    if isinstance(model, RowModule):
        yield 0, len(wanted), None
        return
    # Such a model precomputes for one filter after the other, and hop
    # features before label features.
    shares = 2 if isinstance(model, SeveralFilters) else 1
    shares += reads_labels(model) and label_rows is None
    memory = budget // shares if is_limited else None
    least = max(1, -(-wanted.num_lacking // _MOST_BLOCKS))
    most = max(least, min(_most_rows(model, data, budget), len(wanted)))
    blocks = wanted.cut(most)
    is_first = True
    while blocks:
        first, last = blocks[0]
        try:
            computed = _compute(
                model, data, wanted, first, last, weighted, memory,
                process_group, label_rows,
            )  # fmt: skip
        except MemoryTooSmall as error:
            if most == least:
                enough = error.enough * shares >> 20
                raise DGLError(
                    f"memory={format_bytes(budget)} is too small to compute "
                    f"hop features of {most:,} nodes at a time: {enough} MiB "
                    f"would be enough."
                ) from None
            most = max(least, most // 2)
            blocks = wanted.cut(most, first)
            continue
        if is_first and len(blocks) > 1:
            warnings.warn(
                f"the hop features of {wanted.num_lacking:,} nodes do not fit "
                f"in {format_bytes(budget)}: they are computed in "
                f"{len(blocks)} blocks, each of which reads the graph again. "
                f"A store, written with dgl-lc precompute, has them computed "
                f"once.",
                DGLWarning,
                # The caller of write_predictions.
                stacklevel=9,
            )
        is_first = False
        yield first, last, computed
        blocks = blocks[1:]


def _most_rows(
    model: HopModel, data: NodeData | DiskData, budget: int
) -> int:  # fmt: skip
    """Return the number of rows whose hop features take half the budget."""
    row = model.num_inputs * data.num_feats * data.feat.dtype.itemsize
    if model.label_branch is not None:
        row += 4 * model.label_branch.hidden.in_features
    return max(1, budget // 2 // row)


def _compute(
    model: HopModel,
    data: NodeData | DiskData,
    wanted: WantedNodes,
    first: int,
    last: int,
    weighted: bool,
    memory: int | None,
    process_group: Group,
    label_rows: HopFeatures | None,
) -> NodeRows | None:
    """Compute the hop features of those nodes of a range that lack them."""
    part = slice(first, last)
    # A node may be asked for twice.
    ids = wanted.numbers(part)[wanted.lacks(part)].unique()
    if len(ids) == 0:
        return None
    options: dict[str, Any] = edge_weight(data.graph, weighted)
    if process_group is not None:
        options["process_group"] = process_group
    if memory is not None:
        options["memory"] = memory
    if len(ids) < data.graph.num_nodes():
        options["nodes"] = ids
    feat: Any = data.feat
    found = model.precompute(data.graph, feat, **options)
    if not reads_labels(model):
        return found
    if label_rows is None:
        # Ranks have row shards, of which each computes the label features.
        label_rows = compute_labels(
            model, data, found.nodes, memory=memory, process_group=False
        )
    return with_labels(found, label_rows)
