"""Products of rows with a matrix for each type, as in RelGraphConv."""

import torch


def typed_product(
    rows: torch.Tensor,
    weights: torch.Tensor,
    types: torch.Tensor,
    blocks: tuple[int, int, int] | None = None,
) -> torch.Tensor:
    """Multiply each row by the matrix of its type.

    Parameters
    ----------
    weights : torch.Tensor
        A matrix for each type.
    types : torch.Tensor
        Types of the rows.
    blocks : tuple of int, optional
        Number, rows and columns of the blocks, if matrices are diagonals of
        blocks.
    """
    own = weights[types.long()]
    if blocks is None:
        return torch.bmm(rows.unsqueeze(1), own).squeeze(1)
    number, width, out = blocks
    parts = rows.reshape(-1, 1, width)
    return torch.bmm(parts, own.reshape(-1, width, out)).reshape(
        -1, number * out
    )
