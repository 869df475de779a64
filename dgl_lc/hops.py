"""Hop features: what the precomputation makes and the models eat."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from dgl import DGLError

NORMS = ("both", "right", "left", "none")


@dataclass(frozen=True)
class FilterSpec:
    """Which filter hop features were made with.

    Attributes
    ----------
    norm : str
        As in :class:`dgl.nn.GraphConv`. "both": by the square roots of the
        source's out-degree and the destination's in-degree; "right": by the
        in-degree; "left": by the out-degree; "none": not at all.
    self_loop : bool
        Whether every node has exactly one self-loop, or the graph's own.
    weighted : bool
        Whether messages are multiplied by edge weights.
    """

    norm: str = "both"
    self_loop: bool = True
    weighted: bool = False

    def __post_init__(self) -> None:
        if self.norm not in NORMS:
            raise DGLError(
                f"norm={self.norm!r} is not known: choose one of "
                f"{', '.join(map(repr, NORMS))}."
            )

    @property
    def num_diagonals(self) -> int:
        """How many of the two diagonals are not all ones."""
        return {"both": 2, "right": 1, "left": 1, "none": 0}[self.norm]


class HopFeatures:
    r"""Hop features :math:`S^k X` of some nodes.

    ``hops[k]`` is the tensor :math:`S^k X`, one row for each node. Iterating
    gives the tensors of the hops that are there, in order.

    Parameters
    ----------
    tensors : sequence of Tensor
        One tensor for each hop, all of one shape.
    hops : sequence of int
        Which hops they are, ascending.
    filter : FilterSpec
        The filter they were made with.
    nodes : Tensor, optional
        The node of each row; None if row i is node i.

    Examples
    --------
    >>> import dgl, torch
    >>> from dgl_lc.precompute import block_aggregate
    >>> g = dgl.graph(([0, 1, 2], [1, 2, 0]))
    >>> hops = block_aggregate(g, torch.eye(3), K=2)
    >>> hops
    HopFeatures(hops=[0, 1, 2], rows=3, columns=3, dtype=torch.float32)
    >>> hops[2]
    tensor([[0.2500, 0.2500, 0.5000],
            [0.5000, 0.2500, 0.2500],
            [0.2500, 0.5000, 0.2500]])
    """

    def __init__(
        self,
        tensors: Sequence[torch.Tensor],
        hops: Sequence[int],
        filter: FilterSpec,
        nodes: torch.Tensor | None = None,
    ):
        self._tensors = dict(zip(hops, tensors, strict=True))
        self.filter = filter
        self.nodes = nodes

    @property
    def hops(self) -> list[int]:
        """The hops that are there."""
        return list(self._tensors)

    @property
    def K(self) -> int:
        """The last hop that is there."""
        return max(self._tensors)

    @property
    def shape(self) -> torch.Size:
        """Rows and columns of each hop."""
        return self._first.shape

    @property
    def dtype(self) -> torch.dtype:
        """The type of the features."""
        return self._first.dtype

    @property
    def device(self) -> torch.device:
        """Where the features are."""
        return self._first.device

    @property
    def nbytes(self) -> int:
        """Bytes of all hops together."""
        return sum(t.numel() * t.element_size() for t in self)

    @property
    def _first(self) -> torch.Tensor:
        return next(iter(self._tensors.values()))

    def __getitem__(self, hop: int) -> torch.Tensor:
        try:
            return self._tensors[hop]
        except (KeyError, TypeError):
            raise DGLError(
                f"hop {hop!r} is not there: these hop features have hops "
                f"{self.hops}."
            ) from None

    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(self._tensors.values())

    def __len__(self) -> int:
        return len(self._tensors)

    def __repr__(self) -> str:
        rows, columns = self.shape
        return (
            f"HopFeatures(hops={self.hops}, rows={rows}, columns={columns}, "
            f"dtype={self.dtype})"
        )
