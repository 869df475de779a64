"""Checksums of rows.

The checksum of a row is the sum of its values' bits, each times an odd number
of its own, modulo 2**64. It can be made from any parts of the row, in any
order. A change of one value always changes it: an odd factor times a
difference of fewer than 64 bits is never 0.
"""

import numpy as np

from .._common.jit import jit


def factors(count: int) -> np.ndarray:
    """The odd factors of the values at places 0 to count - 1."""
    with np.errstate(over="ignore"):
        z = np.arange(1, count + 1, dtype=np.uint64)
        z *= np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (z ^ (z >> np.uint64(31))) | np.uint64(1)


@jit
def add_checksums(rows, factors, checksums):
    """Add what these columns contribute to the checksums of the rows."""
    for i in range(len(rows)):
        total = np.uint64(0)
        for j in range(rows.shape[1]):
            total += np.uint64(rows[i, j]) * factors[j]
        checksums[i] += total
