"""Features that exist nowhere: columns are made when they are read."""

import torch


class MadeColumns:
    """Features whose columns are made for each column block that is read.

    The precomputation reads them as it reads features on disk.

    Attributes
    ----------
    shape : tuple of int
        Nodes and columns.
    dtype : torch.dtype
        The type of the numbers. They are finite.
    """

    shape: tuple[int, int]
    dtype: torch.dtype

    @property
    def key(self) -> str:
        """A text that stands for the content."""
        raise NotImplementedError

    def copy_columns(
        self,
        first: int,
        last: int,
        rows: torch.Tensor | None,
        target: torch.Tensor,
    ) -> None:
        """Write columns first to last, of some rows or of all, to a target."""
        raise NotImplementedError
