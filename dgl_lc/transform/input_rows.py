"""The inputs of an LC version for some nodes: what loaders and fit take."""

from collections.abc import Sequence

import torch

from ..hops import HopFeatures


class InputRows(HopFeatures):
    """The inputs of an LC version, for some nodes.

    Iterating over it gives the tensors, in the order of ``lc.inputs``.
    Loaders and ``fit`` take it as they take hop features.
    """

    @property
    def stack(self) -> torch.Tensor:
        """Stack all inputs, which must have the same number of columns."""
        return torch.cat(list(self))

    def take(
        self,
        places: torch.Tensor,
        nodes: torch.Tensor,
        out: torch.Tensor | None = None,
    ) -> "InputRows":
        # Inputs may differ in their columns, so ``out`` can't be filled.
        parts = [tensor[places.to(tensor.device)] for tensor in self]
        return InputRows(parts, self._hops, None, nodes)

    def __repr__(self) -> str:
        columns = [tuple(tensor.shape[1:]) for tensor in self]
        return f"InputRows(rows={self._num_rows}, columns={columns})"

    def _like(
        self, tensors: Sequence[torch.Tensor], hops: Sequence[int]
    ) -> "InputRows":
        return InputRows(tensors, hops, None, self.nodes)
