"""Edges in both directions, none of them twice."""

import numpy as np


def both_directions(
    source: np.ndarray, target: np.ndarray, num_nodes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Give every edge in both directions, once; a self-loop stays one edge.

    >>> import numpy as np
    >>> both_directions(np.array([0, 1, 2, 2]), np.array([1, 0, 1, 2]), 3)
    (array([0, 1, 2, 1, 2]), array([1, 2, 2, 0, 1]))
    """
    # One integer for a pair: sorting these is several times faster than
    # np.unique on rows, and fewer than 2**31 nodes cannot overflow it.
    pairs = np.minimum(source, target).astype(np.int64)
    pairs *= num_nodes
    pairs += np.maximum(source, target)
    pairs.sort()
    first = np.ones(len(pairs), dtype=bool)
    first[1:] = pairs[1:] != pairs[:-1]
    low, high = np.divmod(pairs[first], num_nodes)
    back = low != high
    return (
        np.concatenate([low, high[back]]),
        np.concatenate([high, low[back]]),
    )
