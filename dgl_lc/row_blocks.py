"""Rows of many nodes that are read at once, and taken from there in batches."""

from collections.abc import Hashable
from typing import Any, Protocol

import numpy as np
import torch

#: Where memory begins that a disk writes to by itself.
ALIGNED = 4096


class RowBlock(Protocol):
    """The rows of some places, at hand for batches."""

    def take(
        self,
        which: torch.Tensor,
        nodes: torch.Tensor,
        out: torch.Tensor | None = None,
    ) -> Any:
        """Gather rows; ``which`` counts the places that the block has."""


class Room:
    """Memory for one block at a time, which the next block uses again."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, np.ndarray] = {}

    def bytes(self, key: Hashable, size: int) -> np.ndarray:
        """Return aligned bytes, those of the last call with this key.

        >>> Room().bytes("rows", 3).shape
        (3,)
        """
        found = self._kept.get(key)
        if found is None or len(found) < size:
            # What is too small goes first: both at once may be too much.
            self._kept.pop(key, None)
            del found
            raw = np.empty(size + ALIGNED, np.uint8)
            found = raw[-raw.ctypes.data % ALIGNED :][:size]
            self._kept[key] = found
        return found[:size]


class ChosenRows:
    """A block of rows that are in memory anyway."""

    def __init__(self, rows: RowBlock, places: torch.Tensor):
        self._rows, self._places = rows, places

    def take(
        self,
        which: torch.Tensor,
        nodes: torch.Tensor,
        out: torch.Tensor | None = None,
    ) -> Any:
        """Gather rows of the block."""
        return self._rows.take(self._places.index_select(0, which), nodes, out)
