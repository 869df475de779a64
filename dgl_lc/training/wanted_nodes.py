"""The nodes that predictions are asked for."""

import itertools

import torch
from dgl import DGLError

from ..data import DiskData, NodeData
from ..node_rows import NodeRows, check_ids
from ..ranks.collectives import Collectives
from .task_store import has_row

#: Nodes that are looked up in a store at a time.
_SPAN = 1 << 20


class WantedNodes:
    """The nodes to predict, and which of them have no row yet."""

    def __init__(
        self, count: int, nodes: torch.Tensor | None, lacking: torch.Tensor
    ):
        self._count, self._nodes, self._lacking = count, nodes, lacking
        self.num_lacking = int(lacking.sum())

    @classmethod
    def of(
        cls,
        data: NodeData | DiskData,
        nodes: torch.Tensor | None,
        rows: NodeRows | None,
        collectives: Collectives | None = None,
    ) -> "WantedNodes":
        """Find which nodes have a row; in row shards, on any rank."""
        count = total = data.graph.num_nodes()
        if nodes is not None:
            nodes = _check_nodes(nodes, total)
            count = len(nodes)
        if rows is None:
            return cls(count, nodes, torch.ones(count, dtype=torch.bool))
        has = torch.zeros(count, dtype=torch.bool)
        for low in range(0, count, _SPAN):
            high = min(low + _SPAN, count)
            ids = torch.arange(low, high) if nodes is None else nodes[low:high]
            has[low:high] = has_row(rows, ids)
        if collectives is not None and rows.shard is not None:
            collectives.add_rows(has)
        return cls(count, nodes, ~has)

    def __len__(self) -> int:
        return self._count

    def numbers(self, part: slice) -> torch.Tensor:
        """Return the numbers of some of the nodes."""
        if self._nodes is None:
            return torch.arange(part.start, part.stop)
        return self._nodes[part]

    def lacks(self, part: slice) -> torch.Tensor:
        """Tell for some of the nodes whether they have no row."""
        return self._lacking[part]

    def cut(self, most: int, begin: int = 0) -> list[tuple[int, int]]:
        """Cut the nodes from ``begin`` on into ranges.

        Each has at most so many rows to compute.
        """
        places = self._lacking[begin:].nonzero().squeeze(1)[most::most] + begin
        bounds = [begin, *places.tolist(), self._count]
        return list(itertools.pairwise(bounds))


def _check_nodes(nodes: torch.Tensor, total: int) -> torch.Tensor:
    nodes = check_ids(nodes, "nodes", total)
    if len(nodes) == 0:
        raise DGLError("nodes is empty: give at least one node.")
    if int(nodes.max()) >= total:
        raise DGLError(
            f"nodes holds {int(nodes.max())}, but the graph has nodes 0 to "
            f"{total - 1}."
        )
    return nodes
