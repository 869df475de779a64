"""Random splits into training, validation and test nodes."""

from collections.abc import Sequence

import numpy as np
import torch
from dgl import DGLError

#: The parts of a split, in the order in which they are given.
SPLITS = ("train", "valid", "test")


def random_split(
    nodes: np.ndarray,
    fractions: Sequence[float],
    rng: np.random.Generator,
) -> dict[str, torch.Tensor]:
    """Split nodes at random; each part is sorted and has at least one node.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> parts = random_split(np.arange(10), (0.6, 0.2, 0.2), rng)
    >>> {name: len(ids) for name, ids in parts.items()}
    {'train': 6, 'valid': 2, 'test': 2}
    """
    check_fractions(fractions)
    if len(nodes) < 3:
        raise DGLError(
            f"{len(nodes)} labelled nodes cannot be split into training, "
            f"validation and test nodes: at least 3 are needed."
        )
    # Rounded where the parts end, so that fractions which make 1 leave no
    # node out, then moved apart where a part would be empty.
    ends: list[int] = []
    for place, end in enumerate(np.cumsum(fractions) * len(nodes)):
        least = ends[-1] + 1 if ends else 1
        ends.append(min(max(round(end), least), len(nodes) - 2 + place))
    parts = np.split(rng.permutation(nodes), ends)[:3]
    return {
        name: torch.from_numpy(np.sort(part).astype(np.int64))
        for name, part in zip(SPLITS, parts, strict=True)
    }


def check_fractions(fractions: Sequence[float]) -> None:
    """Refuse anything but three positive fractions, at most 1 together."""
    try:
        given = [float(part) for part in fractions]
    except (TypeError, ValueError):
        given = []
    if len(given) != 3 or min(given) <= 0 or sum(given) > 1 + 1e-9:
        raise DGLError(
            f"split should be three positive fractions for training, "
            f"validation and test nodes, at most 1 together, got "
            f"{fractions!r}."
        )
