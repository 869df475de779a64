"""Inputs of a call that several ranks make: whole ones, or row shards."""

from typing import Any

import torch
from dgl import DGLError

from ..node_rows import NodeRows
from ..ranks.call import RankCall
from ..ranks.group import Ranks
from .model_rows import is_full_graph
from .task_store import has_row


def is_shard(inputs: Any) -> bool:
    """Tell whether inputs are the rows of one rank alone."""
    return isinstance(inputs, NodeRows) and inputs.shard is not None


def refuse_full_graph(inputs: Any, name: str) -> None:
    """Refuse a graph with its features."""
    if is_full_graph(inputs):
        raise DGLError(
            f"{name} is a graph with its features, which one process reads: "
            f"with several ranks give hop features, as model.precompute makes "
            f"them, or use one process, with process_group=False."
        )


def check_shard(ranks: Ranks, inputs: Any, name: str) -> None:
    """Refuse row shards of another rank, or of another number of ranks."""
    if not isinstance(inputs, NodeRows) or inputs.shard is None:
        return
    shard, count = inputs.shard
    if (shard, count) != (ranks.rank, ranks.size):
        raise DGLError(
            f"{name} is row shard {shard} of {count}, and this is rank "
            f"{ranks.rank} of {ranks.size}: start as many ranks as there are "
            f"shards, and give each its own, or precompute again."
        )


def held_nodes(
    call: RankCall, inputs: NodeRows, ids: torch.Tensor, name: str
) -> tuple[torch.Tensor, list[int]]:
    """Find the places of nodes that this rank holds; count those of each rank.

    Every node has to be held by one rank.
    """
    held = has_row(inputs, ids)
    counts = call.gather(int(held.sum()))
    if sum(counts) != len(ids):
        raise DGLError(
            f"{name} has {len(ids):,} nodes, and the row shards of all ranks "
            f"have {sum(counts):,} of them: precompute with all of these "
            f"nodes among nodes=."
        )
    return held, counts
