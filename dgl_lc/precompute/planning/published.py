r"""The published optimiser: the fewest blocks that fit the memory.

The block-wise scheme of *GNN Transformation Framework for Improving
Efficiency and Scalability* keeps :math:`S` as a list of edges with values and
sends an edge block and a column block to the device for every product. Its
block counts solve

.. math::
    \min a \;\text{ s.t. }\;
    \frac{\alpha_A B_A + \alpha_S B_S}{a} + \alpha_D B_D \le B

.. math::
    \min_{b, c} bc \;\text{ s.t. }\;
    \frac{\beta_S B_S}{b} + \frac{\beta_X B_X}{c} \le B

dgl-lc runs another schedule (:mod:`.cpu`); this one is kept to compare with.
"""

from dataclasses import dataclass

from dgl import DGLError

from ..._common.bytes import format_bytes


@dataclass(frozen=True)
class Volumes:
    r"""Bytes of the matrices, as the published code stores them.

    Attributes
    ----------
    A : int
        :math:`B_A`, the adjacency matrix with self-loops as a list of edges:
        two int64 ids for each edge and node.
    S : int
        :math:`B_S`, the normalised adjacency matrix: two int64 ids and a
        value for each edge and node.
    D : int
        :math:`B_D`, the degrees: a value for each node.
    X : int
        :math:`B_X`, the features: a value for each node and column.
    """

    A: int
    S: int
    D: int
    X: int

    @classmethod
    def of(
        cls, num_nodes: int, num_edges: int, num_feats: int, itemsize: int = 4
    ) -> "Volumes":
        """The volumes of a graph; ``itemsize`` is the bytes of a value."""
        entries = num_edges + num_nodes
        return cls(
            A=16 * entries,
            S=(16 + itemsize) * entries,
            D=itemsize * num_nodes,
            X=itemsize * num_nodes * num_feats,
        )


@dataclass(frozen=True)
class Coefficients:
    r"""How many bytes an operation needs for each byte of its operands.

    They depend on the machine and the versions;
    :func:`dgl_lc.precompute.calibrate` measures them. The defaults are ones
    for which the paper's own choice on ogbn-papers100M (67 GB of S, 57 GB of
    X, 32 GB of memory), a = 3, b = 10 and c = 16, is the optimum.

    >>> sizes = dict(num_nodes=111_059_956, num_edges=2 * 1_615_685_872)
    >>> volumes = Volumes.of(**sizes, num_feats=128)
    >>> round(volumes.S / 1e9), round(volumes.X / 1e9)
    (67, 57)
    >>> published_blocks(volumes, Coefficients(), 32 * 10**9, 128)
    (3, 10, 16)
    """

    alpha_A: float = 0.4
    alpha_S: float = 1.0
    alpha_D: float = 2.0
    beta_S: float = 2.39
    beta_X: float = 4.49


def normalization_blocks(
    volumes: Volumes, coefs: Coefficients, budget: int
) -> int:
    """The smallest ``a`` that fits (the paper's eq:normalization_budget)."""
    room = budget - coefs.alpha_D * volumes.D
    if room <= 0:
        needed = format_bytes(coefs.alpha_D * volumes.D)
        raise DGLError(
            f"memory={format_bytes(budget)} is too small for the published "
            f"scheme: the degrees alone take {needed}."
        )
    total = coefs.alpha_A * volumes.A + coefs.alpha_S * volumes.S
    a = max(1, int(total // room))
    while total / a + coefs.alpha_D * volumes.D > budget:
        a += 1
    return a


def aggregation_blocks(
    volumes: Volumes, coefs: Coefficients, budget: int, num_feats: int
) -> tuple[int, int]:
    """The ``b, c`` of smallest ``bc`` (the paper's eq:feature_agg_budget).

    All c up to the number of columns are tried, each with the smallest b
    that fits. Of equal products the one with the fewest column blocks is
    taken: S is sent once for each of them.
    """
    best = None
    for c in range(1, num_feats + 1):
        room = budget - coefs.beta_X * volumes.X / c
        if room <= 0:
            continue
        b = max(1, int(coefs.beta_S * volumes.S // room))
        while coefs.beta_S * volumes.S / b + coefs.beta_X * volumes.X / c > (
            budget
        ):
            b += 1
        if best is None or b * c < best[0] * best[1]:
            best = (b, c)
        if best[0] * best[1] <= c:
            break
    if best is None:
        least = coefs.beta_X * volumes.X / num_feats
        raise DGLError(
            f"memory={format_bytes(budget)} is too small for the published "
            f"scheme: one column alone takes {format_bytes(least)}."
        )
    return best


def published_blocks(
    volumes: Volumes, coefs: Coefficients, budget: int, num_feats: int
) -> tuple[int, int, int]:
    """The published scheme's ``a``, ``b`` and ``c``."""
    a = normalization_blocks(volumes, coefs, budget)
    return a, *aggregation_blocks(volumes, coefs, budget, num_feats)


@dataclass(frozen=True)
class PublishedPlan:
    """What the published scheme would do, and what that costs."""

    a: int
    b: int
    c: int
    peak_bytes: int
    bytes_moved: int


def published_plan(
    volumes: Volumes,
    coefs: Coefficients,
    budget: int,
    num_feats: int,
    K: int,
) -> PublishedPlan:
    """Solve for the block counts, and count the bytes that are moved.

    Normalisation moves A in, S out and the degrees once a block. Every hop
    moves S once for each column block, and X in and out.
    """
    a, b, c = published_blocks(volumes, coefs, budget, num_feats)
    normalization = (
        coefs.alpha_A * volumes.A + coefs.alpha_S * volumes.S
    ) / a + coefs.alpha_D * volumes.D
    aggregation = coefs.beta_S * volumes.S / b + coefs.beta_X * volumes.X / c
    moved = volumes.A + volumes.S + a * volumes.D
    moved += K * (c * volumes.S + 2 * volumes.X)
    return PublishedPlan(
        a, b, c, int(max(normalization, aggregation)), int(moved)
    )
