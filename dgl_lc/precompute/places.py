"""In which rows of a hop the nodes are that were asked for."""

import numpy as np
import torch

from .._common.bytes import zeros
from .graph.edge_kernels import find_places, number_rows


class Places:
    """Numbers the rows of one hop at a time.

    Parameters
    ----------
    rows : list of int32 array or None
        The rows of each hop; None for all.
    num_nodes : int
        Nodes of the graph.
    nodes : int64 tensor or None
        The nodes that were asked for; None for all.
    """

    def __init__(
        self,
        rows: list[np.ndarray | None],
        num_nodes: int,
        nodes: torch.Tensor | None,
    ):
        self._rows, self._nodes = rows, nodes
        some = any(own is not None for own in rows)
        self._place = zeros(num_nodes if some else 0, np.int32)
        kept = 0 if nodes is None or not some else len(nodes)
        self._found = zeros(kept, np.int32)
        self._numbered = self._kept = -1

    def of_rows(self, hop: int) -> np.ndarray | None:
        """Give where the row of each node of a hop lies; None for "as is".

        It is valid until another hop is asked for.
        """
        rows = self._rows[hop]
        if rows is None:
            return None
        if self._numbered != hop:
            number_rows(rows, 0, self._place)
            self._numbered = hop
        return self._place

    def of_nodes(self, hop: int) -> torch.Tensor | None:
        """Give the rows of the nodes that were asked for; None for all.

        It is valid until another hop is asked for.
        """
        place = self.of_rows(hop)
        if self._nodes is None or place is None:
            return self._nodes
        if self._kept != hop:
            find_places(self._nodes.numpy(), place, self._found)
            self._kept = hop
        return torch.from_numpy(self._found)


def place_bytes(num_nodes: int, kept_rows: int) -> int:
    """Count the bytes of :class:`Places`, where hops have lists of rows."""
    return 4 * (num_nodes + kept_rows)
